/* After fork the child opens its proactor again; the parent is not affected.
 * usage: fork_test CONFIGURATION */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/fork_at_rest.h"
#include "check.h"

#ifndef __SANITIZE_THREAD__ /* which cannot follow a child of fork that starts threads */
static baton_proactor* watched;
static baton_handle watched_handle;
static atomic_int looks;
static atomic_int over;

static void* look(void* argument) {
  (void)argument;
  while (!atomic_load(&over)) {
    CHECK(baton_handle_descriptor(watched, watched_handle) >= 0);
    atomic_fetch_add(&looks, 1);
  }
  return NULL;
}

/* A close that is refused leaves the handle as it was, and at no moment does another thread see
 * anything else. */
static void refused_closes(baton_proactor* proactor, baton_handle handle) {
  enum { looks_enough = 20000 };
  pthread_t thread;
  watched = proactor;
  watched_handle = handle;
  CHECK_EQUAL(pthread_create(&thread, NULL, look, NULL), 0);
  while (atomic_load(&looks) < looks_enough) {
    CHECK_EQUAL(why_refused(proactor, operation(BATON_CLOSE, handle, 3)), BATON_AFTER_FORK);
    CHECK_EQUAL(baton_handle_close(proactor, handle), BATON_AFTER_FORK);
  }
  atomic_store(&over, 1);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void* wait_inside(void* argument) {
  baton_completion done;
  (void)argument;
  atomic_store(&over, 0);
  CHECK_EQUAL(baton_wait(watched, &done, 1, PATIENCE), 0); /* it is woken */
  return NULL;
}

/* A thread of the parent that is inside baton_wait at the fork is not inside in the child. */
static void a_poll_after_a_fork_in_a_wait(const char* configuration) {
  baton_proactor* const proactor = open_proactor(configuration, 4);
  pthread_t thread;
  int status = 0;
  pid_t child;
  watched = proactor;
  atomic_store(&over, 1);
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_inside, NULL), 0);
  while (atomic_load(&over) || !(others_sleep() && others_sleep())) sched_yield();
  child = fork_at_rest();
  CHECK(child >= 0);
  if (child == 0) {
    baton_completion done;
    int count;
    CHECK_EQUAL(baton_fork_child(proactor), 0);
    start(proactor, operation(BATON_POST, 0, 5));
    count = baton_poll(proactor, &done, 1);
    CHECK(count == 1 || count == 0 || count == -BATON_NOT_SUPPORTED);
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  baton_wake(proactor);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  baton_close(proactor);
}

/* A wake that the parent's next wait will see is not the child's, who may be woken at once. */
static void a_wake_after_a_wake_of_the_parent(const char* configuration) {
  baton_proactor* const proactor = open_proactor(configuration, 4);
  int status = 0;
  pid_t child;
  baton_wake(proactor);
  child = fork_at_rest();
  CHECK(child >= 0);
  if (child == 0) {
    baton_completion done;
    baton_operation timer = operation(BATON_TIMER, 0, 6);
    CHECK_EQUAL(baton_fork_child(proactor), 0);
    timer.deadline_ns = baton_now(proactor) + PATIENCE;
    start(proactor, timer);
    baton_wake(proactor);
    CHECK_EQUAL(baton_wait(proactor, &done, 1, -1), 0); /* and not the timer */
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  baton_close(proactor);
}

#else
static void a_poll_after_a_fork_in_a_wait(const char* configuration) { (void)configuration; }
static void a_wake_after_a_wake_of_the_parent(const char* configuration) { (void)configuration; }
static void refused_closes(baton_proactor* proactor, baton_handle handle) {
  CHECK_EQUAL(why_refused(proactor, operation(BATON_CLOSE, handle, 3)), BATON_AFTER_FORK);
  CHECK_EQUAL(baton_handle_close(proactor, handle), BATON_AFTER_FORK);
}
#endif

int main(int argc, char** argv) {
  baton_proactor* proactor = open_proactor(argc > 1 ? argv[1] : "", 4);
  int ends[2];
  char buffer[8];
  baton_handle owned;
  baton_handle other = 0;
  baton_completion done;
  baton_operation timer = operation(BATON_TIMER, 0, 2);
  struct stat before;
  struct stat now;
  int status = 0;
  pid_t child;
  CHECK_EQUAL(baton_fork_child(proactor), EINVAL);
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  owned = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  start(proactor, transfer(BATON_READ_STREAM, owned, 1, buffer, sizeof buffer));
  timer.deadline_ns = baton_now(proactor) + 3600 * SECOND;
  start(proactor, timer);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);

  CHECK_EQUAL(fstat(ends[0], &before), 0);
  child = fork_at_rest();
  CHECK(child >= 0);
  if (child == 0) {
    int i;
    CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), -BATON_AFTER_FORK);
    CHECK_EQUAL(why_refused(proactor, operation(BATON_CLOSE, owned, 3)), BATON_AFTER_FORK);
    refused_closes(proactor, owned);
    CHECK_EQUAL(baton_handle_descriptor(proactor, owned), ends[0]);
    CHECK_EQUAL(why_refused(proactor, operation(BATON_POST, 0, 3)), BATON_AFTER_FORK);
    CHECK_EQUAL(baton_adopt(proactor, ends[1], BATON_STREAM_SOCKET, BATON_BORROWED, &other),
                BATON_AFTER_FORK);
    CHECK_EQUAL(baton_fork_child(proactor), 0);
    CHECK_EQUAL(baton_handle_descriptor(proactor, owned), -1);
    /* Closed; the number may serve the new engine by now. */
    CHECK(fstat(ends[0], &now) != 0 || now.st_ino != before.st_ino);
    /* All four slots are free again. */
    for (i = 0; i < 4; ++i) start(proactor, operation(BATON_POST, 0, (uint64_t)i));
    for (i = 0; i < 4; ++i) CHECK_EQUAL(wait_one(proactor).error, 0);
    baton_close(proactor);
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  /* A child that does nothing with it and ends. */
  child = fork_at_rest();
  if (child == 0) {
    baton_close(proactor);
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  CHECK_EQUAL(write(ends[1], "parent", 6), 6);
  done = wait_one(proactor);
  CHECK_EQUAL(done.tag, 1);
  CHECK_EQUAL(done.result, 6);
  CHECK(memcmp(buffer, "parent", 6) == 0);
  close(ends[1]);
  baton_close(proactor);
  a_poll_after_a_fork_in_a_wait(argc > 1 ? argv[1] : "");
  a_wake_after_a_wake_of_the_parent(argc > 1 ? argv[1] : "");
  return 0;
}
