// 08: a wait strategy of one's own, chosen by name.
//
// The emulated engine awaits readiness by whatever strategy the configuration names. This one is a
// simple poll(2); a real one would bring a mechanism that Baton does not know. Here: write the
// class, register a factory, name it. docs/porting/wait_strategy.md says what else there is to
// know.

#include <poll.h>

#include <array>
#include <baton/baton.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <vector>

#include "command_line.hpp"

namespace {

class MyPoll final : public baton::WaitStrategy {
 public:
  [[nodiscard]] const baton::WaitStrategyInfo& info() const noexcept override { return info_; }

  std::error_code add(baton::NativeHandle fd, baton::Interest interest,
                      baton::Token token) noexcept override {
    const std::lock_guard guard{mutex_};
    watched_.push_back({fd, interest, token});
    return {};
  }
  std::error_code modify(baton::NativeHandle fd, baton::Interest interest,
                         baton::Token token) noexcept override {
    const std::lock_guard guard{mutex_};
    for (Watched& one : watched_) {
      if (one.fd == fd) one = {fd, interest, token};
    }
    return {};
  }
  std::error_code remove(baton::NativeHandle fd) noexcept override {
    const std::lock_guard guard{mutex_};
    std::erase_if(watched_, [fd](const Watched& one) { return one.fd == fd; });
    return {};
  }

  // A wait works on a copy: changes do not reach one that has begun. info() says so, and the
  // thread that makes a change interrupts it.
  baton::Result<std::size_t> wait(std::span<baton::Report> reports, baton::Deadline deadline,
                                  const baton::SignalMask*) noexcept override {
    std::vector<pollfd> list;
    std::vector<baton::Token> tokens;
    {
      const std::lock_guard guard{mutex_};
      for (const Watched& one : watched_) {
        if (!baton::any(one.interest)) continue;
        const bool in = baton::any(one.interest & baton::Interest::in);
        const bool out = baton::any(one.interest & baton::Interest::out);
        list.push_back({one.fd, static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0)), 0});
        tokens.push_back(one.token);
      }
    }
    const int found = ::poll(list.data(), list.size(), milliseconds(deadline));
    if (found < 0 && errno != EINTR) {
      return baton::unexpected{std::error_code(errno, std::system_category())};
    }
    std::size_t count = 0;
    for (std::size_t i = 0; i < list.size() && count < reports.size() && found > 0; ++i) {
      const auto ready = list[i].revents;
      if (ready == 0) continue;
      // Errors and hang-ups count as both: the system call that follows finds the truth.
      const bool trouble = (ready & (POLLERR | POLLHUP | POLLNVAL)) != 0;
      baton::Interest interest = trouble ? baton::Interest::both : baton::Interest::none;
      if ((ready & POLLIN) != 0) interest = interest | baton::Interest::in;
      if ((ready & POLLOUT) != 0) interest = interest | baton::Interest::out;
      reports[count++] = {tokens[i], interest};
    }
    return count;
  }

 private:
  struct Watched {
    baton::NativeHandle fd;
    baton::Interest interest;
    baton::Token token;
  };

  static int milliseconds(baton::Deadline deadline) {
    if (deadline.is_never()) return -1;
    const auto left = deadline.remaining(baton::Deadline::at(std::chrono::steady_clock::now()));
    // Rounded up: late is allowed, early is not.
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }

  baton::WaitStrategyInfo info_{.name = "my_poll"};
  std::mutex mutex_;  // add, modify and remove come one at a time, but beside a wait
  std::vector<Watched> watched_;
};

baton::Task<void> talk(baton::Proactor& proactor) {
  auto pair = baton::StreamSocket::pair(proactor);
  if (!pair) throw std::system_error(pair.error(), "pair");
  auto& ends = *pair;
  std::array<char, 32> buffer;
  const std::string_view text = "ready, by my own poll";
  static_cast<void>(co_await ends.first.write_all(text));
  const auto received = co_await ends.second.read(buffer);
  std::printf("%.*s\n", static_cast<int>(received.value()), buffer.data());
}

}  // namespace

int main() try {
  auto error = baton::registry().add(
      "my_poll",
      [](const baton::WaitOptions&)
          -> baton::Result<std::unique_ptr<baton::WaitStrategy>, baton::Failure> {
        return std::unique_ptr<baton::WaitStrategy>{std::make_unique<MyPoll>()};
      },
      "an example");
  if (error) return 1;

  baton::Config config;
  config.processors = {{.engine = "emulated", .wait = "my_poll"}};
  baton::Proactor proactor{config};
  std::printf("%s\n", proactor.explain().c_str());
  baton::run_until_complete(proactor, talk(proactor));
  return examples::flush_output() ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
