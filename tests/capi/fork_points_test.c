/* A fork at any point of another thread's call: at each allocation that the call makes. The child
 * opens its proactor again, uses it, and opens another one.
 * usage: fork_points_test CONFIGURATION */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern void* __libc_malloc(size_t size);

enum { CALLS, STOPPED, ENDED };
static atomic_int stop_at; /* the allocation of the caller at which it stops; 0: at none */
static atomic_int state;
static atomic_int forked; /* the caller may go on */
/* Of the caller's allocations, the first being 1; 0 in all other threads. Volatile: the compiler
 * takes it for granted that a malloc looks at no variable of a program. */
static _Thread_local volatile int next_one;

/* The thread that forks may wait for the one that is stopped. */
static int the_first_sleeps(void) {
  char path[64];
  char line[512];
  const char* name_end;
  ssize_t size;
  int file;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
  file = open(path, O_RDONLY);
  CHECK(file >= 0);
  size = read(file, line, sizeof line - 1);
  close(file);
  CHECK(size > 0);
  line[size] = '\0';
  name_end = strrchr(line, ')');
  return name_end != NULL && name_end[2] == 'S';
}

__attribute__((visibility("default"))) void* malloc(size_t size) {
  if (next_one != 0 && next_one++ == atomic_load(&stop_at)) {
    next_one = 0;
    atomic_store(&state, STOPPED);
    while (!atomic_load(&forked) && !the_first_sleeps()) sched_yield();
  }
  return __libc_malloc(size);
}

static const char* configuration;
static baton_proactor* proactor;
static void (*call)(void);

static void open_another(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* another = NULL;
  config.text = configuration;
  CHECK_EQUAL(baton_open(&config, &another, NULL, 0), 0);
  baton_close(another);
}

static void adopt_one(void) {
  int ends[2];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  adopt(proactor, ends[0], BATON_STREAM_SOCKET);
}

static void* caller(void* argument) {
  next_one = 1;
  call();
  next_one = 0;
  atomic_store(&state, ENDED);
  return argument;
}

static void child_works(void) {
  baton_completion done;
  alarm(60); /* where a lock is held for ever */
  CHECK_EQUAL(baton_fork_child(proactor), 0);
  adopt_one();
  start(proactor, operation(BATON_POST, 0, 5));
  CHECK_EQUAL(baton_wait(proactor, &done, 1, PATIENCE), 1);
  baton_close(proactor);
  open_another();
}

/* Whether the call stopped there. */
static int fork_at(int allocation) {
  pthread_t thread;
  int status = -1;
  int was;
  pid_t child;
  proactor = open_proactor(configuration, 4);
  atomic_store(&stop_at, allocation);
  atomic_store(&state, CALLS);
  atomic_store(&forked, 0);
  CHECK_EQUAL(pthread_create(&thread, NULL, caller, NULL), 0);
  while ((was = atomic_load(&state)) == CALLS) sched_yield();
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    child_works();
    _exit(0);
  }
  atomic_store(&forked, 1);
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK_EQUAL(status, 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  baton_close(proactor);
  return was == STOPPED;
}

static void fork_at_each_allocation_of(void (*of)(void)) {
  int allocation = 1;
  call = of;
  while (fork_at(allocation)) ++allocation;
  CHECK(allocation > 1);
}

int main(int count, char** arguments) {
  CHECK_EQUAL(count, 2);
  configuration = arguments[1];
  open_another(); /* what a process makes once */
  fork_at_each_allocation_of(adopt_one);
  fork_at_each_allocation_of(open_another);
  return 0;
}
