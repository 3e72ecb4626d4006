// Connections and pipes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "actors.hpp"

namespace baton::soak {
namespace {

constexpr std::size_t piece_max = 16'384;

[[noreturn]] void give_up(const char* call) {
  fmt::print(stderr, "soak: {}: {}\n", call, std::strerror(errno));
  std::exit(1);
}

void connect_by_tcp(int ends[2]) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Endpoint here = Endpoint::loopback(0);
  auto* const address = static_cast<sockaddr*>(here.data());
  if (listener < 0 || ::bind(listener, address, here.size()) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, address, here.size_pointer()) != 0) {
    give_up("a listener on the loopback");
  }
  ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (ends[0] < 0 || ::connect(ends[0], address, here.size()) != 0) give_up("connect");
  ends[1] = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (ends[1] < 0) give_up("accept");
  ::close(listener);
}

void connect_ends(Link::Kind kind, int ends[2]) {
  switch (kind) {
    case Link::Kind::tcp_socket:
      return connect_by_tcp(ends);
    case Link::Kind::unix_socket:
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) give_up("socketpair");
      return;
    case Link::Kind::pipe: {
      int pipe[2];
      if (::pipe2(pipe, O_CLOEXEC) != 0) give_up("pipe");
      ends[0] = pipe[1];
      ends[1] = pipe[0];
      return;
    }
  }
}

}  // namespace

Handle* adopt(Ledger& ledger, int descriptor, HandleKind kind) {
  const auto handle = ledger.proactor.adopt(descriptor, kind);
  if (handle) return *handle;
  fmt::print(stderr, "soak: adopt: {}\n", handle.error().message());
  std::exit(1);
}

void expect_pattern(Ledger& ledger, std::size_t phase, std::uint64_t offset,
                    std::span<const std::byte> data) {
  const auto expected = ledger.pattern.piece(phase, offset, data.size());
  if (std::memcmp(expected.data(), data.data(), data.size()) == 0) return;
  const auto differs = std::mismatch(data.begin(), data.end(), expected.begin()).first;
  ledger.violation(
      fmt::format("wrong content at {} of {}+{}", differs - data.begin(), offset, data.size()));
}

/// One direction. Writer and reader share no state: their handlers may run at the same time.
class Link::Flow {
 public:
  Flow(Link& link, End& from, End& to)
      : link_(link),
        ledger_(link.ledger_),
        from_(from),
        to_(to),
        phase_(static_cast<std::size_t>(ledger_.new_seed() % tools::Pattern::period)),
        write_(ledger_),
        end_(ledger_),
        read_(ledger_),
        writing_(ledger_.new_seed()),
        reading_(ledger_.new_seed()) {
    write_.on_done<&Flow::wrote>(*this);
    end_.on_done<&Flow::ended>(*this);
    read_.on_done<&Flow::has_read>(*this);
  }

  void begin() {
    start_read();
    start_write();
  }
  [[nodiscard]] bool balanced() const { return written_ == received_; }

 private:
  void start_write() {
    if (!ledger_.more(allowance_, 2)) return start_end();
    const auto piece = ledger_.pattern.piece(phase_, written_, writing_.size(piece_max));
    // In both forms, and of one buffer and of two.
    write_.prepare(OperationKind::write_stream, from_.handle,
                   writing_.one_in(4) ? Operation::exactly : 0);
    if (writing_.one_in(8)) {
      const std::size_t half = piece.size() / 2;
      list_ = {ConstBuffer{piece.first(half)}, ConstBuffer{piece.subspan(half)}};
      write_.set_buffers(ConstBuffers{list_});
    } else {
      write_.set_buffer(ConstBuffer{piece});
    }
    to_write_ = piece.size();
    write_.start(writing_);
  }
  void wrote() {
    const bool whole = write_.has(Operation::exactly) && !write_.failed();
    if (whole && write_.bytes() != to_write_) ledger_.violation("write_all has not written all");
    written_ += write_.bytes();
    if (!write_.expect_no_error("write")) return start_end();
    start_write();
  }

  /// A pipe ends by its close; the other direction of a socket continues.
  void start_end() {
    if (link_.kind_ == Kind::pipe) return link_.start_close(from_);
    end_.prepare(OperationKind::shutdown, from_.handle);
    end_.start();
  }
  void ended() { end_.expect_no_error("shutdown"); }

  void start_read() {
    read_.prepare(OperationKind::read_stream, to_.handle,
                  reading_.one_in(8) ? Operation::exactly : 0);
    read_.set_buffer(MutableBuffer{buffer_.data(), reading_.size(piece_max)});
    read_.start(reading_);
  }
  void has_read() {
    const std::size_t bytes = read_.bytes();
    expect_pattern(ledger_, phase_, received_, std::span(buffer_).first(bytes));
    received_ += bytes;
    // The stream ended in the middle of a read_exactly; the next read reports the end again.
    const bool cut = read_.has(Operation::exactly) && read_.error() == errc::end_of_stream;
    const bool well = cut || read_.expect_no_error("read");
    if (!well || (bytes == 0 && !read_.failed())) return link_.flow_ended();
    start_read();
  }

  Link& link_;
  Ledger& ledger_;
  End& from_;
  End& to_;
  const std::size_t phase_;
  // The writer's.
  Entry write_;
  Entry end_;
  // The reader's.
  Entry read_;
  Random writing_;
  std::uint64_t allowance_ = 0;
  std::uint64_t written_ = 0;
  std::size_t to_write_ = 0;
  std::array<ConstBuffer, 2> list_;
  Random reading_;
  std::uint64_t received_ = 0;
  std::array<std::byte, piece_max> buffer_;
};

Link::Link(Ledger& ledger, Kind kind) : ledger_(ledger), kind_(kind), one_(ledger), other_(ledger) {
  int ends[2];
  connect_ends(kind, ends);
  const HandleKind as = kind == Kind::pipe ? HandleKind::pipe : HandleKind::stream_socket;
  one_.handle = adopt(ledger, ends[0], as);
  other_.handle = adopt(ledger, ends[1], as);
  one_.close.on_done<&Link::end_closed>(*this);
  other_.close.on_done<&Link::end_closed>(*this);
  flows_.push_back(std::make_unique<Flow>(*this, one_, other_));
  if (kind != Kind::pipe) flows_.push_back(std::make_unique<Flow>(*this, other_, one_));
  flows_left_.store(static_cast<int>(flows_.size()));
}

Link::~Link() = default;

void Link::begin() {
  ledger_.part_begins();
  for (const auto& flow : flows_) flow->begin();
}

void Link::expect_balanced() {
  for (const auto& flow : flows_) {
    if (!flow->balanced()) ledger_.violation("what was written was not read");
  }
}

void Link::start_close(End& end) {
  end.close.prepare(OperationKind::close, end.handle);
  end.close.start();
}

void Link::flow_ended() {
  if (flows_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (kind_ != Kind::pipe) start_close(one_);
  start_close(other_);
}

void Link::end_closed() {
  if (ends_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) ledger_.part_ended();
}

}  // namespace baton::soak
