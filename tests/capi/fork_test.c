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

/* A wake that the parent's next wait will see does not count in the child, which may be woken at
   once. */
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

static void* post_until_over(void* argument) {
  baton_completion done[4];
  (void)argument;
  while (!atomic_load(&over)) {
    baton_operation posts[4];
    baton_batch batch = BATON_BATCH_INIT;
    int i;
    for (i = 0; i < 4; ++i) posts[i] = operation(BATON_POST, 0, 7);
    batch.operations = posts;
    batch.count = 4;
    CHECK(baton_exchange(watched, &batch, done, 4, 0) >= 0);
    atomic_fetch_add(&looks, 1);
  }
  return NULL;
}

/* Requests that threads of the parent are starting or returning at the fork are in no list that the
 * child could look into. Their slots are free there, too. */
static void all_slots_after_a_fork_in_the_midst_of_requests(const char* configuration) {
  enum { slots = 8, forks = 60, threads = 2 };
  baton_proactor* const proactor = open_proactor(configuration, slots);
  pthread_t posting[threads];
  int i;
  watched = proactor;
  atomic_store(&over, 0);
  for (i = 0; i < threads; ++i) {
    CHECK_EQUAL(pthread_create(&posting[i], NULL, post_until_over, NULL), 0);
  }
  for (i = 0; i < forks; ++i) {
    const int before = atomic_load(&looks);
    int status = 0;
    pid_t child;
    while (atomic_load(&looks) == before) sched_yield();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      int n;
      CHECK_EQUAL(baton_fork_child(proactor), 0);
      for (n = 0; n < slots; ++n) start(proactor, operation(BATON_POST, 0, 8));
      for (n = 0; n < slots; ++n) CHECK_EQUAL(wait_one(proactor).tag, 8);
      baton_close(proactor);
      _exit(0);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  atomic_store(&over, 1);
  for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_join(posting[i], NULL), 0);
  baton_close(proactor);
}

#else
static void all_slots_after_a_fork_in_the_midst_of_requests(const char* configuration) {
  (void)configuration;
}
static void a_poll_after_a_fork_in_a_wait(const char* configuration) { (void)configuration; }
static void a_wake_after_a_wake_of_the_parent(const char* configuration) { (void)configuration; }
static void refused_closes(baton_proactor* proactor, baton_handle handle) {
  CHECK_EQUAL(why_refused(proactor, operation(BATON_CLOSE, handle, 3)), BATON_AFTER_FORK);
  CHECK_EQUAL(baton_handle_close(proactor, handle), BATON_AFTER_FORK);
}
#endif

/* Two connections for one listener, of which the second is accepted but not delivered. */
static int accept_two(baton_proactor* proactor, baton_handle* listener, int connections[2]) {
  baton_endpoint endpoint;
  baton_state state = BATON_STATE_INIT;
  baton_activation names[2];
  baton_completion done;
  int i;
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 8, listener), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, *listener, &endpoint), 0);
  for (i = 0; i < 2; ++i) {
    connections[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(connect(connections[i], (struct sockaddr*)endpoint.address, endpoint.length), 0);
    names[i] = start(proactor, operation(BATON_ACCEPT, *listener, (uint64_t)i));
  }
  done = wait_one(proactor);
  CHECK_EQUAL(done.error, 0);
  CHECK_EQUAL(close((int)done.result), 0);
  if (baton_status(proactor, names[1 - done.tag], &state) != 0 || state.state != BATON_DONE) {
    return -1;
  }
  return (int)state.result;
}

/* A connection that the parent has accepted and delivers is not open in the child, whose peer would
 * wait for its end. */
static void a_connection_that_the_parent_delivers(const char* configuration) {
  baton_proactor* const proactor = open_proactor(configuration, 4);
  baton_handle listener = 0;
  int connections[2];
  int status = 0;
  const int accepted = accept_two(proactor, &listener, connections);
  struct stat there;
  pid_t child;
  if (accepted >= 0) CHECK_EQUAL(fstat(accepted, &there), 0);
  child = fork_at_rest();
  CHECK(child >= 0);
  if (child == 0) {
    struct stat here;
    CHECK_EQUAL(baton_fork_child(proactor), 0);
    /* Closed; the number may serve the new engine by now. */
    CHECK(accepted < 0 || fstat(accepted, &here) != 0 || here.st_ino != there.st_ino);
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (accepted >= 0) CHECK_EQUAL(wait_one(proactor).result, accepted);
  baton_close(proactor);
  close(connections[0]);
  close(connections[1]);
}

/* Blocks that the parent's reads have taken, but that it has not been given, are free in the child;
 * one that it holds is the child's, too. */
static void blocks_that_the_parent_delivers(const char* configuration) {
  enum { reads = 3 };
  baton_proactor* const proactor = open_proactor(configuration, 4);
  baton_pool* pool = NULL;
  baton_completion done;
  int ends[reads][2];
  int status = 0;
  int i;
  pid_t child;
  CHECK_EQUAL(baton_pool_open(64, reads, &pool), 0);
  for (i = 0; i < reads; ++i) {
    baton_operation read;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
    read = operation(BATON_READ_STREAM, adopt(proactor, ends[i][0], BATON_STREAM_SOCKET), 1);
    read.flags = BATON_POOLED;
    read.data = pool;
    CHECK_EQUAL(write(ends[i][1], "data", 4), 4);
    start(proactor, read);
  }
  done = wait_one(proactor);
  CHECK_EQUAL(done.result, 4);
  child = fork_at_rest();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK_EQUAL(baton_fork_child(proactor), 0);
    CHECK_EQUAL(baton_pool_available(pool), reads - 1);
    CHECK_EQUAL(baton_pool_close(pool), EBUSY);
    CHECK_EQUAL(baton_pool_give(pool, done.data), 0);
    CHECK_EQUAL(baton_pool_available(pool), reads);
    CHECK_EQUAL(baton_pool_close(pool), 0);
    baton_close(proactor);
    _exit(0);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQUAL(baton_pool_give(pool, done.data), 0);
  for (i = 1; i < reads; ++i) CHECK_EQUAL(baton_pool_give(pool, wait_one(proactor).data), 0);
  baton_close(proactor);
  CHECK_EQUAL(baton_pool_close(pool), 0);
  for (i = 0; i < reads; ++i) close(ends[i][1]);
}

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
  all_slots_after_a_fork_in_the_midst_of_requests(argc > 1 ? argv[1] : "");
  a_connection_that_the_parent_delivers(argc > 1 ? argv[1] : "");
  blocks_that_the_parent_delivers(argc > 1 ? argv[1] : "");
  return 0;
}
