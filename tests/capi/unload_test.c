/* A plug-in that uses Baton is loaded and unloaded while the program runs. What Baton leaves in the
 * process, such as the signal handlers of rt_signals, must stay mapped.
 *
 * usage: unload_test LIBRARY   (this program is not linked with it) */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(int argc, char** argv) {
  (void)argc;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fail("dlopen", dlerror());
  int (*open_it)(const baton_config*, baton_proactor**, char*, size_t) = NULL;
  void (*close_it)(baton_proactor*) = NULL;
  /* POSIX has it that these are pointers of one size. */
  void* const found[2] = {dlsym(library, "baton_open"), dlsym(library, "baton_close")};
  if (found[0] == NULL || found[1] == NULL) return fail("dlsym", dlerror());
  memcpy(&open_it, &found[0], sizeof(open_it));
  memcpy(&close_it, &found[1], sizeof(close_it));

  baton_config config = BATON_CONFIG_INIT;
  config.text = "engine=emulated,wait=rt_signals,mode=per_thread,threads=1";
  baton_proactor* proactor = NULL;
  char why[512];
  if (open_it(&config, &proactor, why, sizeof(why)) != 0) return fail("baton_open", why);
  close_it(proactor);
  if (dlclose(library) != 0) return fail("dlclose", dlerror());

  struct sigaction left;
  sigaction(SIGIO, NULL, &left);
  if (left.sa_handler == SIG_DFL) return 0; /* nothing was left behind */
  raise(SIGIO); /* ends this program if the handler is not there any more */
  if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL) return fail("the library", "is not there");
  return 0;
}
