// The cost of posting a handler on a proactor with one thread in run(). The same rounds as
// bench/rivals/raw/floor_post.cpp, with operations that the caller owns, as a program that counts
// its nanoseconds would.
//
//   post [--rounds N] [--mode shared|dedicated|per_thread]
//
// BATON=engine=...,wait=... chooses the rest.
#include <atomic>
#include <memory>
#include <thread>

#include "baton/proactor.hpp"
#include "one_core.hpp"
#include "scenario.hpp"

namespace {

using baton::Operation;
using baton::OperationKind;
using baton::Proactor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t posts_inside = 1'000'000;
constexpr std::size_t posts_other_thread = 1'000'000;
constexpr std::size_t ahead_max = 16'000;
constexpr std::size_t hops = 20'000;

struct Rounds {
  Proactor& proactor;
  std::unique_ptr<Operation[]> posts;
  std::size_t batch_count = 0;
  std::size_t batches_left = 0;
  std::atomic<std::size_t> run_count{0};  // written by handlers only

  explicit Rounds(Proactor& p) : proactor(p), posts(std::make_unique<Operation[]>(ahead_max)) {
    for (std::size_t i = 0; i < ahead_max; ++i) posts[i].prepare(OperationKind::user, nullptr);
  }

  void set_handlers(std::size_t first, std::size_t count, baton::CompletionFunction handler) {
    for (std::size_t i = first; i < first + count; ++i) posts[i].set_completion(handler, this);
  }

  void post(Operation& operation) {
    if (proactor.post(operation)) std::abort();
  }
};

void no_op(Operation&) {}

void post_batch(Operation& operation) {
  auto& rounds = *static_cast<Rounds*>(operation.context());
  if (rounds.batches_left-- == 0) return rounds.proactor.stop();
  for (std::size_t i = 0; i < rounds.batch_count; ++i) rounds.post(rounds.posts[i]);
}

double post_inside(Rounds& rounds, std::size_t batch_count) {
  rounds.set_handlers(0, batch_count - 1, no_op);
  rounds.set_handlers(batch_count - 1, 1, post_batch);
  rounds.batch_count = batch_count;
  rounds.batches_left = posts_inside / batch_count;
  rounds.proactor.restart();
  const auto start = Clock::now();
  rounds.post(rounds.posts[batch_count - 1]);
  rounds.proactor.run();
  return baton::bench::ns_since(start) / static_cast<double>(posts_inside);
}

void count_run(Operation& operation) {
  auto& rounds = *static_cast<Rounds*>(operation.context());
  const std::size_t count = rounds.run_count.load(std::memory_order_relaxed) + 1;
  // Release: the poster may use this operation again once it sees the count.
  rounds.run_count.store(count, std::memory_order_release);
  if (count == posts_other_thread) rounds.proactor.stop();
}

void post_all(Rounds& rounds) {
  for (std::size_t i = 0; i < posts_other_thread; ++i) {
    while (i % 1000 == 0 &&
           i - rounds.run_count.load(std::memory_order_acquire) > ahead_max - 1000) {
      std::this_thread::yield();
    }
    rounds.post(rounds.posts[i % ahead_max]);
  }
}

double post_other_thread(Rounds& rounds) {
  rounds.set_handlers(0, ahead_max, count_run);
  rounds.run_count = 0;
  rounds.proactor.restart();
  std::atomic<bool> go{false};
  std::thread poster([&] {
    go.wait(false);
    post_all(rounds);
  });
  const auto start = Clock::now();
  go = true;
  go.notify_one();
  rounds.proactor.run();
  const double ns = baton::bench::ns_since(start) / static_cast<double>(posts_other_thread);
  poster.join();
  return ns;
}

double post_chain(Rounds& rounds) {
  rounds.set_handlers(0, 1, [](Operation& operation) {
    auto& run = *static_cast<Rounds*>(operation.context());
    if (run.batches_left-- == 0) return run.proactor.stop();
    run.post(operation);
  });
  rounds.batches_left = posts_inside;
  rounds.proactor.restart();
  const auto start = Clock::now();
  rounds.post(rounds.posts[0]);
  rounds.proactor.run();
  return baton::bench::ns_since(start) / static_cast<double>(posts_inside);
}

// One of two proactors that post to each other; each sleeps when it is posted to.
struct Hopper {
  Proactor& proactor;
  Operation operation;
  Hopper* other = nullptr;
  std::size_t* hops_left = nullptr;

  explicit Hopper(Proactor& p) : proactor(p) {
    operation.prepare(OperationKind::user, nullptr);
    operation.set_handler([this](Operation&) { hop(); });
  }
  void hop() {
    // Only the loop that runs touches the count.
    if (*hops_left == 0) return other->proactor.stop(), proactor.stop();
    --*hops_left;
    if (other->proactor.post(other->operation)) std::abort();
  }
};

double wake_hop(Proactor& here, Proactor& there) {
  const ::bench::OneCore one_core;
  Hopper first{here};
  Hopper second{there};
  std::size_t hops_left = hops;
  first.other = &second, second.other = &first;
  first.hops_left = second.hops_left = &hops_left;
  here.restart();
  there.restart();
  std::thread thread([&there] { there.run(); });
  if (here.post(first.operation)) std::abort();
  const auto start = Clock::now();
  here.run();
  const double ns = baton::bench::ns_since(start) / static_cast<double>(hops);
  thread.join();
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  const auto mode = baton::bench::option(argc, argv, "--mode", "shared");
  const auto count = baton::bench::option(argc, argv, "--rounds", "15");
  const auto config = baton::bench::one_thread_config(mode);
  if (!config) {
    std::fprintf(stderr, "post: %s\n", config.error().reason.c_str());
    return 2;
  }
  Proactor proactor{*config};
  Rounds rounds{proactor};
  baton::bench::Report report("post", std::strtoul(count.c_str(), nullptr, 10));
  report.measure("post_inside", [&] { return post_inside(rounds, 100); });
  report.measure("post_inside_1000", [&] { return post_inside(rounds, 1000); });
  report.measure("post_chain", [&] { return post_chain(rounds); });
  report.measure("post_other_thread", [&] { return post_other_thread(rounds); });
  Proactor there{*config};
  report.measure("wake_hop", [&] { return wake_hop(proactor, there); });
  report.print();
  return 0;
}
