// The cost of posting a handler on Asio: the rounds of bench/rivals/raw/floor_post.cpp.
#include <utility>  // before Asio: that of Boost 1.74 forgets it

#include <atomic>
#include <boost/asio.hpp>
#include <cstdlib>
#include <thread>

#include "one_core.hpp"
#include "rounds.hpp"

namespace {

namespace asio = boost::asio;

constexpr std::size_t posts_inside = 1'000'000;
constexpr std::size_t posts_other_thread = 1'000'000;
constexpr std::size_t ahead_max = 16'000;
constexpr std::size_t hops = 20'000;

// Locking as a program needs that is posted to from outside; one thread runs it.
asio::io_context context;
std::size_t batch_count;
std::size_t batches_left;
std::atomic<std::size_t> run_count;

void post_batch() {
  if (batches_left-- == 0) return;
  for (std::size_t i = 0; i + 1 < batch_count; ++i) asio::post(context, [] {});
  asio::post(context, post_batch);
}

double post_inside(std::size_t count) {
  batch_count = count;
  batches_left = posts_inside / count;
  context.restart();
  return rival::ns_each(posts_inside, [] {
    asio::post(context, post_batch);
    context.run();
  });
}

void chain() {
  if (batches_left-- > 0) asio::post(context, chain);
}

double post_chain() {
  batches_left = posts_inside;
  context.restart();
  return rival::ns_each(posts_inside, [] {
    asio::post(context, chain);
    context.run();
  });
}

void post_all() {
  for (std::size_t i = 0; i < posts_other_thread; ++i) {
    while (i % 1000 == 0 && i - run_count.load(std::memory_order_acquire) > ahead_max - 1000) {
      std::this_thread::yield();
    }
    asio::post(context, [] {
      const std::size_t count = run_count.load(std::memory_order_relaxed) + 1;
      run_count.store(count, std::memory_order_release);
      if (count == posts_other_thread) context.stop();
    });
  }
}

double post_other_thread() {
  run_count = 0;
  context.restart();
  const auto guard = asio::make_work_guard(context);
  std::atomic<bool> go{false};
  std::thread poster([&go] {
    go.wait(false);
    post_all();
  });
  const double ns = rival::ns_each(posts_other_thread, [&go] {
    go = true;
    go.notify_one();
    context.run();
  });
  poster.join();
  return ns;
}

std::size_t hops_left;  // only the loop that runs touches it

void hop(asio::io_context& here, asio::io_context& there) {
  if (hops_left-- == 0) return here.stop(), there.stop();
  asio::post(there, [&] { hop(there, here); });
}

double wake_hop() {
  const bench::OneCore one_core;
  asio::io_context other;
  const auto guards = {asio::make_work_guard(context), asio::make_work_guard(other)};
  hops_left = hops;
  context.restart();
  std::thread thread([&other] { other.run(); });
  const double ns = rival::ns_each(hops, [&other] {
    asio::post(context, [&other] { hop(context, other); });
    context.run();
  });
  thread.join();
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  rival::Report report("asio_post", argc, argv, 15);
  report.measure("post_inside", [] { return post_inside(100); });
  report.measure("post_inside_1000", [] { return post_inside(1000); });
  report.measure("post_chain", post_chain);
  report.measure("post_other_thread", post_other_thread);
  report.measure("wake_hop", wake_hop);
  return 0;
}
