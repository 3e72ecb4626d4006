#include "faults.hpp"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace baton::test::aio {
namespace {

const os::System& real() { return os::real_system(); }

bool of_a_file(const aiocb* block) {
  struct stat status{};
  return ::fstat(block->aio_fildes, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

Faults& faults() {
  static auto& the_faults = *new Faults;
  return the_faults;
}

const os::System& fault_system() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.aio_read = [](aiocb* block) {
      return faults().start(Call::read, block, [block] { return real().aio_read(block); });
    };
    made.aio_write = [](aiocb* block) {
      return faults().start(Call::write, block, [block] { return real().aio_write(block); });
    };
    made.aio_fsync = [](int operation, aiocb* block) {
      return faults().start(operation == O_DSYNC ? Call::fdatasync : Call::fsync, block,
                            [operation, block] { return real().aio_fsync(operation, block); });
    };
    made.lseek = [](int fd, off_t offset, int whence) {
      if (whence == SEEK_END) static_cast<void>(faults().enter(Call::seek_end));
      return real().lseek(fd, offset, whence);
    };
    made.aio_cancel = [](int fd, aiocb* block) { return faults().cancel(fd, block); };
    made.aio_error = [](const aiocb* block) { return faults().error_of(block); };
    made.aio_return = [](aiocb* block) { return faults().return_of(block); };
    made.aio_suspend = [](const aiocb* const list[], int count, const timespec* timeout) {
      if (const int error = faults().enter(Call::suspend)) return errno = error, -1;
      // The system does not know the parked requests, and would not wait for the others.
      const std::vector<const aiocb*> known = faults().known({list, list + count});
      return real().aio_suspend(known.data(), count, timeout);
    };
    return made;
  }();
  return system;
}

int Faults::Failing::next() {
  if (spared > 0) return --spared, 0;
  if (times == 0) return 0;
  --times;
  return error;
}

void Faults::clear() {
  open_gate();
  deliver();
  const std::scoped_lock lock(mutex_);
  failing_ = {};
  ending_ = {};
  attempts_.clear();
  for (auto& each : counts_) each = 0;
  cut_ = 0;
  never_cancel_ = withheld_ = false;
}

void Faults::fail(Call call, int error, unsigned times, unsigned spared) {
  const std::scoped_lock lock(mutex_);
  failing_[index(call)] = {error, spared, times};
}

void Faults::end_with(int error, unsigned times, unsigned spared) {
  const std::scoped_lock lock(mutex_);
  ending_ = {error, spared, times};
}

int Faults::enter(Call call) {
  const std::scoped_lock lock(mutex_);
  ++counts_[index(call)];
  return failing_[index(call)].next();
}

int Faults::start(Call call, aiocb* block, const std::function<int()>& begin) {
  if (!of_a_file(block)) return begin();
  const int error = enter(call);
  {
    const std::scoped_lock lock(mutex_);
    attempts_.push_back({block->aio_fildes, error == 0});
  }
  if (error != 0) return errno = error, -1;
  if (cut_ != 0) block->aio_nbytes = std::min<std::size_t>(block->aio_nbytes, cut_);
  if (withheld_) {
    const sigevent event = block->aio_sigevent;
    block->aio_sigevent.sigev_notify = SIGEV_NONE;
    const std::scoped_lock lock(mutex_);
    late_.emplace_back([event] {
      if (event.sigev_notify == SIGEV_THREAD) event.sigev_notify_function(event.sigev_value);
    });
  }
  const std::scoped_lock lock(mutex_);
  told_.erase(block);
  if (const int end = ending_.next()) {
    told_[block] = {end, nullptr};
    // It gets a callback like the others, and moves nothing.
    block->aio_nbytes = 0;
    return begin();
  }
  if (!closed_) return begin();
  told_[block] = {EINPROGRESS, begin};
  return 0;
}

std::vector<const aiocb*> Faults::known(std::vector<const aiocb*> list) {
  const std::scoped_lock lock(mutex_);
  for (const aiocb*& block : list) {
    const auto told = told_.find(block);
    if (told != told_.end() && told->second.error == EINPROGRESS) block = nullptr;
  }
  return list;
}

void Faults::open_gate() {
  closed_ = false;
  const std::scoped_lock lock(mutex_);
  for (auto it = told_.begin(); it != told_.end();) {
    if (it->second.begin && it->second.error == EINPROGRESS) {
      it->second.begin();
      it = told_.erase(it);
    } else {
      ++it;
    }
  }
}

void Faults::deliver() {
  std::vector<std::function<void()>> due;
  {
    const std::scoped_lock lock(mutex_);
    due.swap(late_);
  }
  for (const auto& each : due) each();
}

int Faults::error_of(const aiocb* block) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = told_.find(block);
    if (found != told_.end()) {
      // A request that the system has is over when the system says so.
      if (found->second.begin || real().aio_error(block) != EINPROGRESS) return found->second.error;
      return EINPROGRESS;
    }
  }
  return real().aio_error(block);
}

ssize_t Faults::return_of(aiocb* block) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = told_.find(block);
    if (found != told_.end()) {
      if (!found->second.begin) real().aio_return(block);
      told_.erase(found);
      return -1;
    }
  }
  return real().aio_return(block);
}

// A parked request has not begun, so it can be cancelled.
int Faults::cancel(int fd, aiocb* block) {
  if (!of_a_file(block)) return real().aio_cancel(fd, block);
  if (const int error = enter(Call::cancel)) return errno = error, -1;
  if (never_cancel_) return AIO_NOTCANCELED;
  std::function<void()> notify;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = told_.find(block);
    if (found == told_.end()) return real().aio_cancel(fd, block);
    if (!found->second.begin) return AIO_ALLDONE;
    found->second.error = ECANCELED;
    const sigevent event = block->aio_sigevent;
    if (event.sigev_notify == SIGEV_THREAD) {
      notify = [event] { event.sigev_notify_function(event.sigev_value); };
    }
  }
  if (notify) notify();
  return AIO_CANCELED;
}

}  // namespace baton::test::aio
