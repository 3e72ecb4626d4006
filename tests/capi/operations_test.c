/* Every kind of operation through the C interface. usage: operations_test CONFIGURATION */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* Starts two, fetches both in whichever order, and returns the completion of the first. */
static baton_completion perform_both(baton_proactor* proactor, baton_operation first,
                                     baton_operation second) {
  const baton_activation wanted = start(proactor, first);
  baton_completion both[2];
  int count = 0;
  start(proactor, second);
  while (count < 2) {
    const int more = baton_wait(proactor, both + count, 2 - count, PATIENCE);
    CHECK(more > 0);
    count += more;
  }
  return both[0].activation == wanted ? both[0] : both[1];
}

static void echo_over_a_socketpair(baton_proactor* proactor) {
  int ends[2];
  char text[16] = "";
  char echo[16] = "";
  baton_completion done;
  baton_handle here;
  baton_handle there;
  int round;
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  here = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  there = adopt(proactor, ends[1], BATON_STREAM_SOCKET);
  CHECK_EQUAL(baton_handle_descriptor(proactor, here), ends[0]);

  for (round = 0; round < 3; ++round) {
    done = perform_both(
        proactor, transfer(BATON_READ_STREAM, there, 100 + (uint64_t)round, text, sizeof text),
        transfer(BATON_WRITE_STREAM, here, 7, "hello", 5));
    CHECK_EQUAL(done.tag, 100 + round);
    CHECK_EQUAL(done.kind, BATON_READ_STREAM);
    CHECK_EQUAL(done.error, 0);
    CHECK_EQUAL(done.result, 5);
    CHECK(memcmp(text, "hello", 5) == 0);
    done = perform(proactor, transfer(BATON_WRITE_STREAM, there, 8, text, 5));
    CHECK_EQUAL(done.result, 5);
    done = perform(proactor, transfer(BATON_READ_STREAM, here, 9, echo, sizeof echo));
    CHECK_EQUAL(done.result, 5);
  }

  done = perform(proactor, operation(BATON_SHUTDOWN, here, 10));
  CHECK_EQUAL(done.error, 0);
  done = perform(proactor, transfer(BATON_READ_STREAM, there, 11, text, sizeof text));
  CHECK_EQUAL(done.error, 0);
  CHECK_EQUAL(done.result, 0);

  done = perform(proactor, operation(BATON_CLOSE, here, 12));
  CHECK_EQUAL(done.error, 0);
  CHECK_EQUAL(fcntl(ends[0], F_GETFD), -1);
  CHECK_EQUAL(baton_handle_close(proactor, there), 0);
}

static void whole_and_delimited_reads(baton_proactor* proactor) {
  int ends[2];
  char one[4];
  char other[4];
  char line[64];
  baton_buffer list[2];
  baton_handle here;
  baton_handle there;
  baton_operation read;
  baton_completion done;
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  here = adopt(proactor, ends[0], BATON_STREAM_SOCKET);
  there = adopt(proactor, ends[1], BATON_STREAM_SOCKET);

  list[0].data = one;
  list[0].size = 4;
  list[1].data = other;
  list[1].size = 4;
  CHECK_EQUAL(perform(proactor, transfer(BATON_WRITE_STREAM, here, 1, "abc", 3)).result, 3);
  read = transfer(BATON_READ_STREAM, there, 2, list, 2);
  read.flags = BATON_VECTORED | BATON_EXACTLY;
  done = perform_both(proactor, read, transfer(BATON_WRITE_STREAM, here, 3, "defgh", 5));
  CHECK_EQUAL(done.result, 8);
  CHECK(memcmp(one, "abcd", 4) == 0 && memcmp(other, "efgh", 4) == 0);

  read = transfer(BATON_READ_STREAM, there, 5, line, sizeof line);
  read.flags = BATON_UNTIL;
  read.delimiter = "\r\n";
  read.delimiter_size = 2;
  done = perform_both(proactor, read, transfer(BATON_WRITE_STREAM, here, 4, "GET /\r\nrest", 11));
  CHECK_EQUAL(done.error, 0);
  CHECK(done.result >= 7);
  CHECK(memcmp(line, "GET /\r\n", 7) == 0);
  CHECK_EQUAL(baton_handle_close(proactor, here), 0);
  CHECK_EQUAL(baton_handle_close(proactor, there), 0);
}

/* An operation that has no address does not look at it. */
static void an_endpoint_too_many(baton_proactor* proactor) {
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_endpoint unused;
  memset(&unused, 0xff, sizeof unused);
  timer.deadline_ns = 1;
  timer.endpoint = &unused;
  CHECK_EQUAL(perform(proactor, timer).error, 0);
  CHECK_EQUAL(unused.length, 0xffffffff);
}

static void files(baton_proactor* proactor) {
  char path[] = "/tmp/baton-capi-XXXXXX";
  char back[16] = "";
  const int descriptor = mkstemp(path);
  baton_handle file;
  baton_operation made;
  CHECK(descriptor >= 0);
  unlink(path);
  file = adopt(proactor, descriptor, BATON_FILE);
  made = transfer(BATON_WRITE_FILE, file, 1, "0123456789", 10);
  made.offset = 4096;
  CHECK_EQUAL(perform(proactor, made).result, 10);
  made = operation(BATON_SYNC_FILE, file, 2);
  CHECK_EQUAL(perform(proactor, made).error, 0);
  made.flags = BATON_DATA_ONLY;
  CHECK_EQUAL(perform(proactor, made).error, 0);
  made = transfer(BATON_READ_FILE, file, 3, back, sizeof back);
  made.offset = 4100;
  CHECK_EQUAL(perform(proactor, made).result, 6);
  CHECK(memcmp(back, "456789", 6) == 0);
  CHECK_EQUAL(perform(proactor, operation(BATON_CLOSE, file, 4)).error, 0);
}

static void connections(baton_proactor* proactor) {
  baton_handle listener = 0;
  baton_handle client = 0;
  baton_handle server;
  baton_endpoint where;
  baton_endpoint peer;
  baton_operation accept_one;
  baton_activation connecting = 0;
  baton_completion done[2];
  char text[128];
  char byte = 'x';
  int count = 0;
  int i;
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 16, &listener), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  CHECK(baton_endpoint_print(&where, text, sizeof text) > strlen("127.0.0.1:"));
  CHECK(strncmp(text, "127.0.0.1:", 10) == 0);

  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.endpoint = &peer;
  start(proactor, accept_one);
  CHECK_EQUAL(
      baton_connect(proactor, text, 2, baton_now(proactor) + PATIENCE, &client, &connecting), 0);
  CHECK(client != 0 && connecting != 0);
  while (count < 2) {
    const int more = baton_wait(proactor, done + count, 2 - count, PATIENCE);
    CHECK(more > 0);
    count += more;
  }
  server = 0;
  for (i = 0; i < 2; ++i) {
    CHECK_EQUAL(done[i].error, 0);
    if (done[i].tag == 2) CHECK_EQUAL(done[i].activation, connecting);
    if (done[i].tag == 1) server = adopt(proactor, (int)done[i].result, BATON_STREAM_SOCKET);
  }
  CHECK(server != 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, client, &where), 0);
  CHECK_EQUAL(where.length, peer.length);
  CHECK(memcmp(where.address, peer.address, 8) == 0);

  CHECK_EQUAL(perform(proactor, transfer(BATON_WRITE_STREAM, client, 3, &byte, 1)).result, 1);
  CHECK_EQUAL(perform(proactor, transfer(BATON_READ_STREAM, server, 4, &byte, 1)).result, 1);
  CHECK_EQUAL(baton_handle_close(proactor, server), 0);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);

  /* No socket listens: the connect fails as a completion, and its handle must still be closed. */
  CHECK_EQUAL(baton_connect(proactor, "127.0.0.1:1", 5, 0, &client, NULL), 0);
  CHECK_EQUAL(wait_one(proactor).error, ECONNREFUSED);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  CHECK_EQUAL(baton_connect(proactor, "nonsense", 5, 0, &client, NULL), EINVAL);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:99999", 5, &listener), EINVAL);
}

static void datagrams(baton_proactor* proactor) {
  const int one = socket(AF_INET, SOCK_DGRAM, 0);
  const int other = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in any;
  baton_handle here;
  baton_handle there;
  baton_endpoint to;
  baton_endpoint from;
  baton_operation made;
  char text[32];
  memset(&any, 0, sizeof any);
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQUAL(bind(one, (struct sockaddr*)&any, sizeof any), 0);
  CHECK_EQUAL(bind(other, (struct sockaddr*)&any, sizeof any), 0);
  here = adopt(proactor, one, BATON_DATAGRAM_SOCKET);
  there = adopt(proactor, other, BATON_DATAGRAM_SOCKET);
  CHECK_EQUAL(baton_local_endpoint(proactor, there, &to), 0);
  made = transfer(BATON_WRITE_DATAGRAM, here, 1, "datagram", 8);
  made.endpoint = &to;
  CHECK_EQUAL(perform(proactor, made).result, 8);
  made = transfer(BATON_READ_DATAGRAM, there, 2, text, sizeof text);
  made.endpoint = &from;
  CHECK_EQUAL(perform(proactor, made).result, 8);
  CHECK_EQUAL(baton_local_endpoint(proactor, here, &to), 0);
  CHECK_EQUAL(from.length, to.length);
  CHECK(memcmp(from.address, to.address, 8) == 0);
  /* Without an address only a connected socket can send. */
  made = transfer(BATON_WRITE_DATAGRAM, here, 3, "again", 5);
  CHECK_EQUAL(perform(proactor, made).error, EDESTADDRREQ);
  CHECK_EQUAL(baton_local_endpoint(proactor, there, &to), 0);
  CHECK_EQUAL(connect(one, (struct sockaddr*)to.address, to.length), 0);
  CHECK_EQUAL(perform(proactor, made).result, 5);
  made = transfer(BATON_READ_DATAGRAM, there, 4, text, sizeof text);
  CHECK_EQUAL(perform(proactor, made).result, 5);
  CHECK_EQUAL(baton_handle_close(proactor, here), 0);
  CHECK_EQUAL(baton_handle_close(proactor, there), 0);
}

static void readiness_and_pipes(baton_proactor* proactor) {
  int ends[2];
  baton_handle in;
  baton_handle out;
  baton_operation made;
  char byte = 'p';
  CHECK_EQUAL(pipe(ends), 0);
  in = adopt(proactor, ends[0], BATON_PIPE);
  out = adopt(proactor, ends[1], BATON_PIPE);
  made = operation(BATON_WAIT_READY, out, 1);
  made.flags = BATON_WRITABLE;
  CHECK_EQUAL(perform(proactor, made).error, 0);
  made = operation(BATON_WAIT_READY, in, 2);
  made.flags = BATON_READABLE;
  start(proactor, made);
  start(proactor, transfer(BATON_WRITE_STREAM, out, 3, &byte, 1));
  CHECK_EQUAL(wait_one(proactor).tag + wait_one(proactor).tag, 5);
  CHECK_EQUAL(perform(proactor, transfer(BATON_READ_STREAM, in, 4, &byte, 1)).result, 1);
  CHECK_EQUAL(baton_handle_close(proactor, in), 0);
  CHECK_EQUAL(baton_handle_close(proactor, out), 0);
}

static void timers_and_posts(baton_proactor* proactor) {
  const int64_t begin = baton_now(proactor);
  baton_operation timer = operation(BATON_TIMER, 0, 1);
  baton_completion done;
  timer.deadline_ns = begin + SECOND / 50;
  done = perform(proactor, timer);
  CHECK_EQUAL(done.error, 0);
  CHECK(baton_now(proactor) >= timer.deadline_ns);
  CHECK_EQUAL(perform(proactor, operation(BATON_POST, 0, 0xffffffffffffffffULL)).error, 0);
  timer.deadline_ns = 1; /* long ago */
  CHECK_EQUAL(perform(proactor, timer).error, 0);
}

int main(int argc, char** argv) {
  baton_proactor* proactor = open_proactor(argc > 1 ? argv[1] : "", 64);
  echo_over_a_socketpair(proactor);
  whole_and_delimited_reads(proactor);
  an_endpoint_too_many(proactor);
  files(proactor);
  connections(proactor);
  datagrams(proactor);
  readiness_and_pipes(proactor);
  timers_and_posts(proactor);
  baton_close(proactor);
  return 0;
}
