/* baton_poll inside a signal handler must not allocate or free memory, on any engine and in any
 * mode, even while tables grow. If that cannot be guaranteed, it is refused. The program has its
 * own malloc, which counts the library's calls as well. */
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* block);

/* Volatile: the compiler takes it for granted that a malloc looks at no variable of a program. */
static _Thread_local volatile int polling;
static volatile int counted;
#define FOR_THE_LIBRARY __attribute__((visibility("default")))

static void count(void) {
  if (polling) ++counted;
}
FOR_THE_LIBRARY void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
FOR_THE_LIBRARY void* calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}
FOR_THE_LIBRARY void* realloc(void* block, size_t size) {
  count();
  return __libc_realloc(block, size);
}
FOR_THE_LIBRARY void* memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
FOR_THE_LIBRARY void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
FOR_THE_LIBRARY int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block != NULL ? 0 : ENOMEM;
}
FOR_THE_LIBRARY void free(void* block) {
  if (block != NULL) count();
  __libc_free(block);
}

enum { connections = 400, slots = 1024 };
struct books {
  baton_proactor* proactor;
  int pending;
  int blocks; /* of the pool */
  baton_pool* pool;
};

static int poll_some(struct books* books) {
  baton_completion done[16];
  int brought;
  int i;
  polling = 1;
  brought = baton_poll(books->proactor, done, 16);
  polling = 0;
  CHECK(brought >= 0);
  for (i = 0; i < brought; ++i) {
    CHECK_EQUAL(done[i].error, 0);
    if (done[i].data != NULL) CHECK_EQUAL(baton_pool_give(books->pool, done[i].data), 0);
    if (done[i].kind == BATON_ACCEPT) CHECK_EQUAL(close((int)done[i].result), 0);
  }
  books->pending -= brought;
  return brought;
}

static void start_and_poll(struct books* books, baton_operation made) {
  start(books->proactor, made);
  ++books->pending;
  poll_some(books);
}

static void poll_all(struct books* books) {
  const int64_t limit = baton_now(books->proactor) + PATIENCE;
  while (books->pending > 0) {
    if (poll_some(books) == 0) usleep(100); /* workers and dedicated threads have the processor */
    CHECK(baton_now(books->proactor) < limit);
  }
}

/* Brings the completion of the only operation that is pending. */
static void cancelled(struct books* books) {
  const int64_t limit = baton_now(books->proactor) + PATIENCE;
  baton_completion done;
  int brought;
  do {
    polling = 1;
    brought = baton_poll(books->proactor, &done, 1);
    polling = 0;
    CHECK(baton_now(books->proactor) < limit);
  } while (brought == 0);
  CHECK_EQUAL(brought, 1);
  CHECK_EQUAL(done.error, ECANCELED);
}

/* Each start and each handle makes some table grow; a poll is between all of them. */
static void streams(struct books* books) {
  static char buffers[connections][8];
  static int ends[connections][2];
  int i;
  for (i = 0; i < connections; ++i) {
    baton_operation read;
    baton_handle handle;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    handle = adopt(books->proactor, ends[i][0], BATON_STREAM_SOCKET);
    read = transfer(BATON_READ_STREAM, handle, 1, buffers[i], sizeof buffers[i]);
    if (i % 2 == 0) {
      read.flags = BATON_POOLED;
      read.data = books->pool;
    }
    if (i % 3 == 0) read.deadline_ns = baton_now(books->proactor) + (3600 + i) * SECOND;
    start_and_poll(books, read);
  }
  for (i = 0; i < connections; ++i) CHECK_EQUAL(write(ends[i][1], "x", 1), 1);
  poll_all(books);
  for (i = 0; i < connections; ++i) close(ends[i][1]);
}

static baton_handle open_file(struct books* books) {
  char path[] = "/tmp/baton-capi-XXXXXX";
  const int descriptor = mkstemp(path);
  CHECK(descriptor >= 0);
  unlink(path);
  return adopt(books->proactor, descriptor, BATON_FILE);
}

static baton_operation write_page(baton_handle file, int page) {
  static char data[4096];
  baton_operation made = transfer(BATON_WRITE_FILE, file, 2, data, sizeof data);
  made.offset = (uint64_t)page * sizeof data;
  return made;
}

/* With started_max=3 the proactor's first operation of a file begins in a poll. */
static void file_behind_streams(struct books* books) {
  const baton_handle file = open_file(books);
  char bytes[3];
  int ends[3][2];
  int i;
  for (i = 0; i < 3; ++i) {
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    start_and_poll(
        books, transfer(BATON_READ_STREAM, adopt(books->proactor, ends[i][0], BATON_STREAM_SOCKET),
                        1, &bytes[i], 1));
  }
  start_and_poll(books, write_page(file, 0));
  for (i = 0; i < 3; ++i) CHECK_EQUAL(write(ends[i][1], "x", 1), 1);
  poll_all(books);
  for (i = 0; i < 3; ++i) close(ends[i][1]);
}

/* With started_max=3 the send to an address begins in a poll. */
static void datagram_behind_streams(struct books* books) {
  const int receiver = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  baton_endpoint where = {{0}, sizeof(sa_family_t), 0};
  socklen_t size = sizeof name;
  const baton_handle sender =
      adopt(books->proactor, socket(AF_UNIX, SOCK_DGRAM, 0), BATON_DATAGRAM_SOCKET);
  baton_operation send = transfer(BATON_WRITE_DATAGRAM, sender, 11, "x", 1);
  char bytes[3];
  int ends[3][2];
  int i;
  CHECK_EQUAL(bind(receiver, (const struct sockaddr*)&name, sizeof(sa_family_t)), 0);
  CHECK_EQUAL(getsockname(receiver, (struct sockaddr*)&name, &size), 0);
  memcpy(where.address, &name, size);
  where.length = size;
  for (i = 0; i < 3; ++i) {
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    start_and_poll(
        books, transfer(BATON_READ_STREAM, adopt(books->proactor, ends[i][0], BATON_STREAM_SOCKET),
                        1, &bytes[i], 1));
  }
  send.endpoint = &where;
  start_and_poll(books, send);
  for (i = 0; i < 3; ++i) CHECK_EQUAL(write(ends[i][1], "x", 1), 1);
  poll_all(books);
  for (i = 0; i < 3; ++i) close(ends[i][1]);
  close(receiver);
}

/* Those that wait for the first, which waits for room, begin in a poll. Before that, reads into
 * lists use up what an engine keeps for lists. With started_max=3 they begin after the writes. */
static void writes_behind_a_write(struct books* books) {
  enum { reads = 16 };
  static char large[1 << 20];
  static char received[1 << 16];
  char bytes[2];
  baton_buffer pieces[2] = {{&bytes[0], 1}, {&bytes[1], 1}};
  int read_ends[reads][2];
  int ends[2];
  int i;
  baton_handle handle;
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  handle = adopt(books->proactor, ends[0], BATON_STREAM_SOCKET);
  for (i = 0; i < 5; ++i) {
    const size_t length = i == 0 ? sizeof large : 100;
    baton_operation made = transfer(BATON_WRITE_STREAM, handle, 12, large, length);
    made.flags = BATON_EXACTLY;
    start_and_poll(books, made);
  }
  for (i = 0; i < reads; ++i) {
    baton_operation read;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, read_ends[i]), 0);
    read = transfer(BATON_READ_STREAM, adopt(books->proactor, read_ends[i][0], BATON_STREAM_SOCKET),
                    13, pieces, 2);
    read.flags = BATON_VECTORED;
    start_and_poll(books, read);
  }
  CHECK(books->pending > reads);
  while (books->pending > reads) {
    while (read(ends[1], received, sizeof received) > 0) {
    }
    poll_some(books);
  }
  close(ends[1]);
  for (i = 0; i < reads; ++i) CHECK_EQUAL(write(read_ends[i][1], "xx", 2), 2);
  poll_all(books);
  for (i = 0; i < reads; ++i) close(read_ends[i][1]);
}

static void files(struct books* books) {
  const baton_handle file = open_file(books);
  int i;
  for (i = 0; i < 64; ++i) start_and_poll(books, write_page(file, i));
  poll_all(books);
  start_and_poll(books, operation(BATON_SYNC_FILE, file, 3));
  poll_all(books);
}

/* Writes that are behind a sync begin together, in a poll. */
static void files_behind_a_sync(struct books* books) {
  const baton_handle file = open_file(books);
  int round;
  int i;
  for (round = 0; round < 20; ++round) {
    for (i = 0; i < 8; ++i) {
      start(books->proactor, i == 1 ? operation(BATON_SYNC_FILE, file, 3) : write_page(file, i));
      ++books->pending;
    }
    poll_all(books);
  }
}

/* With started_max=3 the connect of a borrowed socket in blocking mode begins in a poll. The queue
 * of the listener is full. No poll may wait for it. */
static void connect_behind_streams(struct books* books) {
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  const int blocking = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  baton_endpoint where = {{0}, sizeof(sa_family_t), 0};
  socklen_t size = sizeof name;
  baton_handle borrowed = 0;
  baton_operation connecting;
  baton_activation activation;
  char bytes[3];
  int ends[3][2];
  int waiting[2];
  int i;
  CHECK_EQUAL(bind(listener, (const struct sockaddr*)&name, sizeof(sa_family_t)), 0);
  CHECK_EQUAL(getsockname(listener, (struct sockaddr*)&name, &size), 0);
  CHECK_EQUAL(listen(listener, 0), 0);
  for (i = 0; i < 2; ++i) {
    waiting[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_EQUAL(connect(waiting[i], (const struct sockaddr*)&name, size), i == 0 ? 0 : -1);
  }
  memcpy(where.address, &name, size);
  where.length = size;
  CHECK_EQUAL(
      baton_adopt(books->proactor, blocking, BATON_STREAM_SOCKET, BATON_BORROWED, &borrowed), 0);
  for (i = 0; i < 3; ++i) {
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    start_and_poll(
        books, transfer(BATON_READ_STREAM, adopt(books->proactor, ends[i][0], BATON_STREAM_SOCKET),
                        1, &bytes[i], 1));
  }
  connecting = operation(BATON_CONNECT, borrowed, 10);
  connecting.endpoint = &where;
  activation = start(books->proactor, connecting);
  for (i = 0; i < 3; ++i) CHECK_EQUAL(write(ends[i][1], "x", 1), 1);
  poll_all(books);
  poll_some(books);
  CHECK_EQUAL(baton_cancel(books->proactor, activation), 0);
  cancelled(books);
  CHECK_EQUAL(baton_handle_close(books->proactor, borrowed), 0);
  for (i = 0; i < 3; ++i) close(ends[i][1]);
  for (i = 0; i < 2; ++i) close(waiting[i]);
  close(listener);
  close(blocking);
}

static void timers_posts_and_accepts(struct books* books) {
  baton_handle listener = 0;
  baton_endpoint where;
  char text[64];
  int i;
  CHECK_EQUAL(baton_listen(books->proactor, "127.0.0.1:0", 4, &listener), 0);
  CHECK_EQUAL(baton_local_endpoint(books->proactor, listener, &where), 0);
  baton_endpoint_print(&where, text, sizeof text);
  for (i = 0; i < 100; ++i) {
    baton_operation timer = operation(BATON_TIMER, 0, 4);
    timer.deadline_ns = baton_now(books->proactor) + i * SECOND / 10000;
    start_and_poll(books, timer);
    start_and_poll(books, operation(BATON_POST, 0, 5));
  }
  for (i = 0; i < 4; ++i) {
    baton_operation accept_one = operation(BATON_ACCEPT, listener, 6);
    baton_handle client = 0;
    accept_one.flags = BATON_ADOPT;
    start_and_poll(books, accept_one);
    CHECK_EQUAL(baton_connect(books->proactor, text, 7, 0, &client, NULL), 0);
    ++books->pending;
    poll_all(books);
    start_and_poll(books, operation(BATON_CLOSE, client, 8));
    poll_all(books);
  }
}

static void cancels(struct books* books) {
  int i;
  for (i = 0; i < 20; ++i) {
    baton_operation timer = operation(BATON_TIMER, 0, 9);
    baton_activation activation;
    timer.deadline_ns = baton_now(books->proactor) + 3600 * SECOND;
    activation = start(books->proactor, timer);
    CHECK_EQUAL(baton_cancel(books->proactor, activation), 0);
    cancelled(books);
  }
}

static const struct {
  const char* text;
  int refused;
} configurations[] = {
    {"engine=emulated,wait=epoll", 0},
    {"engine=emulated,wait=poll", 0},
    {"engine=emulated,wait=rt_signals", 0},
    {"engine=emulated,wait=epoll,mode=dedicated", 0},
    {"engine=emulated,wait=epoll,started_max=3", 0},
    {"engine=io_uring", 0},
    {"engine=io_uring,mode=dedicated", 0},
    {"engine=io_uring,mode=dedicated,start=leader_only", 0},
    {"engine=io_uring,ring_entries=4", 0},
    {"engine=io_uring,started_max=3", 0},
    {"operations=stream+accept+connect+datagram,engine=emulated;operations=file,engine=linux_aio",
     0},
    {"operations=stream+accept+connect+datagram,engine=emulated;operations=file,engine=posix_aio",
     1},
    {"engine=emulated,mode=per_thread,threads=1", 1},
    {"engine=io_uring,mode=per_thread,threads=1", 1},
    {"engine=emulated,start=leader_only", 1},
    {"engine=io_uring,start=leader_only", 1},
    {"engine=emulated,debug=1", 1},
    {"engine=chaos", 1},
};

static void visit(const char* text, int refused) {
  struct books books = {NULL, 0, 0, NULL};
  baton_config config = BATON_CONFIG_INIT;
  baton_completion done;
  char why[256];
  int error;
  config.text = text;
  config.slots = slots;
  error = baton_open(&config, &books.proactor, why, sizeof why);
  if (error != 0) {
    CHECK_EQUAL(error, BATON_ENGINE_UNAVAILABLE);
    printf("%s: left out: %s\n", text, why);
    return;
  }
  if (refused) {
    CHECK_EQUAL(baton_poll(books.proactor, &done, 1), -BATON_NOT_SUPPORTED);
    CHECK_EQUAL(baton_wait(books.proactor, &done, 1, 0), 0);
  } else {
    CHECK_EQUAL(baton_pool_open(64, connections, &books.pool), 0);
    counted = 0;
    writes_behind_a_write(&books);
    datagram_behind_streams(&books);
    streams(&books);
    file_behind_streams(&books);
    connect_behind_streams(&books);
    files_behind_a_sync(&books);
    files(&books);
    timers_posts_and_accepts(&books);
    cancels(&books);
  }
  printf("%s: %d\n", text, counted);
  fflush(stdout);
  CHECK_EQUAL(counted, 0);
  baton_close(books.proactor);
  CHECK_EQUAL(baton_pool_close(books.pool), 0);
}

int main(void) {
  struct rlimit limit;
  void* volatile block; /* volatile, or the compiler removes the malloc */
  size_t i;
  /* The control: it is this malloc that is counted. */
  polling = 1;
  block = malloc(1);
  free(block);
  polling = 0;
  CHECK(counted > 0);
  counted = 0;
  CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 4 * connections) limit.rlim_cur = 4 * connections;
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (i = 0; i < sizeof configurations / sizeof configurations[0]; ++i) {
    visit(configurations[i].text, configurations[i].refused);
  }
  return 0;
}
