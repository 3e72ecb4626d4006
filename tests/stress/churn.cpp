// Connections that come and go. TCP connections are closed by a reset (SO_LINGER with no time), so
// that ended connections hold no ports: there are only about 28,000.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "actors.hpp"

namespace baton::soak {
namespace {

constexpr std::size_t clients_count = 4;
constexpr std::size_t message_max = 4'096;
constexpr int backlog = 64;

[[noreturn]] void give_up(const char* call) {
  fmt::print(stderr, "soak: {}: {}\n", call, std::strerror(errno));
  std::exit(1);
}

int open_socket(bool tcp) {
  const int descriptor = ::socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) give_up("socket");
  return descriptor;
}

/// Listens on a free address; `endpoint` becomes the address.
int listen_somewhere(bool tcp, std::uint64_t number, Endpoint& endpoint) {
  const int descriptor = open_socket(tcp);
  const std::string name = fmt::format("@baton-soak-{}-{:x}", ::getpid(), number);
  endpoint = tcp ? Endpoint::loopback(0) : Endpoint::unix_path(name).value();
  auto* const address = static_cast<sockaddr*>(endpoint.data());
  if (::bind(descriptor, address, endpoint.size()) != 0 || ::listen(descriptor, backlog) != 0) {
    give_up("listen");
  }
  endpoint.set_size(Endpoint::capacity);
  if (::getsockname(descriptor, address, endpoint.size_pointer()) != 0) give_up("getsockname");
  return descriptor;
}

bool is_reset(const Entry& entry) {
  return entry.error() == std::errc::connection_reset || entry.error() == std::errc::broken_pipe;
}

}  // namespace

// -- the clients ----------------------------------------------------------------------------------

class Churn::Client {
 public:
  explicit Client(Churn& churn)
      : churn_(churn),
        ledger_(churn.ledger_),
        connect_(ledger_),
        write_(ledger_),
        read_(ledger_),
        close_(ledger_),
        random_(ledger_.new_seed()) {
    connect_.on_done<&Client::connected>(*this);
    write_.on_done<&Client::wrote>(*this);
    read_.on_done<&Client::has_read>(*this);
    close_.on_done<&Client::next>(*this);
  }

  void next() {
    if (!ledger_.more(allowance_, 9)) return churn_.client_ended();
    const int descriptor = open_socket(churn_.tcp_);
    if (churn_.tcp_) {
      const linger reset{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    handle_ = adopt(ledger_, descriptor, HandleKind::stream_socket);
    connect_.prepare(OperationKind::connect, handle_);
    connect_.set_endpoint(&churn_.endpoint_);
    connect_.start(random_);
  }
  [[nodiscard]] std::uint64_t sent() const { return write_.totals().bytes; }
  [[nodiscard]] std::uint64_t received() const { return read_.totals().bytes; }

 private:
  void connected() {
    if (!connect_.expect_no_error("connect") || connect_.failed()) return start_close();
    phase_ = random_.below(tools::Pattern::period);
    write_.prepare(OperationKind::write_stream, handle_, Operation::exactly);
    const auto piece = ledger_.pattern.piece(phase_, 0, random_.size(message_max));
    write_.set_buffer(ConstBuffer{piece});
    write_.start(random_);
  }
  // Cancelled in the middle, it is a shorter message.
  void wrote() {
    write_.expect_no_error("write of a client");
    left_ = write_.bytes();
    echoed_ = 0;
    start_read();
  }
  void start_read() {
    if (left_ == 0) return start_close();
    read_.prepare(OperationKind::read_stream, handle_);
    read_.set_buffer(MutableBuffer{buffer_.data(), left_});
    read_.start(random_);
  }
  void has_read() {
    const std::size_t bytes = read_.bytes();
    expect_pattern(ledger_, phase_, echoed_, std::span(buffer_).first(bytes));
    echoed_ += bytes;
    left_ -= bytes;
    if (!read_.expect_no_error("read of a client")) return start_close();
    if (bytes == 0 && !read_.failed()) {
      ledger_.violation("the server has closed first");
      return start_close();
    }
    start_read();
  }
  void start_close() {
    close_.prepare(OperationKind::close, handle_);
    close_.start();
  }

  Churn& churn_;
  Ledger& ledger_;
  Entry connect_;
  Entry write_;
  Entry read_;
  Entry close_;
  Random random_;
  Handle* handle_ = nullptr;
  std::uint64_t allowance_ = 0;
  std::size_t phase_ = 0;
  std::size_t left_ = 0;
  std::uint64_t echoed_ = 0;
  std::array<std::byte, message_max> buffer_;
};

// -- the server -----------------------------------------------------------------------------------

class Churn::Session {
 public:
  explicit Session(Churn& churn)
      : churn_(churn),
        ledger_(churn.ledger_),
        read_(ledger_),
        write_(ledger_),
        close_(ledger_),
        random_(ledger_.new_seed()) {
    read_.on_done<&Session::has_read>(*this);
    write_.on_done<&Session::wrote>(*this);
    close_.on_done<&Session::closed>(*this);
  }

  void begin(Handle* handle) {
    handle_ = handle;
    start_read();
  }
  [[nodiscard]] std::uint64_t received() const { return read_.totals().bytes; }
  [[nodiscard]] std::uint64_t sent() const { return write_.totals().bytes; }

 private:
  void start_read() {
    read_.prepare(OperationKind::read_stream, handle_);
    read_.set_buffer(MutableBuffer{buffer_});
    read_.start(random_);
  }
  void has_read() {
    const bool over = churn_.tcp_ && is_reset(read_);
    if (over || !read_.expect_no_error("read of a server")) return start_close();
    if (read_.bytes() == 0 && !read_.failed()) return start_close();
    left_ = std::span(buffer_).first(read_.bytes());
    start_write();
  }
  void start_write() {
    if (left_.empty()) return start_read();
    write_.prepare(OperationKind::write_stream, handle_, Operation::exactly);
    write_.set_buffer(ConstBuffer{left_});
    write_.start(random_);
  }
  void wrote() {
    left_ = left_.subspan(write_.bytes());
    if (!write_.expect_no_error("write of a server")) return start_close();
    start_write();
  }
  void start_close() {
    close_.prepare(OperationKind::close, handle_);
    close_.start();
  }
  void closed() { churn_.session_ended(*this); }

  Churn& churn_;
  Ledger& ledger_;
  Entry read_;
  Entry write_;
  Entry close_;
  Random random_;
  Handle* handle_ = nullptr;
  std::span<const std::byte> left_;
  std::array<std::byte, message_max> buffer_;
};

Churn::Churn(Ledger& ledger, bool tcp)
    : ledger_(ledger), tcp_(tcp), accept_(ledger), close_(ledger), random_(ledger.new_seed()) {
  const int descriptor = listen_somewhere(tcp, ledger.new_seed(), endpoint_);
  listener_ = adopt(ledger, descriptor, HandleKind::listener);
  accept_.on_done<&Churn::accepted>(*this);
  accept_.may_be_cancelled();
  close_.on_done<&Churn::listener_closed>(*this);
  for (std::size_t i = 0; i < clients_count; ++i) {
    clients_.push_back(std::make_unique<Client>(*this));
  }
  clients_left_.store(clients_count);
}

Churn::~Churn() = default;

void Churn::begin() {
  ledger_.part_begins();  // the listener
  start_accept();
  for (const auto& client : clients_) client->next();
}

void Churn::expect_balanced() {
  std::uint64_t sent = 0;
  std::uint64_t echoed = 0;
  for (const auto& client : clients_) {
    sent += client->sent();
    echoed += client->received();
  }
  for (const auto& session : sessions_) {
    sent -= session->received();
    echoed -= session->sent();
  }
  if (sent != 0) ledger_.violation("the server has not read what the clients sent");
  if (echoed != 0) ledger_.violation("the clients have not read what the server sent");
}

void Churn::start_accept() {
  accept_.prepare(OperationKind::accept, listener_);
  accept_.start(random_);
  // Either the last client sees this accept, or this sees that it was the last.
  if (ending_.load()) static_cast<void>(ledger_.proactor.cancel(*listener_));
}

void Churn::accepted() {
  if (accept_.failed()) {
    accept_.expect_no_error("accept");
    if (!ending_.load() && accept_.was_cancelled()) return start_accept();
    close_.prepare(OperationKind::close, listener_);
    return close_.start();
  }
  Handle* const handle = adopt(ledger_, accept_.accepted(), HandleKind::stream_socket);
  Session* session = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      sessions_.push_back(std::make_unique<Session>(*this));
      free_.push_back(sessions_.back().get());
    }
    session = free_.back();
    free_.pop_back();
  }
  ledger_.part_begins();
  session->begin(handle);
  start_accept();
}

void Churn::client_ended() {
  if (clients_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ending_.store(true);
  static_cast<void>(ledger_.proactor.cancel(*listener_));
}

void Churn::session_ended(Session& session) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(&session);
  }
  ledger_.part_ended();
}

}  // namespace baton::soak
