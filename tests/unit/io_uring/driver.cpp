#include "driver.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace baton::test {

std::ostream& operator<<(std::ostream& out, Form form) {
  constexpr const char* names[] = {"any", "single", "pinned"};
  return out << names[static_cast<int>(form)];
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

Driver::Driver(Setup setup) {
  const os::System& system = os::or_real(setup.system);
  handles_ = std::make_unique<HandleTable>(limits::handles_max, system);
  ProcessorConfig config;
  config.ring_entries = setup.ring_entries;
  config.completion_entries = setup.completion_entries;
  EngineOptions options;
  options.system = &system;
  options.config = &config;
  options.concurrent = setup.form == Form::any;
  options.pinned_ok = setup.form == Form::pinned;
  options.explain = [this](std::string_view line) { explained_.emplace_back(line); };
  auto opened = engines::open_io_uring(options);
  if (!opened) {
    ADD_FAILURE() << opened.error().reason;
    std::abort();
  }
  engine_ = std::move(*opened);
}

Driver::~Driver() {
  const std::set<Operation*> pending = in_engine_;
  for (Operation* operation : pending) {
    if (in_engine_.count(operation) != 0) cancel(*operation);
  }
  for (int i = 0; i < 1000 && !in_engine_.empty(); ++i) {
    wait_once(Deadline::after(std::chrono::milliseconds{10}));
  }
  EXPECT_TRUE(in_engine_.empty()) << in_engine_.size() << " operations do not come back";
  for (auto [handle, ours] : adopted_) {
    engine_->detach(*handle);
    if (ours) ::close(handle->native());
  }
}

Handle* Driver::adopt(int fd, HandleKind kind, Ownership ownership) {
  EXPECT_GE(fd, 0);
  const bool nonblocking = (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
  Handle* const handle = handles_->allocate(fd, kind, ownership, nonblocking, 0);
  EXPECT_FALSE(engine_->attach(*handle));
  adopted_.emplace_back(handle, true);
  return handle;
}

Handle* Driver::borrow(int fd, HandleKind kind) {
  Handle* const handle = adopt(fd, kind, Ownership::borrowed);
  adopted_.back().second = false;
  return handle;
}

void Driver::note(Operation& operation) {
  in_engine_.erase(&operation);
  EXPECT_TRUE(done_.insert(&operation).second) << "completed twice";
  history_.push_back(&operation);
}

Submission Driver::submit(Operation& operation) {
  done_.erase(&operation);
  const Submission answer = engine_->submit(operation);
  EXPECT_NE(answer, Submission::busy);
  if (answer == Submission::completed) {
    note(operation);
  } else {
    in_engine_.insert(&operation);
  }
  return answer;
}

Submission Driver::start(Operation& operation) {
  const Submission answer = submit(operation);
  engine_->flush();
  return answer;
}

CancelAnswer Driver::cancel(Operation& operation) {
  const CancelAnswer answer = engine_->cancel(operation);
  if (answer == CancelAnswer::completed) note(operation);
  return answer;
}

std::size_t Driver::wait_once(Deadline deadline) {
  OperationQueue completed;
  engine_->wait(completed, deadline);
  const std::size_t count = completed.size();
  while (!completed.empty()) note(completed.pop_front());
  return count;
}

bool Driver::run_until(const Operation& operation, Duration patience) {
  Operation* const one = const_cast<Operation*>(&operation);
  return run_until(std::span<Operation* const>{&one, 1}, patience);
}

bool Driver::run_until(std::span<Operation* const> operations, Duration patience) {
  const Deadline end = Deadline::after(patience);
  for (const Operation* operation : operations) {
    while (!is_done(*operation)) {
      if (end <= Deadline::at(std::chrono::steady_clock::now())) return false;
      wait_once(end);
    }
  }
  return true;
}

void Driver::expect_quiet(Duration span) {
  const Deadline end = Deadline::after(span);
  while (Deadline::at(std::chrono::steady_clock::now()) < end) {
    EXPECT_EQ(wait_once(end), 0U);
  }
}

void Driver::forget() {
  done_.clear();
  history_.clear();
}

void set_read(Operation& operation, Handle* handle, MutableBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::read_stream, handle, flags);
  operation.set_buffer(buffer);
}

void set_write(Operation& operation, Handle* handle, ConstBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::write_stream, handle, flags);
  operation.set_buffer(buffer);
}

Pair stream_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {ends[0], ends[1]};
}

Pair datagram_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {ends[0], ends[1]};
}

Pair pipe_pair(int flags) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC | flags), 0);
  return {ends[0], ends[1]};
}

int listener(Endpoint& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
  EXPECT_EQ(::listen(fd, 1024), 0);
  address.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer()), 0);
  return fd;
}

Pair tcp_pair() {
  Endpoint address;
  const int door = listener(address);
  const int left = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(left, static_cast<sockaddr*>(address.data()), address.size()), 0);
  ::fcntl(left, F_SETFL, O_NONBLOCK);
  int right = -1;
  while (right < 0) right = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  const int on = 1;
  ::setsockopt(left, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(right, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::close(door);
  return {left, right};
}

int temporary_file(int flags) {
  const char* folder = std::getenv("TMPDIR");
  const int fd =
      ::open(folder != nullptr ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  EXPECT_GE(fd, 0) << std::strerror(errno);
  return fd;
}

std::string read_all(int fd) {
  std::string all;
  char block[65536];
  for (;;) {
    const ssize_t got = ::read(fd, block, sizeof(block));
    if (got <= 0) return all;
    all.append(block, static_cast<std::size_t>(got));
  }
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    ASSERT_GT(written, 0) << std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (char& each : text) {
    seed = seed * 1'103'515'245 + 12'345;
    each = static_cast<char>('a' + (seed >> 16) % 26);
  }
  return text;
}

}  // namespace baton::test
