/* Errors, refusals, and recovery from them.
 * usage: control_test CONFIGURATION */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const char* configuration = "";

/* A socket whose peer writes nothing. */
struct silence {
  int peer;
  baton_handle handle;
  char buffer[8];
};
static struct silence make_silence(baton_proactor* proactor) {
  struct silence made;
  int ends[2];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  made.peer = ends[1];
  made.handle = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  return made;
}
static void end_silence(baton_proactor* proactor, struct silence* silence) {
  CHECK_EQUAL(baton_handle_close(proactor, silence->handle), 0);
  close(silence->peer);
}

static void the_version_is_told(void) { CHECK(strchr(baton_version(), '.') != NULL); }

static void errors_have_text(void) {
  char text[128];
  CHECK(baton_error_text(BATON_TIMED_OUT, text, sizeof text) == strlen(text));
  CHECK(strstr(text, "deadline") != NULL);
  baton_error_text(ECONNREFUSED, text, sizeof text);
  CHECK(strcmp(text, strerror(ECONNREFUSED)) == 0);
  CHECK(baton_error_text(BATON_TIMED_OUT, text, 4) > 4);
  CHECK_EQUAL(strlen(text), 3);
  CHECK(baton_error_text(BATON_TIMED_OUT, NULL, 0) > 4);
}

static void opening_says_why_not(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = (baton_proactor*)&config;
  char why[256];
  config.text = "wait=epol";
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), BATON_UNKNOWN_NAME);
  CHECK(proactor == NULL);
  CHECK(strstr(why, "epoll") != NULL);
  config.text = "<baton><processor threads='x'/></baton>";
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), BATON_BAD_CONFIGURATION);
  config.text = NULL;
  config.slots = 0xffffffff;
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), EINVAL);
  config.slots = 0;
  config.flags = 0x80;
  CHECK_EQUAL(baton_open(&config, &proactor, NULL, 0), EINVAL);
  config.flags = 0;
  CHECK_EQUAL(baton_open(NULL, &proactor, why, sizeof why), EINVAL);
  CHECK_EQUAL(baton_open(&config, NULL, why, sizeof why), EINVAL);
  config.text = "require=simulated"; /* for a system that is simulated */
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), BATON_ENGINE_UNAVAILABLE);
  CHECK(proactor == NULL);
  CHECK(strstr(why, "simulated") != NULL);
  baton_close(NULL);
}

static void the_environment_counts_where_it_is_asked_for(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = NULL;
  char why[256];
  config.text = configuration;
  CHECK_EQUAL(setenv("BATON_PREFER", "none-such", 1), 0);
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), 0);
  baton_close(proactor);
  config.flags = BATON_ENVIRONMENT;
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), BATON_UNKNOWN_NAME);
  CHECK(strstr(why, "none-such") != NULL);
  CHECK_EQUAL(unsetenv("BATON_PREFER"), 0);
  CHECK_EQUAL(baton_open(&config, &proactor, why, sizeof why), 0);
  baton_close(proactor);
}

static void without_a_text_everything_is_chosen(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = NULL;
  config.text = NULL;
  CHECK_EQUAL(baton_open(&config, &proactor, NULL, 0), 0);
  CHECK_EQUAL(perform(proactor, operation(BATON_POST, 0, 1)).error, 0);
  baton_close(proactor);
}

/* A profile that the caller has set is kept. */
static void a_profile_is_kept(void) {
  char text[2048];
  baton_proactor* proactor = open_proactor("engine=emulated,mode=per_thread,profile=any", 4);
  baton_explain(proactor, text, sizeof text);
  CHECK(strstr(text, "from the C interface") == NULL);
  baton_close(proactor);
  proactor = open_proactor("engine=emulated,mode=per_thread", 4);
  baton_explain(proactor, text, sizeof text);
  CHECK(strstr(text, "from the C interface") != NULL);
  baton_close(proactor);
}

static void structs_of_other_versions(void) {
  struct {
    baton_operation known;
    uint64_t later;
  } two[2];
  struct {
    baton_completion known;
    uint64_t later;
  } done[2];
  baton_operation same[2];
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = NULL;
  int why = 0;
  config.text = configuration;
  config.completion_size = sizeof done[0];
  CHECK_EQUAL(baton_open(&config, &proactor, NULL, 0), 0);

  memset(two, 0, sizeof two);
  memset(done, 0xff, sizeof done);
  two[0].known = operation(BATON_POST, 0, 1);
  two[1].known = operation(BATON_POST, 0, 2);
  two[0].known.size = two[1].known.size = sizeof two[0];
  CHECK_EQUAL(baton_start(proactor, &two[0].known, 2, NULL, &why), 2);
  CHECK_EQUAL(baton_wait(proactor, &done[0].known, 1, PATIENCE), 1);
  CHECK_EQUAL(baton_wait(proactor, &done[1].known, 1, PATIENCE), 1);
  CHECK_EQUAL(done[0].known.tag + done[1].known.tag, 3);
  CHECK_EQUAL(done[0].later + done[1].later, 0);

  two[1].later = 1; /* means something to a later library */
  CHECK_EQUAL(baton_start(proactor, &two[0].known, 2, NULL, &why), 1);
  CHECK_EQUAL(why, E2BIG);
  two[1].later = 0;
  two[1].known.size = sizeof(baton_operation); /* all of an array are of one size */
  CHECK_EQUAL(baton_start(proactor, &two[0].known, 2, NULL, &why), 1);
  CHECK_EQUAL(why, EINVAL);
  two[0].known.size = 8;
  CHECK_EQUAL(baton_start(proactor, &two[0].known, 1, NULL, &why), 0);
  CHECK_EQUAL(why, EINVAL);
  same[0] = two[1].known;
  same[1] = two[1].known;
  same[1].size = sizeof two[0];
  CHECK_EQUAL(baton_start(proactor, same, 2, NULL, &why), 1);
  CHECK_EQUAL(why, EINVAL);
  same[1] = transfer(BATON_READ_STREAM, 0, 1, done, sizeof done);
  CHECK_EQUAL(baton_start(proactor, same, 2, NULL, &why), 1);
  CHECK_EQUAL(why, BATON_HANDLE_CLOSED);
  same[1].size = sizeof two[0];
  CHECK_EQUAL(baton_start(proactor, same, 2, NULL, &why), 1);
  CHECK_EQUAL(why, EINVAL);
  baton_close(proactor);
}

static void nonsense_is_refused(baton_proactor* proactor) {
  struct silence silence = make_silence(proactor);
  baton_operation made = operation(0, silence.handle, 1);
  baton_handle handle = 0;
  baton_endpoint where;
  baton_completion done;
  int why = 0;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.kind = BATON_POST + 1;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made = transfer(BATON_READ_STREAM, silence.handle, 1, NULL, 8);
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made = transfer(BATON_READ_STREAM, silence.handle, 1, silence.buffer, 8);
  made.flags = 0x8000;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.flags = BATON_UNTIL;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.delimiter = "";
  made.delimiter_size = 0;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.delimiter = NULL;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.delimiter = "\n";
  made.delimiter_size = 1;
  made.offset = 9; /* more than the buffer has */
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.offset = 0;
  made.flags = BATON_UNTIL | BATON_VECTORED;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.kind = BATON_WRITE_STREAM;
  made.flags = BATON_UNTIL;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made.flags = 0;
  made.deadline_ns = -1;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  made = operation(BATON_POST, 0, 1);
  made.notify = BATON_NOTIFY_NONE + 1;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  memset(&where, 0, sizeof where);
  made = transfer(BATON_WRITE_DATAGRAM, silence.handle, 1, "", 0);
  made.endpoint = &where; /* of no length */
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  where.length = sizeof where.address + 1;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_WAIT_READY, silence.handle, 1)), EINVAL);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_TIMER, 0, 1)), EINVAL);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_CONNECT, silence.handle, 1)), EINVAL);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_SHUTDOWN, 0, 1)), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(why_refused(proactor, operation(BATON_SHUTDOWN, 0xffffffffffULL, 1)),
              BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_start(proactor, NULL, 1, NULL, &why), 0);
  CHECK_EQUAL(why, EINVAL);
  CHECK_EQUAL(baton_start(proactor, NULL, 0, NULL, &why), 0);
  CHECK_EQUAL(why, 0);
  CHECK_EQUAL(baton_adopt(proactor, -1, BATON_FILE, BATON_OWNED, &handle), EBADF);
  CHECK_EQUAL(baton_adopt(proactor, silence.peer, 99, BATON_OWNED, &handle), EINVAL);
  CHECK_EQUAL(baton_adopt(proactor, silence.peer, 0, BATON_OWNED, &handle), EINVAL);
  CHECK_EQUAL(baton_adopt(proactor, silence.peer, BATON_STREAM_SOCKET, 99, &handle), EINVAL);
  CHECK_EQUAL(baton_adopt(proactor, silence.peer, BATON_STREAM_SOCKET, BATON_OWNED, NULL), EINVAL);
  CHECK_EQUAL(handle, 0);
  CHECK_EQUAL(baton_listen(proactor, NULL, 4, &handle), EINVAL);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, NULL), EINVAL);
  CHECK_EQUAL(baton_connect(proactor, "127.0.0.1:1", 1, 0, NULL, NULL), EINVAL);
  CHECK_EQUAL(baton_local_endpoint(proactor, silence.handle, NULL), EINVAL);
  CHECK_EQUAL(baton_wait(proactor, NULL, 1, 0), -EINVAL);
  CHECK_EQUAL(baton_wait(proactor, &done, 0, 0), -EINVAL);
  CHECK_EQUAL(baton_cancel(proactor, 0), ENOENT);
  CHECK_EQUAL(baton_cancel(proactor, 0xffffffffffffffffULL), ENOENT);
  end_silence(proactor, &silence);
}

static void operations_beyond_the_slots_are_refused(void) {
  baton_proactor* proactor = open_proactor(configuration, 4);
  baton_operation six[6];
  baton_activation names[6];
  baton_completion done[6];
  int why = 0;
  int i;
  memset(names, 0, sizeof names);
  for (i = 0; i < 6; ++i) six[i] = operation(BATON_POST, 0, (uint64_t)i);
  CHECK_EQUAL(baton_start(proactor, six, 6, names, &why), 4);
  CHECK_EQUAL(why, EAGAIN);
  CHECK(names[3] != 0 && names[4] == 0);
  CHECK_EQUAL(baton_start(proactor, six + 4, 2, NULL, &why), 0);
  CHECK_EQUAL(why, EAGAIN);
  for (i = 0; i < 4;) {
    const int more = baton_wait(proactor, done + i, 6 - i, PATIENCE);
    CHECK(more > 0);
    i += more;
  }
  CHECK_EQUAL(i, 4);
  for (i = 0; i < 4; ++i) CHECK_EQUAL(done[i].tag, i);
  CHECK_EQUAL(baton_start(proactor, six + 4, 2, NULL, &why), 2);
  CHECK_EQUAL(why, 0);
  baton_wake(proactor);
  baton_close(proactor); /* with completions that were not fetched, and a wake */
}

/* However often: the slot of an operation that is refused is free again. */
static void a_refused_operation_keeps_no_slot(void) {
  baton_proactor* proactor = open_proactor(configuration, 4);
  int i;
  for (i = 0; i < 100; ++i) {
    CHECK_EQUAL(why_refused(proactor, operation(BATON_SHUTDOWN, 0xffffffffffULL, 1)),
                BATON_HANDLE_CLOSED);
    CHECK_EQUAL(why_refused(proactor, operation(BATON_CLOSE, 0xffffffffffULL, 1)),
                BATON_HANDLE_CLOSED);
  }
  CHECK_EQUAL(perform(proactor, operation(BATON_POST, 0, 1)).error, 0);
  baton_close(proactor);
}

static int handles_open(baton_proactor* proactor) {
  char text[4096];
  const char* found;
  baton_statistics(proactor, text, sizeof text);
  found = strstr(text, "\nhandles ");
  CHECK(found != NULL);
  return atoi(found + strlen("\nhandles "));
}

/* A connection needs a slot, too; without one its socket is closed again. */
static void a_connection_beyond_the_slots_is_refused(void) {
  const int unused = dup(0);
  baton_proactor* proactor;
  baton_handle client = 7;
  CHECK_EQUAL(close(unused), 0);
  proactor = open_proactor(configuration, 1);
  start(proactor, operation(BATON_POST, 0, 1));
  CHECK_EQUAL(baton_connect(proactor, "127.0.0.1:1", 2, 0, &client, NULL), EAGAIN);
  CHECK_EQUAL(client, 0);
  CHECK_EQUAL(wait_one(proactor).tag, 1);
  while (handles_open(proactor) != 0) perform(proactor, operation(BATON_POST, 0, 3));
  baton_close(proactor);
  CHECK_EQUAL(dup(0), unused);
  CHECK_EQUAL(close(unused), 0);
}

/* A caller that fetches its posts itself gets them whatever their notice. */
static void posts_of_every_notice(baton_proactor* proactor) {
  baton_operation post = operation(BATON_POST, 0, 1);
  for (post.notify = BATON_NOTIFY_STRONG; post.notify <= BATON_NOTIFY_NONE; ++post.notify) {
    CHECK_EQUAL(perform(proactor, post).error, 0);
  }
}

/* The one lane has one thread; the other thread stands by. Each fetches only completions that
 * exist. */
static int brought_in_the_lane;

static void* wait_in_the_lane(void* argument) {
  baton_completion done;
  int answer;
  while ((answer = baton_wait(argument, &done, 1, -1)) >= 0) {
    __atomic_add_fetch(&brought_in_the_lane, answer, __ATOMIC_SEQ_CST);
  }
  CHECK_EQUAL(answer, -BATON_STOPPED);
  return NULL;
}

static void threads_beyond_the_lanes_stand_by(void) {
  baton_proactor* proactor = open_proactor("engine=emulated,mode=per_thread,threads=1", 4);
  pthread_t threads[2];
  int i;
  brought_in_the_lane = 0;
  for (i = 0; i < 2; ++i) {
    CHECK_EQUAL(pthread_create(&threads[i], NULL, wait_in_the_lane, proactor), 0);
  }
  for (i = 1; i <= 100; ++i) {
    start(proactor, operation(BATON_POST, 0, 1));
    while (__atomic_load_n(&brought_in_the_lane, __ATOMIC_SEQ_CST) != i) sched_yield();
  }
  baton_stop(proactor);
  for (i = 0; i < 2; ++i) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  baton_close(proactor);
}

static void cancelling(baton_proactor* proactor) {
  struct silence one = make_silence(proactor);
  struct silence other = make_silence(proactor);
  baton_operation timer = operation(BATON_TIMER, 0, 77);
  baton_activation activation;
  baton_completion done;
  int i;

  activation = start(proactor, transfer(BATON_READ_STREAM, one.handle, 1, one.buffer, 8));
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
  CHECK_EQUAL(baton_cancel(proactor, activation), 0);
  done = wait_one(proactor);
  CHECK_EQUAL(done.error, ECANCELED);
  CHECK_EQUAL(done.activation, activation);
  CHECK_EQUAL(baton_cancel(proactor, activation), ENOENT);

  start(proactor, transfer(BATON_READ_STREAM, one.handle, 1, one.buffer, 8));
  /* The lane of another thread cannot be searched. */
  if (strstr(configuration, "per_thread") == NULL) {
    CHECK_EQUAL(baton_cancel_handle(proactor, other.handle), ENOENT);
  }
  CHECK_EQUAL(baton_cancel_handle(proactor, one.handle), 0);
  CHECK_EQUAL(wait_one(proactor).error, ECANCELED);

  start(proactor, transfer(BATON_READ_STREAM, one.handle, 77, one.buffer, 8));
  start(proactor, transfer(BATON_READ_STREAM, other.handle, 78, other.buffer, 8));
  timer.deadline_ns = baton_now(proactor) + 3600 * SECOND;
  start(proactor, timer);
  CHECK_EQUAL(baton_cancel_tag(proactor, 1), ENOENT); /* brought */
  CHECK_EQUAL(baton_cancel_tag(proactor, 5), ENOENT);
  CHECK_EQUAL(baton_cancel_tag(proactor, 77), 0);
  for (i = 0; i < 2; ++i) {
    done = wait_one(proactor);
    CHECK_EQUAL(done.tag, 77);
    CHECK_EQUAL(done.error, ECANCELED);
  }
  CHECK_EQUAL(baton_cancel_all(proactor), 0);
  done = wait_one(proactor);
  CHECK_EQUAL(done.tag, 78);
  CHECK_EQUAL(done.error, ECANCELED);
  end_silence(proactor, &one);
  end_silence(proactor, &other);
}

static void deadlines(baton_proactor* proactor) {
  struct silence silence = make_silence(proactor);
  baton_operation read = transfer(BATON_READ_STREAM, silence.handle, 1, silence.buffer, 8);
  read.deadline_ns = baton_now(proactor) + SECOND / 50;
  CHECK_EQUAL(perform(proactor, read).error, BATON_TIMED_OUT);
  CHECK(baton_now(proactor) >= read.deadline_ns);
  end_silence(proactor, &silence);
}

static void closed_handles_are_no_strangers(baton_proactor* proactor) {
  struct silence silence = make_silence(proactor);
  const baton_handle old = silence.handle;
  baton_completion done;
  baton_operation close_it = operation(BATON_CLOSE, old, 2);
  int pipe_ends[2];
  baton_handle next;
  start(proactor, transfer(BATON_READ_STREAM, old, 1, silence.buffer, 8));
  start(proactor, close_it);
  CHECK_EQUAL(why_refused(proactor, close_it), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_handle_close(proactor, old), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_handle_descriptor(proactor, old), -1);
  CHECK_EQUAL(baton_cancel_handle(proactor, old), ENOENT);
  done = wait_one(proactor);
  CHECK_EQUAL(done.tag, 1);
  CHECK_EQUAL(done.error, ECANCELED);
  done = wait_one(proactor);
  CHECK_EQUAL(done.tag, 2);
  CHECK_EQUAL(done.error, 0);

  CHECK_EQUAL(pipe(pipe_ends), 0);
  next = adopt(proactor, pipe_ends[0], BATON_PIPE);
  CHECK(next != old);
  CHECK_EQUAL(baton_handle_descriptor(proactor, old), -1);
  CHECK_EQUAL(baton_handle_close(proactor, old), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_cancel_handle(proactor, old), ENOENT);
  CHECK_EQUAL(why_refused(proactor, transfer(BATON_READ_STREAM, old, 1, silence.buffer, 8)),
              BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_handle_close(proactor, next), 0);
  close(pipe_ends[1]);
  close(silence.peer);
}

static void a_borrowed_descriptor_stays(baton_proactor* proactor) {
  int ends[2];
  baton_handle borrowed = 0;
  char byte = 'b';
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  CHECK_EQUAL(baton_adopt(proactor, ends[0], BATON_STREAM_SOCKET, BATON_BORROWED, &borrowed), 0);
  CHECK_EQUAL(write(ends[1], &byte, 1), 1);
  CHECK_EQUAL(perform(proactor, transfer(BATON_READ_STREAM, borrowed, 1, &byte, 1)).result, 1);
  CHECK_EQUAL(perform(proactor, operation(BATON_CLOSE, borrowed, 2)).error, 0);
  CHECK(fcntl(ends[0], F_GETFD) >= 0);
  CHECK_EQUAL(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
  close(ends[0]);
  close(ends[1]);
}

static void the_state_is_readable(baton_proactor* proactor) {
  struct silence silence = make_silence(proactor);
  baton_state state = BATON_STATE_INIT;
  baton_activation activation;
  baton_completion done;
  int i;
  activation = start(proactor, transfer(BATON_READ_STREAM, silence.handle, 1, silence.buffer, 8));
  CHECK_EQUAL(baton_status(proactor, activation, &state), 0);
  CHECK_EQUAL(state.state, BATON_PENDING);
  CHECK_EQUAL(write(silence.peer, "12345", 5), 5);
  done = wait_one(proactor);
  CHECK_EQUAL(done.result, 5);
  CHECK_EQUAL(baton_status(proactor, activation, &state), 0);
  CHECK_EQUAL(state.state, BATON_DELIVERED);
  CHECK_EQUAL(state.result, 5);
  CHECK_EQUAL(state.error, 0);
  for (i = 0; i < 70; ++i) perform(proactor, operation(BATON_POST, 0, 3));
  CHECK_EQUAL(baton_status(proactor, activation, &state), ENOENT);
  CHECK_EQUAL(baton_status(proactor, 0, &state), ENOENT);
  CHECK_EQUAL(baton_status(proactor, activation, NULL), EINVAL);
  state.size = 4;
  CHECK_EQUAL(baton_status(proactor, activation, &state), EINVAL);
  end_silence(proactor, &silence);
}

/* An accept that was cancelled has no connection, and its result is that of an error. */
static void the_state_of_an_accept(baton_proactor* proactor) {
  baton_state state = BATON_STATE_INIT;
  baton_operation accept_one;
  baton_endpoint peer;
  baton_handle listener = 0;
  baton_activation activation;
  baton_completion done;
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.endpoint = &peer;
  peer.length = 5;
  activation = start(proactor, accept_one);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
  CHECK_EQUAL(baton_cancel(proactor, activation), 0);
  CHECK_EQUAL(baton_status(proactor, activation, &state), 0);
  /* Its completion has not been fetched, whether the result is there or the engine still has it. */
  CHECK(state.state == BATON_PENDING || state.state == BATON_DONE);
  CHECK_EQUAL(state.error, state.state == BATON_DONE ? ECANCELED : 0);
  CHECK_EQUAL(state.result, state.state == BATON_DONE ? -1 : 0);
  done = wait_one(proactor);
  CHECK_EQUAL(done.error, ECANCELED);
  CHECK_EQUAL(done.result, -1);
  CHECK_EQUAL(peer.length, 0);
  CHECK_EQUAL(baton_status(proactor, activation, &state), 0);
  CHECK_EQUAL(state.state, BATON_DELIVERED);
  CHECK_EQUAL(state.result, -1);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);
}

static void waking(baton_proactor* proactor) {
  baton_completion done;
  const int64_t begin = baton_now(proactor);
  baton_wake(proactor);
  baton_wake(proactor); /* as good as one */
  CHECK_EQUAL(baton_wait(proactor, &done, 1, PATIENCE), 0);
  CHECK(baton_now(proactor) - begin < PATIENCE);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, SECOND / 100), 0);
  CHECK(baton_now(proactor) - begin >= SECOND / 100);
}

static void* wait_for_a_wake(void* argument) {
  baton_completion done;
  CHECK_EQUAL(baton_wait(argument, &done, 1, -1), 0);
  return NULL;
}

static void waking_another_thread(baton_proactor* proactor) {
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_a_wake, proactor), 0);
  baton_wake(proactor);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* Polling answers EBUSY while another thread waits. */
static void polling(baton_proactor* proactor) {
  baton_completion done;
  pthread_t thread;
  int answer = 0;
  if (strstr(configuration, "per_thread") != NULL) {
    CHECK_EQUAL(baton_poll(proactor, &done, 1), -BATON_NOT_SUPPORTED);
    return;
  }
  CHECK_EQUAL(baton_poll(proactor, &done, 1), 0);
  start(proactor, operation(BATON_POST, 0, 5));
  CHECK_EQUAL(baton_poll(proactor, &done, 1), 1);
  CHECK_EQUAL(done.tag, 5);

  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_a_wake, proactor), 0);
  do {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
    answer = baton_poll(proactor, &done, 1);
  } while (answer == 0);
  CHECK_EQUAL(answer, -EBUSY);
  baton_wake(proactor);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* A program may poll in a signal handler, between a call of its own and its look at errno. */
static void a_poll_leaves_errno_alone(baton_proactor* proactor) {
  struct silence silence = make_silence(proactor);
  baton_operation made = transfer(BATON_READ_STREAM, silence.handle, 6, silence.buffer, 8);
  baton_completion done;
  int i;
  made.flags = BATON_EXACTLY;
  start(proactor, made);
  for (i = 0; i < 2; ++i) {
    int count = 0;
    CHECK_EQUAL(write(silence.peer, "half", 4), 4);
    do {
      errno = E2BIG;
      count = baton_poll(proactor, &done, 1);
      CHECK_EQUAL(errno, E2BIG);
    } while (i == 1 && count == 0);
    if (strstr(configuration, "per_thread") != NULL) {
      CHECK_EQUAL(count, -BATON_NOT_SUPPORTED);
    } else {
      CHECK_EQUAL(count, i);
    }
  }
  end_silence(proactor, &silence);
  if (strstr(configuration, "per_thread") != NULL) done = wait_one(proactor);
  CHECK_EQUAL(done.tag, 6);
}

static baton_proactor* polled;
static volatile sig_atomic_t handled;
static volatile sig_atomic_t brought;
static volatile sig_atomic_t busy;
static volatile sig_atomic_t refused;

static void poll_in_handler(int number) {
  baton_completion done;
  const int count = baton_poll(polled, &done, 1);
  (void)number;
  ++handled;
  if (count > 0) brought += count;
  if (count == -EBUSY) ++busy;
  if (count == -BATON_NOT_SUPPORTED) ++refused;
}

/* Signals rain on a thread that starts and waits; handlers bring some of the completions. */
static void polling_in_signal_handlers(baton_proactor* proactor) {
  struct sigaction action;
  struct sigevent event;
  struct itimerspec often;
  timer_t timer;
  int started = 0;
  int got = 0;
  const int64_t end = baton_now(proactor) + SECOND / 2;
  polled = proactor;
  handled = brought = busy = refused = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = poll_in_handler;
  sigemptyset(&action.sa_mask);
  CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  memset(&often, 0, sizeof often);
  often.it_value.tv_nsec = often.it_interval.tv_nsec = 200000;
  CHECK_EQUAL(timer_settime(timer, 0, &often, NULL), 0);

  while (baton_now(proactor) < end) {
    baton_completion done[4];
    baton_operation post = operation(BATON_POST, 0, 1);
    if (started - got - brought < 32) started += baton_start(proactor, &post, 1, NULL, NULL);
    if (started % 3 == 0) {
      const int more = baton_wait(proactor, done, 4, 0);
      CHECK(more >= 0);
      got += more;
    }
  }
  memset(&often, 0, sizeof often);
  CHECK_EQUAL(timer_settime(timer, 0, &often, NULL), 0);
  CHECK_EQUAL(timer_delete(timer), 0);
  action.sa_handler = SIG_IGN;
  CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
  while (got + brought < started) {
    baton_completion done;
    CHECK_EQUAL(baton_wait(proactor, &done, 1, PATIENCE), 1);
    ++got;
  }
  CHECK(handled > 0);
  /* Either every poll is refused, or none is. */
  CHECK_EQUAL(refused, strstr(configuration, "per_thread") != NULL ? handled : 0);
  CHECK_EQUAL(got + brought, started);
}

static void* wait_for_the_end(void* argument) {
  baton_completion done;
  CHECK_EQUAL(baton_wait(argument, &done, 1, -1), -BATON_STOPPED);
  return NULL;
}

static void stopping(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  struct silence silence = make_silence(proactor);
  baton_handle client = 7;
  baton_completion done;
  pthread_t thread;
  start(proactor, transfer(BATON_READ_STREAM, silence.handle, 1, silence.buffer, 8));
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_the_end, proactor), 0);
  baton_stop(proactor);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, -1), -BATON_STOPPED);
  if (strstr(configuration, "per_thread") == NULL) {
    CHECK_EQUAL(baton_poll(proactor, &done, 1), -BATON_STOPPED);
  }
  CHECK_EQUAL(why_refused(proactor, operation(BATON_POST, 0, 1)), BATON_STOPPED);
  CHECK_EQUAL(baton_connect(proactor, "127.0.0.1:1", 1, 0, &client, NULL), BATON_STOPPED);
  CHECK_EQUAL(client, 0);
  baton_wake(proactor); /* no later wait will consume it */
  baton_restart(proactor);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
  waking(proactor); /* a wake that was refused does not silence the next */
  close(silence.peer);
  baton_close(proactor); /* with a read pending */
}

static void what_is_chosen_is_told(baton_proactor* proactor) {
  char text[2048];
  const size_t length = baton_explain(proactor, text, sizeof text);
  CHECK_EQUAL(length, strlen(text));
  CHECK(strstr(text, "engine=") != NULL);
  CHECK(baton_statistics(proactor, text, sizeof text) > 0);
  CHECK(strncmp(text, "started ", 8) == 0);
}

static void what_is_pending_is_told(baton_proactor* proactor) {
  char text[2048];
  baton_operation timer = BATON_OPERATION_INIT;
  baton_completion done;
  baton_activation activation = 0;
  timer.kind = BATON_TIMER;
  timer.tag = 77;
  timer.deadline_ns = baton_now(proactor) + 600LL * 1000 * 1000 * 1000;
  CHECK_EQUAL(baton_start(proactor, &timer, 1, &activation, NULL), 1);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0); /* in per_thread mode: out of the mailbox */
  const size_t length = baton_pending(proactor, 0, text, sizeof text);
  CHECK_EQUAL(length, strlen(text));
  CHECK(strncmp(text, "pending ", 8) == 0);
  /* In per_thread mode the lane is outside baton_wait and says nothing. */
  CHECK(strstr(text, "tag=77") != NULL || strstr(text, "lane 0: no thread") != NULL);
  CHECK_EQUAL(baton_cancel(proactor, activation), 0);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, -1), 1);
  CHECK_EQUAL(done.tag, 77);
}

static int descriptors_open(void) {
  int count = 0;
  int i;
  for (i = 0; i < 1024; ++i) count += fcntl(i, F_GETFD) >= 0;
  return count;
}

/* A listener with a connection that waits to be accepted. */
static baton_handle listener_with_a_client(baton_proactor* proactor) {
  baton_handle listener = 0;
  baton_handle client = 0;
  baton_endpoint where;
  char text[64];
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  baton_endpoint_print(&where, text, sizeof text);
  CHECK_EQUAL(baton_connect(proactor, text, 1, 0, &client, NULL), 0);
  CHECK_EQUAL(wait_one(proactor).error, 0);
  return listener;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Connections that were accepted and not brought do not leak. The wait brings one completion; the
 * accepts that were done with it stay behind. */
static void accepted_and_not_brought(void) {
  enum { connections = 4 };
  const int before = descriptors_open();
  baton_proactor* proactor = open_proactor(configuration, 16);
  baton_handle listeners[connections];
  baton_activation accepts[connections];
  baton_state state = BATON_STATE_INIT;
  const int64_t limit = now_ns() + PATIENCE;
  int done = 0;
  int i;
  for (i = 0; i < connections; ++i) listeners[i] = listener_with_a_client(proactor);
  for (i = 0; i < connections; ++i) {
    accepts[i] = start(proactor, operation(BATON_ACCEPT, listeners[i], 2));
  }
  CHECK_EQUAL(close((int)wait_one(proactor).result), 0);
  /* A dedicated leader may still be at it. */
  while (done == 0) {
    for (i = 0; i < connections; ++i) {
      CHECK_EQUAL(baton_status(proactor, accepts[i], &state), 0);
      done += state.state == BATON_DONE;
    }
    CHECK(now_ns() < limit);
  }
  baton_close(proactor);
  CHECK_EQUAL(descriptors_open(), before);
}

int main(int argc, char** argv) {
  baton_proactor* proactor;
  if (argc > 1) configuration = argv[1];
  proactor = open_proactor(configuration, 64);
  the_version_is_told();
  errors_have_text();
  opening_says_why_not();
  the_environment_counts_where_it_is_asked_for();
  without_a_text_everything_is_chosen();
  a_profile_is_kept();
  structs_of_other_versions();
  nonsense_is_refused(proactor);
  operations_beyond_the_slots_are_refused();
  a_refused_operation_keeps_no_slot();
  a_connection_beyond_the_slots_is_refused();
  posts_of_every_notice(proactor);
  threads_beyond_the_lanes_stand_by();
  cancelling(proactor);
  deadlines(proactor);
  closed_handles_are_no_strangers(proactor);
  a_borrowed_descriptor_stays(proactor);
  the_state_is_readable(proactor);
  the_state_of_an_accept(proactor);
  waking(proactor);
  waking_another_thread(proactor);
  polling(proactor);
  a_poll_leaves_errno_alone(proactor);
  polling_in_signal_handlers(proactor);
  stopping();
  accepted_and_not_brought();
  what_is_chosen_is_told(proactor);
  what_is_pending_is_told(proactor);
  baton_close(proactor);
  return 0;
}
