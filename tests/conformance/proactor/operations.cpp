// The fixture, and the raw peers of its connections.
#include "operations.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace baton::conformance {
namespace {

thread_local int inside_start = 0;

struct InsideStart {
  InsideStart() { ++inside_start; }
  ~InsideStart() { --inside_start; }
};

// The raw side blocks, but never for ever.
void bounded(int fd) {
  const timeval span = test::patience_as_timeval();
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &span, sizeof(span));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof(span));
}

}  // namespace

Probe::Probe() {
  set_handler([this](Operation&) {
    EXPECT_EQ(inside_start, 0) << "a handler ran inside start";
    EXPECT_EQ(state(), OperationState::completed);
    completions.fetch_add(1, std::memory_order_release);
    if (then) then();
  });
}

Pair unix_pair() {
  int fd[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) std::abort();
  bounded(fd[1]);
  return {fd[0], fd[1]};
}

Pair tcp_pair() {
  const int small = 16'384;
  Endpoint endpoint = Endpoint::loopback(0);
  const Fd listening = listener(endpoint);
  Pair pair;
  pair.peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(pair.peer.get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()) !=
      0) {
    std::abort();
  }
  pair.ours = ::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC);
  // So that a large write waits for its reader, whatever the machine would allow.
  for (const int fd : {pair.ours.get(), pair.peer.get()}) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  }
  bounded(pair.peer.get());
  return pair;
}

Pair pipe_to_read() {
  int fd[2];
  if (::pipe2(fd, O_CLOEXEC) != 0) std::abort();
  return {fd[0], fd[1]};
}

Pair pipe_to_write() {
  int fd[2];
  if (::pipe2(fd, O_CLOEXEC) != 0) std::abort();
  return {fd[1], fd[0]};
}

Fd temporary(int flags) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string{folder != nullptr ? folder : "/tmp"} + "/baton.XXXXXX";
  const Fd made = ::mkostemp(path.data(), O_CLOEXEC);
  Fd fd = ::open(path.c_str(), flags | O_CLOEXEC);
  ::unlink(path.c_str());
  EXPECT_GE(fd.get(), 0);
  return fd;
}

Fd listener(Endpoint& endpoint, int backlog) {
  Fd fd = unheard(endpoint);
  if (::listen(fd.get(), backlog) != 0) std::abort();
  return fd;
}

Fd unheard(Endpoint& endpoint) {
  const auto* address = static_cast<const sockaddr*>(endpoint.data());
  Fd fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(fd.get(), address, endpoint.size()) != 0) std::abort();
  endpoint = bound_to(fd.get());
  return fd;
}

Endpoint bound_to(int fd) {
  Endpoint endpoint;
  endpoint.set_size(Endpoint::capacity);
  if (::getsockname(fd, static_cast<sockaddr*>(endpoint.data()), endpoint.size_pointer()) != 0) {
    std::abort();
  }
  return endpoint;
}

void send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(fd, text.data(), text.size());
    if (sent < 0 && errno == EINTR) continue;
    ASSERT_GT(sent, 0) << std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string receive(int fd, std::size_t count) {
  std::string text(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t got = ::read(fd, text.data() + filled, count - filled);
    // A ring that is destroyed interrupts this thread a while later.
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

std::string receive_rest(int fd) {
  std::string text;
  for (;;) {
    const std::string more = receive(fd, 65'536);
    text += more;
    if (more.size() < 65'536) return text;
  }
}

std::string pattern(std::size_t count, unsigned seed) {
  std::string text(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    text[i] = static_cast<char>((i + seed) * 2'654'435'761U >> 13);
  }
  return text;
}

void Operations::TearDown() {
  proactor_.reset();
  for (const Probe& probe : probes_) {
    EXPECT_EQ(probe.completions.load(), probe.starts.load()) << to_string(probe.kind());
    EXPECT_FALSE(probe.is_pending());
  }
}

Proactor& Operations::proactor() {
  if (proactor_ == nullptr) use({});
  return *proactor_;
}

Proactor& Operations::use(const std::function<void(Config&)>& change) {
  proactor_ = open(1, change);
  if (proactor_ == nullptr) std::abort();
  return *proactor_;
}

Handle* Operations::adopt(Fd& fd, HandleKind kind, Ownership ownership) {
  const Result<Handle*> handle = proactor().adopt(fd.get(), kind, ownership);
  if (!handle) {
    ADD_FAILURE() << handle.error().message();
    std::abort();
  }
  if (ownership == Ownership::owned) static_cast<void>(fd.release());
  return *handle;
}

Handle* Operations::borrow(const Fd& fd, HandleKind kind) {
  return adopt(const_cast<Fd&>(fd), kind, Ownership::borrowed);
}

Probe& Operations::plain(OperationKind kind, Handle* handle, std::uint16_t flags) {
  Probe& probe = operation();
  probe.prepare(kind, handle, flags);
  return probe;
}

Probe& Operations::reading(Handle* handle, std::string& into, std::uint16_t flags) {
  Probe& probe = plain(OperationKind::read_stream, handle, flags);
  probe.set_buffer(MutableBuffer{into});
  return probe;
}

Probe& Operations::writing(Handle* handle, std::string& from, std::uint16_t flags) {
  Probe& probe = plain(OperationKind::write_stream, handle, flags);
  probe.set_buffer(ConstBuffer{std::string_view{from}});
  return probe;
}

Probe& Operations::file_reading(Handle* handle, std::string& into, std::uint64_t offset,
                                std::uint16_t flags) {
  Probe& probe = plain(OperationKind::read_file, handle, flags);
  probe.set_buffer(MutableBuffer{into});
  probe.set_offset(offset);
  return probe;
}

Probe& Operations::file_writing(Handle* handle, std::string& from, std::uint64_t offset,
                                std::uint16_t flags) {
  Probe& probe = plain(OperationKind::write_file, handle, flags);
  probe.set_buffer(ConstBuffer{std::string_view{from}});
  probe.set_offset(offset);
  return probe;
}

std::error_code Operations::try_start(Probe& probe) {
  // Counted before: another thread may complete it at once.
  probe.starts.fetch_add(1, std::memory_order_release);
  std::error_code error;
  {
    const InsideStart mark;
    error = proactor().start(probe);
  }
  if (error) probe.starts.fetch_sub(1, std::memory_order_release);
  return error;
}

void Operations::start(Probe& probe) {
  const std::error_code error = try_start(probe);
  EXPECT_FALSE(error) << to_string(probe.kind()) << ": " << error.message();
}

void Operations::start_timer(Probe& probe, Deadline when) {
  probe.starts.fetch_add(1, std::memory_order_release);
  const InsideStart mark;
  const std::error_code error = proactor().start_timer(probe, when);
  if (error) probe.starts.fetch_sub(1, std::memory_order_release);
  EXPECT_FALSE(error) << error.message();
}

void Operations::finish(Probe& probe) {
  if (probe.starts.load() == 0) start(probe);
  run([&] { return probe.done(); });
}

void Operations::inside(const std::function<void()>& body) {
  bool ran = false;
  ASSERT_FALSE(proactor().post([&] {
    body();
    ran = true;
  }));
  run([&] { return ran; });
}

void Operations::run_for(Duration span) {
  Probe& timer = operation();
  start_timer(timer, Deadline::after(span, proactor().now()));
  run([&] { return timer.done(); });
}

void Operations::run_until_taken(int fd) {
  const Deadline end = test::at_last();
  for (int unread = 1; unread > 0; run_for(100us)) {
    ASSERT_EQ(::ioctl(fd, FIONREAD, &unread), 0);
    ASSERT_LT(Deadline::after(0ns), end);
  }
}

void Operations::finish_close(Handle* handle) {
  Probe& probe = plain(OperationKind::close, handle);
  start(probe);
  run([&] { return probe.done(); });
  EXPECT_FALSE(probe.failed()) << probe.error().message();
}

}  // namespace baton::conformance
