// The cost of a timer on Asio: the rounds of bench/rivals/raw/floor_timer.cpp, with a handler
// for each timer that ends, cancelled or expired.
#include <utility>  // before Asio: that of Boost 1.74 forgets it

#include <boost/asio.hpp>
#include <cstdlib>
#include <deque>

#include "rounds.hpp"

namespace {

namespace asio = boost::asio;
using Timer = asio::steady_timer;
using std::chrono::nanoseconds;

constexpr std::size_t many = 200'000;
constexpr std::size_t rearmed = 10'000;

asio::io_context context{1};
std::size_t ended;

nanoseconds random_ns() { return nanoseconds{rival::random_number() >> 30}; }
void count(const boost::system::error_code&) { ++ended; }

void start(Timer& timer, Timer::time_point when) {
  timer.expires_at(when);
  timer.async_wait(count);
}
void run_all() {
  context.restart();
  context.run();
}

std::deque<Timer> made(std::size_t number) {
  std::deque<Timer> timers;
  for (std::size_t i = 0; i < number; ++i) timers.emplace_back(context);
  ended = 0;
  return timers;
}

double create_cancel() {
  std::deque<Timer> timers = made(many);
  const double ns = rival::ns_each(many, [&] {
    const auto far = Timer::clock_type::now() + std::chrono::hours{1};
    for (Timer& timer : timers) start(timer, far + random_ns());
    for (Timer& timer : timers) timer.cancel();
    run_all();
  });
  if (ended != many) std::abort();
  return ns;
}

template <typename When>
double move_each(When&& when) {
  std::deque<Timer> timers = made(rearmed);
  const auto far = Timer::clock_type::now() + std::chrono::hours{1};
  for (Timer& timer : timers) start(timer, far + random_ns());
  const double ns = rival::ns_each(rearmed * 10, [&] {
    for (int turn = 0; turn < 10; ++turn) {
      for (Timer& timer : timers) start(timer, far + when());  // ends the wait before it
      context.restart();
      context.poll();
    }
  });
  timers.clear();
  run_all();
  return ns;
}

double rearm() { return move_each(random_ns); }

double put_off() {
  nanoseconds ahead{std::int64_t{1} << 35};
  return move_each([&ahead] { return ahead += nanoseconds{1'000}; });
}

double create_expire() {
  std::deque<Timer> timers = made(many);
  const double ns = rival::ns_each(many, [&] {
    const auto past = Timer::clock_type::now() - std::chrono::seconds{1};
    for (Timer& timer : timers) start(timer, past + random_ns() % 1'000'000);
    run_all();
  });
  if (ended != many) std::abort();
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  rival::Report report("asio_timer", argc, argv, 7);
  report.measure("timer_create_cancel", create_cancel);
  report.measure("timer_rearm", rearm);
  report.measure("timer_put_off", put_off);
  report.measure("timer_create_expire", create_expire);
  return 0;
}
