// The arithmetic of buffers, which every engine shares: the rest of an operation's list, and
// whether it is complete after a number of bytes; and queued writes that are merged into one
// vectored send, as the emulated engine and the ring build it. Lengths may have any size, because
// no memory is accessed: the "system" is a function that records its arguments.
//
// The reference counts in 128 bits. It represents an operation as a list of pieces, of which a
// prefix is done.
#include "engines/common/transfer.hpp"

#include <errno.h>

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "baton/limits.hpp"
#include "core/handle_table.hpp"
#include "engines/emulated/perform.hpp"
#include "engines/emulated/record.hpp"
#include "engines/io_uring/prepare.hpp"
#include "expect.hpp"
#include "input.hpp"

namespace baton::fuzz {
namespace {

using engines::pieces_max;
using Wide = unsigned __int128;

constexpr std::size_t list_max = 100;  // more than one system call is given
constexpr std::size_t writes_max = 12;
constexpr std::size_t saturated = static_cast<std::size_t>(-1);

/// Memory that is only an address.
void* address(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

/// An operation, its list, and the reference's state of it.
struct Tried {
  Operation operation;
  std::vector<MutableBuffer> list;
  std::size_t moved = 0;

  [[nodiscard]] Wide total() const {
    Wide sum = 0;
    for (const MutableBuffer& buffer : list) sum += buffer.size;
    return sum;
  }
  /// The expected remaining_bytes().
  [[nodiscard]] std::size_t left() const {
    const Wide sum = total();
    return (sum > saturated ? saturated : static_cast<std::size_t>(sum)) - moved;
  }
  /// The next pieces, whole: the reference does not cut.
  [[nodiscard]] std::vector<iovec> rest() const {
    std::vector<iovec> pieces;
    Wide skip = moved;
    for (const MutableBuffer& buffer : list) {
      if (buffer.size <= skip) {
        skip -= buffer.size;
        continue;
      }
      const auto part = static_cast<std::size_t>(skip);
      pieces.push_back({static_cast<std::byte*>(buffer.data) + part, buffer.size - part});
      skip = 0;
    }
    return pieces;
  }
};

constexpr std::array kinds{OperationKind::read_stream,   OperationKind::write_stream,
                           OperationKind::read_file,     OperationKind::write_file,
                           OperationKind::read_datagram, OperationKind::write_datagram};
constexpr std::array<std::uint16_t, 3> kind_flags{0, Operation::exactly, Operation::append};

void fill(Input& input, Tried& tried, OperationKind kind, std::uint16_t flags, Handle* handle) {
  tried.operation.prepare(kind, handle, flags);
  const std::size_t count = input.choice(list_max + 1);
  std::uintptr_t next = 0x1000;
  for (std::size_t i = 0; i < count && (i == 0 || !input.empty()); ++i) {
    const auto size = static_cast<std::size_t>(input.size());
    tried.list.emplace_back(address(next), size);
    // At the end of the address space the next buffer begins at its start: the bytes are never
    // accessed.
    if (__builtin_add_overflow(next, size, &next) || next > (std::uintptr_t{1} << 46))
      next = 0x1000;
  }
  if (tried.list.size() == 1 && input.flag()) {
    tried.operation.set_buffer(tried.list.front());
  } else {
    tried.operation.set_buffers(MutableBuffers{tried.list});
  }
}

/// `pieces` are the beginning of `rest`, in order, without an empty one; returns their bytes.
std::size_t expect_beginning(std::span<const iovec> pieces, const std::vector<iovec>& rest) {
  std::size_t total = 0;
  expect(pieces.size() <= rest.size(), "no piece is invented");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    expect(pieces[i].iov_base == rest[i].iov_base, "a piece begins where the last one has ended");
    expect(pieces[i].iov_len > 0 && pieces[i].iov_len <= rest[i].iov_len, "a piece is inside");
    expect(pieces[i].iov_len == rest[i].iov_len || i + 1 == pieces.size(), "only the last is cut");
    total += pieces[i].iov_len;
  }
  return total;
}

// -- one operation --------------------------------------------------------------------------------

void expect_remaining(const Tried& tried, std::size_t room) {
  std::array<iovec, pieces_max> pieces;
  const std::vector<iovec> rest = tried.rest();
  const std::size_t count = engines::remaining(tried.operation, std::span{pieces}.first(room));
  const std::size_t total = expect_beginning(std::span{pieces}.first(count), rest);
  expect(total <= limits::transfer_max, "no system call is asked for more than it does");
  const bool all = count == rest.size() && (rest.empty() || total == tried.total() - tried.moved);
  expect(all || count == room || total == limits::transfer_max, "all is given that has room");
  expect(engines::remaining_bytes(tried.operation) == tried.left(), "what is left is counted");
}

/// A possible answer of one system call: from nothing to all bytes that it was given.
std::size_t answer(Input& input, const Tried& tried) {
  std::array<iovec, pieces_max> pieces;
  const std::size_t count = engines::remaining(tried.operation, pieces);
  std::size_t most = 0;
  for (std::size_t i = 0; i < count; ++i) most += pieces[i].iov_len;
  return input.flag() ? most : static_cast<std::size_t>(input.size(most));
}

void expect_outcome(Tried& tried, std::size_t moved, bool as_file) {
  const OperationKind kind = tried.operation.kind();
  const bool exactly = tried.operation.has(Operation::exactly);
  const bool file = kind == OperationKind::read_file || kind == OperationKind::write_file;
  const bool datagram =
      kind == OperationKind::read_datagram || kind == OperationKind::write_datagram;
  const bool done = as_file ? engines::advance_file(tried.operation, moved)
                            : engines::advance(tried.operation, moved);
  tried.moved += moved;
  expect(tried.operation.bytes() == tried.moved, "bytes are counted");
  const bool go_on = !datagram && moved > 0 && (exactly || (as_file && file)) && tried.left() > 0;
  expect(done == !go_on, "complete when it should be");
  if (!done) return;
  const bool broken = exactly && !datagram && moved == 0;
  expect(tried.operation.failed() == broken, "an end before all was moved is an error");
}

void check_one(Input& input) {
  Tried tried;
  const OperationKind kind = kinds[input.choice(kinds.size())];
  fill(input, tried, kind, kind_flags[input.choice(kind_flags.size())], nullptr);
  const bool as_file = input.flag();
  tried.operation.set_offset(input.size());
  const std::size_t room = 1 + input.choice(pieces_max);
  for (int i = 0; i < 64; ++i) {
    expect_remaining(tried, room);
    const bool ordered = engines::is_ordered(tried.operation);
    const Wide end = Wide{tried.operation.offset()} + tried.moved;
    expect(engines::offset_fits(tried.operation) ==
               (ordered || end <= static_cast<Wide>(std::numeric_limits<off_t>::max())),
           "an offset that the system cannot say is seen");
    if (tried.left() == 0) break;
    const std::size_t moved = answer(input, tried);
    expect_outcome(tried, moved, as_file);
    if (moved == 0 || input.empty()) break;
  }
}

// -- several writes, one send ---------------------------------------------------------------------

/// The last request to the system, and its answer.
std::vector<iovec> asked;
std::function<ssize_t()>* next_answer = nullptr;

ssize_t note(const iovec* pieces, std::size_t count) {
  asked.assign(pieces, pieces + count);
  return (*next_answer)();
}

const os::System& noting_system() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.sendmsg = [](int, const msghdr* message, int) {
      return note(message->msg_iov, message->msg_iovlen);
    };
    made.send = [](int, const void* data, size_t size, int) {
      const iovec piece{const_cast<void*>(data), size};
      return note(&piece, 1);
    };
    return made;
  }();
  return system;
}

/// Writes of one connection, in order, the first of them not yet complete.
class Writes {
 public:
  Writes(Input& input, Handle& handle) {
    const std::size_t count = 1 + input.choice(writes_max);
    for (std::size_t i = 0; i < count && (i == 0 || !input.empty()); ++i) {
      all_.push_back(std::make_unique<Tried>());
      fill(input, *all_.back(), OperationKind::write_stream,
           input.flag() ? std::uint16_t{Operation::exactly} : std::uint16_t{0}, &handle);
      queue_.push_back(all_.back()->operation);
    }
  }
  ~Writes() {
    while (!queue_.empty()) static_cast<void>(queue_.pop_front());
  }

  [[nodiscard]] bool empty() const { return next_ == all_.size(); }
  [[nodiscard]] Tried& front() { return *all_[next_]; }
  OperationList& queue() { return queue_; }

  /// The bytes to send, from the front of the queue on.
  [[nodiscard]] std::vector<iovec> rest() const {
    std::vector<iovec> pieces;
    for (std::size_t i = next_; i < all_.size(); ++i) {
      const std::vector<iovec> more = all_[i]->rest();
      pieces.insert(pieces.end(), more.begin(), more.end());
    }
    return pieces;
  }

  /// The system took so many bytes: each operation got its part, and completed ones have left the
  /// queue, in order.
  void expect_taken(std::size_t sent, OperationQueue& completed) {
    do {
      Tried& tried = front();
      const std::size_t part = std::min(sent, tried.left());
      tried.moved += part;
      sent -= part;
      expect(tried.operation.bytes() == tried.moved, "each write gets its part");
      if (tried.operation.has(Operation::exactly) && tried.left() > 0) break;
      expect_completed(completed, 0);
    } while (sent > 0);
    expect(sent == 0, "no more is given out than was sent");
    expect(completed.empty(), "nothing else is complete");
    expect(empty() || (!queue_.empty() && queue_.front() == &front().operation),
           "the others wait as they did");
    for (std::size_t i = next_ + 1; i < all_.size(); ++i) {
      expect(all_[i]->operation.bytes() == 0, "an operation that got nothing is unchanged");
    }
  }
  void expect_completed(OperationQueue& completed, int error) {
    expect(!completed.empty() && &completed.pop_front() == &front().operation,
           "writes are complete in their order");
    expect(front().operation.error_value() == error, "with their own outcome");
    ++next_;
  }

 private:
  std::vector<std::unique_ptr<Tried>> all_;
  OperationList queue_;
  std::size_t next_ = 0;
};

std::size_t bytes_of(const std::vector<iovec>& pieces) {
  Wide sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  // The system does no more at once.
  return sum > limits::transfer_max ? limits::transfer_max : static_cast<std::size_t>(sum);
}

/// The pieces that one call passed to the system. The last one may be cut when the next write was
/// left out.
void expect_next(const std::vector<iovec>& pieces, const std::vector<iovec>& rest) {
  expect(!pieces.empty(), "something is sent");
  expect_beginning(pieces, rest);
}

void check_merged(Input& input, Handle& handle) {
  engines::emulated::Performer performer(noting_system(), false,
                                         engines::HandleRoom{EngineOptions{}});
  Writes writes(input, handle);
  std::size_t sent = 0;
  int error = 0;
  std::function<ssize_t()> decide = [&]() -> ssize_t {
    constexpr std::array errors{EAGAIN, EINTR, EPIPE, ENOBUFS};
    const std::size_t most = bytes_of(asked);
    const std::uint8_t how = input.byte();
    error = how < 0xf0 ? 0 : errors[how % errors.size()];
    if (error != 0) {
      errno = error;
      return -1;
    }
    sent = (how & 1) != 0 ? most : 1 + static_cast<std::size_t>(input.size(most - 1));
    return static_cast<ssize_t>(sent);
  };
  next_answer = &decide;
  for (int i = 0; i < 256 && !writes.empty(); ++i) {
    const std::vector<iovec> rest = writes.rest();
    const bool nothing = writes.front().left() == 0;
    asked.clear();
    OperationQueue completed;
    performer.perform_merged(writes.queue(), completed);
    if (nothing) {
      expect(asked.empty(), "nothing is sent for nothing");
      writes.expect_completed(completed, 0);
      continue;
    }
    expect_next(asked, rest);
    if (error == 0) {
      writes.expect_taken(sent, completed);
    } else if (error != EAGAIN && error != EINTR) {
      writes.expect_completed(completed, error);
    }
    expect(completed.empty(), "nothing else is complete");
    if (input.empty() && error != 0) break;
  }
  next_answer = nullptr;
}

/// The ring's message for the writes at the front: which of them it covers.
void check_message(Input& input, Handle& handle) {
  Writes writes(input, handle);
  if (writes.front().left() == 0) return;  // the engine completes it before
  engines::uring::abi::Sqe request{};
  engines::uring::Message message;
  auto& first = writes.front().operation;
  const std::uint32_t covered = engines::uring::prepare_merged(request, first, message);
  const std::vector<iovec> pieces(message.header.msg_iov,
                                  message.header.msg_iov + message.header.msg_iovlen);
  expect(pieces.size() <= engines::uring::request_pieces_max, "the message has room");
  expect_next(pieces, writes.rest());
  Wide sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  const Operation* last = &first;
  for (std::uint32_t i = 0; i < covered; ++i) {
    expect(last != nullptr, "no more writes are covered than there are");
    expect(sum > 0, "of each write that is covered there is something");
    const Wide left = engines::remaining_bytes(*last);
    expect(sum >= left || i + 1 == covered, "only the last may be in part");
    sum -= std::min(sum, left);
    last = OperationList::next(*last);
  }
  expect(sum == 0, "what is in the message is covered");
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baton;
  static HandleTable handles(4, os::real_system());
  // No system call sees it.
  static Handle& handle =
      *handles.allocate(1'000, HandleKind::stream_socket, Ownership::borrowed, true, 0);
  fuzz::Input input(data, size);
  switch (input.choice(3)) {
    case 0:
      fuzz::check_one(input);
      break;
    case 1:
      fuzz::check_merged(input, handle);
      break;
    default:
      fuzz::check_message(input, handle);
      break;
  }
  return 0;
}
