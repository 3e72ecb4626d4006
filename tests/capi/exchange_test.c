/* Starting and collecting arrays in one call; foreign loops; ends; moved deadlines.
 * usage: exchange_test CONFIGURATION */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static const char* configuration = "";

static int is_per_thread(void) { return strstr(configuration, "per_thread") != NULL; }

static baton_batch batch_of(const baton_operation* operations, int count) {
  baton_batch made = BATON_BATCH_INIT;
  made.operations = operations;
  made.count = count;
  made.taken = made.why_not = -77;
  return made;
}

/* Brings the rest of `pending`. */
static void bring_all(baton_proactor* proactor, int pending) {
  while (pending > 0) {
    baton_completion done[8];
    const int count = baton_wait(proactor, done, 8, PATIENCE);
    CHECK(count > 0);
    pending -= count;
  }
  CHECK_EQUAL(pending, 0);
}

static void all_of_a_batch(baton_proactor* proactor) {
  baton_operation four[4];
  baton_activation names[4] = {0, 0, 0, 0};
  baton_completion done[8];
  baton_batch batch = batch_of(four, 4);
  int brought;
  int i;
  for (i = 0; i < 4; ++i) four[i] = operation(BATON_POST, 0, (uint64_t)i);
  batch.activations = names;
  brought = baton_exchange(proactor, &batch, done, 8, PATIENCE);
  CHECK(brought > 0);
  CHECK_EQUAL(batch.taken, 4);
  CHECK_EQUAL(batch.why_not, 0);
  for (i = 0; i < 4; ++i) CHECK(names[i] != 0);
  bring_all(proactor, 4 - brought);
}

/* Without operations it is a wait. */
static void an_empty_batch(baton_proactor* proactor) {
  baton_completion done;
  baton_batch batch = batch_of(NULL, 0);
  CHECK_EQUAL(baton_exchange(proactor, &batch, &done, 1, 0), 0);
  CHECK_EQUAL(batch.taken, 0);
  CHECK_EQUAL(batch.why_not, 0);
  start(proactor, operation(BATON_POST, 0, 9));
  CHECK_EQUAL(baton_exchange(proactor, &batch, &done, 1, PATIENCE), 1);
  CHECK_EQUAL(done.tag, 9);
}

/* The same calls, cheaper; twice or not at all does no harm. */
static void attached(void) {
  baton_proactor* proactor = open_proactor(configuration, 16);
  int i;
  baton_detach(proactor);
  for (i = 0; i < 3; ++i) {
    CHECK_EQUAL(baton_attach(proactor), 0);
    CHECK_EQUAL(baton_attach(proactor), 0);
    all_of_a_batch(proactor);
    an_empty_batch(proactor);
    if (i == 1) baton_detach(proactor);
    all_of_a_batch(proactor);
  }
  baton_close(proactor); /* detaches */
}

/* A thread may be attached to several proactors; it leaves one without leaving the others. */
static void attached_to_several(void) {
  baton_proactor* several[3];
  int i;
  for (i = 0; i < 3; ++i) {
    several[i] = open_proactor(configuration, 16);
    CHECK_EQUAL(baton_attach(several[i]), 0);
  }
  baton_detach(several[1]);
  for (i = 0; i < 3; ++i) all_of_a_batch(several[i]);
  for (i = 0; i < 3; ++i) baton_close(several[i]); /* detaches */
}

static void* attach_and_end(void* proactor) {
  CHECK_EQUAL(baton_attach(proactor), 0);
  all_of_a_batch(proactor);
  return NULL;
}

/* Its lane is free for the next. */
static void a_thread_ends_attached(void) {
  baton_proactor* proactor = open_proactor(configuration, 16);
  int i;
  for (i = 0; i < 3; ++i) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, attach_and_end, proactor), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
  }
  all_of_a_batch(proactor);
  baton_close(proactor);
}

/* More requests than slots: it waits for the taken ones, and the next call starts the rest. */
static void beyond_the_slots(void) {
  baton_proactor* proactor = open_proactor(configuration, 4);
  baton_operation ten[10];
  baton_completion done[8];
  char seen[10] = "";
  int started = 0;
  int brought = 0;
  int i;
  for (i = 0; i < 10; ++i) ten[i] = operation(BATON_POST, 0, (uint64_t)i);
  while (brought < 10) {
    baton_batch batch = batch_of(ten + started, 10 - started);
    const int count = baton_exchange(proactor, &batch, done, 8, PATIENCE);
    CHECK(count > 0);
    CHECK(batch.taken <= 4);
    CHECK_EQUAL(batch.why_not, batch.taken < batch.count ? EAGAIN : 0);
    started += batch.taken;
    for (i = 0; i < count; ++i) {
      CHECK(done[i].tag < 10 && seen[done[i].tag] == 0);
      seen[done[i].tag] = 1;
    }
    brought += count;
  }
  CHECK_EQUAL(started, 10);
  baton_close(proactor);
}

/* Without a free slot it waits for what is in flight, though nothing of it is complete yet. */
static void without_a_slot(void) {
  baton_proactor* proactor = open_proactor(configuration, 4);
  const baton_operation post = operation(BATON_POST, 0, 9);
  baton_batch batch = batch_of(&post, 1);
  baton_completion done[4];
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  int i;
  timer.deadline_ns = baton_now(proactor) + SECOND / 100;
  for (i = 0; i < 4; ++i) start(proactor, timer);
  CHECK(baton_exchange(proactor, &batch, done, 4, PATIENCE) > 0);
  CHECK_EQUAL(batch.taken, 0);
  CHECK_EQUAL(batch.why_not, EAGAIN);
  CHECK_EQUAL(done[0].tag, 1);
  baton_close(proactor);
}

/* A wrong one in the middle: those before it are in flight, those behind are not, and the caller
 * gets the error without a wait. */
static void a_wrong_one_in_the_middle(baton_proactor* proactor) {
  baton_operation three[3];
  baton_completion done[4];
  baton_batch batch = batch_of(three, 3);
  const int64_t begin = baton_now(proactor);
  int brought;
  three[0] = operation(BATON_TIMER, 0, 1);
  three[0].deadline_ns = begin + 3600 * SECOND;
  three[1] = operation(BATON_SHUTDOWN, 0xffffffffffULL, 2);
  three[2] = operation(BATON_POST, 0, 3);
  brought = baton_exchange(proactor, &batch, done, 4, -1);
  CHECK_EQUAL(brought, 0);
  CHECK_EQUAL(batch.taken, 1);
  CHECK_EQUAL(batch.why_not, BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_cancel_tag(proactor, 3), ENOENT);
  CHECK_EQUAL(baton_cancel_tag(proactor, 1), 0);
  CHECK_EQUAL(wait_one(proactor).error, ECANCELED);
  batch = batch_of(three, -1);
  CHECK_EQUAL(baton_exchange(proactor, &batch, done, 4, -1), 0);
  CHECK_EQUAL(batch.taken, 0);
  CHECK_EQUAL(batch.why_not, EINVAL);
  batch = batch_of(NULL, 1);
  CHECK_EQUAL(baton_exchange(proactor, &batch, done, 4, -1), 0);
  CHECK_EQUAL(batch.why_not, EINVAL);
}

/* If the call itself is wrong, nothing is started. */
static void wrong_exchanges(baton_proactor* proactor) {
  const baton_operation post = operation(BATON_POST, 0, 1);
  baton_completion done;
  baton_batch batch = batch_of(&post, 1);
  CHECK_EQUAL(baton_exchange(proactor, &batch, NULL, 1, 0), -EINVAL);
  CHECK_EQUAL(baton_exchange(proactor, &batch, &done, 0, 0), -EINVAL);
  CHECK_EQUAL(baton_exchange(proactor, NULL, &done, 1, 0), -EINVAL);
  batch.size = 8;
  CHECK_EQUAL(baton_exchange(proactor, &batch, &done, 1, 0), -EINVAL);
  CHECK_EQUAL(batch.taken, -77);
  CHECK_EQUAL(batch.why_not, -77);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
}

static void a_loop_of_somebody_else(baton_proactor* proactor) {
  struct pollfd watched;
  baton_operation read;
  baton_completion done;
  char buffer[8];
  int ends[2];
  baton_handle handle;
  const int glance = baton_glance(proactor);
  CHECK(glance >= BATON_CANNOT_TELL && glance <= BATON_SOMETHING);
  watched.fd = baton_descriptor(proactor);
  if (strstr(configuration, "dedicated") != NULL) {
    CHECK_EQUAL(watched.fd, -1);
    return;
  }
  CHECK(watched.fd >= 0);
  watched.events = POLLIN;
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  handle = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  read = transfer(BATON_READ_STREAM, handle, 1, buffer, sizeof buffer);
  start(proactor, read);
  while (baton_wait(proactor, &done, 1, 0) > 0) continue;
  CHECK(baton_glance(proactor) != BATON_SOMETHING);
  CHECK_EQUAL(write(ends[1], "loop", 4), 4);
  CHECK_EQUAL(poll(&watched, 1, (int)(PATIENCE / 1000000)), 1);
  CHECK(baton_glance(proactor) != BATON_NOTHING);
  while (baton_wait(proactor, &done, 1, 0) != 1) {
    CHECK_EQUAL(poll(&watched, 1, (int)(PATIENCE / 1000000)), 1);
  }
  CHECK_EQUAL(done.result, 4);
  CHECK_EQUAL(baton_handle_close(proactor, handle), 0);
  close(ends[1]);
}

static void stop_and_restart(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_completion done;
  timer.deadline_ns = baton_now(proactor) + SECOND / 100;
  start(proactor, timer);
  baton_stop(proactor);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, -1), -BATON_STOPPED);
  baton_restart(proactor);
  CHECK_EQUAL(wait_one(proactor).tag, 1); /* it was pending all the time */
  CHECK_EQUAL(perform(proactor, operation(BATON_POST, 0, 2)).error, 0);
  baton_close(proactor);
}

static void drained_in_good_order(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  baton_handle listener = 0;
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_completion done;
  int brought = 0;
  int count;
  CHECK_EQUAL(baton_drain(proactor, -1), EINVAL);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  start(proactor, operation(BATON_ACCEPT, listener, 2));
  timer.deadline_ns = baton_now(proactor) + SECOND / 20;
  start(proactor, timer);
  /* In per_thread mode: out of the mailbox. On a slow machine the timer is due by now. */
  brought = baton_wait(proactor, &done, 1, 0);
  CHECK(brought >= 0);
  CHECK_EQUAL(baton_drain(proactor, 0), 0);
  while ((count = baton_wait(proactor, &done, 1, PATIENCE)) > 0) {
    CHECK_EQUAL(done.error, done.tag == 2 ? ECANCELED : 0);
    ++brought;
  }
  CHECK_EQUAL(count, -BATON_STOPPED);
  CHECK_EQUAL(brought, 2);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_ACCEPT, listener, 2)), BATON_STOPPED);
  baton_restart(proactor);
  CHECK_EQUAL(perform(proactor, operation(BATON_POST, 0, 3)).error, 0);

  /* At its deadline the remaining requests are cancelled. */
  timer.deadline_ns = baton_now(proactor) + 3600 * SECOND;
  start(proactor, timer);
  CHECK_EQUAL(baton_drain(proactor, baton_now(proactor) + SECOND / 50), 0);
  while ((count = baton_wait(proactor, &done, 1, PATIENCE)) > 0) CHECK_EQUAL(done.error, ECANCELED);
  CHECK_EQUAL(count, -BATON_STOPPED);
  baton_close(proactor);
}

static void* drive(void* argument) {
  baton_completion done;
  int count;
  while ((count = baton_wait(argument, &done, 1, -1)) >= 0) continue;
  CHECK_EQUAL(count, -BATON_STOPPED);
  return NULL;
}

static void cancelled_and_waited_for(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_activation activation;
  pthread_t thread;
  timer.deadline_ns = baton_now(proactor) + 3600 * SECOND;
  CHECK_EQUAL(baton_cancel_wait(proactor, 0, 0), ENOENT);
  CHECK_EQUAL(baton_cancel_wait(proactor, 0xffffffffffffffffULL, 0), ENOENT);
  activation = start(proactor, timer);
  CHECK_EQUAL(baton_cancel_wait(proactor, activation, -1), EINVAL);
  CHECK_EQUAL(pthread_create(&thread, NULL, drive, proactor), 0);
  CHECK_EQUAL(baton_cancel_wait(proactor, activation, baton_now(proactor) + PATIENCE), 0);
  CHECK_EQUAL(baton_cancel_wait(proactor, activation, 0), ENOENT);
  baton_stop(proactor);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  baton_close(proactor);
}

/* In per_thread mode only the lane's thread ends it, and this lane has no thread. */
static void nobody_is_there_to_cancel(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_activation activation;
  timer.deadline_ns = baton_now(proactor) + 3600 * SECOND;
  activation = start(proactor, timer);
  CHECK_EQUAL(baton_cancel_wait(proactor, activation, 1), is_per_thread() ? BATON_TIMED_OUT : 0);
  CHECK_EQUAL(wait_one(proactor).error, ECANCELED);
  baton_close(proactor);
}

static void moved_deadlines(baton_proactor* proactor) {
  const int64_t begin = baton_now(proactor);
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_operation read;
  baton_activation activation;
  baton_handle handle;
  char buffer[8];
  int ends[2];
  timer.deadline_ns = begin + 3600 * SECOND;
  activation = start(proactor, timer);
  CHECK_EQUAL(baton_move_deadline(proactor, activation, 0), EINVAL);
  CHECK_EQUAL(baton_move_deadline(proactor, activation, -1), EINVAL);
  if (is_per_thread()) {
    CHECK_EQUAL(baton_move_deadline(proactor, activation, 1), BATON_NOT_SUPPORTED);
    CHECK_EQUAL(baton_cancel(proactor, activation), 0);
    CHECK_EQUAL(wait_one(proactor).error, ECANCELED);
    return;
  }
  CHECK_EQUAL(baton_move_deadline(proactor, activation, begin + SECOND / 100), 0);
  CHECK_EQUAL(wait_one(proactor).error, 0);
  CHECK(baton_now(proactor) >= begin + SECOND / 100);
  CHECK(baton_now(proactor) < begin + 3600 * SECOND);
  CHECK_EQUAL(baton_move_deadline(proactor, activation, begin + SECOND), ENOENT);
  CHECK_EQUAL(baton_move_deadline(proactor, 0, begin + SECOND), ENOENT);

  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  handle = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  read = transfer(BATON_READ_STREAM, handle, 2, buffer, sizeof buffer);
  activation = start(proactor, read);
  CHECK_EQUAL(baton_move_deadline(proactor, activation, begin + SECOND), ENOENT); /* has none */
  CHECK_EQUAL(baton_cancel(proactor, activation), 0);
  CHECK_EQUAL(wait_one(proactor).error, ECANCELED);
  read.deadline_ns = begin + 3600 * SECOND;
  activation = start(proactor, read);
  CHECK_EQUAL(baton_move_deadline(proactor, activation, baton_now(proactor) + SECOND / 100), 0);
  CHECK_EQUAL(wait_one(proactor).error, BATON_TIMED_OUT);
  CHECK_EQUAL(baton_handle_close(proactor, handle), 0);
  close(ends[1]);
}

static void engines_and_why_not(void) {
  char names[512];
  char why[512];
  char* rest = names;
  int can = 0;
  CHECK_EQUAL(baton_engines(names, sizeof names), strlen(names));
  while (*rest != '\0') {
    char* const end = strchr(rest, '\n');
    int error;
    CHECK(end != NULL);
    *end = '\0';
    error = baton_engine_reason(rest, why, sizeof why);
    /* Either it can be had, or a sentence says why not. */
    CHECK((error == 0) == (why[0] == '\0'));
    if (error == 0) ++can;
    if (strcmp(rest, "simulated") == 0) CHECK_EQUAL(error, BATON_ENGINE_UNAVAILABLE);
    if (strcmp(rest, "emulated") == 0) CHECK_EQUAL(error, 0);
    if (strcmp(rest, "posix_aio") == 0) CHECK_EQUAL(error, 0); /* though it has no sockets */
    rest = end + 1;
  }
  CHECK(can > 0);
  CHECK_EQUAL(baton_engine_reason("nonsense", why, sizeof why), BATON_UNKNOWN_NAME);
  CHECK(strstr(why, "emulated") != NULL);
  CHECK(strstr(why, "require") == NULL); /* no setting that the caller never made */
  CHECK_EQUAL(baton_engine_reason("emulated,mode=shared", why, sizeof why), BATON_UNKNOWN_NAME);
  CHECK_EQUAL(baton_engine_reason("", why, sizeof why), BATON_UNKNOWN_NAME);
  CHECK_EQUAL(baton_engine_reason(NULL, why, sizeof why), EINVAL);
  CHECK_EQUAL(why[0], '\0');
  CHECK_EQUAL(baton_engine_reason("nonsense", NULL, 0), BATON_UNKNOWN_NAME);
}

int main(int argc, char** argv) {
  baton_proactor* proactor;
  if (argc > 1) configuration = argv[1];
  proactor = open_proactor(configuration, 16);
  all_of_a_batch(proactor);
  an_empty_batch(proactor);
  attached();
  attached_to_several();
  a_thread_ends_attached();
  beyond_the_slots();
  without_a_slot();
  a_wrong_one_in_the_middle(proactor);
  wrong_exchanges(proactor);
  a_loop_of_somebody_else(proactor);
  stop_and_restart();
  drained_in_good_order();
  cancelled_and_waited_for();
  nobody_is_there_to_cancel();
  moved_deadlines(proactor);
  engines_and_why_not();
  baton_close(proactor);
  return 0;
}
