#include "runners.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

namespace baton::tools {

Runners::Runners(std::uint32_t count) {
  threads_.reserve(count);
  try {
    while (threads_.size() + 1 < count) threads_.emplace_back([this] { wait_for_parts(); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size() + 1;
    end();
    throw std::runtime_error(
        fmt::format("only {} of {} threads could be started ({}); give fewer --threads", started,
                    count, error.code().message()));
  }
}

Runners::~Runners() { end(); }

void Runners::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Runners::run(const std::function<void()>& part) {
  {
    const std::lock_guard lock(mutex_);
    part_ = &part;
    running_ = threads_.size();
    ++round_;
  }
  changed_.notify_all();
  part();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
}

void Runners::wait_for_parts() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; seen = round_) {
    changed_.wait(lock, [&] { return ended_ || round_ != seen; });
    if (ended_) return;
    const std::function<void()>& part = *part_;
    lock.unlock();
    part();
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace baton::tools
