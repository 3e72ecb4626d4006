// Scenario: the common part of the seeds of one run - a random program, of the Proactor or of
// the Reactor - and its text in the command.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/world.hpp"

namespace baton::tools::simulation {

enum class EngineChoice : std::uint8_t { any, simulated, emulated };

/// The promised longest sleep of the standby, as a multiple of understudy_look_us. Not taken from
/// the library, whose value is tested against it.
inline constexpr std::int64_t rarest_look = 8;

struct ProgramOptions {
  std::uint32_t operations = 10'000;
  std::uint32_t threads = 0;  ///< 0: drawn
  bool reactor = false;       ///< test the Reactor, which has no engine
  EngineChoice engine = EngineChoice::any;
};

/// Counts the threads that are in a block.
class Inside {
 public:
  explicit Inside(std::uint32_t& count) noexcept : count_(count) { ++count_; }
  ~Inside() { --count_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::uint32_t& count_;
};

class Scenario {
 public:
  Scenario() = default;
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  virtual ~Scenario() = default;

  /// One seed.
  virtual void run(sim::World& world, const ProgramOptions& options) = 0;
  /// Operations that it has started.
  [[nodiscard]] virtual std::uint64_t started() const noexcept = 0;
};

}  // namespace baton::tools::simulation
