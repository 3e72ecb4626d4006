/* Reads that take a buffer from a pool when data arrives, and accepts that return handles.
 * usage: pools_test CONFIGURATION */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static const char* configuration = "";
enum { block_size = 64, blocks = 2 };

static baton_pool* open_pool(uint32_t count) {
  baton_pool* pool = NULL;
  CHECK_EQUAL(baton_pool_open(block_size, count, &pool), 0);
  CHECK_EQUAL(baton_pool_available(pool), count);
  return pool;
}

static baton_operation pooled(baton_handle handle, uint64_t tag, baton_pool* pool) {
  baton_operation made = operation(BATON_READ_STREAM, handle, tag);
  made.flags = BATON_POOLED;
  made.data = pool;
  return made;
}

static void pools_that_cannot_be(void) {
  baton_pool* pool = (baton_pool*)&configuration;
  CHECK_EQUAL(baton_pool_open(0, 1, &pool), EINVAL);
  CHECK(pool == NULL);
  CHECK_EQUAL(baton_pool_open(1, 0, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_open(SIZE_MAX, 4, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_open(SIZE_MAX / 4, 4, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_open(1, 1, NULL), EINVAL);
  CHECK_EQUAL(baton_pool_close(NULL), 0);
}

static void blocks_come_and_are_given_back(baton_proactor* proactor) {
  baton_pool* pool = open_pool(blocks);
  baton_completion first;
  baton_completion second;
  baton_handle handle;
  char* middle;
  int ends[2];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  handle = adopt(proactor, ends[0], BATON_STREAM_SOCKET);

  /* A pending one pins nothing, but the pool. */
  start(proactor, pooled(handle, 1, pool));
  CHECK_EQUAL(baton_wait(proactor, &first, 1, 0), 0);
  CHECK_EQUAL(baton_pool_available(pool), blocks);
  CHECK_EQUAL(baton_pool_close(pool), EBUSY);
  CHECK_EQUAL(write(ends[1], "first", 5), 5);
  first = wait_one(proactor);
  CHECK_EQUAL(first.error, 0);
  CHECK_EQUAL(first.result, 5);
  CHECK(first.data != NULL && memcmp(first.data, "first", 5) == 0);
  CHECK_EQUAL(baton_pool_available(pool), blocks - 1);
  CHECK_EQUAL(baton_pool_close(pool), EBUSY);

  CHECK_EQUAL(write(ends[1], "second", 6), 6);
  second = perform(proactor, pooled(handle, 2, pool));
  CHECK_EQUAL(second.result, 6);
  CHECK(second.data != NULL && second.data != first.data);
  CHECK(memcmp(first.data, "first", 5) == 0);

  /* None is left. The data stays in the socket. */
  CHECK_EQUAL(write(ends[1], "third", 5), 5);
  CHECK_EQUAL(perform(proactor, pooled(handle, 3, pool)).error, BATON_POOL_EXHAUSTED);

  /* An address that is no block changes nothing. */
  middle = (char*)first.data + 1;
  CHECK_EQUAL(baton_pool_give(pool, middle), EINVAL);
  CHECK_EQUAL(baton_pool_give(pool, ends), EINVAL);
  CHECK_EQUAL(baton_pool_give(pool, NULL), EINVAL);
  CHECK_EQUAL(baton_pool_available(pool), 0);
  CHECK_EQUAL(baton_pool_give(pool, first.data), 0);
  CHECK_EQUAL(baton_pool_give(pool, first.data), EINVAL); /* twice */
  CHECK_EQUAL(baton_pool_available(pool), 1);

  first = perform(proactor, pooled(handle, 4, pool));
  CHECK_EQUAL(first.result, 5);
  CHECK(memcmp(first.data, "third", 5) == 0);
  CHECK_EQUAL(baton_pool_give(pool, first.data), 0);
  CHECK_EQUAL(baton_pool_give(pool, second.data), 0);

  /* The end of the stream brings no block, and a cancel brings none. */
  start(proactor, pooled(handle, 5, pool));
  CHECK_EQUAL(baton_wait(proactor, &first, 1, 0), 0);
  CHECK_EQUAL(baton_cancel_tag(proactor, 5), 0);
  first = wait_one(proactor);
  CHECK_EQUAL(first.error, ECANCELED);
  CHECK(first.data == NULL);
  close(ends[1]);
  first = perform(proactor, pooled(handle, 6, pool));
  CHECK_EQUAL(first.error, 0);
  CHECK_EQUAL(first.result, 0);
  CHECK(first.data == NULL);
  CHECK_EQUAL(baton_pool_available(pool), blocks);
  CHECK_EQUAL(baton_handle_close(proactor, handle), 0);
  CHECK_EQUAL(baton_pool_close(pool), 0);
}

static void pooled_reads_that_cannot_be(baton_proactor* proactor) {
  static const int others[] = {BATON_VECTORED, BATON_EXACTLY, BATON_UNTIL};
  baton_pool* pool = open_pool(1);
  baton_handle listener = 0;
  baton_operation made;
  size_t i;
  for (i = 0; i < sizeof others / sizeof others[0]; ++i) {
    made = pooled(0, 1, pool);
    made.flags = (uint16_t)(made.flags | others[i]);
    made.delimiter = "\n";
    made.delimiter_size = 1;
    CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  }
  CHECK_EQUAL(why_refused(proactor, pooled(0, 1, NULL)), EINVAL);
  made = pooled(0, 1, pool);
  made.kind = BATON_READ_FILE;
  CHECK_EQUAL(why_refused(proactor, made), EINVAL);
  /* A read that is refused does not keep the pool. */
  CHECK_EQUAL(why_refused(proactor, pooled(0, 1, pool)), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  CHECK_EQUAL(why_refused(proactor, pooled(listener, 1, pool)), BATON_WRONG_HANDLE_KIND);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);
  CHECK_EQUAL(baton_pool_close(pool), 0);
}

/* The block of a read goes back to its pool when its completion is never fetched. */
static void blocks_that_nobody_brings(void) {
  baton_proactor* proactor = open_proactor(configuration, 8);
  baton_pool* pool = open_pool(blocks);
  baton_completion done;
  int one[2];
  int other[2];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, one), 0);
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
  CHECK_EQUAL(write(one[1], "x", 1), 1);
  CHECK_EQUAL(write(other[1], "y", 1), 1);
  start(proactor, pooled(adopt(proactor, one[0], BATON_STREAM_SOCKET), 1, pool));
  start(proactor, pooled(adopt(proactor, other[0], BATON_STREAM_SOCKET), 2, pool));
  done = wait_one(proactor);
  CHECK(done.data != NULL);
  baton_close(proactor);
  CHECK_EQUAL(baton_pool_give(pool, done.data), 0);
  CHECK_EQUAL(baton_pool_available(pool), blocks);
  CHECK_EQUAL(baton_pool_close(pool), 0);
  close(one[1]);
  close(other[1]);
}

/* A program of an earlier header has no room for these results, and is refused. */
static void programs_of_an_earlier_version(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = NULL;
  baton_pool* pool = open_pool(1);
  unsigned char done[2][32];
  baton_completion known;
  baton_handle listener = 0;
  baton_operation accept_one;
  config.text = configuration;
  config.completion_size = 32;
  CHECK_EQUAL(baton_open(&config, &proactor, NULL, 0), 0);
  memset(done, 0xaa, sizeof done);
  start(proactor, operation(BATON_POST, 0, 9));
  CHECK_EQUAL(baton_wait(proactor, (baton_completion*)(void*)done[0], 1, PATIENCE), 1);
  memset(&known, 0, sizeof known);
  memcpy(&known, done[0], sizeof done[0]);
  CHECK_EQUAL(known.tag, 9);
  CHECK_EQUAL(known.kind, BATON_POST);
  CHECK_EQUAL(done[1][0], 0xaa);
  CHECK_EQUAL(why_refused(proactor, pooled(0, 1, pool)), EINVAL);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  CHECK_EQUAL(why_refused(proactor, accept_one), EINVAL);
  baton_close(proactor);
  CHECK_EQUAL(baton_pool_close(pool), 0);
  config.completion_size = 31;
  CHECK_EQUAL(baton_open(&config, &proactor, NULL, 0), EINVAL);
}

static baton_handle connect_to(baton_proactor* proactor, baton_handle listener, uint64_t tag) {
  baton_endpoint where;
  baton_handle client = 0;
  char text[64];
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  baton_endpoint_print(&where, text, sizeof text);
  CHECK_EQUAL(baton_connect(proactor, text, tag, 0, &client, NULL), 0);
  return client;
}

/* Brings two completions; the one with tag 1. */
static baton_completion bring_both(baton_proactor* proactor) {
  const baton_completion one = wait_one(proactor);
  const baton_completion other = wait_one(proactor);
  CHECK_EQUAL(one.error, 0);
  CHECK_EQUAL(other.error, 0);
  return one.tag == 1 ? one : other;
}

/* One slot, so that the second accept has that of the first. */
static void an_accept_after_one_that_adopts(void) {
  baton_proactor* const proactor = open_proactor(configuration, 1);
  baton_handle listener = 0;
  baton_endpoint where;
  int adopting;
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  for (adopting = 1; adopting >= 0; --adopting) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    baton_operation accept_one = operation(BATON_ACCEPT, listener, 1);
    baton_completion done;
    accept_one.flags = adopting ? BATON_ADOPT : 0;
    start(proactor, accept_one);
    CHECK_EQUAL(connect(client, (const struct sockaddr*)(const void*)where.address, where.length),
                0);
    done = wait_one(proactor);
    CHECK_EQUAL(done.error, 0);
    CHECK_EQUAL(done.handle != 0, adopting);
    if (adopting) {
      CHECK_EQUAL(baton_handle_close(proactor, done.handle), 0);
    } else {
      CHECK_EQUAL(close((int)done.result), 0);
    }
    close(client);
  }
  baton_close(proactor);
}

/* One slot, so that the read has that of the accept. */
static void a_read_after_an_accept_with_an_address(void) {
  baton_proactor* const proactor = open_proactor(configuration, 1);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  baton_handle listener = 0;
  baton_endpoint where;
  baton_endpoint peer;
  baton_operation accept_one;
  baton_completion done;
  char text[8];
  memset(&peer, 0, sizeof peer);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  CHECK_EQUAL(connect(client, (const struct sockaddr*)(const void*)where.address, where.length), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  accept_one.endpoint = &peer;
  done = perform(proactor, accept_one);
  CHECK_EQUAL(peer.length, where.length);
  memset(&peer, 0, sizeof peer);
  CHECK_EQUAL(write(client, "to read", 7), 7);
  done = perform(proactor, transfer(BATON_READ_STREAM, done.handle, 2, text, sizeof text));
  CHECK_EQUAL(done.result, 7);
  CHECK_EQUAL(done.handle, 0);
  CHECK_EQUAL(peer.length, 0);
  close(client);
  baton_close(proactor);
}

static void an_accept_brings_a_handle(baton_proactor* proactor) {
  baton_handle listener = 0;
  baton_handle client;
  baton_operation accept_one;
  baton_completion done;
  baton_endpoint peer;
  baton_endpoint here;
  char byte = 'a';
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  start(proactor, accept_one);
  client = connect_to(proactor, listener, 2);
  done = bring_both(proactor);
  CHECK(done.handle != 0);
  CHECK_EQUAL(baton_handle_descriptor(proactor, done.handle), done.result);
  CHECK_EQUAL(baton_remote_endpoint(proactor, done.handle, &peer), 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, client, &here), 0);
  CHECK_EQUAL(peer.length, here.length);
  CHECK(memcmp(peer.address, here.address, 8) == 0);
  CHECK_EQUAL(perform(proactor, transfer(BATON_WRITE_STREAM, client, 3, &byte, 1)).result, 1);
  CHECK_EQUAL(perform(proactor, transfer(BATON_READ_STREAM, done.handle, 4, &byte, 1)).result, 1);
  CHECK_EQUAL(baton_handle_close(proactor, done.handle), 0);

  /* Without the flag none is brought. */
  accept_one.flags = 0;
  start(proactor, accept_one);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  client = connect_to(proactor, listener, 2);
  done = bring_both(proactor);
  CHECK_EQUAL(done.handle, 0);
  CHECK_EQUAL(close((int)done.result), 0);

  /* A cancelled one brings none either. */
  accept_one.flags = BATON_ADOPT;
  start(proactor, accept_one);
  CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
  CHECK_EQUAL(baton_cancel_tag(proactor, 1), 0);
  done = wait_one(proactor);
  CHECK_EQUAL(done.error, ECANCELED);
  CHECK_EQUAL(done.handle, 0);
  CHECK_EQUAL(done.result, -1);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);
}

static int descriptors_open(void) {
  int count = 0;
  int i;
  for (i = 0; i < 1024; ++i) count += fcntl(i, F_GETFD) >= 0;
  return count;
}

/* The table of handles is full: the accept waits until one is free. A ring had it already, so that
 * its connection takes one of the places for connections that are accepted together. */
static void an_accept_waits_for_a_handle(void) {
  const int before = descriptors_open();
  char text[256];
  baton_proactor* proactor;
  baton_handle listener = 0;
  baton_handle client;
  baton_operation accept_one;
  baton_completion done;
  int in_the_ring;
  snprintf(text, sizeof text, "handles=2,%s", configuration);
  proactor = open_proactor(text, 8);
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  start(proactor, accept_one);
  client = connect_to(proactor, listener, 2);
  done = wait_one(proactor);
  in_the_ring = done.tag == 1;
  if (in_the_ring) {
    CHECK(strstr(configuration, "io_uring") != NULL);
    CHECK_EQUAL(done.error, 0);
    CHECK(done.handle != 0);
    done = wait_one(proactor);
  }
  CHECK_EQUAL(done.tag, 2);
  CHECK_EQUAL(done.error, 0);
  if (!in_the_ring && strstr(configuration, "io_uring") == NULL) {
    CHECK_EQUAL(baton_wait(proactor, &done, 1, 0), 0);
  }
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  if (!in_the_ring) {
    done = wait_one(proactor);
    CHECK_EQUAL(done.tag, 1);
    CHECK_EQUAL(done.error, 0);
    CHECK(done.handle != 0);
  }
  baton_close(proactor);
  CHECK_EQUAL(descriptors_open(), before);
}

/* Its close waits until the peer has taken everything. A worker does that: meanwhile others are
 * served. The time is longer than any test may take. */
static void accepts_one_that_lingers(int before_bind) {
  const struct linger long_enough = {1, 600};
  static char data[65536];
  baton_proactor* const proactor = open_proactor(configuration, 8);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  baton_handle listener = 0;
  baton_endpoint where;
  baton_operation accept_one;
  baton_completion done;
  baton_socket made = BATON_SOCKET_INIT;
  baton_option option = BATON_OPTION_INIT;
  option.level = SOL_SOCKET;
  option.name = SO_LINGER;
  option.value = &long_enough;
  option.value_size = sizeof long_enough;
  if (before_bind) {
    CHECK_EQUAL(baton_endpoint_parse("127.0.0.1:0", &where), 0);
    made.kind = BATON_LISTENER;
    made.local = &where;
    made.options = &option;
    made.option_count = 1;
    CHECK_EQUAL(baton_socket_open(proactor, &made, &listener), 0);
  } else {
    CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
    CHECK_EQUAL(baton_set_option(proactor, listener, &option), 0);
  }
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &where), 0);
  CHECK_EQUAL(connect(client, (const struct sockaddr*)(const void*)where.address, where.length), 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  done = perform(proactor, accept_one);
  CHECK_EQUAL(done.error, 0);
  while (send((int)done.result, data, sizeof data, MSG_DONTWAIT) > 0) continue;
  start(proactor, operation(BATON_CLOSE, done.handle, 2));
  start(proactor, operation(BATON_POST, 0, 3));
  done = wait_one(proactor);
  if (done.tag == 2) {
    /* A ring completes a close before its worker lingers. */
    CHECK(strstr(configuration, "io_uring") != NULL);
    CHECK_EQUAL(done.error, 0);
    done = wait_one(proactor);
    CHECK_EQUAL(done.tag, 3);
    close(client);
  } else {
    CHECK_EQUAL(done.tag, 3);
    close(client);
    done = wait_one(proactor);
    CHECK_EQUAL(done.tag, 2);
  }
  CHECK_EQUAL(done.error, 0);
  baton_close(proactor);
}

static void an_accepted_connection_lingers_as_its_listener(void) {
  accepts_one_that_lingers(0);
  accepts_one_that_lingers(1);
}

/* Inside a signal handler nothing may be allocated: the completion has the plain descriptor. */
static void polled_accepts_bring_descriptors(baton_proactor* proactor) {
  baton_handle listener = 0;
  baton_handle client;
  baton_operation accept_one;
  baton_completion done;
  int got = 0;
  if (baton_poll(proactor, &done, 1) == -BATON_NOT_SUPPORTED) return;
  CHECK_EQUAL(baton_listen(proactor, "127.0.0.1:0", 4, &listener), 0);
  client = connect_to(proactor, listener, 2);
  CHECK_EQUAL(wait_one(proactor).error, 0);
  accept_one = operation(BATON_ACCEPT, listener, 1);
  accept_one.flags = BATON_ADOPT;
  start(proactor, accept_one);
  while (got == 0) {
    got = baton_poll(proactor, &done, 1);
    CHECK(got >= 0);
  }
  CHECK_EQUAL(done.error, 0);
  CHECK_EQUAL(done.handle, 0);
  CHECK_EQUAL(close((int)done.result), 0);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);
}

int main(int argc, char** argv) {
  baton_proactor* proactor;
  if (argc > 1) configuration = argv[1];
  proactor = open_proactor(configuration, 8);
  pools_that_cannot_be();
  blocks_come_and_are_given_back(proactor);
  pooled_reads_that_cannot_be(proactor);
  blocks_that_nobody_brings();
  programs_of_an_earlier_version();
  an_accept_brings_a_handle(proactor);
  an_accept_after_one_that_adopts();
  a_read_after_an_accept_with_an_address();
  an_accept_waits_for_a_handle();
  an_accepted_connection_lingers_as_its_listener();
  polled_accepts_bring_descriptors(proactor);
  baton_close(proactor);
  return 0;
}
