// Receive, decide, send, and from the beginning.
#include "session.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "answer.hpp"

namespace httpd {
namespace {

using namespace std::chrono_literals;

// How long, and how much, a connection that we have ended may still send. A close at once would
// answer what is on its way with a reset, and the client might lose our last words by it.
constexpr baton::Duration linger_time = 2s;
constexpr std::size_t linger_bytes = 256 * 1024;

// Refused connections must not keep their places for long.
constexpr baton::Duration turned_away_time = 2s;

// A head that does not fit: because of its target, or because of its other lines.
Status too_large(std::string_view text) {
  return text.find('\n') == std::string_view::npos ? Status::uri_too_long
                                                   : Status::header_too_large;
}

bool timed_out(std::error_code error) { return error == std::errc::timed_out; }

}  // namespace

baton::Task<void> serve_connection(Server& server, baton::StreamSocket socket, Place place) {
  Session session(server, std::move(socket), place.admission());
  co_await session.run();
}

Session::Session(Server& server, baton::StreamSocket socket, Admission admission)
    : server_(server),
      socket_(std::move(socket)),
      admission_(admission),
      input_(server.limits().header_bytes) {
  socket_.set_option(baton::option::NoDelay{});
  deadline_ =
      after(admission == Admission::served ? server.limits().header_time : turned_away_time);
}

Session::~Session() { server_.add(counts_); }

baton::Task<void> Session::run() {
  while (goes_on_) {
    Parsed parsed = parse();
    while (parsed.kind == Parsed::Kind::incomplete) {
      const auto end = begun_ ? baton::CancellationToken{} : server_.end_of_idle();
      baton::Result<std::size_t> received =
          co_await socket_.read(input_.room()).deadline(deadline_).cancel_with(end);
      if (!received && end.cancelled()) received = take_what_came();
      if (!note_received(received, parsed)) co_return;
    }
    decide(parsed);
    if (body_left_ > 0) {
      const bool discarded = co_await discard_body();
      if (!discarded) co_return;
    }
    const bool sent = co_await send();
    if (!sent) co_return;
    deadline_ = after(server_.limits().idle_time);  // unless there is another request already
  }
  co_await close_gently();
}

baton::Deadline Session::after(baton::Duration span) const {
  return baton::Deadline::after(span, server_.proactor().now());
}

// -- receiving ------------------------------------------------------------------------------------

Parsed Session::parse() {
  while (input_.text().starts_with("\r\n")) input_.consume(2);  // RFC 9112, section 2.2
  const std::string_view text = input_.text();
  if (text.empty() || text == "\r") return {};
  if (!std::exchange(begun_, true)) {
    // A request that came with the one before it has its time from now on.
    if (admission_ == Admission::served) deadline_ = after(server_.limits().header_time);
  }
  if (!watch_.is_due(text)) {
    return input_.full() ? Parsed{Parsed::Kind::malformed, 0, too_large(text)} : Parsed{};
  }
  Parsed parsed = parse_request(text, request_);
  if (parsed.kind == Parsed::Kind::incomplete && input_.full()) {
    parsed = {Parsed::Kind::malformed, 0, too_large(text)};
  }
  return parsed;
}

// The server drains, and the wait is over. A request that came at this very moment is answered.
baton::Result<std::size_t> Session::take_what_came() {
  const baton::MutableBuffer room = input_.room();
  return static_cast<std::size_t>(
      std::max<ssize_t>(::recv(socket_.native(), room.data, room.size, MSG_DONTWAIT), 0));
}

// True: go on; `parsed` tells with what.
bool Session::note_received(const baton::Result<std::size_t>& received, Parsed& parsed) {
  if (received && *received > 0) {
    input_.add(*received);
    parsed = parse();
    return true;
  }
  if (!received && timed_out(received.error())) {
    ++counts_.timeouts;
    parsed = {Parsed::Kind::malformed, 0, Status::request_timeout};
    return begun_;  // a silent client gets no answer
  }
  return false;
}

baton::Task<bool> Session::discard_body() {
  for (;;) {
    const std::uint64_t here = std::min<std::uint64_t>(body_left_, input_.text().size());
    input_.consume(static_cast<std::size_t>(here));
    body_left_ -= here;
    if (body_left_ == 0) co_return true;
    const auto received = co_await socket_.read(input_.room()).deadline(deadline_);
    if (received && *received > 0) {
      input_.add(*received);
      continue;
    }
    if (received || !timed_out(received.error())) co_return false;
    ++counts_.timeouts;
    refuse(Status::request_timeout);
    co_return true;
  }
}

// -- deciding -------------------------------------------------------------------------------------

Connection Session::connection_for(const Request& request) const {
  const std::uint64_t most = server_.limits().requests;
  const bool enough = most != 0 && requests_ >= most;
  // A body that is not read must not be taken for the next request. A client that waits for our
  // "100" may send it or not, now that it gets another answer, and we would not know which.
  const bool unread = request.body == BodyKind::chunked ||
                      request.content_length > server_.limits().body_bytes ||
                      (request.body == BodyKind::sized && request.expects_continue);
  if (!request.keep_alive || enough || unread || server_.draining()) return Connection::close;
  return request.http_1_0 ? Connection::keep_1_0 : Connection::keep;
}

// Status::ok, or why a well-formed request is refused whatever it asks for.
Status Session::refusal(const Request& request) const {
  if (admission_ == Admission::turned_away) return Status::unavailable;
  if (request.method == Method::other) return Status::ok;  // it has its own answer
  if (request.body == BodyKind::chunked) return Status::length_required;
  if (request.content_length > server_.limits().body_bytes) return Status::content_too_large;
  return Status::ok;
}

// The last answer of this connection, whatever the request was.
void Session::refuse(Status status) {
  goes_on_ = false;
  write_page(response_, status, Method::get, Connection::close);
}

void Session::decide(const Parsed& parsed) {
  ++requests_;
  ++counts_.requests;
  body_left_ = 0;
  if (parsed.kind == Parsed::Kind::malformed) {
    refuse(parsed.status);
  } else {
    Connection connection = connection_for(request_);
    const Status refused = refusal(request_);
    if (refused == Status::unavailable) connection = Connection::close;
    goes_on_ = connection != Connection::close;
    if (refused != Status::ok) {
      write_page(response_, refused, request_.method, connection,
                 refused == Status::unavailable ? "Retry-After: 5\r\n" : "");
    } else {
      answer(server_, request_, connection, path_, response_);
    }
    if (goes_on_) body_left_ = request_.content_length;
    input_.consume(parsed.bytes);
  }
  if (response_.status >= Status::bad_request) ++counts_.errors;
  begun_ = false;
  watch_.reset();
}

// -- sending --------------------------------------------------------------------------------------

bool Session::note_sent(const baton::Result<std::size_t>& sent) {
  if (!sent && timed_out(sent.error())) ++counts_.timeouts;
  return sent.has_value();
}

// The head stands in front of the first piece of the file, so that a small file costs one read and
// one write.
baton::Task<bool> Session::send() {
  const baton::Duration write_time = server_.limits().write_time;
  if (response_.file == nullptr) {
    const auto sent = co_await socket_.write_all(response_.text).timeout(write_time);
    co_return note_sent(sent);
  }
  baton::BufferPool& blocks = server_.blocks();
  const baton::PooledBuffer block(blocks, blocks.take(), Server::block_size);
  if (block.bytes().empty()) co_return false;  // there are as many as connections
  auto* const memory = reinterpret_cast<char*>(block.bytes().data());
  std::memcpy(memory, response_.text.data(), response_.text.size());
  std::size_t filled = response_.text.size();
  std::uint64_t offset = response_.offset;
  std::uint64_t left = response_.length;

  while (left > 0) {
    const auto piece =
        static_cast<std::size_t>(std::min<std::uint64_t>(left, Server::block_size - filled));
    const auto read =
        co_await response_.file->file.read_exactly_at(offset, {memory + filled, piece});
    if (!read) {
      // It cannot be read, or has become shorter since its length was told.
      goes_on_ = false;
      if (offset != response_.offset) co_return false;
      write_page(response_, Status::internal_error, request_.method, Connection::close);
      ++counts_.errors;
      const auto sent = co_await socket_.write_all(response_.text).timeout(write_time);
      co_return note_sent(sent);
    }
    const auto sent = co_await socket_.write_all({memory, filled + piece}).timeout(write_time);
    if (!note_sent(sent)) co_return false;
    offset += piece;
    left -= piece;
    filled = 0;
  }
  response_.file.reset();
  co_return true;
}

// -- ending ---------------------------------------------------------------------------------------

baton::Task<void> Session::close_gently() {
  const baton::Deadline end = after(linger_time);
  const auto half = co_await socket_.shutdown();
  if (!half) co_return;
  input_.consume(input_.text().size());
  for (std::size_t bytes = 0; bytes < linger_bytes;) {
    const auto received = co_await socket_.read(input_.room()).deadline(end);
    if (!received || *received == 0) co_return;
    bytes += *received;
  }
}

}  // namespace httpd
