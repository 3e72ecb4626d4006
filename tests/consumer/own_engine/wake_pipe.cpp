#include "wake_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace {

class WakePipe final : public baton::InterruptStrategy {
 public:
  ~WakePipe() override { close(); }

  [[nodiscard]] std::string_view name() const noexcept override { return "wake_pipe"; }
  [[nodiscard]] int descriptor() const noexcept override { return ends_[0]; }

  void interrupt() noexcept override {
    if (pending_.exchange(true)) return;
    const int error = errno;
    static_cast<void>(!::write(ends_[1], "!", 1));
    errno = error;
  }
  // Drained first: an interrupt that comes in between finds the flag set, and is covered.
  void reset() noexcept override {
    char bytes[16];
    while (::read(ends_[0], bytes, sizeof bytes) > 0) {
    }
    pending_.exchange(false);
  }
  baton::Result<void, baton::Failure> recreate() override {
    close();
    pending_ = false;
    if (::pipe2(ends_, O_NONBLOCK | O_CLOEXEC) == 0) return {};
    return baton::unexpected{
        baton::Failure{std::error_code{errno, std::system_category()}, "pipe2 failed"}};
  }

 private:
  void close() noexcept {
    for (int& end : ends_) {
      if (int number = std::exchange(end, baton::invalid_handle); number >= 0) ::close(number);
    }
  }

  int ends_[2] = {baton::invalid_handle, baton::invalid_handle};
  std::atomic<bool> pending_{false};
};

}  // namespace

baton::Result<std::unique_ptr<baton::InterruptStrategy>, baton::Failure> open_wake_pipe(
    const baton::InterruptOptions&) {
  auto made = std::make_unique<WakePipe>();
  if (auto opened = made->recreate(); !opened) return baton::unexpected{opened.error()};
  return std::unique_ptr<baton::InterruptStrategy>{std::move(made)};
}
