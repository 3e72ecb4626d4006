#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "../numbers.hpp"

namespace baton::tools {
namespace {

constexpr double shown_from_s = 2;
constexpr auto interval = std::chrono::milliseconds(250);

}  // namespace

Progress::Progress(double seconds, std::string unit, std::function<std::uint64_t()> count)
    : seconds_(seconds), unit_(std::move(unit)), count_(std::move(count)) {
  if (seconds > shown_from_s && line_.on_terminal()) {
    try {
      thread_ = std::thread([this] { show(); });
    } catch (const std::system_error&) {
      // The run goes on without this line.
    }
  }
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_event_.notify_one();
  thread_.join();
}

void Progress::show() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_event_.wait_for(lock, interval, [this] { return ended_; })) {
    print(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  line_.clear();
}

void Progress::print(double elapsed_s) {
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(count_()) / elapsed_s);
  line_.show(fmt::format("load: {:.1f} s left, {} {}/s", std::max(0.0, seconds_ - elapsed_s),
                         grouped(rate), unit_));
}

}  // namespace baton::tools
