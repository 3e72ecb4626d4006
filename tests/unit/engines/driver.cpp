#include "driver.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../demux/fake_strategies.hpp"
#include "engines/emulated/engine.hpp"

namespace baton::test {

std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << form.wait << (form.concurrent ? "" : "_single");
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

std::vector<Form> forms() {
  return {{.wait = "epoll"},     {.wait = "epoll", .concurrent = false},
          {.wait = "poll"},      {.wait = "select"},
          {.wait = "fake_edge"}, {.wait = "fake_one_shot"}};
}

Driver::Driver(const Form& form) {
  add_fake_strategies();
  const os::System& system = fault_system();
  handles_ = std::make_unique<HandleTable>(limits::handles_max, system);
  ProcessorConfig config;
  config.wait = form.wait;
  config.workers = form.workers;
  EngineOptions options;
  options.system = &system;
  options.log = form.log;
  options.config = &config;
  options.concurrent = form.concurrent;
  auto opened = engines::open_emulated(options);
  if (!opened) {
    ADD_FAILURE() << opened.error().reason;
    std::abort();
  }
  engine_ = std::move(*opened);
}

Driver::~Driver() {
  faults().clear();
  const std::set<Operation*> pending = in_engine_;
  for (Operation* operation : pending) {
    if (in_engine_.count(operation) != 0) cancel(*operation);
  }
  for (int i = 0; i < 1000 && !in_engine_.empty(); ++i) {
    wait_once(Deadline::after(std::chrono::milliseconds{10}));
  }
  EXPECT_TRUE(in_engine_.empty()) << in_engine_.size() << " operations do not come back";
  while (!adopted_.empty()) release(adopted_.back());
}

Handle* Driver::adopt(int fd, HandleKind kind, Ownership ownership) {
  EXPECT_GE(fd, 0);
  const bool nonblocking = (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
  Handle* const handle = handles_->allocate(fd, kind, ownership, nonblocking, 0);
  EXPECT_FALSE(engine_->attach(*handle));
  adopted_.push_back(handle);
  return handle;
}

void Driver::release(Handle* handle) {
  engine_->detach(*handle);
  if (handle->owned()) ::close(handle->native());
  handles_->release(*handle);
  adopted_.erase(std::find(adopted_.begin(), adopted_.end(), handle));
}

void Driver::note(Operation& operation) {
  in_engine_.erase(&operation);
  EXPECT_TRUE(done_.insert(&operation).second) << "completed twice";
  history_.push_back(&operation);
}

Submission Driver::start(Operation& operation) {
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

bool Driver::run(const Operation& operation) {
  const Deadline end = Deadline::after(std::chrono::seconds{10});
  while (!is_done(operation)) {
    if (end <= Deadline::at(std::chrono::steady_clock::now())) return false;
    wait_once(end);
  }
  return true;
}

void set_read(Operation& operation, Handle* handle, MutableBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::read_stream, handle, flags);
  operation.set_buffer(buffer);
}

void set_write(Operation& operation, Handle* handle, ConstBuffer buffer, std::uint16_t flags) {
  operation.prepare(OperationKind::write_stream, handle, flags);
  operation.set_buffer(buffer);
}

void set_file(Operation& operation, OperationKind kind, Handle* handle, MutableBuffer buffer,
              std::uint64_t offset, std::uint16_t flags) {
  operation.prepare(kind, handle, flags);
  operation.set_buffer(buffer);
  operation.set_offset(offset);
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
  return {ends[1], ends[0]};
}

int tcp_socket(int flags) { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

int listener(Endpoint& address, bool nonblocking) {
  const int fd = tcp_socket(nonblocking ? SOCK_NONBLOCK : 0);
  address = Endpoint::loopback(0);
  EXPECT_EQ(::bind(fd, static_cast<sockaddr*>(address.data()), address.size()), 0);
  EXPECT_EQ(::listen(fd, 1024), 0);
  address.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(address.data()), address.size_pointer()), 0);
  return fd;
}

int client(const Endpoint& address) {
  const int fd = tcp_socket();
  EXPECT_EQ(::connect(fd, static_cast<const sockaddr*>(address.data()), address.size()), 0);
  return fd;
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

std::size_t fill(int fd) {
  const std::string block(4096, '.');
  std::size_t total = 0;
  for (;;) {
    const ssize_t put = ::send(fd, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put <= 0) return total;
    total += static_cast<std::size_t>(put);
  }
}

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  unsigned seed = 1;
  for (char& each : text) {
    seed = seed * 1'103'515'245 + 12'345;
    each = static_cast<char>('a' + (seed >> 16) % 26);
  }
  return text;
}

}  // namespace baton::test
