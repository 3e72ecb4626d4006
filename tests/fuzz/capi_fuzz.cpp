// Uses the C interface like a faulty program. The input is a sequence of calls, with handles that
// never existed or are closed, activations that are over, sizes of zero and of the maximum, and
// counts beyond the array. Checks: no crash; each accepted operation completes exactly once, with
// its tag and kind and no more bytes than its buffer holds; and when the proactor is closed, the
// process has the descriptors that it had before.
//
// Calls get what they require: memory of the stated size that lives as long as the proactor. The
// harness leaves out configuration text, which has harnesses of its own, and borrowed descriptors
// of a wrong kind, which may block a worker for good.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton.h"
#include "expect.hpp"
#include "input.hpp"
#include "proactors.hpp"

namespace baton::fuzz {
namespace {

constexpr std::uint32_t slots = 24;
constexpr std::size_t arena_size = 1U << 20;
constexpr std::size_t batch_max = 8;
constexpr std::size_t block_size = 128;
constexpr std::uint32_t blocks = 3;
constexpr std::size_t peers_max = 32;
constexpr std::int64_t patience_ns = 20'000'000'000;

/// Memory for every operation at once, with nothing behind it: a length that is too large ends in
/// EFAULT, not in other data.
char* arena() {
  static char* const memory = [] {
    void* const mapped =
        ::mmap(nullptr, 2 * arena_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(mapped != MAP_FAILED && ::mprotect(mapped, arena_size, PROT_READ | PROT_WRITE) == 0,
           "there is memory");
    return static_cast<char*>(mapped);
  }();
  return memory;
}

std::size_t count_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  expect(folder != nullptr, "/proc is there");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

class Program {
 public:
  explicit Program(Input& input)
      : input_(input),
        stride_(std::array<std::size_t, 4>{32, 40, 64, 256}[input.choice(4)]),
        descriptors_(count_descriptors()),
        proactor_(open_proactor(input.byte(), slots, stride_)) {
    expect(baton_pool_open(block_size, blocks, &pool_) == 0, "there is memory for a pool");
    handles_.push_back(0);
    activations_.push_back(0);
  }

  void run() {
    for (int i = 0; i < 512 && !input_.empty(); ++i) step();
    finish();
  }

 private:
  struct Taken {
    int kind;
    std::size_t bytes_max;
  };
  using Step = void (Program::*)();

  void step() {
    // Starts and waits are most of it.
    static constexpr std::array<Step, 40> steps{&Program::add_pair,
                                                &Program::add_pipe,
                                                &Program::add_file,
                                                &Program::add_wrong,
                                                &Program::listen,
                                                &Program::connect,
                                                &Program::start,
                                                &Program::start,
                                                &Program::start,
                                                &Program::start,
                                                &Program::start,
                                                &Program::start,
                                                &Program::start_one_right,
                                                &Program::start_one_right,
                                                &Program::start_one_right,
                                                &Program::wait,
                                                &Program::wait,
                                                &Program::poll,
                                                &Program::cancel,
                                                &Program::cancel,
                                                &Program::cancel_many,
                                                &Program::close_handle,
                                                &Program::status,
                                                &Program::wake,
                                                &Program::print,
                                                &Program::addresses,
                                                &Program::peer,
                                                &Program::peer,
                                                &Program::look_at_handle,
                                                &Program::open_wrong,
                                                &Program::add_datagram,
                                                &Program::stop,
                                                &Program::exchange,
                                                &Program::exchange,
                                                &Program::open_socket,
                                                &Program::options,
                                                &Program::end_one,
                                                &Program::pools,
                                                &Program::drain_or_restart,
                                                &Program::look};
    (this->*steps[input_.choice(steps.size())])();
  }

  // -- descriptors -------------------------------------------------------------------------------

  int kind() {
    const std::uint8_t form = input_.byte();
    return form < 0xf0 ? form % 5 + 1 : form - 0xf8;
  }
  baton_handle handle() {
    const std::uint8_t form = input_.byte();
    // One that never was: any number.
    return form < 0xf0 ? handles_[form % handles_.size()] : input_.word(8);
  }
  void keep(baton_handle handle) {
    expect(handle != 0, "a handle has a name");
    for (const baton_handle other : handles_) {
      expect(other != handle, "the name of a handle is never used again");
    }
    handles_.push_back(handle);
  }
  void keep_peer(int descriptor) {
    if (peers_.size() < peers_max) {
      peers_.push_back(descriptor);
    } else {
      ::close(descriptor);
    }
  }
  /// Of its own kind or, in every fourth case, of another.
  void adopt(int descriptor, int right_kind) {
    const int as = input_.choice(4) == 0 ? kind() : right_kind;
    baton_handle handle = 77;
    const int error = baton_adopt(proactor_, descriptor, as, BATON_OWNED, &handle);
    if (error == 0) return keep(handle);
    expect(handle == 0, "a descriptor that is not adopted gets no handle");
    if (error != ENOMEM) ::close(descriptor);
  }

  void add_ends(int type, int right_kind) {
    int ends[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
    adopt(ends[0], right_kind);
    keep_peer(ends[1]);
  }
  void add_pair() { add_ends(SOCK_STREAM, BATON_STREAM_SOCKET); }
  void add_datagram() { add_ends(SOCK_DGRAM, BATON_DATAGRAM_SOCKET); }
  void add_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    const bool reads = input_.flag();
    adopt(ends[reads ? 0 : 1], BATON_PIPE);
    keep_peer(ends[reads ? 1 : 0]);
  }
  void add_file() {
    const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
    if (descriptor >= 0) adopt(descriptor, BATON_FILE);
  }
  void add_wrong() {
    baton_handle handle = 77;
    const auto number = static_cast<int>(input_.word(4)) | 0x4000'0000;
    const int descriptor = input_.flag() ? number : -1;
    const int ownership = static_cast<int>(input_.choice(4)) - 1;
    expect(baton_adopt(proactor_, descriptor, kind(), ownership, &handle) != 0 && handle == 0,
           "what is no descriptor is not adopted");
    expect(baton_adopt(proactor_, descriptor, BATON_PIPE, 0, nullptr) == EINVAL, "out is needed");
  }

  void listen() {
    baton_handle handle = 77;
    const std::string text = input_.flag() ? "127.0.0.1:0" : std::string(input_.text());
    // Names that are visible to other processes are used only if they are free.
    if (text.starts_with("unix:") || text.starts_with("*")) return;
    if (baton_listen(proactor_, text.c_str(), static_cast<int>(input_.word(4)), &handle) != 0) {
      expect(handle == 0, "a failed listen gives no handle");
      return;
    }
    keep(handle);
    baton_endpoint here{};
    expect(baton_local_endpoint(proactor_, handle, &here) == 0, "a listener has an address");
    if (text == "127.0.0.1:0") listener_ = here;
  }
  void connect() {
    std::string text(64, '\0');
    text.resize(baton_endpoint_print(&listener_, text.data(), text.size()));
    if (input_.choice(4) == 0) text = input_.text();
    baton_endpoint where;
    if (!text.starts_with("127.") && baton_endpoint_parse(text.c_str(), &where) == 0) return;
    baton_handle handle = 77;
    baton_activation activation = 0;
    const std::uint64_t tag = next_tag_++;
    const int error = baton_connect(proactor_, text.c_str(), tag, deadline(), &handle, &activation);
    if (error != 0) {
      expect(handle == 0, "a failed connect gives no handle");
      return;
    }
    keep(handle);
    take(tag, BATON_CONNECT, 0, activation);
  }

  /// Only addresses of this machine; every field of the struct comes from the input.
  void open_socket() {
    baton_endpoint local{};
    expect(baton_endpoint_parse("127.0.0.1:0", &local) == 0, "an address");
    baton_option option = BATON_OPTION_INIT;
    baton_socket made = BATON_SOCKET_INIT;
    made.kind = static_cast<std::int32_t>(input_.choice(7));
    made.family = static_cast<std::int32_t>(input_.choice(6)) - 1;
    made.backlog = static_cast<std::int32_t>(input_.word(4));
    made.local = input_.choice(4) == 0 ? nullptr : &local;
    if (input_.choice(8) == 0) local.length = static_cast<std::uint32_t>(input_.word(4));
    if (input_.flag()) {
      fill(option);
      made.options = &option;
      made.option_count = 1;
    }
    if (input_.choice(8) == 0) made.size = static_cast<std::uint32_t>(input_.choice(sizeof made));
    if (input_.choice(8) == 0) made.reserved = input_.byte();
    baton_handle handle = 77;
    if (baton_socket_open(proactor_, &made, &handle) == 0) return keep(handle);
    expect(handle == 0, "what is not opened has no name");
    expect(baton_socket_open(proactor_, &made, nullptr) == EINVAL, "out is needed");
  }
  void fill(baton_option& option) {
    option.level = static_cast<std::int32_t>(input_.choice(64));
    option.name = static_cast<std::int32_t>(input_.choice(80));
    option.value = input_.choice(8) == 0 ? nullptr : arena() + input_.byte();
    option.value_size = static_cast<std::uint32_t>(input_.choice(64));
    if (input_.choice(8) == 0) {
      option.size = static_cast<std::uint32_t>(input_.choice(sizeof option));
    }
    // Not for a second: a close that waits would hold up all that follow.
    if (option.level == SOL_SOCKET && option.name == SO_LINGER) option.value = nullptr;
  }
  void options() {
    baton_option option = BATON_OPTION_INIT;
    fill(option);
    const baton_handle of = handle();
    const int error = baton_set_option(proactor_, of, &option);
    expect(error >= 0 && (option.size == sizeof option || error == EINVAL), "set, or why not");
    std::array<char, 64> value{};
    auto size = static_cast<std::uint32_t>(input_.choice(value.size()));
    const int asked =
        baton_get_option(proactor_, of, option.level, option.name, value.data(), &size);
    expect(asked >= 0 && size <= value.size(), "told, or why not");
    baton_endpoint peer{};
    const int known = baton_remote_endpoint(proactor_, of, &peer);
    expect(known == 0 || peer.length == 0, "a peer, or none");
  }

  void close_handle() {
    const baton_handle closing = handle();
    const int error = baton_handle_close(proactor_, closing);
    expect(error == 0 || error == BATON_HANDLE_CLOSED, "a handle is closed, or was");
    expect(baton_handle_close(proactor_, closing) == BATON_HANDLE_CLOSED,
           "a second close finds nothing");
    expect(baton_handle_descriptor(proactor_, closing) == -1, "nor do others");
  }
  void look_at_handle() {
    const baton_handle looked = handle();
    baton_endpoint endpoint{};
    const int error = baton_local_endpoint(proactor_, looked, &endpoint);
    const int descriptor = baton_handle_descriptor(proactor_, looked);
    expect((descriptor < 0) == (error == BATON_HANDLE_CLOSED), "both know whether it is closed");
    expect(endpoint.length <= sizeof endpoint.address, "an address fits");
  }

  // -- the other ends ----------------------------------------------------------------------------

  void peer() {
    if (peers_.empty()) return;
    const std::size_t which = input_.choice(peers_.size());
    const int descriptor = peers_[which];
    std::array<char, 512> buffer{};
    switch (input_.choice(4)) {
      case 0:
        static_cast<void>(!::read(descriptor, buffer.data(), buffer.size()));
        break;
      case 1:
        ::close(descriptor);
        peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      default:
        // A pipe without a reader would raise the signal.
        if (::send(descriptor, buffer.data(), input_.byte(), MSG_NOSIGNAL) < 0 &&
            errno == ENOTSOCK) {
          write_pipe(descriptor, input_.byte());
        }
        break;
    }
  }
  static void write_pipe(int descriptor, std::size_t size) {
    static const std::array<char, 256> bytes{};
    // Ignored for the length of the harness; the library has no part in it.
    static const auto ignored = ::signal(SIGPIPE, SIG_IGN);
    static_cast<void>(ignored);
    static_cast<void>(!::write(descriptor, bytes.data(), size));
  }

  // -- operations --------------------------------------------------------------------------------

  std::int64_t deadline() {
    switch (input_.choice(8)) {
      case 0:
        return baton_now(proactor_) + static_cast<std::int64_t>(input_.word(2));
      case 1:
        return static_cast<std::int64_t>(input_.word(8));
      case 2:
        return baton_now(proactor_) - 1;
      case 3:
        return INT64_MAX;
      default:
        return 0;
    }
  }
  /// No UNIX name, no IPv6, and of IPv4 only this machine: no packet leaves it.
  static void keep_at_home(unsigned char* address) {
    address[0] = static_cast<unsigned char>((address[0] | 2U) & ~8U);
    address[4] = 127;
  }
  baton_endpoint* endpoint() {
    baton_endpoint& one = endpoints_[next_endpoint_++ % endpoints_.size()];
    switch (input_.choice(4)) {
      case 0:
        return nullptr;
      case 1:
        one = listener_;
        return &one;
      case 2: {
        const std::string_view bytes = input_.text();
        one = {};
        std::memcpy(one.address, bytes.data(), std::min(bytes.size(), sizeof one.address));
        keep_at_home(reinterpret_cast<unsigned char*>(one.address));
        one.length = static_cast<std::uint32_t>(input_.size(0xffff'ffff));
        return &one;
      }
      default:
        return baton_endpoint_parse("127.0.0.1:1", &one) == 0 ? &one : nullptr;
    }
  }
  void* data(std::size_t& length) {
    length = static_cast<std::size_t>(input_.size());
    if (input_.choice(16) == 0) return nullptr;
    return arena() + input_.word(2) % (arena_size - 4'096);
  }
  /// A list of up to 40 buffers, of which `length` may say that there are more than can be.
  void* list(std::size_t& length, std::size_t& bytes_max) {
    auto& buffers = lists_.emplace_back(std::make_unique<std::array<baton_buffer, 40>>());
    length = input_.choice(buffers->size() + 1);
    bytes_max = 0;
    for (std::size_t i = 0; i < length; ++i) {
      baton_buffer& buffer = (*buffers)[i];
      buffer.data = data(buffer.size);
      if (__builtin_add_overflow(bytes_max, buffer.size, &bytes_max)) bytes_max = SIZE_MAX;
    }
    // More than the system takes is refused before it is read.
    if (input_.choice(16) == 0) length = 2'000 + static_cast<std::size_t>(input_.size(1ULL << 60));
    return buffers->data();
  }

  baton_operation operation(std::size_t& bytes_max) {
    baton_operation made = BATON_OPERATION_INIT;
    if (input_.choice(32) == 0) made.size = static_cast<std::uint32_t>(input_.choice(120));
    const std::uint8_t form = input_.byte();
    made.kind = form < 0xf8 ? static_cast<std::uint16_t>(form % 14 + 1)
                            : static_cast<std::uint16_t>(input_.word(2));
    // One flag, none, or anything.
    const std::uint8_t flags = input_.byte();
    made.flags = flags < 0x80   ? static_cast<std::uint16_t>(0)
                 : flags < 0xf8 ? static_cast<std::uint16_t>(1U << (flags % 8))
                                : static_cast<std::uint16_t>(input_.word(2));
    made.handle = handle();
    made.offset = input_.choice(4) == 0 ? input_.size() : input_.choice(64);
    made.deadline_ns = deadline();
    // A program that sets this flag has a pool.
    if ((made.flags & BATON_POOLED) != 0) {
      made.data = input_.choice(8) == 0 ? nullptr : pool_;
      bytes_max = block_size;
    } else if ((made.flags & BATON_VECTORED) != 0) {
      made.data = list(made.length, bytes_max);
    } else {
      made.data = data(made.length);
      bytes_max = made.length;
    }
    made.endpoint = endpoint();
    made.delimiter = input_.choice(8) == 0 ? nullptr : arena() + input_.choice(64);
    made.delimiter_size =
        static_cast<std::uint32_t>(input_.choice(8) == 0 ? input_.word(4) : input_.choice(70));
    made.notify = static_cast<std::uint32_t>(input_.choice(4));
    made.tag = next_tag_++;
    return made;
  }

  void take(std::uint64_t tag, int kind, std::size_t bytes_max, baton_activation activation) {
    expect(activation != 0, "an activation has a name");
    expect(pending_.emplace(tag, Taken{kind, bytes_max}).second, "a tag is used once");
    activations_.push_back(activation);
  }

  void start() {
    std::array<baton_operation, batch_max + 1> batch{};
    std::array<std::size_t, batch_max> bytes_max{};
    std::array<baton_activation, batch_max + 1> activations{};
    const std::size_t there = 1 + input_.choice(batch_max);
    for (std::size_t i = 0; i < there; ++i) batch[i] = operation(bytes_max[i]);
    // No struct of any version has this size: every array ends here, whatever count says.
    batch[there].size = 0xdead;
    const int count =
        input_.choice(8) == 0 ? static_cast<int>(input_.word(4)) : static_cast<int>(there);
    const bool numbers = input_.choice(8) != 0;
    int why = -1;
    const std::vector<unsigned char> bytes = bytes_of(batch, there);
    const int taken =
        start(as_operations(bytes), count, numbers ? activations.data() : nullptr, why);
    expect(taken >= 0 && taken <= std::max(count, 0) && taken <= static_cast<int>(there),
           "no more is taken than there is");
    expect((why == 0) == (taken == count), "a refused operation has its reason",
           std::to_string(why));
    for (int i = 0; i < taken; ++i) {
      const auto at = static_cast<std::size_t>(i);
      take(batch[at].tag, batch[at].kind, bytes_max[at], numbers ? activations[at] : 1);
    }
  }
  /// What C hands over is bytes: an array of elements as large as the first says they are, at most
  /// 128 bytes; a size too small is refused with the first.
  static std::vector<unsigned char> bytes_of(
      const std::array<baton_operation, batch_max + 1>& batch, std::size_t there) {
    const std::size_t stride = std::max<std::size_t>(batch[0].size, sizeof(baton_operation));
    std::vector<unsigned char> bytes((there + 1) * stride);
    for (std::size_t i = 0; i <= there; ++i) {
      std::memcpy(bytes.data() + i * stride, &batch[i], sizeof batch[i]);
    }
    return bytes;
  }
  static const baton_operation* as_operations(const std::vector<unsigned char>& bytes) {
    // The vector's memory has the alignment of everything.
    return reinterpret_cast<const baton_operation*>(bytes.data());
  }
  /// By itself, or with a wait, whose completions are kept for later.
  int start(const baton_operation* operations, int count, baton_activation* activations, int& why) {
    if (!exchanges_) return baton_start(proactor_, operations, count, activations, &why);
    baton_batch batch = BATON_BATCH_INIT;
    batch.operations = operations;
    batch.count = count;
    batch.activations = activations;
    const auto max = static_cast<int>(input_.choice(completions_max)) + 1;
    exchanged_max_ = max;
    exchanged_ = baton_exchange(proactor_, &batch, room(), max, 0);
    why = batch.why_not;
    return batch.taken;
  }
  void exchange() {
    baton_batch wrong = BATON_BATCH_INIT;
    wrong.size = static_cast<std::uint32_t>(input_.choice(sizeof wrong));
    wrong.taken = -7;
    expect(baton_exchange(proactor_, &wrong, room(), 1, 0) == -EINVAL && wrong.taken == -7,
           "what is wrong is left alone");
    exchanges_ = true;
    start();
    exchanges_ = false;
    bring(exchanged_, exchanged_max_);
  }

  /// A transfer as it should be, so that something happens.
  void start_one_right() {
    baton_operation made = BATON_OPERATION_INIT;
    constexpr std::array<std::uint16_t, 8> kinds{
        BATON_READ_STREAM, BATON_WRITE_STREAM, BATON_READ_FILE, BATON_WRITE_FILE,
        BATON_ACCEPT,      BATON_POST,         BATON_TIMER,     BATON_CLOSE};
    made.kind = kinds[input_.choice(kinds.size())];
    made.handle = handles_[input_.choice(handles_.size())];
    made.data = arena() + input_.word(1);
    made.length = input_.word(2);
    made.tag = next_tag_++;
    if (made.kind == BATON_TIMER) made.deadline_ns = baton_now(proactor_) + input_.byte();
    baton_activation activation = 0;
    int why = 0;
    if (baton_start(proactor_, &made, 1, &activation, &why) == 1) {
      take(made.tag, made.kind, made.length, activation);
    } else {
      expect(why != 0, "a refused operation has its reason");
    }
  }

  // -- completions -------------------------------------------------------------------------------

  void complete(const baton_completion& done) {
    const auto found = pending_.find(done.tag);
    expect(found != pending_.end(), "a completion is of an operation that was taken, and once",
           std::to_string(done.tag));
    const Taken taken = found->second;
    pending_.erase(found);
    expect(done.kind == taken.kind, "it has its kind");
    expect(done.error >= 0 && done.activation != 0 && done.reserved == 0, "it is well formed");
    if (done.kind == BATON_ACCEPT) {
      expect((done.result >= 0) == (done.error == 0), "an accept brings a descriptor or an error");
      expect(done.handle == 0 || done.error == 0, "a failed accept brings no handle");
      if (done.handle != 0) {
        keep(done.handle);
      } else if (done.result >= 0) {
        adopt(static_cast<int>(done.result), BATON_STREAM_SOCKET);
      }
      return;
    }
    expect(done.result >= 0 && done.handle == 0, "bytes are no less than none");
    if (done.data != nullptr) {
      expect(done.result > 0 && done.error == 0, "a block is brought with what is in it");
      blocks_.push_back(done.data);
    }
    if (done.kind <= BATON_WRITE_DATAGRAM) {
      expect(static_cast<std::uint64_t>(done.result) <= taken.bytes_max,
             "no more bytes than there was room for");
    }
  }
  /// The answer of baton_wait or baton_poll.
  int bring(int count, int max) {
    if (count == -BATON_STOPPED) {
      expect(stopped_, "it was not stopped");
      return 0;
    }
    expect(count >= 0 && count <= std::max(max, 0), "no more is brought than asked for",
           std::to_string(count));
    for (int i = 0; i < count; ++i) {
      baton_completion done{};
      const unsigned char* at = completions_.data() + static_cast<std::size_t>(i) * stride_;
      std::memcpy(&done, at, stride_ < sizeof done ? 32 : sizeof done);
      complete(done);
    }
    return count;
  }
  baton_completion* room() {
    completions_.assign(completions_max * stride_, 0xa5);
    return reinterpret_cast<baton_completion*>(completions_.data());
  }

  void wait() {
    constexpr std::array<std::int64_t, 4> times{0, 0, 1, 100'000};
    const auto max = static_cast<int>(input_.choice(completions_max + 4)) - 3;
    const std::int64_t time = times[input_.choice(times.size())];
    baton_completion* const out = room();
    const int count = baton_wait(proactor_, out, max, time);
    if (max <= 0) {
      expect(count == -EINVAL, "there must be room for one");
      return;
    }
    expect(baton_wait(proactor_, nullptr, 1, 0) == -EINVAL, "and memory");
    bring(count, max);
  }
  void poll() {
    const int max = 1 + static_cast<int>(input_.choice(completions_max));
    const int count = baton_poll(proactor_, room(), max);
    if (count != -BATON_NOT_SUPPORTED) bring(count, max);
  }

  // -- the rest ----------------------------------------------------------------------------------

  baton_activation activation() {
    const std::uint8_t form = input_.byte();
    if (form >= 0xf0) return input_.word(8);
    const baton_activation known = activations_[form % activations_.size()];
    return form >= 0xe0 ? known + (std::uint64_t{1} << 32) : known;
  }
  void cancel() {
    const int error = baton_cancel(proactor_, activation());
    expect(error == 0 || error == ENOENT, "asked, or nothing is pending");
  }
  void cancel_many() {
    switch (input_.choice(3)) {
      case 0:
        baton_cancel_all(proactor_);
        break;
      case 1:
        baton_cancel_tag(proactor_, next_tag_ - input_.choice(16));
        break;
      default:
        baton_cancel_handle(proactor_, handle());
        break;
    }
  }
  void status() {
    baton_state state = BATON_STATE_INIT;
    if (input_.choice(8) == 0) state.size = static_cast<std::uint32_t>(input_.size(0xffff'ffff));
    const std::uint32_t size = state.size;
    const int error = baton_status(proactor_, activation(), &state);
    expect(error == 0 || error == ENOENT || (error == EINVAL && size < sizeof state) ||
               (error == E2BIG && size > 256),
           "a state is told, or why not");
    expect(error != 0 || (state.state >= BATON_PENDING && state.state <= BATON_DELIVERED),
           "it is one of three");
    expect(baton_status(proactor_, activation(), nullptr) == EINVAL, "and needs room");
  }
  void wake() { baton_wake(proactor_); }
  void stop() {
    // Most of the time it would only be the end of the sequence.
    if (input_.choice(8) != 0) return;
    baton_stop(proactor_);
    stopped_ = true;
  }

  void drain_or_restart() {
    if (stopped_) {
      baton_restart(proactor_);
      stopped_ = false;
      return;
    }
    if (input_.choice(8) != 0) return;
    const auto deadline_ns = static_cast<std::int64_t>(input_.word(8));
    const int error = baton_drain(proactor_, deadline_ns);
    expect(error == (deadline_ns < 0 ? EINVAL : 0), "a point of the clock is not negative");
    stopped_ = error == 0;  // sooner or later
  }
  void end_one() {
    if (input_.flag()) {
      const std::int64_t deadline_ns =
          input_.choice(8) == 0 ? -1 : baton_now(proactor_) + input_.byte();
      const int error = baton_cancel_wait(proactor_, activation(), deadline_ns);
      expect(error == 0 || error == ENOENT || error == (deadline_ns < 0 ? EINVAL : BATON_TIMED_OUT),
             "it is over, or still running");
      return;
    }
    const std::int64_t deadline_ns = deadline();
    const int error = baton_move_deadline(proactor_, activation(), deadline_ns);
    expect(deadline_ns <= 0 ? error == EINVAL
                            : error == 0 || error == ENOENT || error == BATON_NOT_SUPPORTED,
           "a deadline is moved, or why not");
  }
  void pools() {
    baton_pool* made = nullptr;
    const std::size_t size =
        input_.choice(3) == 0 ? static_cast<std::size_t>(input_.size()) : input_.choice(100);
    // The memory of more would only be touched and freed again.
    if (size < (1U << 20) || size > (1ULL << 50)) {
      const auto count = static_cast<std::uint32_t>(input_.choice(5));
      const int error = baton_pool_open(size, count, &made);
      expect((error == 0) == (made != nullptr), "a pool, or why not");
      expect(error == 0 || error == EINVAL || error == ENOMEM, "and that is told");
      expect(baton_pool_close(made) == 0, "an unused pool is closed");
    }
    void* const strange = arena() + input_.byte();
    expect(baton_pool_give(pool_, strange) == EINVAL,
           "an address outside the pool is not taken back");
    give_one();
    expect(baton_pool_available(pool_) <= blocks - blocks_.size(), "a block has one owner");
  }
  void give_one() {
    if (blocks_.empty()) return;
    void* const block = blocks_.back();
    blocks_.pop_back();
    expect(baton_pool_give(pool_, static_cast<char*>(block) + 1) == EINVAL, "it is no block");
    expect(baton_pool_give(pool_, block) == 0, "a block is given back");
    expect(baton_pool_give(pool_, block) == EINVAL, "once");
  }
  void look() {
    const int glance = baton_glance(proactor_);
    expect(glance >= BATON_CANNOT_TELL && glance <= BATON_SOMETHING, "a glance is one of three");
    expect(baton_descriptor(proactor_) >= -1, "a descriptor, or none");
    expect_text([](char* text, std::size_t size) { return baton_engines(text, size); });
    std::array<char, 64> why{};
    // Only this one of the existing ones, because the others are expensive to open.
    const std::string name = input_.flag() ? "emulated" : "x" + std::string(input_.text());
    const int error = baton_engine_reason(name.c_str(), why.data(), why.size());
    expect((error == 0) == (why[0] == '\0'), "an engine, or why not");
  }

  /// Every function that writes text does it in the same manner.
  template <class Write>
  void expect_text(Write write) {
    std::array<char, 200> text;
    text.fill('#');
    const std::size_t room = input_.choice(text.size());
    const std::size_t whole = write(room == 0 && input_.flag() ? nullptr : text.data(), room);
    const std::size_t written = room == 0 ? 0 : std::min(whole, room - 1);
    expect(room == 0 || text[written] == '\0', "text ends where it was cut");
    expect(std::find(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(written), '\0') ==
               text.begin() + static_cast<std::ptrdiff_t>(written),
           "and nowhere else");
    const std::size_t behind = room == 0 ? 0 : written + 1;
    expect(std::all_of(text.begin() + static_cast<std::ptrdiff_t>(behind), text.end(),
                       [](char c) { return c == '#'; }),
           "nothing is written behind it");
  }
  void print() {
    switch (input_.choice(4)) {
      case 0:
        return expect_text(
            [&](char* text, std::size_t size) { return baton_explain(proactor_, text, size); });
      case 1:
        return expect_text(
            [&](char* text, std::size_t size) { return baton_statistics(proactor_, text, size); });
      case 2: {
        const auto age = static_cast<std::int64_t>(input_.size());
        return expect_text([&](char* text, std::size_t size) {
          return baton_pending(proactor_, age, text, size);
        });
      }
      default: {
        const auto error = static_cast<int>(input_.word(input_.flag() ? 4 : 2));
        return expect_text(
            [&](char* text, std::size_t size) { return baton_error_text(error, text, size); });
      }
    }
  }
  void addresses() {
    baton_endpoint one{};
    const std::string text(input_.text());
    expect(baton_endpoint_parse(text.c_str(), nullptr) == EINVAL, "out is needed");
    expect(baton_endpoint_parse(nullptr, &one) == EINVAL, "so is text");
    static_cast<void>(baton_endpoint_parse(text.c_str(), &one));
    if (input_.flag()) one.length = static_cast<std::uint32_t>(input_.size(0xffff'ffff));
    expect_text([&](char* to, std::size_t size) { return baton_endpoint_print(&one, to, size); });
    expect_text([](char* to, std::size_t size) { return baton_endpoint_print(nullptr, to, size); });
  }
  void open_wrong() {
    baton_config config = BATON_CONFIG_INIT;
    config.text = "engine=emulated,wait=epoll,mode=shared";
    std::array<char, 128> reason{};
    baton_proactor* opened = proactor_;
    switch (input_.choice(5)) {
      case 0:
        config.size = static_cast<std::uint32_t>(input_.choice(sizeof config));
        break;
      case 1:
        config.completion_size =
            static_cast<std::uint32_t>(input_.choice(offsetof(baton_completion, data)));
        break;
      case 2:
        config.flags = 2U << input_.choice(30);
        break;
      case 3:
        config.slots = (1U << 20) + 1 + static_cast<std::uint32_t>(input_.word(3));
        break;
      default:
        config.text = "engine=nothing";
        break;
    }
    const int error = baton_open(&config, &opened, reason.data(), input_.choice(reason.size()));
    expect(error != 0 && opened == nullptr, "what is wrong is not opened");
    expect(baton_open(&config, nullptr, nullptr, 0) == EINVAL, "out is needed");
    expect(baton_open(nullptr, &opened, nullptr, 0) == EINVAL, "so is a configuration");
    baton_close(nullptr);
  }

  /// Closes everything; taken operations complete, unless the proactor was stopped.
  void finish() {
    for (const baton_handle each : handles_) baton_handle_close(proactor_, each);
    baton_cancel_all(proactor_);
    while (!pending_.empty() && !stopped_) {
      const int count = baton_wait(proactor_, room(), completions_max, patience_ns);
      // 0: a wake from before, once.
      expect(bring(count, completions_max) > 0 || std::exchange(may_be_woken_, false),
             "what was taken completes", std::to_string(pending_.size()));
      // Accepted meanwhile.
      for (const baton_handle each : handles_) baton_handle_close(proactor_, each);
    }
    baton_close(proactor_);
    baton_close(proactor_);
    expect(baton_wait(proactor_, room(), completions_max, -1) == -EINVAL, "it was closed");
    while (!blocks_.empty()) give_one();
    expect(baton_pool_available(pool_) == blocks && baton_pool_close(pool_) == 0,
           "every block comes back");
    for (const int descriptor : peers_) ::close(descriptor);
    expect(count_descriptors() == descriptors_, "no descriptor is left, and none is missing");
  }

  static constexpr int completions_max = 16;

  Input& input_;
  const std::size_t stride_;
  const std::size_t descriptors_;
  baton_proactor* const proactor_;
  baton_pool* pool_ = nullptr;
  std::vector<void*> blocks_;
  bool exchanges_ = false;
  int exchanged_ = 0;
  int exchanged_max_ = 0;
  bool stopped_ = false;
  bool may_be_woken_ = true;
  std::uint64_t next_tag_ = 1'000;
  std::map<std::uint64_t, Taken> pending_;
  std::vector<baton_handle> handles_;
  std::vector<baton_activation> activations_;
  std::vector<int> peers_;
  baton_endpoint listener_{};
  std::array<baton_endpoint, 64> endpoints_{};
  std::size_t next_endpoint_ = 0;
  std::vector<std::unique_ptr<std::array<baton_buffer, 40>>> lists_;
  std::vector<unsigned char> completions_;
};

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::Input input(data, size);
  baton::fuzz::Program(input).run();
  return 0;
}
