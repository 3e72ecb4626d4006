// The echo of datagrams on libuv at its fastest: one handle that receives all the time,
// uv_udp_try_send, and a request only for what the socket did not take.
#include <uv.h>

#include <vector>

#include "ending.hpp"
#include "rivals/rival.hpp"

namespace {

unsigned long long messages = 0;
std::vector<char> block;

void give_buffer(uv_handle_t*, std::size_t, uv_buf_t* buffer) {
  *buffer = uv_buf_init(block.data(), static_cast<unsigned>(block.size()));
}

/// A datagram that the socket did not take at once.
struct Rest {
  uv_udp_send_t request;
  std::vector<char> bytes;
};

void on_sent(uv_udp_send_t* request, int) { delete static_cast<Rest*>(request->data); }

void on_received(uv_udp_t* socket, ssize_t got, const uv_buf_t* buffer, const sockaddr* peer,
                 unsigned) {
  if (got < 0 || peer == nullptr) return;  // no more for now
  ++messages;
  uv_buf_t answer = uv_buf_init(buffer->base, static_cast<unsigned>(got));
  if (uv_udp_try_send(socket, &answer, 1, peer) != UV_EAGAIN) return;
  auto* rest = new Rest{{}, {answer.base, answer.base + got}};
  rest->request.data = rest;
  answer.base = rest->bytes.data();
  if (uv_udp_send(&rest->request, socket, &answer, 1, peer, on_sent) != 0) delete rest;
}

}  // namespace

int main(int argc, char** argv) {
  block.resize(lock_step::number(argc, argv, "--block", 512));
  uv_loop_t* const loop = uv_default_loop();
  uv_udp_t socket;
  uv_udp_init(loop, &socket);
  uv_udp_open(&socket, rival::datagrams_on(lock_step::number(argc, argv, "--port", 0)));
  if (uv_udp_recv_start(&socket, give_buffer, on_received) != 0) rival::die("uv_udp_recv_start");
  const rival::Ending ending(loop);
  uv_run(loop, UV_RUN_DEFAULT);
  rival::print_statistics("libuv_udp", messages);
}
