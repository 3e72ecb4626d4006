#include "world.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "../support/failing_system.hpp"
#include "../support/patience.hpp"
#include "allocations.hpp"
#include "baton/stream_socket.hpp"
#include "os/system.hpp"

namespace baton::faults {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

char trying[512];

// Only async-signal-safe calls.
void tell_of_crash(int number) {
  constexpr char text[] = "\nended by a signal while trying: ";
  if (::write(2, text, sizeof text - 1) < 0 || ::write(2, trying, std::strlen(trying)) < 0 ||
      ::write(2, "\n", 1) < 0) {
    ::_exit(2);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

bool full() {
  static const char* const said = std::getenv("BATON_FAULTS");
  return said != nullptr && std::string_view{said} == "full";
}

std::size_t hash(std::string_view text) {
  std::size_t value = 14'695'981'039'346'656'037U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  return value;
}

void now_trying(const std::string& what) {
  [[maybe_unused]] static const bool once = [] {
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGTERM}) {
      ::signal(number, tell_of_crash);
    }
    return true;
  }();
  std::snprintf(trying, sizeof trying, "%s", what.c_str());
}

// Even after the completion: its handler may not have returned yet.
Account::~Account() { world.end(); }

World::World(const conformance::Combination& combination, unsigned threads,
             const std::function<void(Config&)>& change)
    : combination_(combination), threads_(threads), config_(combination.config()) {
  config_.system = &test::failing_system();
  for (ProcessorConfig& processor : config_.processors) processor.threads = threads;
  if (change) change(config_);
}

World::~World() { destroy(); }

std::string World::open() {
  const test::OpensProactor opens;
  auto opened = Proactor::open(config_);
  if (!opened) return opened.error().reason.empty() ? "no reason" : opened.error().reason;
  proactor_ = std::move(*opened);
  pinned_ = proactor_->explain().find("leader=pinned") != std::string::npos;
  return {};
}

std::string World::open_as_named() {
  const std::string reason = open();
  if (!reason.empty()) return reason;
  const std::string text = proactor_->explain();
  const bool is_it = text.find(" engine=" + combination_.engine + " ") != std::string::npos;
  return is_it ? std::string{} : text;
}

void World::run() {
  const Exempt exempt;
  for (unsigned i = 0; i < threads_; ++i) {
    runners_.emplace_back([this] {
      for (;;) {
        try {
          proactor_->run();
          return;
        } catch (const std::bad_alloc&) {
          fail(std::make_error_code(std::errc::not_enough_memory));
        }
      }
    });
  }
}

void World::join() {
  wait([this] { return proactor_->stopped(); });
  for (std::thread& runner : runners_) runner.join();
  drains_ = false;
  const Exempt exempt;
  runners_.clear();
}

void World::drain(Deadline deadline) {
  drains_ = true;
  proactor_->drain(deadline);
}

void World::destroy() {
  if (proactor_ == nullptr) return;
  if (!runners_.empty()) {
    proactor_->stop();
    join();
  }
  proactor_.reset();
}

// -- the ledger -----------------------------------------------------------------------------------

void World::accept(Account& account) {
  EXPECT_FALSE(account.running.exchange(true)) << "started twice";
  pending_.fetch_add(1);
}

bool World::refuse(Account& account, std::error_code error) {
  EXPECT_TRUE(account.running.exchange(false)) << "refused, and complete all the same";
  if (!account.expects(error)) fail(error);
  settle_one();
  return false;
}

void World::complete(Account& account) {
  account.error = account.operation.error();
  account.bytes = account.operation.bytes();
  account.completions.fetch_add(1);
  if (account.error && !account.expects(account.error)) fail(account.error);
  EXPECT_TRUE(account.running.exchange(false)) << "complete twice";
  if (account.follow != nullptr) account.follow(account);
  settle_one();
}

void World::settle_one() {
  EXPECT_GE(pending_.fetch_sub(1), 1);
  changed();
}

void World::fail(std::error_code error) {
  if (!ending_.load()) {
    const std::scoped_lock lock(mutex_);
    if (!first_) first_ = error;
    failed_.store(true);
  }
  changed();
}

std::error_code World::first_failure() {
  const std::scoped_lock lock(mutex_);
  return first_;
}

void World::changed() {
  changes_.fetch_add(1);
  os::real_system().futex_wake(&changes_, std::numeric_limits<int>::max());
}

bool World::settle() {
  wait([this] { return pending_.load() == 0 || failed_.load(); });
  if (failed_.load()) end();
  return !failed_.load();
}

void World::end() {
  if (pending_.load() == 0) return;
  ending_.store(true);
  if (proactor_ != nullptr && proactor_->stopped()) {
    join();
    proactor_->restart();
    run();
  }
  if (ask_ != nullptr) std::exchange(ask_, nullptr)(asked_);
  if (proactor_ != nullptr) proactor_->cancel_all();
  wait([this] { return pending_.load() == 0; });
}

bool World::until(Condition condition) {
  bool is_so = false;
  wait([&] { return (is_so = condition()) || failed_.load(); });
  return is_so;
}

// Threads notify after a change. The proactor's own state changes without a notification, so it is
// polled a hundred times a second.
void World::wait(Condition condition) {
  const os::System& system = os::real_system();
  const std::int64_t end = system.monotonic_ns() + test::patience().count();
  for (;;) {
    const std::uint32_t seen = changes_.load();
    if (condition()) return;
    const std::int64_t now = system.monotonic_ns();
    if (now >= end) hang();
    system.futex_wait(&changes_, seen, now + second_ns / 100);
  }
}

void World::hang() {
  const Exempt exempt;
  std::fprintf(stderr, "\nhangs: %s\n%ld pending\n", trying, pending_.load());
  if (proactor_ != nullptr) {
    std::fprintf(stderr, "%s\n%s\n%s\n", proactor_->explain().c_str(),
                 proactor_->statistics().to_string().c_str(),
                 proactor_->pending().to_string().c_str());
  }
  std::abort();
}

// -- afterwards -----------------------------------------------------------------------------------

// A request to a lane that was made before something is posted there is served before that runs.
void World::forget_cancels() {
  for (std::uint32_t lane = 0; lane < proactor_->lanes(); ++lane) {
    Account posted(*this);
    start(posted, [&](auto& op, auto handler) {
      op.set_handler(handler);
      return proactor_->post(op, Notify::strong, Home{lane});
    });
    EXPECT_TRUE(settle());
  }
}

void World::expect_works() {
  failed_ = false;
  ending_ = false;
  first_ = {};
  if (drains_ || proactor_->stopped()) join();
  if (runners_.empty()) {
    proactor_->restart();
    run();
  }
  forget_cancels();
  auto pair = StreamSocket::pair(*proactor_);
  ASSERT_TRUE(pair) << pair.error().message();
  auto& [left, right] = *pair;
  const Text<100> text;
  char buffer[100] = {};
  Account reading(*this), writing(*this), timing(*this), posted(*this);
  start(reading, [&](auto& op, auto handler) {
    return right.read_exactly(op, MutableBuffer{buffer, sizeof buffer}, handler);
  });
  start(writing, [&](auto& op, auto handler) { return left.write_all(op, text.all(), handler); });
  start(timing, [&](auto& op, auto handler) {
    op.set_handler(handler);
    return proactor_->start_timer(op, proactor_->now());
  });
  start(posted, [&](auto& op, auto handler) {
    op.set_handler(handler);
    return proactor_->post(op);
  });
  EXPECT_TRUE(settle()) << "does not work afterwards: " << first_failure().message();
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

// Handles are closed, and counters raised, a moment after the last handler was entered.
void World::expect_balanced() {
  wait([this] {
    const Statistics now = proactor_->statistics();
    return now.handles == 0 && now.pending == 0 && now.started + now.posted == now.completed;
  });
}

}  // namespace baton::faults
