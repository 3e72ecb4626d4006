// Sessions, gates, and the fixture.
#include "threads.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engines/io_uring/abi.hpp"

namespace baton::conformance {

Stream::Stream() {
  int fd[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) std::abort();
  const timeval span = test::patience_as_timeval();
  ::setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &span, sizeof(span));
  ::setsockopt(fd[1], SOL_SOCKET, SO_SNDTIMEO, &span, sizeof(span));
  ours = Peer{fd[0]};
  peer = Peer{fd[1]};
}

void send_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    ASSERT_GT(sent, 0) << std::strerror(errno);
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

bool receive_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool at_end(int fd) {
  for (;;) {
    char byte = 0;
    const ssize_t got = ::recv(fd, &byte, 1, 0);
    if (got >= 0 || errno != EINTR) return got == 0;
  }
}

void round_trip(int fd, std::size_t size, unsigned seed) {
  std::string sent(size, '\0');
  for (char& byte : sent) byte = static_cast<char>(seed = seed * 1'664'525U + 1'013'904'223U);
  std::string back(size, '\0');
  send_all(fd, sent.data(), size);
  ASSERT_TRUE(receive_all(fd, back.data(), size));
  ASSERT_EQ(sent, back);
}

void Gate::open() {
  open_.store(1, std::memory_order_release);
  open_.notify_all();
}

void Gate::wait() {
  const Deadline end = test::at_last();
  while (!is_open() && Deadline::after(0ns) < end) std::this_thread::sleep_for(100us);
}

void Echo::start() { read(); }

void Echo::read() {
  operation.prepare(OperationKind::read_stream, handle_);
  operation.set_buffer(MutableBuffer{buffer_, sizeof(buffer_)});
  operation.set_handler([this](Operation& read) {
    if (read.failed() || read.bytes() == 0) {
      end();
    } else {
      write(read.bytes());
    }
  });
  if (proactor_.start(operation)) end();
}

void Echo::write(std::size_t size) {
  operation.prepare(OperationKind::write_stream, handle_, Operation::exactly);
  operation.set_buffer(ConstBuffer{buffer_, size});
  operation.set_handler([this](Operation& written) {
    messages.fetch_add(1, std::memory_order_relaxed);
    if (written.failed()) {
      end();
    } else {
      read();
    }
  });
  if (proactor_.start(operation)) end();
}

void Echo::end() {
  proactor_.close_detached(*handle_);
  done_.store(true, std::memory_order_release);
}

Sleepers& sleepers() {
  static Sleepers all;
  return all;
}

namespace {

thread_local int asleep_depth = 0;

}  // namespace

Asleep::Asleep(std::atomic<int>& place, std::optional<Duration> span)
    : place_(place), timed_(span.has_value()) {
  if (span.value_or(Duration{0}) > Duration{0}) ++sleepers().naps;
  ++sleepers().calls;
  if (asleep_depth++ > 0) return;
  if (timed_) ++sleepers().timed;
  ++place_;
}

Asleep::~Asleep() {
  if (--asleep_depth > 0) return;
  --place_;
  if (timed_) --sleepers().timed;
}

namespace {

std::optional<Duration> span_of(const timespec* timeout) {
  if (timeout == nullptr) return {};
  return std::chrono::seconds{timeout->tv_sec} + std::chrono::nanoseconds{timeout->tv_nsec};
}

std::optional<Duration> span_of_ring(unsigned complete, unsigned flags, const void* argument) {
  namespace abi = engines::uring::abi;
  if (complete == 0) return Duration{0};
  if ((flags & abi::enter_ext_arg) == 0) return {};
  abi::GetEventsArgument wish{};
  std::memcpy(&wish, argument, sizeof wish);
  const auto* const time = reinterpret_cast<const abi::Timespec*>(wish.timeout);
  if (time == nullptr) return {};
  return std::chrono::seconds{time->seconds} + std::chrono::nanoseconds{time->nanoseconds};
}

bool watched_futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected,
                        std::int64_t deadline_ns) {
  std::optional<Duration> span;
  if (deadline_ns != INT64_MAX) span = Duration{deadline_ns - os::real_system().monotonic_ns()};
  const Asleep asleep{sleepers().parked, span};
  return os::real_system().futex_wait(word, expected, deadline_ns);
}

}  // namespace

const os::System& watched_system() {
  static const os::System watched = [] {
    os::System system = os::real_system();
    system.futex_wait = watched_futex_wait;
    system.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                            const sigset_t* mask) {
      std::optional<Duration> span;
      if (timeout >= 0) span = std::chrono::milliseconds{timeout};
      const Asleep asleep{sleepers().waiting, span};
      return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    };
    system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      const Asleep asleep{sleepers().waiting, span_of(timeout)};
      return os::real_system().ppoll(list, count, timeout, mask);
    };
    system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                        const sigset_t* mask) {
      const Asleep asleep{sleepers().waiting, span_of(timeout)};
      return os::real_system().pselect(end, in, out, error, timeout, mask);
    };
    system.io_getevents = [](unsigned long context, long least, long most, io_event* events,
                             timespec* timeout) {
      const Asleep asleep{sleepers().waiting, span_of(timeout)};
      return os::real_system().io_getevents(context, least, most, events, timeout);
    };
    system.aio_suspend = [](const aiocb* const list[], int count, const timespec* timeout) {
      const Asleep asleep{sleepers().waiting, span_of(timeout)};
      return os::real_system().aio_suspend(list, count, timeout);
    };
    system.sigtimedwait = [](const sigset_t* set, siginfo_t* info, const timespec* timeout) {
      const Asleep asleep{sleepers().waiting, span_of(timeout)};
      return os::real_system().sigtimedwait(set, info, timeout);
    };
    system.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                               const void* argument, size_t size) {
      const Asleep asleep{sleepers().waiting, span_of_ring(complete, flags, argument)};
      return os::real_system().io_uring_enter(ring, submit, complete, flags, argument, size);
    };
    return system;
  }();
  return watched;
}

void Threads::TearDown() {
  for (Gate& gate : gates_) gate.open();
  if (proactor_ != nullptr) stop();
  destroy();
}

Proactor& Threads::use(unsigned threads, const std::function<void(Config&)>& change) {
  proactor_ = open(threads, [&](Config& config) {
    config.system = &watched_system();
    if (change) change(config);
  });
  if (proactor_ == nullptr) throw std::runtime_error{"this combination does not open"};
  return *proactor_;
}

void Threads::run(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      try {
        proactor_->run();
      } catch (...) {
        const os::LockGuard lock{mutex_, os::real_system()};
        failures_.push_back(std::current_exception());
      }
    });
  }
}

void Threads::stop() {
  proactor_->stop();
  join();
}

void Threads::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Threads::destroy() {
  proactor_.reset();
  echoes_.clear();
}

Handle* Threads::adopt(Peer& fd, HandleKind kind, Home home) {
  auto handle = proactor_->adopt(fd.get(), kind, Ownership::owned, home);
  if (!handle) throw std::runtime_error{handle.error().message()};
  static_cast<void>(fd.release());
  return *handle;
}

Peer Threads::echo(Home home) {
  Stream stream;
  Handle* handle = adopt(stream.ours, HandleKind::stream_socket, home);
  echoes_.emplace_back(*proactor_, handle).start();
  return std::move(stream.peer);
}

void Threads::read_byte(Handle* handle, Operation& operation) {
  operation.prepare(OperationKind::read_stream, handle);
  operation.set_buffer(MutableBuffer{memory(1), 1});
  ASSERT_FALSE(proactor_->start(operation));
}

Operation& Threads::operation() {
  const os::LockGuard lock{mutex_, os::real_system()};
  return operations_.emplace_back();
}

Operation& Threads::with(std::function<void()> body) {
  Operation& fresh = operation();
  const os::LockGuard lock{mutex_, os::real_system()};
  fresh.set_handler([call = &bodies_.emplace_back(std::move(body))](Operation&) { (*call)(); });
  return fresh;
}

void Threads::post(std::function<void()> body, Notify level, Home home) {
  ASSERT_FALSE(proactor_->post(with(std::move(body)), level, home));
}

void Threads::timer(Deadline when, std::function<void()> body) {
  ASSERT_FALSE(proactor_->start_timer(with(std::move(body)), when));
}

bool Threads::are_asleep(int threads) const {
  const std::size_t processors = GetParam().config().processors.size();
  const int leaders = mode() == Mode::dedicated ? static_cast<int>(processors) : 0;
  return sleepers().parked + sleepers().waiting == threads + leaders;
}

void Threads::wait_until_asleep(int threads) {
  wait_until([&] {
    if (!are_asleep(threads)) return false;
    const std::uint64_t before = sleepers().calls;
    // Longer than a standby sleeps between two looks at its rarest, eight times
    // understudy_look_us: the looks would be seen as calls.
    const Deadline end = Deadline::after(10ms);
    while (Deadline::after(0ns) < end) std::this_thread::sleep_for(1ms);
    return are_asleep(threads) && sleepers().calls == before;
  });
}

// In this order: a thread that wakes up between two reads of the numbers either slept with a
// timeout at the first, or is not asleep at the second, or has made a call at the third.
void Threads::wait_until_asleep_for_good(int threads) {
  wait_until([&] {
    const std::uint64_t before = sleepers().calls;
    return sleepers().timed == 0 && are_asleep(threads) && sleepers().calls == before;
  });
}

std::vector<Combination> combinations_in(std::initializer_list<Mode> modes) {
  std::vector<Combination> kept = combinations();
  std::erase_if(kept, [&](const Combination& one) {
    return std::find(modes.begin(), modes.end(), one.mode) == modes.end();
  });
  return kept;
}

}  // namespace baton::conformance
