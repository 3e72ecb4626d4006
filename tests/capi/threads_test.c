/* Many threads start and wait: each completion goes to one of them, none is lost.
 * usage: threads_test CONFIGURATION [THREADS] */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

enum { threads_max = 16, rounds = 4000, tags = threads_max * rounds };

static baton_proactor* proactor;
static atomic_uchar brought[tags];
static atomic_int remaining;
static atomic_ullong last_activation;

static void account(const baton_completion* done, int count) {
  int i;
  for (i = 0; i < count; ++i) {
    CHECK_EQUAL(done[i].error, 0);
    CHECK(done[i].tag < tags);
    CHECK_EQUAL(atomic_fetch_add(&brought[done[i].tag], 1), 0);
    atomic_store(&last_activation, done[i].activation);
    if (atomic_fetch_sub(&remaining, 1) == 1) baton_stop(proactor);
  }
}

/* Starts its share, a few at a time, and waits for whatever comes. */
static void* work(void* argument) {
  const uint64_t first = (uint64_t)(uintptr_t)argument * rounds;
  uint64_t next = 0;
  for (;;) {
    baton_completion done[8];
    baton_operation some[4];
    baton_state state = BATON_STATE_INIT;
    int batch = 0;
    int taken = 0;
    int count;
    while (batch < 4 && next + (uint64_t)batch < rounds) {
      some[batch] = operation(BATON_POST, 0, first + next + (uint64_t)batch);
      ++batch;
    }
    if (batch > 0) {
      int why = 0;
      taken = baton_start(proactor, some, batch, NULL, &why);
      CHECK(why == 0 || why == EAGAIN);
      next += (uint64_t)taken;
    }
    /* A look at an operation that others may be using again at this moment. */
    (void)baton_status(proactor, atomic_load(&last_activation), &state);
    /* A thread that could start nothing has to wait: in per_thread mode the completions that free
     * slots may be in the lane of another thread. */
    count = baton_wait(proactor, done, 8, taken > 0 ? 0 : SECOND / 10);
    if (count == -BATON_STOPPED) return NULL;
    if (count < 0) CHECK_EQUAL(count, 0);
    account(done, count);
  }
}

static void posts(int threads) {
  pthread_t all[threads_max];
  int i;
  for (i = 0; i < tags; ++i) atomic_store(&brought[i], 0);
  atomic_store(&remaining, threads * rounds);
  for (i = 0; i < threads; ++i) {
    CHECK_EQUAL(pthread_create(&all[i], NULL, work, (void*)(uintptr_t)i), 0);
  }
  for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_join(all[i], NULL), 0);
  CHECK_EQUAL(atomic_load(&remaining), 0);
  for (i = 0; i < threads * rounds; ++i) CHECK_EQUAL(atomic_load(&brought[i]), 1);
}

/* Sessions over sockets: the state travels in the tag, any thread may take the next step. */
enum { sessions = 16, exchanges = 200 };
struct session {
  baton_handle ends[2];
  char buffer[2][4];
  int exchange;
};
static struct session table[sessions];

static void step(struct session* session, int side, int kind) {
  const uint64_t tag =
      (uint64_t)(session - table) << 2 | (uint64_t)side << 1 | (kind == BATON_WRITE_STREAM ? 1 : 0);
  const baton_operation made = transfer(kind, session->ends[side], tag, session->buffer[side], 4);
  int why = 0;
  /* The last session may just have stopped everything while another reads on. */
  if (baton_start(proactor, &made, 1, NULL, &why) == 0) CHECK_EQUAL(why, BATON_STOPPED);
}

/* A write is followed by nothing; a read by the answer, from the same side. */
static void* serve(void* argument) {
  (void)argument;
  for (;;) {
    baton_completion done;
    const int count = baton_wait(proactor, &done, 1, -1);
    struct session* session;
    int side;
    if (count == -BATON_STOPPED) return NULL;
    if (count == 0) continue;
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(done.error, 0);
    CHECK_EQUAL(done.result, 4);
    session = &table[done.tag >> 2];
    side = (int)(done.tag >> 1 & 1);
    if ((done.tag & 1) == 0) {
      if (side == 0 && ++session->exchange == exchanges) {
        if (atomic_fetch_sub(&remaining, 1) == 1) baton_stop(proactor);
        continue;
      }
      step(session, side, BATON_WRITE_STREAM);
    } else {
      step(session, side, BATON_READ_STREAM);
    }
  }
}

static void echoes(int threads) {
  pthread_t all[threads_max];
  int i;
  atomic_store(&remaining, sessions);
  for (i = 0; i < sessions; ++i) {
    int ends[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    table[i].ends[0] = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
    table[i].ends[1] = adopt(proactor, ends[1], BATON_STREAM_SOCKET);
    table[i].exchange = 0;
    step(&table[i], 1, BATON_READ_STREAM);
    step(&table[i], 0, BATON_WRITE_STREAM);
  }
  for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_create(&all[i], NULL, serve, NULL), 0);
  for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_join(all[i], NULL), 0);
  CHECK_EQUAL(atomic_load(&remaining), 0);
}

/* glibc ends the process when it has no memory to register the destructor of a thread's object, for
 * which it calls calloc. Sanitizers have an allocator of their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static _Thread_local volatile int refuses;

__attribute__((visibility("default"))) void* calloc(size_t count, size_t size) {
  void* found = NULL;
  if (refuses || (size != 0 && count > SIZE_MAX / size)) {
    errno = ENOMEM;
    return NULL;
  }
  found = malloc(count * size);
  return found != NULL ? memset(found, 0, count * size) : NULL;
}
#else
static int refuses;
#endif

static void* attach_without_memory(void* argument) {
  int error;
  (void)argument;
  refuses = 1;
  error = baton_attach(proactor);
  refuses = 0;
  CHECK(error == 0 || error == ENOMEM);
  return NULL;
}

static void close_at_exit(void) { baton_close(proactor); }

int main(int argc, char** argv) {
  const int threads = argc > 2 ? atoi(argv[2]) : 4;
  const char* configuration = argc > 1 ? argv[1] : "";
  pthread_t thread;
  CHECK(threads > 0 && threads <= threads_max);
  /* Few slots: they are used again all the time, and run out. */
  proactor = open_proactor(configuration, 16);
  posts(threads);
  baton_close(proactor);
  proactor = open_proactor(configuration, 256);
  CHECK_EQUAL(pthread_create(&thread, NULL, attach_without_memory, NULL), 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  echoes(threads);
  baton_close(proactor);
  /* After the end of all that the library keeps for this thread. */
  proactor = open_proactor(configuration, 16);
  CHECK_EQUAL(baton_attach(proactor), 0);
  CHECK_EQUAL(atexit(close_at_exit), 0);
  return 0;
}
