// The same programs on every engine of the real kernel and on the simulated one: results that do
// not depend on time must be the same. BATON_DIFFERENTIAL_SEEDS: the number of seeds for each, 40
// by default.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep.hpp"
#include "sim/world.hpp"

namespace baton::test {
namespace {

constexpr std::uint32_t steps = 40;

std::uint64_t seeds() {
  std::uint64_t count = 40;
  if (const char* const said = ::getenv("BATON_DIFFERENTIAL_SEEDS")) {
    std::from_chars(said, said + std::strlen(said), count);
  }
  return count;
}

/// For the time of one test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "baton-differential-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr) << path_;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The expected outcome: of a machine without faults. The same accounts check its contents.
std::vector<std::string> expected(sim::World& world, std::uint64_t seed) {
  std::vector<std::string> outcomes;
  sim::Options options;
  options.faults = false;
  const sim::Outcome outcome = world.run(seed, options, [&](sim::World& here) {
    Config config;
    config.system = &sim::system();
    config.processors = {{.engine = "simulated", .mode = Mode::shared}};
    Proactor proactor{std::move(config)};
    {
      Lockstep program{proactor, seed, ""};
      program.run(steps);
      outcomes = program.outcomes();
      if (!program.wrong().empty()) here.violated(program.wrong());
    }
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report();
  EXPECT_GE(outcomes.size(), steps) << "a program that does next to nothing shows nothing";
  return outcomes;
}

struct Row {
  const char* name;
  const char* engine;  // of everything, or of files
  bool files_only;
};

class Differential : public testing::TestWithParam<Row> {
 protected:
  static Config config_for(std::uint64_t seed) {
    const Row& row = GetParam();
    Config config;
    // The modes that a thread outside of run() can drive.
    const Mode mode = seed % 2 == 0 ? Mode::shared : Mode::dedicated;
    ProcessorConfig streams{.engine = row.files_only ? "emulated" : row.engine, .mode = mode};
    if (streams.engine == "emulated") streams.wait = "epoll";
    if (row.files_only) {
      config.processors.push_back(
          {.operations = file_operations, .engine = row.engine, .mode = mode});
    }
    config.processors.push_back(std::move(streams));
    return config;
  }
};

TEST_P(Differential, OutcomesAreThoseOfTheSimulatedMachine) {
  sim::World world;
  const Folder folder;
  const std::uint64_t count = seeds();
  for (std::uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) {
    const std::vector<std::string> right = expected(world, seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    auto opened = Proactor::open(config_for(seed));
    if (!opened && opened.error().code == errc::engine_unavailable) {
      GTEST_SKIP() << opened.error().reason;
    }
    ASSERT_TRUE(opened) << opened.error().reason;
    Lockstep program{**opened, seed, folder.path()};
    program.run(steps);
    EXPECT_EQ(program.wrong(), "") << "seed " << seed;
    const std::vector<std::string>& outcomes = program.outcomes();
    EXPECT_EQ(outcomes.size(), right.size()) << "seed " << seed;
    for (std::size_t i = 0; i < std::min(outcomes.size(), right.size()); ++i) {
      ASSERT_EQ(outcomes[i], right[i]) << "seed " << seed << ", outcome " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Differential,
                         testing::Values(Row{"io_uring", "io_uring", false},
                                         Row{"emulated", "emulated", false},
                                         Row{"linux_aio", "linux_aio", true},
                                         Row{"posix_aio", "posix_aio", true}),
                         [](const auto& each) { return std::string{each.param.name}; });

}  // namespace
}  // namespace baton::test
