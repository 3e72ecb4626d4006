/* 07: the echo server again, in C.
 *
 *   07_c_api [PORT]        prints "listening PORT"; then try: nc 127.0.0.1 PORT
 *
 * There are no callbacks: baton_wait brings completions, each with the tag of its start. Here a tag
 * is the address of a session, and the kind tells what was done. Completions come in batches, and
 * what they ask for is collected and started in batches, too.
 */
#include <baton.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 64, BUFFER = 8192 };

typedef struct session {
  baton_handle handle;
  char buffer[BUFFER];
} session;

/* What the completions of one batch ask for: at most one start each, and one more accept. */
typedef struct starts {
  baton_operation operations[BATCH + 1];
  int count;
  int accept_due;   /* no accept is pending: the next start must begin one */
  int accept_error; /* why accepts have ended; 0: they go on */
} starts;

static baton_operation* add(starts* list, int kind, baton_handle handle, uint64_t tag) {
  static const baton_operation initial = BATON_OPERATION_INIT;
  baton_operation* operation = &list->operations[list->count++];
  *operation = initial;
  operation->kind = (uint16_t)kind;
  operation->handle = handle;
  operation->tag = tag;
  return operation;
}

static void add_read(starts* list, session* one) {
  baton_operation* read = add(list, BATON_READ_STREAM, one->handle, (uint64_t)(uintptr_t)one);
  read->data = one->buffer;
  read->length = sizeof one->buffer;
}

static void add_write(starts* list, session* one, int64_t length) {
  baton_operation* write = add(list, BATON_WRITE_STREAM, one->handle, (uint64_t)(uintptr_t)one);
  write->flags = BATON_EXACTLY; /* complete when all is written */
  write->data = one->buffer;
  write->length = (size_t)length;
}

static void end_session(baton_proactor* proactor, session* one) {
  baton_handle_close(proactor, one->handle); /* no wait for its end */
  free(one);
}

static void begin_session(baton_proactor* proactor, starts* list, int descriptor) {
  session* one = malloc(sizeof *one);
  int error = -1;
  if (one != NULL) {
    error = baton_adopt(proactor, descriptor, BATON_STREAM_SOCKET, BATON_OWNED, &one->handle);
  }
  if (error != 0) {
    if (error != ENOMEM) close(descriptor); /* else it is closed already */
    free(one);
    return;
  }
  add_read(list, one);
}

static void completed(baton_proactor* proactor, starts* list, const baton_completion* done) {
  session* one = (session*)(uintptr_t)done->tag;
  switch (done->kind) {
    case BATON_ACCEPT:
      list->accept_due = 1;
      list->accept_error = done->error; /* the listener or the engine is lost */
      if (done->error == 0) begin_session(proactor, list, (int)done->result);
      break;
    case BATON_READ_STREAM:
      if (done->error == 0 && done->result > 0) {
        add_write(list, one, done->result);
      } else {
        end_session(proactor, one); /* an error, or the end of the stream */
      }
      break;
    case BATON_WRITE_STREAM:
      if (done->error == 0) {
        add_read(list, one);
      } else {
        end_session(proactor, one);
      }
      break;
  }
}

static void start_all(baton_proactor* proactor, starts* list) {
  int taken = 0;
  while (taken < list->count) {
    int why = 0;
    taken += baton_start(proactor, list->operations + taken, list->count - taken, NULL, &why);
    if (taken == list->count) break;
    /* This one was not taken and will not complete: give its session up. */
    const baton_operation* refused = &list->operations[taken++];
    if (refused->tag == 0) { /* the accept: without a free slot after the next completions */
      if (why == EAGAIN) {
        list->accept_due = 1;
        continue;
      }
      list->accept_error = why;
    }
    char text[128];
    baton_error_text(why, text, sizeof text);
    fprintf(stderr, "not started: %s\n", text);
    if (refused->tag != 0) end_session(proactor, (session*)(uintptr_t)refused->tag);
  }
  list->count = 0;
}

int main(int argc, char** argv) {
  if (argc > 2) {
    fprintf(stderr, "'%s' is one argument too many\n", argv[2]);
    return 2;
  }
  baton_config config = BATON_CONFIG_INIT;
  config.flags = BATON_ENVIRONMENT;
  config.slots = 16384;
  baton_proactor* proactor = NULL;
  char text[256];
  if (baton_open(&config, &proactor, text, sizeof text) != 0) {
    fprintf(stderr, "cannot open: %s\n", text);
    return 1;
  }

  char where[64];
  snprintf(where, sizeof where, "127.0.0.1:%s", argc > 1 ? argv[1] : "7007");
  baton_handle listener = 0;
  baton_endpoint local;
  int error = baton_listen(proactor, where, 1024, &listener);
  if (error == 0) error = baton_local_endpoint(proactor, listener, &local);
  if (error != 0) {
    baton_error_text(error, text, sizeof text);
    fprintf(stderr, "cannot listen on %s: %s\n", where, text);
    return 1;
  }
  baton_endpoint_print(&local, text, sizeof text);
  printf("listening %s\n", strrchr(text, ':') + 1);
  if (fflush(stdout) != 0) {
    perror("standard output");
    return 1;
  }

  static starts list;
  list.accept_due = 1;
  baton_completion done[BATCH];
  int count = 0;
  do {
    if (list.accept_due) add(&list, BATON_ACCEPT, listener, 0);
    list.accept_due = 0;
    start_all(proactor, &list);
    if (list.accept_error != 0) break;
    count = baton_wait(proactor, done, BATCH, -1);
    for (int i = 0; i < count; ++i) completed(proactor, &list, &done[i]);
  } while (count >= 0);
  if (list.accept_error != 0) {
    baton_error_text(list.accept_error, text, sizeof text);
    fprintf(stderr, "no more connections: %s\n", text);
  }
  baton_close(proactor);
  return list.accept_error != 0;
}
