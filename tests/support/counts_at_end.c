/* Linked into every program of a coverage build (CMakeLists.txt), and into no other. gcov writes
 * its counts when a process calls exit. With this file it also writes them on abort, as in death
 * tests, and on _exit, as in forked children (the linker redirects _exit here: --wrap=_exit). */
#include <gcov.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}

/* Not safe in a handler in general: abort may have come while the same thread was writing its
 * counts. Nothing of ours runs there. */
static void write_counts(int number) {
  __gcov_dump();
  raise(number); /* again, by the default action: when this handler has returned */
}

__attribute__((constructor)) static void write_counts_at_abort(void) {
  struct sigaction action = {.sa_handler = write_counts, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGABRT, &action, NULL);
}
