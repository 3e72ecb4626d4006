// 05: time. A timer that ticks, one that is cancelled, a read that gives up, and a signal that ends
// it all before its time.
//
//   05_timer [TICKS]

#include <array>
#include <baton/baton.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "command_line.hpp"

namespace {

using namespace std::chrono_literals;

// By callback: the timer has an operation of its own, and may be started again inside its handler.
// The next tick is counted from the last one, not from now: delays do not add up.
class Ticker {
 public:
  Ticker(baton::Proactor& proactor, std::uint32_t ticks) : timer_(proactor), left_(ticks) {
    tick_at(proactor.now());
  }

 private:
  void tick_at(baton::Deadline when) {
    const auto error = timer_.wait_until(when, [this](baton::Operation& operation) {
      if (operation.failed()) return;  // cancelled
      std::printf("tick\n");
      if (--left_ == 0) {
        timer_.proactor().stop();
      } else {
        tick_at(baton::Deadline::after(20ms, timer_.expires()));
      }
    });
    if (error) std::fprintf(stderr, "no more ticks: %s\n", error.message().c_str());
  }
  baton::Timer timer_;
  std::uint32_t left_;
};

// By coroutine: every operation takes a timeout.
baton::Task<void> impatient(baton::Proactor& proactor) {
  auto ends = baton::StreamSocket::pair(proactor).value();
  std::array<std::byte, 16> buffer;
  const auto received = co_await ends.first.read(buffer).timeout(10ms);
  std::printf("no data came: %s\n", received.error().message().c_str());
}

baton::Task<void> until_signal(baton::SignalSet signals) {
  if (auto number = co_await signals.wait()) {
    std::printf("signal %d\n", *number);
    signals.proactor().stop();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  examples::at_most_or_exit(argc, argv, 1);
  const std::uint32_t ticks = examples::number_or_exit(argc, argv, 1, "TICKS", 1, 1'000'000, 5);
  baton::SignalSet::block({SIGINT, SIGTERM});  // before there is a second thread
  baton::Proactor proactor{baton::Config::from_environment()};
  proactor.spawn(until_signal(baton::SignalSet::open(proactor, {SIGINT, SIGTERM}).value()));

  baton::Timer never{proactor};
  const auto error = never.wait_for(1h, [](baton::Operation& operation) {
    std::printf("an hour is too long: %s\n", operation.error().message().c_str());
  });
  if (error) std::fprintf(stderr, "not started: %s\n", error.message().c_str());
  never.cancel();

  proactor.spawn(impatient(proactor));
  const Ticker ticker{proactor, ticks};
  const baton::FinishAtEnd end{proactor};  // a signal leaves the next tick pending
  proactor.run();
  return examples::flush_output() ? 0 : 1;
} catch (const std::exception& error) {
  return examples::failed(error);
}
