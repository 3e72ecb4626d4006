#include "engine_driver.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/access.hpp"

namespace baton::test {

EngineDriver::EngineDriver(Result<std::unique_ptr<Engine>, Failure> opened,
                           const os::System& system)
    : handles_(std::make_unique<HandleTable>(limits::handles_max, system)) {
  if (!opened) {
    ADD_FAILURE() << opened.error().reason;
    std::abort();
  }
  engine_ = std::move(*opened);
}

EngineDriver::~EngineDriver() {
  const std::set<Operation*> pending = in_engine_;
  for (Operation* operation : pending) {
    if (in_engine_.count(operation) != 0) cancel(*operation);
  }
  const Deadline end = at_last();
  while (!in_engine_.empty() && is_ahead(end)) wait_once(end);
  EXPECT_TRUE(in_engine_.empty()) << in_engine_.size() << " operations do not come back";
  while (!adopted_.empty()) release(adopted_.back());
}

Handle* EngineDriver::adopt(int fd, HandleKind kind, Ownership ownership) {
  EXPECT_GE(fd, 0);
  const int flags = ::fcntl(fd, F_GETFL);
  struct stat status{};
  ::fstat(fd, &status);
  const OpenFacts facts{
      .writable = (flags & O_ACCMODE) != O_RDONLY,
      .is_terminal = ::isatty(fd) == 1,
      .appends = (flags & O_APPEND) != 0,
      .direct = (flags & O_DIRECT) != 0,
      .syncs = (flags & O_DSYNC) != 0,
      .is_file = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)};
  Handle* const handle = handles_->allocate(fd, kind, ownership, (flags & O_NONBLOCK) != 0, 0,
                                            Handle::any_processor, facts);
  EXPECT_FALSE(engine_->attach(*handle));
  adopted_.push_back(handle);
  return handle;
}

void EngineDriver::release(Handle* handle) {
  engine_->detach(*handle);
  if (handle->owned()) ::close(handle->native());
  handles_->release(*handle);
  adopted_.erase(std::find(adopted_.begin(), adopted_.end(), handle));
}

void EngineDriver::note(Operation& operation) {
  in_engine_.erase(&operation);
  EXPECT_TRUE(done_.insert(&operation).second) << "completed twice";
  history_.push_back(&operation);
}

Submission EngineDriver::submit(Operation& operation) {
  done_.erase(&operation);
  const Submission answer = engine_->submit(operation, nullptr);
  if (answer == Submission::completed) note(operation);
  if (answer == Submission::pending) in_engine_.insert(&operation);
  return answer;
}

Submission EngineDriver::start(Operation& operation) {
  const Submission answer = submit(operation);
  if (answer == Submission::pending) engine_->flush();
  return answer;
}

CancelAnswer EngineDriver::cancel(Operation& operation) {
  OperationAccess::ask_cancel(operation);  // as the core does it
  const CancelAnswer answer = engine_->cancel(operation);
  if (answer == CancelAnswer::completed) note(operation);
  return answer;
}

std::size_t EngineDriver::wait_once(Deadline deadline) {
  OperationQueue completed;
  engine_->wait(completed, deadline);
  const std::size_t count = completed.size();
  while (!completed.empty()) note(completed.pop_front());
  return count;
}

bool EngineDriver::unpin() {
  OperationQueue completed;
  const bool done = engine_->unpin(completed);
  while (!completed.empty()) note(completed.pop_front());
  return done;
}

bool EngineDriver::run(const Operation& operation) {
  const Deadline end = at_last();
  while (!is_done(operation) && is_ahead(end)) wait_once(end);
  return is_done(operation);
}

void EngineDriver::forget() {
  done_.clear();
  history_.clear();
}

void expect_closes_by_a_worker(EngineDriver& driver) {
  HandleTable others{16, os::real_system()};
  for (const HandleKind kind : {HandleKind::file, HandleKind::stream_socket}) {
    const int fd = temporary_file();
    Operation close;
    close.prepare(OperationKind::close, others.allocate(fd, kind, Ownership::owned, true, 0));
    const bool lasts = kind == HandleKind::file;
    EXPECT_EQ(driver.submit(close), lasts ? Submission::pending : Submission::completed);
    ASSERT_TRUE(!lasts || driver.run(close));
    EXPECT_FALSE(close.failed());
    EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  }
}

void set_file(Operation& operation, OperationKind kind, Handle* handle, MutableBuffer buffer,
              std::uint64_t offset, std::uint16_t flags) {
  operation.prepare(kind, handle, flags);
  operation.set_buffer(buffer);
  operation.set_offset(offset);
}

int temporary_file(int flags) {
  const char* folder = std::getenv("TMPDIR");
  return ::open(folder != nullptr ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
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

std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (char& each : text) {
    seed = seed * 1'103'515'245 + 12'345;
    each = static_cast<char>('a' + (seed >> 16) % 26);
  }
  return text;
}

}  // namespace baton::test
