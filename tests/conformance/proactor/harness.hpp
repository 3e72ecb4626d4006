// The harness of the conformance suite: the list of combinations (engine x wait x interrupt x
// mode), and a fixture that opens a proactor on each. The registry determines the list, so a new
// engine or strategy is included without an edit here.
//
// BATON_TEST_MATRIX=full (default): every combination. pairwise: each engine x mode once, and every
// pair of two other choices at least once. single: each engine x mode (emulated with epoll) and
// every other choice at least once. scripts/test uses pairwise, with sanitizers single, and its
// nightly run uses full.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/patience.hpp"
#include "baton/config.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"

namespace baton::conformance {

struct Combination {
  std::string engine;
  std::string wait;       // "-" where the engine takes none
  std::string interrupt;  // "-" likewise
  Mode mode = Mode::shared;
  std::string profile;  // "auto", or io_uring's "any" and "pinned"
  /// An engine that declares files only: it takes them, and `emulated` the rest.
  bool files_only = false;
  std::string notify = "-";  // of an engine with several kinds of notification
  /// An engine of a program's own for all but files, which `emulated` takes.
  bool sockets_only = false;

  /// It is a member of a team of two.
  [[nodiscard]] bool team() const { return files_only || sockets_only; }
  [[nodiscard]] std::string name() const;  // "emulated_epoll_eventfd_shared"
  [[nodiscard]] Config config() const;
};

const std::vector<Combination>& combinations();
/// Those whose engine takes sockets itself.
std::vector<Combination> of_sockets();

/// BATON_TEST_CHAOS: the engine chaos is around every engine, with delays and late cancels only.
bool with_troubles();

/// For messages of GoogleTest.
inline void PrintTo(const Combination& combination, std::ostream* out) {
  *out << combination.name();
}

inline std::string combination_name(const testing::TestParamInfo<Combination>& info) {
  return info.param.name();
}

/// Threads inside run(); joined by the destructor, which stops the proactor first.
class Runners {
 public:
  Runners(Proactor& proactor, unsigned count);
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;
  /// Stops and joins; the first join that finds an exception of a run() rethrows it.
  void stop();
  /// Waits until every run() has returned by itself.
  void join();

 private:
  Proactor& proactor_;
  std::vector<std::thread> threads_;
};

/// A connected pair of stream sockets, not adopted yet; closed if still here at the end.
struct SocketPair {
  SocketPair();
  ~SocketPair();
  int release(int end) { return std::exchange(fd[end], -1); }
  int fd[2] = {-1, -1};
};

class Conformance : public testing::TestWithParam<Combination> {
 protected:
  /// Skips the test, with the reason, when the combination is not available on this machine.
  void SetUp() override;

  /// A proactor of this combination; `threads` is the number of lanes in per_thread mode.
  std::unique_ptr<Proactor> open(unsigned threads = 1,
                                 const std::function<void(Config&)>& change = {});
  /// Runs handlers in this thread until `done`; the test fails when that does not happen.
  static void run_until(Proactor& proactor, const std::function<bool()>& done);
  /// Waits, without running handlers, until `done`, likewise.
  static void wait_until(const std::function<bool()>& done);

  /// The processor of a team that the sockets go to; without a team, the only one.
  static ProcessorConfig& sockets(Config& config) { return config.processors.front(); }
  [[nodiscard]] bool per_thread() const { return GetParam().mode == Mode::per_thread; }
};

}  // namespace baton::conformance

/// Instantiates a suite derived from Conformance over all combinations.
#define BATON_CONFORMANCE_SUITE(Suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(proactor, Suite, testing::ValuesIn(baton::conformance::combinations()), \
                           baton::conformance::combination_name)

/// The same for a suite that never touches a file: without the teams of an engine for files only,
/// whose sockets belong to another engine with combinations of its own.
#define BATON_CONFORMANCE_SOCKET_SUITE(Suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(proactor, Suite, testing::ValuesIn(baton::conformance::of_sockets()), \
                           baton::conformance::combination_name)
