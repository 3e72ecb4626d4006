// The echo on libuv at its fastest: a stream handle a session, reading all the time, uv_try_write,
// and a write request only for what did not fit. One thread, one loop.
#include <uv.h>

#include <memory>
#include <vector>

#include "ending.hpp"
#include "rivals/rival.hpp"

namespace {

unsigned long long messages = 0;
handler_work::Plan plan;

struct Session {
  explicit Session(lock_step::Peers& its_peers) : peers(its_peers), block(peers.block()) {}
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle); }

  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } handle;
  lock_step::Peers& peers;
  std::vector<char> block;
  handler_work::Work work = plan.next();
};

Session& session_of(void* data) { return *static_cast<Session*>(data); }

void on_closed(uv_handle_t* handle) { delete &session_of(handle->data); }

void give_buffer(uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
  Session& session = session_of(handle->data);
  *buffer = uv_buf_init(session.block.data(), static_cast<unsigned>(session.block.size()));
}

void answered(Session& session) {
  ++messages;
  if (session.peers.present()) session.peers.answered();
}

/// The bytes that had no room at once.
struct Rest {
  uv_write_t request;
  std::vector<char> bytes;
};

void on_written(uv_write_t* request, int status) {
  if (status >= 0) answered(session_of(request->handle->data));
  delete static_cast<Rest*>(request->data);
}

void write_later(uv_stream_t* stream, const char* data, std::size_t size) {
  auto* rest = new Rest{{}, {data, data + size}};
  rest->request.data = rest;
  uv_buf_t buffer = uv_buf_init(rest->bytes.data(), static_cast<unsigned>(size));
  if (uv_write(&rest->request, stream, &buffer, 1, on_written) != 0) delete rest;
}

void on_read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buffer) {
  Session& session = session_of(stream->data);
  if (got < 0) return uv_close(reinterpret_cast<uv_handle_t*>(stream), on_closed);
  if (got == 0) return;
  session.work();
  uv_buf_t answer = uv_buf_init(buffer->base, static_cast<unsigned>(got));
  const int tried = uv_try_write(stream, &answer, 1);
  if (tried < 0 && tried != UV_EAGAIN) return;  // the next read reports it
  const auto sent = static_cast<std::size_t>(tried < 0 ? 0 : tried);
  if (sent == static_cast<std::size_t>(got)) return answered(session);
  write_later(stream, buffer->base + sent, static_cast<std::size_t>(got) - sent);
}

void start(Session& session) {
  session.stream()->data = &session;
  uv_read_start(session.stream(), give_buffer, on_read);
}

void on_connection(uv_stream_t* listener, int status) {
  if (status < 0) return;
  auto* session = new Session(*static_cast<lock_step::Peers*>(listener->data));
  uv_tcp_init(listener->loop, &session->handle.tcp);
  session->stream()->data = session;
  if (uv_accept(listener, session->stream()) != 0) {
    return uv_close(reinterpret_cast<uv_handle_t*>(session->stream()), on_closed);
  }
  uv_tcp_nodelay(&session->handle.tcp, 1);
  start(*session);
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  lock_step::Peers peers(argc, argv);
  plan.set(rival::work_of(argc, argv));
  uv_loop_t* const loop = uv_default_loop();
  for (const int fd : peers.sessions()) {
    auto* session = new Session(peers);
    uv_pipe_init(loop, &session->handle.pipe, 0);
    if (uv_pipe_open(&session->handle.pipe, fd) != 0) rival::die("uv_pipe_open");
    start(*session);
  }
  if (peers.present()) {
    peers.begin();
    uv_run(loop, UV_RUN_DEFAULT);
  }
  uv_tcp_t listener;
  uv_tcp_init(loop, &listener);
  listener.data = &peers;
  uv_tcp_open(&listener, rival::listen_on(lock_step::number(argc, argv, "--port", 0)));
  if (uv_listen(reinterpret_cast<uv_stream_t*>(&listener), SOMAXCONN, on_connection) != 0) {
    rival::die("uv_listen");
  }
  const rival::Ending ending(loop);
  uv_run(loop, UV_RUN_DEFAULT);
  rival::print_statistics("libuv", messages);
}
