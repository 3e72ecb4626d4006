/* Sockets that are opened with options and addresses, options by number, peers.
 * usage: sockets_test CONFIGURATION */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static baton_endpoint parse(const char* text) {
  baton_endpoint made;
  CHECK_EQUAL(baton_endpoint_parse(text, &made), 0);
  return made;
}

static baton_option number_option(int level, int name, const int* value) {
  baton_option made = BATON_OPTION_INIT;
  made.level = level;
  made.name = name;
  made.value = value;
  made.value_size = sizeof *value;
  return made;
}

static baton_socket socket_of(int kind, const baton_endpoint* local) {
  baton_socket made = BATON_SOCKET_INIT;
  made.kind = kind;
  made.local = local;
  made.backlog = 4;
  return made;
}

static baton_handle open_socket(baton_proactor* proactor, baton_socket made) {
  baton_handle handle = 0;
  CHECK_EQUAL(baton_socket_open(proactor, &made, &handle), 0);
  CHECK(handle != 0);
  return handle;
}

static int why_not(baton_proactor* proactor, baton_socket made) {
  baton_handle handle = 77;
  const int error = baton_socket_open(proactor, &made, &handle);
  CHECK(error != 0);
  CHECK_EQUAL(handle, 0);
  return error;
}

static int get_number(baton_proactor* proactor, baton_handle handle, int level, int name) {
  int value = -1;
  uint32_t size = sizeof value;
  CHECK_EQUAL(baton_get_option(proactor, handle, level, name, &value, &size), 0);
  CHECK_EQUAL(size, sizeof value);
  return value;
}

static void options_before_bind(baton_proactor* proactor) {
  const int on = 1;
  baton_endpoint local = parse("127.0.0.1:0");
  baton_option options[2];
  baton_socket made = socket_of(BATON_LISTENER, &local);
  baton_handle first;
  baton_handle second;
  options[0] = number_option(SOL_SOCKET, SO_REUSEPORT, &on);
  options[1] = number_option(SOL_SOCKET, SO_KEEPALIVE, &on);
  made.options = options;
  made.option_count = 2;
  first = open_socket(proactor, made);
  CHECK_EQUAL(get_number(proactor, first, SOL_SOCKET, SO_REUSEPORT), 1);
  CHECK_EQUAL(get_number(proactor, first, SOL_SOCKET, SO_KEEPALIVE), 1);
  CHECK_EQUAL(get_number(proactor, first, SOL_SOCKET, SO_REUSEADDR), 1);
  CHECK_EQUAL(get_number(proactor, first, SOL_SOCKET, SO_ACCEPTCONN), 1);
  /* Two share the port, which they can only when they said so before they were bound. */
  CHECK_EQUAL(baton_local_endpoint(proactor, first, &local), 0);
  second = open_socket(proactor, made);
  made.option_count = 0;
  CHECK_EQUAL(why_not(proactor, made), EADDRINUSE);
  CHECK_EQUAL(baton_handle_close(proactor, first), 0);
  CHECK_EQUAL(baton_handle_close(proactor, second), 0);
}

static void connections_from_a_local_address(baton_proactor* proactor) {
  baton_endpoint any = parse("127.0.0.1:0");
  baton_endpoint there;
  baton_endpoint bound;
  baton_endpoint told;
  const baton_handle listener = open_socket(proactor, socket_of(BATON_LISTENER, &any));
  baton_handle client;
  baton_operation accept_one = operation(BATON_ACCEPT, listener, 1);
  baton_operation connect_one;
  baton_completion done;
  baton_completion other;
  baton_endpoint peer;
  char text[64];
  CHECK_EQUAL(baton_local_endpoint(proactor, listener, &there), 0);
  any = parse("127.0.0.2:0");
  client = open_socket(proactor, socket_of(BATON_STREAM_SOCKET, &any));
  CHECK_EQUAL(baton_remote_endpoint(proactor, client, &told), ENOTCONN);
  CHECK_EQUAL(told.length, 0);
  CHECK_EQUAL(baton_local_endpoint(proactor, client, &bound), 0);
  accept_one.endpoint = &peer;
  start(proactor, accept_one);
  connect_one = operation(BATON_CONNECT, client, 2);
  connect_one.endpoint = &there;
  start(proactor, connect_one);
  done = wait_one(proactor);
  other = wait_one(proactor);
  CHECK_EQUAL(done.error, 0);
  CHECK_EQUAL(other.error, 0);
  CHECK_EQUAL(close((int)(done.tag == 1 ? done : other).result), 0);
  baton_endpoint_print(&peer, text, sizeof text);
  CHECK(strncmp(text, "127.0.0.2:", 10) == 0);
  CHECK_EQUAL(peer.length, bound.length);
  CHECK(memcmp(peer.address, bound.address, peer.length) == 0);
  CHECK_EQUAL(baton_remote_endpoint(proactor, client, &told), 0);
  CHECK_EQUAL(told.length, there.length);
  CHECK(memcmp(told.address, there.address, there.length) == 0);
  CHECK_EQUAL(baton_remote_endpoint(proactor, client, NULL), EINVAL);
  CHECK_EQUAL(baton_handle_close(proactor, client), 0);
  CHECK_EQUAL(baton_remote_endpoint(proactor, client, &told), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_handle_close(proactor, listener), 0);
}

static void datagrams_without_the_system_s_calls(baton_proactor* proactor) {
  const baton_endpoint any = parse("127.0.0.1:0");
  const baton_handle here = open_socket(proactor, socket_of(BATON_DATAGRAM_SOCKET, &any));
  const baton_handle there = open_socket(proactor, socket_of(BATON_DATAGRAM_SOCKET, &any));
  baton_endpoint to;
  char text[8];
  baton_operation made = transfer(BATON_WRITE_DATAGRAM, here, 1, "word", 4);
  CHECK_EQUAL(baton_local_endpoint(proactor, there, &to), 0);
  made.endpoint = &to;
  CHECK_EQUAL(perform(proactor, made).result, 4);
  CHECK_EQUAL(perform(proactor, transfer(BATON_READ_DATAGRAM, there, 2, text, sizeof text)).result,
              4);
  CHECK_EQUAL(baton_handle_close(proactor, here), 0);
  CHECK_EQUAL(baton_handle_close(proactor, there), 0);
}

static void families(baton_proactor* proactor) {
  static const struct {
    int family;
    int domain;
  } all[] = {{BATON_IPV4, AF_INET}, {BATON_IPV6, AF_INET6}, {BATON_UNIX, AF_UNIX}};
  size_t i;
  for (i = 0; i < 3; ++i) {
    baton_socket made = socket_of(BATON_STREAM_SOCKET, NULL);
    baton_handle handle = 0;
    int error;
    made.family = all[i].family;
    error = baton_socket_open(proactor, &made, &handle);
    if (error == EAFNOSUPPORT) continue; /* a system without IPv6 */
    CHECK_EQUAL(error, 0);
    CHECK_EQUAL(get_number(proactor, handle, SOL_SOCKET, SO_DOMAIN), all[i].domain);
    CHECK_EQUAL(baton_handle_close(proactor, handle), 0);
  }
}

static void sockets_that_cannot_be(baton_proactor* proactor) {
  const int on = 1;
  baton_endpoint local = parse("127.0.0.1:0");
  baton_endpoint wrong = local;
  baton_option options[2];
  baton_socket made = socket_of(BATON_FILE, &local);
  baton_handle handle = 77;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  made.kind = 0;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  CHECK_EQUAL(why_not(proactor, socket_of(BATON_LISTENER, NULL)), EINVAL);
  CHECK_EQUAL(why_not(proactor, socket_of(BATON_STREAM_SOCKET, NULL)), EINVAL); /* no family */
  made = socket_of(BATON_STREAM_SOCKET, &local);
  made.family = BATON_IPV6; /* not the address's */
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  made.family = BATON_UNIX + 1;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  wrong.length = 0;
  CHECK_EQUAL(why_not(proactor, socket_of(BATON_STREAM_SOCKET, &wrong)), EINVAL);
  wrong.length = sizeof wrong.address + 1;
  CHECK_EQUAL(why_not(proactor, socket_of(BATON_STREAM_SOCKET, &wrong)), EINVAL);
  memset(&wrong, 0xff, sizeof wrong);
  wrong.length = 16; /* of no family */
  CHECK_EQUAL(why_not(proactor, socket_of(BATON_STREAM_SOCKET, &wrong)), EINVAL);
  made = socket_of(BATON_STREAM_SOCKET, &local);
  made.reserved = 1;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  made = socket_of(BATON_STREAM_SOCKET, &local);
  made.option_count = 1;
  CHECK_EQUAL(why_not(proactor, made), EINVAL); /* no options */
  made.options = options;
  options[0] = number_option(SOL_SOCKET, 12345, &on);
  CHECK_EQUAL(why_not(proactor, made), ENOPROTOOPT);
  options[0] = number_option(SOL_SOCKET, SO_KEEPALIVE, NULL);
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  options[0] = number_option(SOL_SOCKET, SO_KEEPALIVE, &on);
  options[0].size = 4;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  options[0] = options[1] = number_option(SOL_SOCKET, SO_KEEPALIVE, &on);
  options[1].size = 48; /* all of an array are of one size */
  made.option_count = 2;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  made = socket_of(BATON_STREAM_SOCKET, &local);
  made.size = 8;
  CHECK_EQUAL(why_not(proactor, made), EINVAL);
  CHECK_EQUAL(baton_socket_open(proactor, NULL, &handle), EINVAL);
  CHECK_EQUAL(handle, 0);
  made = socket_of(BATON_STREAM_SOCKET, &local);
  CHECK_EQUAL(baton_socket_open(proactor, &made, NULL), EINVAL);
}

static void options_of_a_handle(baton_proactor* proactor) {
  const int on = 1;
  struct linger linger = {1, 1};
  struct linger found;
  unsigned char large[64];
  uint32_t size = sizeof found;
  baton_endpoint local = parse("127.0.0.1:0");
  const baton_handle handle = open_socket(proactor, socket_of(BATON_STREAM_SOCKET, &local));
  baton_option option = number_option(IPPROTO_TCP, TCP_NODELAY, &on);
  CHECK_EQUAL(get_number(proactor, handle, IPPROTO_TCP, TCP_NODELAY), 0);
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), 0);
  CHECK_EQUAL(get_number(proactor, handle, IPPROTO_TCP, TCP_NODELAY), 1);

  option = number_option(SOL_SOCKET, SO_LINGER, &on);
  option.value = &linger;
  option.value_size = sizeof linger;
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), 0);
  CHECK_EQUAL(baton_get_option(proactor, handle, SOL_SOCKET, SO_LINGER, &found, &size), 0);
  CHECK_EQUAL(size, sizeof found);
  CHECK(found.l_onoff != 0 && found.l_linger == 1);
  option.value_size = 1;
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), EINVAL);
  size = sizeof large; /* the answer has the value's size */
  CHECK_EQUAL(baton_get_option(proactor, handle, IPPROTO_TCP, TCP_NODELAY, large, &size), 0);
  CHECK_EQUAL(size, sizeof on);

  option = number_option(SOL_SOCKET, 12345, &on);
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), ENOPROTOOPT);
  option.size = 4;
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), EINVAL);
  CHECK_EQUAL(baton_set_option(proactor, handle, NULL), EINVAL);
  CHECK_EQUAL(baton_get_option(proactor, handle, SOL_SOCKET, SO_LINGER, NULL, &size), EINVAL);
  CHECK_EQUAL(baton_get_option(proactor, handle, SOL_SOCKET, SO_LINGER, &found, NULL), EINVAL);
  CHECK_EQUAL(baton_get_option(proactor, handle, SOL_SOCKET, 12345, &found, &size), ENOPROTOOPT);
  CHECK_EQUAL(perform(proactor, operation(BATON_CLOSE, handle, 1)).error, 0);
  option = number_option(SOL_SOCKET, SO_KEEPALIVE, &on);
  CHECK_EQUAL(baton_set_option(proactor, handle, &option), BATON_HANDLE_CLOSED);
  CHECK_EQUAL(baton_get_option(proactor, handle, SOL_SOCKET, SO_KEEPALIVE, &found, &size),
              BATON_HANDLE_CLOSED);
}

/* A linger that is set before the socket is adopted has the same effect as a later one. */
static void a_linger_before_bind(baton_proactor* proactor) {
  const struct linger linger = {1, 1};
  baton_endpoint local = parse("127.0.0.1:0");
  baton_socket made = socket_of(BATON_STREAM_SOCKET, &local);
  baton_option option = BATON_OPTION_INIT;
  option.level = SOL_SOCKET;
  option.name = SO_LINGER;
  option.value = &linger;
  option.value_size = sizeof linger;
  made.options = &option;
  made.option_count = 1;
  CHECK_EQUAL(perform(proactor, operation(BATON_CLOSE, open_socket(proactor, made), 1)).error, 0);
}

int main(int argc, char** argv) {
  baton_proactor* proactor = open_proactor(argc > 1 ? argv[1] : "", 8);
  options_before_bind(proactor);
  connections_from_a_local_address(proactor);
  datagrams_without_the_system_s_calls(proactor);
  families(proactor);
  sockets_that_cannot_be(proactor);
  options_of_a_handle(proactor);
  a_linger_before_bind(proactor);
  baton_close(proactor);
  return 0;
}
