// The cost of a timer on libuv: the rounds of bench/rivals/raw/floor_timer.cpp. Its times are
// whole milliseconds of the loop's clock, so that fewer of them differ.
#include <uv.h>

#include <cstdlib>
#include <vector>

#include "rounds.hpp"

namespace {

constexpr std::size_t many = 200'000;
constexpr std::size_t rearmed = 10'000;
constexpr std::uint64_t hour_ms = 3'600'000;
constexpr std::uint64_t soon_ms = 100;

uv_loop_t loop;
std::size_t expired;

std::uint64_t far_ms() { return hour_ms + rival::random_number() % hour_ms; }
void count(uv_timer_t*) { ++expired; }

std::vector<uv_timer_t> made(std::size_t number) {
  std::vector<uv_timer_t> timers(number);
  for (uv_timer_t& timer : timers) uv_timer_init(&loop, &timer);
  return timers;
}
// Until all are closed: the loop lets go of their memory then.
void end(std::vector<uv_timer_t>& timers) {
  for (uv_timer_t& timer : timers) uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
}

double create_cancel() {
  std::vector<uv_timer_t> timers = made(many);
  const double ns = rival::ns_each(many, [&] {
    for (uv_timer_t& timer : timers) uv_timer_start(&timer, count, far_ms(), 0);
    for (uv_timer_t& timer : timers) uv_timer_stop(&timer);
  });
  end(timers);
  return ns;
}

template <typename When>
double move_each(When&& when) {
  std::vector<uv_timer_t> timers = made(rearmed);
  for (uv_timer_t& timer : timers) uv_timer_start(&timer, count, far_ms(), 0);
  const double ns = rival::ns_each(rearmed * 10, [&] {
    for (int turn = 0; turn < 10; ++turn) {
      for (uv_timer_t& timer : timers) uv_timer_start(&timer, count, when(), 0);
    }
  });
  end(timers);
  return ns;
}

double rearm() { return move_each(far_ms); }

double put_off() {
  std::uint64_t ms = 3 * hour_ms;
  return move_each([&ms] { return ++ms; });
}

// Starting them, and the turn of the loop in which all are due; not the time in between.
double create_expire() {
  std::vector<uv_timer_t> timers = made(many);
  expired = 0;
  uv_update_time(&loop);
  const double started = rival::ns_each(many, [&] {
    for (uv_timer_t& timer : timers) {
      uv_timer_start(&timer, count, rival::random_number() % soon_ms, 0);
    }
  });
  const std::uint64_t due = uv_now(&loop) + soon_ms;
  while (uv_hrtime() / 1'000'000 <= due) {
  }
  const double ended = rival::ns_each(many, [] { uv_run(&loop, UV_RUN_NOWAIT); });
  if (expired != many) std::abort();
  end(timers);
  return started + ended;
}

}  // namespace

int main(int argc, char** argv) {
  uv_loop_init(&loop);
  rival::Report report("libuv_timer", argc, argv, 7);
  report.measure("timer_create_cancel", create_cancel);
  report.measure("timer_rearm", rearm);
  report.measure("timer_put_off", put_off);
  report.measure("timer_create_expire", create_expire);
  return 0;
}
