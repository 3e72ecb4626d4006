// The time that stopping takes, by pending operations: half reads on silent sockets, queued many on
// each, half timers that are far away. From stop() until run() has returned, and from there until
// the proactor is gone, which completes all of them; afterwards nothing is called.
//
//   stop [--pending N] [--rounds N] [--mode shared|dedicated|per_thread]
//
// BATON=engine=...,wait=... chooses the rest. Prints one line of JSON; exit status 1 if a callback
// was late, missing or came twice.
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "baton/proactor.hpp"
#include "scenario.hpp"

namespace {

using baton::Deadline;
using baton::Handle;
using baton::HandleKind;
using baton::MutableBuffer;
using baton::Operation;
using baton::OperationKind;
using baton::Proactor;

constexpr std::size_t sockets = 100;

struct Pending : Operation {
  int completions = 0;
};

struct Round {
  double run_ms = 0;
  double destroy_ms = 0;
  std::uint64_t wrong = 0;  // late, missing, twice
};

std::atomic<bool> gone{false};
std::atomic<std::uint64_t> late{0};

void completed(Operation& operation) {
  ++static_cast<Pending&>(operation).completions;
  if (gone.load()) late.fetch_add(1);
}

void start_all(Proactor& proactor, Pending* operations, std::size_t count, char* byte) {
  std::array<Handle*, sockets> handles{};
  for (Handle*& handle : handles) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    handle = proactor.adopt(pair[0], HandleKind::stream_socket).value();
    // The other end belongs to it as well, and is silent.
    if (!proactor.adopt(pair[1], HandleKind::stream_socket)) std::abort();
  }
  for (std::size_t i = 0; i < count; ++i) {
    Pending& operation = operations[i];
    operation.set_completion(completed);
    std::error_code error;
    if (i % 2 == 0) {
      operation.prepare(OperationKind::read_stream, handles[i / 2 % sockets]);
      operation.set_buffer(MutableBuffer{byte, 1});
      error = proactor.start(operation);
    } else {
      error = proactor.start_timer(operation, Deadline::after(std::chrono::hours{1}));
    }
    if (error) {
      std::fprintf(stderr, "stop: a start was refused: %s\n", error.message().c_str());
      std::exit(2);
    }
  }
}

Round measure(const baton::Config& config, std::size_t count) {
  // Outlives the proactor, so that a late callback is seen and not a crash.
  auto operations = std::make_unique<Pending[]>(count);
  char byte = 0;
  gone.store(false);
  Round round;
  std::optional<Proactor> proactor(std::in_place, config);
  std::atomic<bool> started{false};
  std::thread runner([&] {
    // In the thread that runs: a lane's handles are at home there.
    auto begin = [&] {
      start_all(*proactor, operations.get(), count, &byte);
      started.store(true);
      started.notify_all();
    };
    if (proactor->post([&begin] { begin(); })) std::abort();
    proactor->run();
  });
  started.wait(false);
  const auto stopped = std::chrono::steady_clock::now();
  proactor->stop();
  runner.join();
  round.run_ms = baton::bench::ns_since(stopped) / 1e6;
  const auto destroyed = std::chrono::steady_clock::now();
  proactor.reset();
  round.destroy_ms = baton::bench::ns_since(destroyed) / 1e6;
  gone.store(true);
  // A thread that was forgotten would have its chance now.
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  for (std::size_t i = 0; i < count; ++i) round.wrong += operations[i].completions != 1;
  round.wrong += late.exchange(0);
  return round;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](const char* name, const char* otherwise) {
    return std::strtoull(baton::bench::option(argc, argv, name, otherwise).c_str(), nullptr, 10);
  };
  const std::size_t pending = std::max<std::size_t>(number("--pending", "10000"), 1);
  const std::size_t rounds = std::max<std::size_t>(number("--rounds", "7"), 1);
  auto config =
      baton::bench::one_thread_config(baton::bench::option(argc, argv, "--mode", "shared"));
  if (!config) {
    std::fprintf(stderr, "stop: %s\n", config.error().reason.c_str());
    return 2;
  }
  std::vector<double> run_ms;
  std::vector<double> destroy_ms;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    const Round round = measure(*config, pending);
    run_ms.push_back(round.run_ms);
    destroy_ms.push_back(round.destroy_ms);
    wrong += round.wrong;
  }
  std::sort(run_ms.begin(), run_ms.end());
  std::sort(destroy_ms.begin(), destroy_ms.end());
  std::printf(
      "{\"program\": \"stop\", \"pending\": %zu, \"run_ms\": %.3f, \"destroy_ms\": %.3f, "
      "\"us_per_operation\": %.3f, \"wrong\": %llu}\n",
      pending, run_ms[rounds / 2], destroy_ms[rounds / 2],
      1e3 * (run_ms[rounds / 2] + destroy_ms[rounds / 2]) / static_cast<double>(pending),
      static_cast<unsigned long long>(wrong));
  baton::bench::write_out();
  return wrong == 0 ? 0 : 1;
}
