// World: the environment of a scenario: a proactor with its threads, and an account of its starts.
//
// Each accepted start must complete exactly once, a refused one never. The threads wait without a
// timeout, so a lost wake-up is a hang. A watchdog then prints the pending operations and ends the
// program.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "../conformance/proactor/harness.hpp"
#include "allocations.hpp"
#include "baton/config.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton::faults {

class World;

/// A callable bool(), by reference: nothing of the test allocates while allocations fail.
class Condition {
 public:
  template <class Function>
  Condition(const Function& function)  // NOLINT: a lambda becomes one
      : function_(&function),
        call_([](const void* self) -> bool { return (*static_cast<const Function*>(self))(); }) {}
  bool operator()() const { return call_(function_); }

 private:
  const void* function_;
  bool (*call_)(const void*);
};

/// Whether they mean the same: the system's category or the generic one.
inline bool same(std::error_code a, std::error_code b) {
  return a.default_error_condition() == b.default_error_condition();
}

/// One operation and what became of it. May be started again when it is complete. Its destructor
/// waits for a pending one, after asking for the end of all.
struct Account {
  // Not explicit: arrays of them are made of braces.
  Account(World& in, std::error_code may_be = {}) : world(in), expected(may_be) {}
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  /// Runs in the handler.
  Account& then(void (*next)(Account&), void* context = nullptr) {
    follow = next;
    of = context;
    return *this;
  }
  [[nodiscard]] bool expects(std::error_code outcome) const {
    return same(outcome, expected) || (also_expected && same(outcome, also_expected));
  }
  [[nodiscard]] bool done() const { return completions > 0 && !running; }
  [[nodiscard]] bool ok() const { return done() && !error; }

  World& world;
  Operation operation;
  std::error_code expected;  ///< an error that is as good as success
  std::error_code also_expected = {};
  void (*follow)(Account&) = nullptr;
  void* of = nullptr;
  std::atomic<bool> running{false};
  std::atomic<unsigned> completions{0};
  std::error_code error;  ///< of the last one, and how many bytes
  std::size_t bytes = 0;
};

class World {
 public:
  World(const conformance::Combination& combination, unsigned threads,
        const std::function<void(Config&)>& change);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Why the combination cannot be opened; empty if it is open. Throws std::bad_alloc.
  std::string open();
  /// Why the combination is not available here: the reason, or its replacement, which would be
  /// tested under this one's name.
  std::string open_as_named();
  void run();   ///< starts the threads
  void join();  ///< waits for them: the proactor is stopped, or is being drained
  void drain(Deadline deadline);
  void destroy();
  [[nodiscard]] bool is_open() const { return proactor_ != nullptr; }
  Proactor& proactor() { return *proactor_; }
  /// Operations end with the thread that has started them.
  [[nodiscard]] bool pinned() const { return pinned_; }

  // -- the ledger ---------------------------------------------------------------------------------

  /// Starts the account's operation by `begin(operation, handler)`; false when it was refused, or
  /// the end is near.
  template <class Begin>
  bool start(Account& account, Begin&& begin) {
    if (ending_.load()) return false;
    accept(account);
    const std::error_code error =
        begin(account.operation, [&account](Operation&) { account.world.complete(account); });
    if (error) return refuse(account, error);
    // The call that asked for the end may have missed this operation.
    if (ending_.load()) proactor_->cancel(account.operation);
    return true;
  }
  /// For starts without an account, by operations of the cache: expect one completion, or none
  /// after all.
  void expect_one() { pending_.fetch_add(1); }
  void came(std::error_code error) {
    if (error) fail(error);
    settle_one();
  }
  void came_not(std::error_code error) {
    fail(error);
    settle_one();
  }

  /// The value, or the failure is noted.
  template <class T>
  bool take(Result<T>& result) {
    if (!result) fail(result.error());
    return result.has_value();
  }
  bool take(std::error_code error) {
    if (error) fail(error);
    return !error;
  }
  void fail(std::error_code error);
  [[nodiscard]] bool failed() const { return failed_.load(); }
  [[nodiscard]] bool ending() const { return ending_.load(); }
  [[nodiscard]] std::error_code first_failure();
  /// Nothing is pending.
  [[nodiscard]] bool quiet() const { return pending_.load() == 0; }

  /// Waits until everything started is complete, or something failed; then asks for the end of the
  /// rest, and waits. True: nothing failed.
  bool settle();
  /// The same, without waiting for a good end first.
  void end();
  /// Called once, when the end is asked for; null: no call.
  void at_end(void (*ask)(void*), void* context) {
    ask_ = ask;
    asked_ = context;
  }
  /// Waits, with the watchdog, until it is so; false: something failed before.
  bool until(Condition condition);
  /// A condition that must hold unless something failed.
  void check(bool condition, const char* what) { EXPECT_TRUE(failed() || condition) << what; }

  /// With the faults over: a byte there and back, a timer, a posted call. Whatever went wrong, the
  /// proactor works, and can be stopped and run again.
  void expect_works();
  /// After everything was closed: waits until the accounts of the proactor balance.
  void expect_balanced();

  [[nodiscard]] const conformance::Combination& combination() const { return combination_; }

 private:
  void accept(Account& account);
  bool refuse(Account& account, std::error_code error);
  void complete(Account& account);
  void settle_one();
  void changed();
  void forget_cancels();
  void wait(Condition condition);
  [[noreturn]] void hang();

  const conformance::Combination combination_;
  const unsigned threads_;
  Config config_;
  std::unique_ptr<Proactor> proactor_;
  std::vector<std::thread> runners_;
  bool drains_ = false;
  bool pinned_ = false;
  std::atomic<long> pending_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> ending_{false};
  std::atomic<std::uint32_t> changes_{0};
  void (*ask_)(void*) = nullptr;
  void* asked_ = nullptr;
  std::mutex mutex_;
  std::error_code first_;
};

/// BATON_FAULTS=full: everything, instead of a part.
bool full();
/// For choices that are to differ, and to be the same each time.
std::size_t hash(std::string_view text);

/// Runs it; if allocations are left, again: caches of the process may have grown once.
template <class Run>
void expect_no_leak(Run&& run) {
  long before = 0;
  for (int i = 0; i < 4; ++i) {
    before = alive();
    run();
    if (testing::Test::HasFailure() || alive() <= before) return;
  }
  ADD_FAILURE() << alive() - before << " allocations are left";
}

/// The current case, for the message of the watchdog and of a crash.
void now_trying(const std::string& what);

// -- for scenarios --------------------------------------------------------------------------------

/// The byte that stands at `position` of everything that is sent.
constexpr char byte_at(std::size_t position) {
  return static_cast<char>('a' + (position * 7 + position / 26) % 26);
}

/// Whether `size` bytes are those sent from `position` on.
inline bool is_sent(const char* data, std::size_t size, std::size_t position = 0) {
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] != byte_at(position + i)) return false;
  }
  return true;
}

template <std::size_t Size>
struct Text {
  Text() {
    for (std::size_t i = 0; i < Size; ++i) data[i] = byte_at(i);
  }
  char data[Size];
  [[nodiscard]] ConstBuffer all() const { return {data, Size}; }
  [[nodiscard]] ConstBuffer part(std::size_t from, std::size_t size) const {
    return {data + from, size};
  }
};

/// A scenario: something that programs do, on fresh objects.
struct Scenario {
  const char* name;
  void (*body)(World&);
  unsigned threads = 1;
  void (*change)(Config&) = nullptr;
};

/// All of them, from the files scenarios_*.cpp.
const std::vector<Scenario>& scenarios();

void add_streams(std::vector<Scenario>& list);
void add_connections(std::vector<Scenario>& list);
void add_files(std::vector<Scenario>& list);
void add_ends(std::vector<Scenario>& list);
void add_others(std::vector<Scenario>& list);

}  // namespace baton::faults
