// The random draws of the chaos engine: the same from the same seed, within their bounds, and never
// what the contract forbids.
#include "engines/chaos/draws.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/handle_table.hpp"

namespace baton::engines::chaos {
namespace {

struct Asked {
  explicit Asked(HandleKind kind) { handle = table.allocate(7, kind, Ownership::owned, true, 0); }
  HandleTable table{16, os::real_system()};
  Handle* handle = nullptr;
  Operation operation;
};

ProcessorConfig config(std::uint32_t per_cent) {
  ProcessorConfig config;
  config.chaos_short = config.chaos_delay = config.chaos_error = config.chaos_late_cancel =
      per_cent;
  return config;
}

std::vector<std::int64_t> course(std::uint32_t seed) {
  Asked asked{HandleKind::stream_socket};
  asked.operation.prepare(OperationKind::read_stream, asked.handle);
  ProcessorConfig settings = config(50);
  settings.chaos_seed = seed;
  Draws draws{settings};
  std::vector<std::int64_t> all;
  for (int i = 0; i < 1'000; ++i) {
    const Fate fate = draws.fate(asked.operation);
    all.insert(all.end(),
               {fate.in_parts ? 1 : 0, fate.error, fate.before.count(), fate.afterwards.count()});
  }
  return all;
}

TEST(ChaosDraws, TheSameSeedDrawsTheSame) {
  EXPECT_EQ(course(7), course(7));
  EXPECT_NE(course(7), course(8));
}

TEST(ChaosDraws, NothingIsDrawnAtZeroPercent) {
  Asked asked{HandleKind::stream_socket};
  asked.operation.prepare(OperationKind::read_stream, asked.handle);
  Draws draws{config(0)};
  for (int i = 0; i < 1'000; ++i) {
    const Fate fate = draws.fate(asked.operation);
    EXPECT_FALSE(fate.in_parts);
    EXPECT_EQ(fate.error, 0);
    EXPECT_EQ(fate.before.count() + fate.afterwards.count(), 0);
    EXPECT_EQ(draws.late_cancel().count(), 0);
  }
}

TEST(ChaosDraws, DelaysStayWithinTheirBound) {
  Asked asked{HandleKind::stream_socket};
  asked.operation.prepare(OperationKind::read_stream, asked.handle);
  ProcessorConfig settings = config(100);
  settings.chaos_delay_us = 5;
  Draws draws{settings};
  for (int i = 0; i < 1'000; ++i) {
    for (const Duration one : {draws.fate(asked.operation).before, draws.late_cancel()}) {
      EXPECT_GT(one, Duration{0});
      EXPECT_LE(one, std::chrono::microseconds{5});
    }
  }
}

TEST(ChaosDraws, PartsAreNeverEmptyAndKeepWholeBlocksWhole) {
  Draws draws{config(100)};
  for (std::size_t left = 1; left < 3'000; ++left) {
    const std::size_t any = draws.part(left, false);
    EXPECT_GE(any, 1U);
    EXPECT_LE(any, left);
    const std::size_t aligned = draws.part(left, true);
    EXPECT_GE(aligned, 1U);
    EXPECT_LE(aligned, left);
    EXPECT_TRUE(left % 512 != 0 || aligned % 512 == 0) << aligned << " of " << left;
  }
}

TEST(ChaosDraws, AcceptCloseAndShutdownNeverFail) {
  Asked asked{HandleKind::listener};
  Draws draws{config(100)};
  for (const OperationKind kind : {OperationKind::accept, OperationKind::close,
                                   OperationKind::shutdown, OperationKind::wait_ready}) {
    asked.operation.prepare(kind, asked.handle);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(draws.fate(asked.operation).error, 0);
  }
}

}  // namespace
}  // namespace baton::engines::chaos
