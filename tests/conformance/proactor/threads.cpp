// Sessions, gates, and the fixture.
#include "threads.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>

namespace baton::conformance {

Stream::Stream() {
  int fd[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) std::abort();
  const timeval minute{60, 0};
  ::setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
  ::setsockopt(fd[1], SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof(minute));
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
  const Deadline end = Deadline::after(60s);
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

Asleep::Asleep(std::atomic<int>& place) : place_(place) {
  ++sleepers().calls;
  if (asleep_depth++ == 0) ++place_;
}

Asleep::~Asleep() {
  if (--asleep_depth == 0) --place_;
}

const os::System& watched_system() {
  static const os::System watched = [] {
    os::System system = os::real_system();
    system.futex_wait = [](std::atomic<std::uint32_t>* word, std::uint32_t expected,
                           std::int64_t deadline) {
      const Asleep asleep{sleepers().parked};
      return os::real_system().futex_wait(word, expected, deadline);
    };
    system.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                            const sigset_t* mask) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    };
    system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().ppoll(list, count, timeout, mask);
    };
    system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                        const sigset_t* mask) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().pselect(end, in, out, error, timeout, mask);
    };
    system.io_getevents = [](unsigned long context, long least, long most, io_event* events,
                             timespec* timeout) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().io_getevents(context, least, most, events, timeout);
    };
    system.aio_suspend = [](const aiocb* const list[], int count, const timespec* timeout) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().aio_suspend(list, count, timeout);
    };
    system.sigtimedwait = [](const sigset_t* set, siginfo_t* info, const timespec* timeout) {
      const Asleep asleep{sleepers().waiting};
      return os::real_system().sigtimedwait(set, info, timeout);
    };
    system.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                               const void* argument, size_t size) {
      const Asleep asleep{sleepers().waiting};
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

void Threads::wait_until_asleep(int threads) {
  const std::size_t processors = GetParam().config().processors.size();
  const int leaders = mode() == Mode::dedicated ? static_cast<int>(processors) : 0;
  const auto all = [&] { return sleepers().parked + sleepers().waiting == threads + leaders; };
  wait_until([&] {
    if (!all()) return false;
    const std::uint64_t before = sleepers().calls;
    // Longer than an understudy sleeps between two looks at its rarest, eight times
    // understudy_look_us: the looks would be seen as calls.
    const Deadline end = Deadline::after(10ms);
    while (Deadline::after(0ns) < end) std::this_thread::sleep_for(1ms);
    return all() && sleepers().calls == before;
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
