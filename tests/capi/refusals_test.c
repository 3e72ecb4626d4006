/* Refusals: operations with fields that their kind does not have, a negative count, and a second
 * close of a handle. usage: refusals_test CONFIGURATION */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* The fields of each kind, listed independently; the smallest valid request of each kind. */
static const struct {
  int kind;
  int flags;
  int needs;
  int has_deadline;
} kinds[] = {
    {BATON_READ_STREAM, BATON_VECTORED | BATON_EXACTLY | BATON_UNTIL, 0, 1},
    {BATON_WRITE_STREAM, BATON_VECTORED | BATON_EXACTLY, 0, 1},
    {BATON_READ_FILE, BATON_VECTORED | BATON_EXACTLY | BATON_APPEND, 0, 1},
    {BATON_WRITE_FILE, BATON_VECTORED | BATON_EXACTLY | BATON_APPEND, 0, 1},
    {BATON_READ_DATAGRAM, BATON_VECTORED, 0, 1},
    {BATON_WRITE_DATAGRAM, BATON_VECTORED, 0, 1},
    {BATON_ACCEPT, BATON_ADOPT, 0, 1},
    {BATON_CONNECT, 0, 0, 1},
    {BATON_SYNC_FILE, BATON_DATA_ONLY, 0, 1},
    {BATON_WAIT_READY, BATON_READABLE | BATON_WRITABLE, BATON_READABLE, 1},
    {BATON_SHUTDOWN, 0, 0, 1},
    {BATON_CLOSE, 0, 0, 1},
    {BATON_TIMER, 0, 0, 1},
    {BATON_POST, 0, 0, 0},
};

static baton_operation right(size_t which, baton_endpoint* there) {
  baton_operation made = operation(kinds[which].kind, 0, 1);
  made.flags = (uint16_t)kinds[which].needs;
  made.endpoint = kinds[which].kind == BATON_CONNECT ? there : NULL;
  made.deadline_ns = kinds[which].kind == BATON_TIMER;
  return made;
}

/* The handle is invalid, so that a well-formed request is refused for that alone. Timers and posts
 * need no handle: those that are right complete. */
static void expect_well_formed(baton_proactor* proactor, baton_operation made) {
  if (made.kind == BATON_TIMER || made.kind == BATON_POST) {
    CHECK_EQUAL(perform(proactor, made).error, 0);
  } else {
    CHECK_EQUAL(why_refused(proactor, made), BATON_HANDLE_CLOSED);
  }
}

static void each_kind_knows_its_fields(baton_proactor* proactor) {
  static char delimiter[] = "\n";
  baton_endpoint there;
  baton_endpoint nowhere;
  size_t i;
  memset(&nowhere, 0, sizeof nowhere);
  CHECK_EQUAL(baton_endpoint_parse("127.0.0.1:1", &there), 0);
  CHECK_EQUAL(sizeof kinds / sizeof kinds[0], BATON_POST);
  for (i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    baton_operation made = right(i, &there);
    int bit;
    expect_well_formed(proactor, made);
    for (bit = 0; bit < 16; ++bit) {
      made = right(i, &there);
      made.flags = (uint16_t)(made.flags | 1U << bit);
      made.delimiter = delimiter;
      made.delimiter_size = 1;
      if ((kinds[i].flags & 1 << bit) != 0) {
        expect_well_formed(proactor, made);
      } else {
        CHECK_EQUAL(why_refused(proactor, made), EINVAL);
      }
    }
    if (kinds[i].kind == BATON_TIMER) {
      made = right(i, &there);
      made.deadline_ns = 0;
      CHECK_EQUAL(why_refused(proactor, made), EINVAL);
    }
    if (kinds[i].kind == BATON_CONNECT || kinds[i].kind == BATON_WRITE_DATAGRAM) {
      made = right(i, &there);
      made.endpoint = &nowhere;
      CHECK_EQUAL(why_refused(proactor, made), EINVAL);
    }
    made = right(i, &there);
    made.deadline_ns = -5;
    if (kinds[i].has_deadline) {
      CHECK_EQUAL(why_refused(proactor, made), EINVAL);
    } else {
      expect_well_formed(proactor, made);
    }
  }
}

static void a_count_below_none(baton_proactor* proactor) {
  const baton_operation post = operation(BATON_POST, 0, 1);
  int why = 0;
  CHECK_EQUAL(baton_start(proactor, &post, -1, NULL, &why), 0);
  CHECK_EQUAL(why, EINVAL);
  CHECK_EQUAL(baton_start(proactor, &post, 0, NULL, &why), 0);
  CHECK_EQUAL(why, 0);
}

/* What was refused has no name, and so none that another operation of the slot gets. */
static void what_was_refused_cancels_nothing(const char* configuration) {
  baton_proactor* const proactor = open_proactor(configuration, 1);
  const baton_operation post = operation(BATON_POST, 0, 1);
  baton_operation timer = operation(BATON_TIMER, 0, 2);
  baton_activation refused = 1;
  int why = 0;
  baton_stop(proactor);
  CHECK_EQUAL(baton_start(proactor, &post, 1, &refused, &why), 0);
  CHECK_EQUAL(why, BATON_STOPPED);
  CHECK_EQUAL(refused, 0);
  baton_restart(proactor);
  timer.deadline_ns = INT64_MAX;
  CHECK(start(proactor, timer) != refused);
  CHECK_EQUAL(baton_cancel(proactor, refused), ENOENT);
  baton_close(proactor);
}

static baton_proactor* watched;
static baton_handle watched_handle;

/* Of many that close one handle, one succeeds. */
static atomic_int closed;
static void* close_it(void* argument) {
  const int error = baton_handle_close(watched, watched_handle);
  (void)argument;
  CHECK(error == 0 || error == BATON_HANDLE_CLOSED);
  if (error == 0) atomic_fetch_add(&closed, 1);
  return NULL;
}

static void one_close_of_many_succeeds(baton_proactor* proactor) {
  enum { threads = 4, rounds = 50 };
  int round;
  watched = proactor;
  for (round = 0; round < rounds; ++round) {
    pthread_t all[threads];
    int ends[2];
    int i;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    watched_handle = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
    atomic_store(&closed, 0);
    for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_create(&all[i], NULL, close_it, NULL), 0);
    for (i = 0; i < threads; ++i) CHECK_EQUAL(pthread_join(all[i], NULL), 0);
    CHECK_EQUAL(atomic_load(&closed), 1);
    close(ends[1]);
  }
}

int main(int argc, char** argv) {
  baton_proactor* proactor = open_proactor(argc > 1 ? argv[1] : "", 8);
  each_kind_knows_its_fields(proactor);
  a_count_below_none(proactor);
  one_close_of_many_succeeds(proactor);
  baton_close(proactor);
  what_was_refused_cancels_nothing(argc > 1 ? argv[1] : "");
  return 0;
}
