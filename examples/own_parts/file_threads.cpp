// Operations wait in one line, in the order of their start, and a few threads execute them. All of
// it is under one lock, which cancel() takes as well: an operation is in the line, in a thread or
// finished, and an answer that is true at that moment is the right one.
#include "file_threads.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <baton/buffer_pool.hpp>
#include <baton/operation.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace own_parts {
namespace {

using baton::Operation;
using baton::OperationKind;

std::error_code last_error() noexcept { return {errno, std::system_category()}; }

// -- one operation, in a thread -------------------------------------------------------------------

std::size_t remaining(const Operation& operation, std::span<iovec> pieces) noexcept {
  const baton::MutableBuffer single = operation.buffer();
  std::size_t skip = operation.bytes();
  std::size_t count = 0;
  for (const baton::MutableBuffer& buffer :
       operation.has(Operation::vectored) ? operation.buffers() : std::span{&single, 1}) {
    if (buffer.size <= skip) {
      skip -= buffer.size;
    } else if (count < pieces.size()) {
      pieces[count++] = {static_cast<std::byte*>(buffer.data) + skip, buffer.size - skip};
      skip = 0;
    }
  }
  return count;
}

// Until all is moved, the end of the file or an error. An error behind some bytes is left to the
// next operation, unless all of them were wanted.
void transfer(Operation& operation) noexcept {
  const int fd = operation.handle()->native();
  const bool reads = operation.kind() == OperationKind::read_file;
  const bool all_wanted = operation.has(Operation::exactly);
  for (;;) {
    if (operation.cancel_asked()) return operation.finish(ECANCELED);
    std::array<iovec, 64> pieces;
    const int count = static_cast<int>(remaining(operation, pieces));
    if (count == 0) return operation.finish(0);
    const std::uint64_t place = operation.offset() + operation.bytes();
    if (!operation.has(Operation::append) && (place >> 63) != 0) return operation.finish(EINVAL);
    // An append goes to the end, whatever the offset. One at the current position would move that.
    const off_t offset = operation.has(Operation::append) ? 0 : static_cast<off_t>(place);
    ssize_t moved = reads ? ::preadv2(fd, pieces.data(), count, offset, 0)
                          : ::pwritev2(fd, pieces.data(), count, offset, 0);
    // Some files of /proc take no offset.
    constexpr off_t position = -1;
    if (moved < 0 && errno == ESPIPE && !reads) {
      moved = ::pwritev2(fd, pieces.data(), count, position, 0);
    }
    if (moved > 0) {
      operation.add_bytes(static_cast<std::size_t>(moved));
    } else if (moved == 0) {
      if (!reads) return operation.finish(EIO);  // else write_all would try for ever
      return all_wanted ? operation.finish(baton::errc::end_of_stream) : operation.finish(0);
    } else if (errno != EINTR) {
      return operation.finish(operation.bytes() > 0 && !all_wanted ? 0 : errno);
    }
  }
}

void execute(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::sync_file) {
    const int fd = operation.handle()->native();
    const int failed = operation.has(Operation::data_only) ? ::fdatasync(fd) : ::fsync(fd);
    return operation.finish(failed != 0 ? errno : 0);
  }
  if (!operation.has(Operation::pooled)) return transfer(operation);
  baton::BufferPool& pool = *operation.pool();
  void* const block = pool.take();
  if (block == nullptr) return operation.finish(baton::errc::pool_exhausted);
  operation.set_taken_buffer(block, pool.block_size());
  transfer(operation);
  if (operation.bytes() > 0) return;
  pool.give(block);
  operation.set_taken_buffer(nullptr, 0);
}

// -- order ----------------------------------------------------------------------------------------

// Appends keep their order; a sync covers the writes before it, and those after it do not hold it
// up. All else may overtake.
bool must_follow(const Operation& later, const Operation& earlier, bool earlier_waits) noexcept {
  if (later.handle() != earlier.handle()) return false;
  const bool sync_before = earlier.kind() == OperationKind::sync_file;
  if (later.kind() == OperationKind::sync_file) return !sync_before;
  if (sync_before) return earlier_waits;
  return later.kind() == earlier.kind() && later.has(Operation::append) &&
         earlier.has(Operation::append);
}

// -- the engine -----------------------------------------------------------------------------------

class FileThreads final : public baton::Engine {
 public:
  explicit FileThreads(int wakeup) : wakeup_(wakeup), threads_(new std::vector<std::thread>) {
    info_.name = file_threads_name;
    info_.operations_max = 256;  // go() looks at all of them
    for (const auto kind :
         {OperationKind::read_file, OperationKind::write_file, OperationKind::sync_file}) {
      info_.support[static_cast<std::size_t>(kind)] = baton::Support::assisted;
    }
    // The program's signals are for its own threads. SIGXFSZ blocked leaves EFBIG.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < 4; ++i) threads_->emplace_back([this] { work(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~FileThreads() override {
    if (threads_ == nullptr) return;
    {
      const std::lock_guard guard{mutex_};
      ends_ = true;
    }
    may_go_.notify_all();
    for (std::thread& thread : *threads_) thread.join();
    ::close(wakeup_);
  }

  [[nodiscard]] const baton::EngineInfo& info() const noexcept override { return info_; }

  baton::Submission submit(Operation& operation, void*) noexcept override {
    {
      const std::lock_guard guard{mutex_};
      if (operation.cancel_asked()) {
        operation.finish(ECANCELED);
        return baton::Submission::completed;
      }
      if (waiting_.size() + running_.size() == info_.operations_max) return baton::Submission::busy;
      waiting_.push_back(&operation);
    }
    may_go_.notify_one();
    return baton::Submission::pending;
  }

  baton::CancelAnswer cancel(Operation& operation) noexcept override {
    const std::lock_guard guard{mutex_};
    if (std::erase(waiting_, &operation) != 0) {
      operation.finish(ECANCELED);
      may_go_.notify_all();  // others have stood behind it
      return baton::CancelAnswer::completed;
    }
    const bool runs = std::find(running_.begin(), running_.end(), &operation) != running_.end();
    return runs ? baton::CancelAnswer::requested : baton::CancelAnswer::too_late;
  }

  void wait(baton::OperationQueue& completed, baton::Deadline deadline) noexcept override {
    pollfd readable{wakeup_, POLLIN, 0};
    timespec left{};
    if (!deadline.is_never()) {
      const auto now = baton::Deadline::at(std::chrono::steady_clock::now());
      const auto rest = std::max<std::int64_t>(deadline.remaining(now).count(), 0);
      left = {rest / 1'000'000'000, rest % 1'000'000'000};
    }
    ::ppoll(&readable, 1, deadline.is_never() ? nullptr : &left, nullptr);
    std::uint64_t count = 0;
    static_cast<void>(::read(wakeup_, &count, sizeof count));  // before the results are taken
    const std::lock_guard guard{mutex_};
    completed.splice_back(done_);
  }

  void interrupt() noexcept override {
    const int saved = errno;
    const std::uint64_t one = 1;
    static_cast<void>(::write(wakeup_, &one, sizeof one));
    errno = saved;
  }
  [[nodiscard]] baton::NativeHandle descriptor() const noexcept override { return wakeup_; }

  // The threads are the parent's; one of them may have held the lock.
  void after_fork_in_child() noexcept override {
    static_cast<void>(threads_.release());
    ::close(wakeup_);
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      Operation* operation = nullptr;
      may_go_.wait(lock, [&] { return ends_ || (operation = next()) != nullptr; });
      if (operation == nullptr) return;
      std::erase(waiting_, operation);
      running_.push_back(operation);
      lock.unlock();
      execute(*operation);
      lock.lock();
      std::erase(running_, operation);
      done_.push_back(*operation);
      interrupt();
      may_go_.notify_all();  // those that had to follow it
    }
  }

  // The first in the line that has nothing to follow.
  Operation* next() const noexcept {
    for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
      const auto follows = [&](bool waits) {
        return [&, waits](const Operation* other) { return must_follow(**one, *other, waits); };
      };
      if (std::none_of(running_.begin(), running_.end(), follows(false)) &&
          std::none_of(waiting_.begin(), one, follows(true))) {
        return *one;
      }
    }
    return nullptr;
  }

  baton::EngineInfo info_;
  const int wakeup_;  // an eventfd: results or an interrupt
  std::mutex mutex_;
  std::condition_variable may_go_;
  std::deque<Operation*> waiting_;
  std::vector<Operation*> running_;
  baton::OperationQueue done_;
  bool ends_ = false;
  std::unique_ptr<std::vector<std::thread>> threads_;
};

}  // namespace

baton::Result<std::unique_ptr<baton::Engine>, baton::Failure> open_file_threads(
    const baton::EngineOptions&) {
  const int wakeup = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakeup < 0) return baton::unexpected{baton::Failure{last_error(), "eventfd failed"}};
  return std::unique_ptr<baton::Engine>{std::make_unique<FileThreads>(wakeup)};
}

}  // namespace own_parts
