/* The calls of the test of misuse: one for each function that takes a proactor, and what they
 * answer. */
#ifndef MISUSE_CALLS_H
#define MISUSE_CALLS_H

#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
enum { ROOM = 4096, SLOTS = 4 };

/* Bytes up to the end of memory: what reads on behind them ends the program. */
static char* wall;
static void* at_the_wall(const void* from, size_t size) { return memcpy(wall - size, from, size); }

static void build_wall(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const memory =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && page >= ROOM);
  CHECK_EQUAL(mprotect(memory + page, page, PROT_NONE), 0);
  wall = memory + page;
}

/* What may be wrong with a call; everything else in it is right. */
typedef struct {
  int nowhere;     /* there is no place for what it writes */
  int sized;       /* the size field is `size` */
  uint32_t size;   /* else the right one */
  uint64_t number; /* the handle or activation */
  int count;       /* of an array */
} wrong;

static uint32_t size_in(const wrong* how, size_t right) {
  return how->sized ? how->size : (uint32_t)right;
}
#define OUT_IN(how, place) ((how)->nowhere ? NULL : (place))

static baton_handle handle;
static baton_completion done[SLOTS];
static baton_endpoint endpoint;
static baton_endpoint there;
static char text[64] = "#";

static long long why_not_started(baton_proactor* proactor, const wrong* how, size_t size) {
  baton_operation post = operation(BATON_POST, 0, 1);
  int why = -1;
  post.size = (uint32_t)size;
  CHECK_EQUAL(baton_start(proactor, at_the_wall(&post, sizeof post), how->count, NULL, &why), 0);
  CHECK_EQUAL(baton_start(proactor, at_the_wall(&post, sizeof post), how->count, NULL, NULL), 0);
  return why;
}

static long long call_close(baton_proactor* proactor, const wrong* how) {
  (void)how;
  baton_close(proactor);
  return 0;
}
static long long call_stop(baton_proactor* proactor, const wrong* how) {
  (void)how;
  baton_stop(proactor);
  return 0;
}
static long long call_drain(baton_proactor* proactor, const wrong* how) {
  return baton_drain(proactor, how->count);
}
static long long call_restart(baton_proactor* proactor, const wrong* how) {
  (void)how;
  baton_restart(proactor);
  return 0;
}
/* Whether there is a text, which may have nowhere to be written. */
static long long told(const wrong* how, size_t length) {
  CHECK_EQUAL(text[0] == '\0', length == 0 && !how->nowhere);
  text[0] = '#';
  return length != 0;
}
static long long call_explain(baton_proactor* proactor, const wrong* how) {
  return told(how, baton_explain(proactor, OUT_IN(how, text), sizeof text));
}
static long long call_statistics(baton_proactor* proactor, const wrong* how) {
  return told(how, baton_statistics(proactor, OUT_IN(how, text), sizeof text));
}
static long long call_pending(baton_proactor* proactor, const wrong* how) {
  const size_t oldest = baton_pending(proactor, INT64_MAX, OUT_IN(how, text), sizeof text);
  const long long is_told = told(how, oldest);
  const size_t all = baton_pending(proactor, INT64_MIN, OUT_IN(how, text), sizeof text);
  CHECK_EQUAL(told(how, all), is_told);
  return is_told;
}
static long long call_fork_child(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_fork_child(proactor);
}
static long long call_now(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_now(proactor);
}
static long long call_descriptor(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_descriptor(proactor);
}
static long long call_glance(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_glance(proactor);
}
static long long call_adopt(baton_proactor* proactor, const wrong* how) {
  handle = 1;
  const int error = baton_adopt(proactor, 0, BATON_PIPE, BATON_BORROWED, OUT_IN(how, &handle));
  CHECK_EQUAL(handle, how->nowhere);
  return error;
}
static long long call_socket_open(baton_proactor* proactor, const wrong* how) {
  baton_socket made = BATON_SOCKET_INIT;
  made.size = size_in(how, sizeof made);
  made.kind = BATON_STREAM_SOCKET;
  made.family = BATON_IPV4;
  handle = 1;
  const int error =
      baton_socket_open(proactor, at_the_wall(&made, sizeof made), OUT_IN(how, &handle));
  CHECK_EQUAL(handle, how->nowhere);
  return error;
}
/* The size is that of an option. */
static long long call_socket_open_option(baton_proactor* proactor, const wrong* how) {
  baton_socket made = BATON_SOCKET_INIT;
  baton_option option = BATON_OPTION_INIT;
  option.size = size_in(how, sizeof option);
  made.kind = BATON_STREAM_SOCKET;
  made.family = BATON_IPV4;
  made.options = at_the_wall(&option, sizeof option);
  made.option_count = 1;
  handle = 1;
  const int error = baton_socket_open(proactor, &made, &handle);
  CHECK_EQUAL(handle, 0);
  return error;
}
static long long call_listen(baton_proactor* proactor, const wrong* how) {
  handle = 1;
  const int error = baton_listen(proactor, "127.0.0.1:0", how->count, OUT_IN(how, &handle));
  CHECK_EQUAL(handle, how->nowhere);
  return error;
}
static long long call_connect(baton_proactor* proactor, const wrong* how) {
  handle = 1;
  const int error = baton_connect(proactor, "127.0.0.1:1", 1, 0, OUT_IN(how, &handle), NULL);
  CHECK_EQUAL(handle, how->nowhere);
  return error;
}
static long long call_handle_descriptor(baton_proactor* proactor, const wrong* how) {
  return baton_handle_descriptor(proactor, how->number);
}
static long long call_local_endpoint(baton_proactor* proactor, const wrong* how) {
  return baton_local_endpoint(proactor, how->number, OUT_IN(how, &endpoint));
}
static long long call_remote_endpoint(baton_proactor* proactor, const wrong* how) {
  return baton_remote_endpoint(proactor, how->number, OUT_IN(how, &endpoint));
}
static long long call_set_option(baton_proactor* proactor, const wrong* how) {
  baton_option option = BATON_OPTION_INIT;
  option.size = size_in(how, sizeof option);
  return baton_set_option(proactor, how->number,
                          how->nowhere ? NULL : at_the_wall(&option, sizeof option));
}
static long long call_get_option(baton_proactor* proactor, const wrong* how) {
  uint32_t size = sizeof text;
  CHECK_EQUAL(baton_get_option(proactor, how->number, 0, 0, text, NULL), EINVAL);
  return baton_get_option(proactor, how->number, 0, 0, OUT_IN(how, text), &size);
}
static long long call_handle_close(baton_proactor* proactor, const wrong* how) {
  return baton_handle_close(proactor, how->number);
}
static long long call_start(baton_proactor* proactor, const wrong* how) {
  int why = -1;
  CHECK_EQUAL(baton_start(proactor, NULL, INT_MAX, NULL, &why), 0);
  CHECK_EQUAL(why, EINVAL);
  return why_not_started(proactor, how, size_in(how, sizeof(baton_operation)));
}
/* Of every kind that needs a handle. */
static long long call_start_handle(baton_proactor* proactor, const wrong* how) {
  int first = 0;
  int kind;
  for (kind = BATON_READ_STREAM; kind <= BATON_CLOSE; ++kind) {
    baton_operation made = operation(kind, how->number, 1);
    int why = -1;
    made.endpoint = kind == BATON_CONNECT ? &there : NULL;
    made.flags = kind == BATON_WAIT_READY ? BATON_READABLE : 0;
    CHECK_EQUAL(baton_start(proactor, &made, 1, NULL, &why), 0);
    if (kind == BATON_READ_STREAM) first = why;
    CHECK_EQUAL(why, first);
  }
  return first;
}
static long long call_wait(baton_proactor* proactor, const wrong* how) {
  return baton_wait(proactor, OUT_IN(how, done), how->count, 0);
}
static long long call_attach(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_attach(proactor);
}
static long long call_detach(baton_proactor* proactor, const wrong* how) {
  (void)how;
  baton_detach(proactor);
  return 0;
}
/* The size is that of the batch. */
static long long call_exchange(baton_proactor* proactor, const wrong* how) {
  baton_batch batch = BATON_BATCH_INIT;
  baton_batch* given;
  batch.size = size_in(how, sizeof batch);
  batch.taken = batch.why_not = 7;
  given = at_the_wall(&batch, sizeof batch);
  CHECK_EQUAL(baton_exchange(proactor, NULL, done, SLOTS, 0), -EINVAL);
  const int count = baton_exchange(proactor, given, OUT_IN(how, done), how->count, 0);
  CHECK_EQUAL(given->taken, 7);
  CHECK_EQUAL(given->why_not, 7);
  return count;
}
/* The size and the count are those of the operations. */
static long long call_exchange_start(baton_proactor* proactor, const wrong* how) {
  baton_operation post = operation(BATON_POST, 0, 1);
  baton_batch batch = BATON_BATCH_INIT;
  post.size = size_in(how, sizeof post);
  batch.operations = at_the_wall(&post, sizeof post);
  batch.count = how->count;
  batch.why_not = -EINVAL;
  const int count = baton_exchange(proactor, &batch, done, SLOTS, 0);
  CHECK_EQUAL(batch.taken, 0);
  CHECK(count == (batch.why_not < 0 ? -EINVAL : 0));
  return batch.why_not;
}
static long long call_poll(baton_proactor* proactor, const wrong* how) {
  const int count = baton_poll(proactor, OUT_IN(how, done), how->count);
  return count != -BATON_NOT_SUPPORTED ? count : -EINVAL;
}
static long long call_wake(baton_proactor* proactor, const wrong* how) {
  (void)how;
  baton_wake(proactor);
  return 0;
}
static long long call_cancel(baton_proactor* proactor, const wrong* how) {
  return baton_cancel(proactor, how->number);
}
static long long call_cancel_handle(baton_proactor* proactor, const wrong* how) {
  return baton_cancel_handle(proactor, how->number);
}
static long long call_cancel_tag(baton_proactor* proactor, const wrong* how) {
  return baton_cancel_tag(proactor, how->number);
}
static long long call_cancel_all(baton_proactor* proactor, const wrong* how) {
  (void)how;
  return baton_cancel_all(proactor);
}
static long long call_cancel_wait(baton_proactor* proactor, const wrong* how) {
  CHECK_EQUAL(baton_cancel_wait(proactor, how->number, INT64_MIN), EINVAL);
  return baton_cancel_wait(proactor, how->number, how->count);
}
static long long call_move_deadline(baton_proactor* proactor, const wrong* how) {
  CHECK_EQUAL(baton_move_deadline(proactor, how->number, INT64_MIN), EINVAL);
  const int error = baton_move_deadline(proactor, how->number, how->count);
  return error != BATON_NOT_SUPPORTED ? error : ENOENT;
}
static long long call_status(baton_proactor* proactor, const wrong* how) {
  baton_state state = BATON_STATE_INIT;
  state.size = size_in(how, sizeof state);
  return baton_status(proactor, how->number,
                      how->nowhere ? NULL : at_the_wall(&state, sizeof state));
}

/* The answers: of no proactor and of a closed one; of an open one to the other mistakes (NONE: it
 * cannot be made). The answer to a size is EINVAL or E2BIG, times `sized`. */
enum { NONE = INT_MIN };
static const struct {
  const char* name;
  long long (*call)(baton_proactor* proactor, const wrong* how);
  int closed;
  int nowhere;
  int sized;
  int number;
  int count;
} rows[] = {
    {"baton_close", call_close, 0, NONE, 0, NONE, NONE},
    {"baton_stop", call_stop, 0, NONE, 0, NONE, NONE},
    {"baton_drain", call_drain, EINVAL, NONE, 0, NONE, EINVAL},
    {"baton_restart", call_restart, 0, NONE, 0, NONE, NONE},
    {"baton_explain", call_explain, 0, 1, 0, NONE, NONE},
    {"baton_statistics", call_statistics, 0, 1, 0, NONE, NONE},
    {"baton_pending", call_pending, 0, 1, 0, NONE, NONE},
    {"baton_fork_child", call_fork_child, EINVAL, NONE, 0, NONE, NONE},
    {"baton_now", call_now, 0, NONE, 0, NONE, NONE},
    {"baton_descriptor", call_descriptor, -1, NONE, 0, NONE, NONE},
    {"baton_glance", call_glance, BATON_CANNOT_TELL, NONE, 0, NONE, NONE},
    {"baton_adopt", call_adopt, EINVAL, EINVAL, 0, NONE, NONE},
    {"baton_socket_open", call_socket_open, EINVAL, EINVAL, 1, NONE, NONE},
    {"baton_socket_open", call_socket_open_option, EINVAL, NONE, 1, NONE, NONE},
    {"baton_listen", call_listen, EINVAL, EINVAL, 0, NONE, NONE},
    {"baton_connect", call_connect, EINVAL, EINVAL, 0, NONE, NONE},
    {"baton_handle_descriptor", call_handle_descriptor, -1, NONE, 0, -1, NONE},
    {"baton_local_endpoint", call_local_endpoint, EINVAL, EINVAL, 0, BATON_HANDLE_CLOSED, NONE},
    {"baton_remote_endpoint", call_remote_endpoint, EINVAL, EINVAL, 0, BATON_HANDLE_CLOSED, NONE},
    {"baton_set_option", call_set_option, EINVAL, EINVAL, 1, BATON_HANDLE_CLOSED, NONE},
    {"baton_get_option", call_get_option, EINVAL, EINVAL, 0, BATON_HANDLE_CLOSED, NONE},
    {"baton_handle_close", call_handle_close, EINVAL, NONE, 0, BATON_HANDLE_CLOSED, NONE},
    {"baton_start", call_start, EINVAL, NONE, 1, NONE, EINVAL},
    {"baton_start", call_start_handle, EINVAL, NONE, 0, BATON_HANDLE_CLOSED, NONE},
    {"baton_wait", call_wait, -EINVAL, -EINVAL, 0, NONE, -EINVAL},
    {"baton_attach", call_attach, EINVAL, NONE, 0, NONE, NONE},
    {"baton_detach", call_detach, 0, NONE, 0, NONE, NONE},
    {"baton_exchange", call_exchange, -EINVAL, -EINVAL, -1, NONE, -EINVAL},
    {"baton_exchange", call_exchange_start, -EINVAL, NONE, 1, NONE, EINVAL},
    {"baton_poll", call_poll, -EINVAL, -EINVAL, 0, NONE, -EINVAL},
    {"baton_wake", call_wake, 0, NONE, 0, NONE, NONE},
    {"baton_cancel", call_cancel, EINVAL, NONE, 0, ENOENT, NONE},
    {"baton_cancel_handle", call_cancel_handle, EINVAL, NONE, 0, ENOENT, NONE},
    {"baton_cancel_tag", call_cancel_tag, EINVAL, NONE, 0, ENOENT, NONE},
    {"baton_cancel_all", call_cancel_all, EINVAL, NONE, 0, NONE, NONE},
    {"baton_cancel_wait", call_cancel_wait, EINVAL, NONE, 0, ENOENT, EINVAL},
    {"baton_move_deadline", call_move_deadline, EINVAL, NONE, 0, ENOENT, EINVAL},
    {"baton_status", call_status, EINVAL, EINVAL, 1, ENOENT, NONE},
};

#endif
