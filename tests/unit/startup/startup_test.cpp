// Every call that an open makes fails in turn, on every combination of parts. Either the proactor
// works and reports the replaced part, or the open fails with a reason and its code. Nothing is
// left behind.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../../conformance/proactor/harness.hpp"
#include "../../support/failing_system.hpp"
#include "../../support/patience.hpp"
#include "baton/file.hpp"
#include "baton/log.hpp"
#include "baton/reason_code.hpp"
#include "baton/registry.hpp"
#include "baton/stream_socket.hpp"
#include "core/core.hpp"

namespace baton::test {
namespace {

using conformance::Combination;
using conformance::Conformance;
using Opened = Result<std::unique_ptr<Proactor>, Failure>;

// -- opening --------------------------------------------------------------------------------------

/// The combinations of the conformance suite, and the one that sets nothing.
std::vector<Combination> combinations() {
  std::vector<Combination> all = conformance::combinations();
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    all.push_back(
        {.engine = "auto", .wait = "-", .interrupt = "-", .mode = mode, .profile = "auto"});
  }
  return all;
}

// -- what an outcome has to be --------------------------------------------------------------------

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool ends_in_code(const std::string& line) {
  for (int i = 1; i < reason_codes; ++i) {
    const std::string code = to_string(static_cast<ReasonCode>(i));
    if (line.ends_with(" [" + code + "]")) return true;
  }
  return false;
}

/// Lines about a missing or replaced part; each of them with a code.
std::set<std::string> replacements(const Proactor& proactor) {
  std::set<std::string> told;
  for (const std::string& line : lines_of(proactor.explain())) {
    if (line.starts_with("source: ") || line.find(": engine=") != std::string::npos) continue;
    EXPECT_TRUE(ends_in_code(line)) << line;
    told.insert(line);
  }
  return told;
}

/// Which parts the processors of each lane have.
std::vector<std::string> parts(Proactor& proactor) {
  std::vector<std::string> all;
  for (const auto& team : proactor.core().ledger().teams) {
    for (const auto* processor : team) {
      const EngineInfo& info = processor->engine->info();
      all.push_back(std::string(info.name) + "/" + std::string(info.wait_name) + "/" +
                    std::string(info.interrupt_name));
    }
  }
  return all;
}

void until(const std::atomic<int>& done, int wanted) {
  const Deadline end = at_last();
  while (done < wanted && is_ahead(end)) std::this_thread::yield();
  ASSERT_EQ(done, wanted);
}

/// A byte there and back between two sockets, and one into a file and out of it, in each lane.
void expect_works(Proactor& proactor) {
  for (std::uint32_t lane = 0; lane < proactor.lanes(); ++lane) {
    auto pair = StreamSocket::pair(proactor, Home{lane});
    ASSERT_TRUE(pair) << pair.error().message();
    auto& [one, other] = *pair;
    const int memory = ::memfd_create("startup", MFD_CLOEXEC);
    auto file = File::adopt(proactor, memory, Ownership::owned, Home{lane});
    ASSERT_TRUE(file) << file.error().message();

    std::atomic<int> done{0};
    const auto count = [&done](Operation& operation) {
      EXPECT_FALSE(operation.failed()) << operation.error().message();
      ++done;
    };
    std::byte sent[2] = {std::byte{42}, std::byte{43}};
    std::byte echoed[2] = {};
    Operation operations[4];
    EXPECT_FALSE(other.read_exactly(operations[0], MutableBuffer{&echoed[0], 1}, count));
    EXPECT_FALSE(one.write_all(operations[1], ConstBuffer{&sent[0], 1}, count));
    EXPECT_FALSE(file->write_all_at(operations[2], 0, ConstBuffer{&sent[1], 1}, count));
    {
      const conformance::Runners runners(proactor, proactor.lanes());
      until(done, 3);
      EXPECT_FALSE(file->read_exactly_at(operations[3], 0, MutableBuffer{&echoed[1], 1}, count));
      until(done, 4);
    }
    proactor.restart();
    EXPECT_EQ(echoed[0], sent[0]);
    EXPECT_EQ(echoed[1], sent[1]);
  }
}

// -- the test -------------------------------------------------------------------------------------

class Startup : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    config_ = GetParam().config();
    config_.system = &failing_system();
    for (ProcessorConfig& processor : config_.processors) {
      if (processor.mode == Mode::per_thread) processor.threads = 2;
    }
    // Once before anything is counted: handlers of signals stay, threads of the C library, too.
    const Opened first = Proactor::open(config_);
    if (!first) GTEST_SKIP() << first.error().reason;
    expect_works(**first);
    usual_parts_ = parts(**first);
    usual_replacements_ = replacements(**first);
  }

  /// Opens with the fault, judges, and answers whether there was such a call at all.
  bool try_with(std::size_t call, std::size_t nth, int error, std::size_t times) {
    Held before = held_now();
    bool hit = false;
    bool is_open = false;
    {
      Opened opened = [&] {
        const OpensProactor opens;
        const FailingCalls fault(FailingCalls::Whose::this_thread, call, nth, error, times);
        Opened result = Proactor::open(config_);
        hit = fault.hit();
        return result;
      }();
      is_open = opened.has_value();
      if (is_open) {
        judge(**opened);
      } else {
        judge(opened.error());
      }
    }
    const Held after = held_now();
    // Strategies by signal block theirs in every thread that has waited, for good.
    if (is_open) before.blocked_signals = after.blocked_signals;
    EXPECT_EQ(after, before) << "left behind";
    return hit;
  }

  void judge(Proactor& proactor) const {
    const auto told = replacements(proactor);
    if (parts(proactor) != usual_parts_) {
      EXPECT_NE(told, usual_replacements_) << "replaced without a word:\n" << proactor.explain();
    }
    if (required()) {
      EXPECT_NE(proactor.explain().find("engine=" + GetParam().engine + " "), std::string::npos)
          << proactor.explain();
    }
    expect_works(proactor);
  }

  void judge(const Failure& failure) const {
    EXPECT_TRUE(failure.code);
    EXPECT_FALSE(failure.reason.empty());
    EXPECT_NE(failure.reason_code, ReasonCode::unspecified) << failure.reason;
    // The engine is missing, or a thread for it.
    if (required() && failure.reason.find("dedicated processor") == std::string::npos) {
      EXPECT_NE(failure.reason.find(GetParam().engine), std::string::npos) << failure.reason;
    }
  }

  /// The n-th call of each kind, for each n until there are no more calls, with each error.
  void visit_all() {
    for (std::size_t call = 0; call < failing_calls().size(); ++call) {
      const std::vector<int>& errors = failing_calls()[call].opening;
      for (const int error : errors) {
        for (const std::size_t times : {std::size_t{1}, every_later_call}) {
          // A limit that is reached for a moment, or a filter. Lasting faults are tried with one of
          // the errors, because all take the same path through the code.
          if (times != 1 && error != errors.front()) continue;
          for (std::size_t nth = 1;; ++nth) {
            SCOPED_TRACE(std::string(failing_calls()[call].name) + ", call " + std::to_string(nth) +
                         (times == 1 ? " only" : " and later") + ": " + name_of_fault(error));
            if (!try_with(call, nth, error, times)) break;
            if (HasFailure()) return;
          }
        }
      }
    }
  }

  [[nodiscard]] bool required() const { return !config_.require.empty(); }

  Config config_;

 private:
  std::vector<std::string> usual_parts_;
  std::set<std::string> usual_replacements_;
};

TEST_P(Startup, each_call_fails_in_turn) { visit_all(); }

TEST_P(Startup, each_call_fails_in_turn_and_the_engine_is_required) {
  if (GetParam().engine == "auto") GTEST_SKIP() << "nothing is named that could be required";
  config_.require = {GetParam().engine};
  visit_all();
}

// -- reports of an open proactor ------------------------------------------------------------------

struct Lines : Log {
  void write(LogLevel level, std::string_view time, std::string_view message) noexcept override {
    EXPECT_EQ(level, LogLevel::info);
    EXPECT_TRUE(time.ends_with("Z")) << time;
    text.append(message).append("\n");
  }
  std::string text;
};

TEST(Opening, logs_replacements_too) {
  Lines lines;
  Config config;
  config.log = &lines;
  config.processors.push_back({.engine = "io_uring", .wait = "select"});  // it waits by itself
  const auto proactor = Proactor::open(config);
  if (!proactor) GTEST_SKIP() << proactor.error().reason;
  EXPECT_EQ((*proactor)->config().processors.front().engine, "io_uring");
  EXPECT_NE(lines.text, "");
  EXPECT_NE((*proactor)->explain().find(lines.text.substr(0, lines.text.find('\n'))),
            std::string::npos);
}

TEST(Opening, throws_from_the_constructor_the_error_of_open) {
  Config config;
  config.processors.push_back({.engine = "no such engine"});
  const auto refused = Proactor::open(config);
  ASSERT_FALSE(refused);
  try {
    const Proactor proactor{config};
    FAIL() << "opened";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), refused.error().code);
    EXPECT_NE(std::string{error.what()}.find(refused.error().reason), std::string::npos);
  }
}

TEST(Opening, a_team_has_no_descriptor_of_its_own) {
  Config config;
  config.processors.push_back({.operations = stream_operations, .engine = "emulated"});
  config.processors.push_back({.engine = "emulated"});
  const auto proactor = Proactor::open(config);
  ASSERT_TRUE(proactor) << proactor.error().reason;
  EXPECT_EQ((*proactor)->descriptor(), invalid_handle);
  EXPECT_EQ((*proactor)->glance(), Glance::cannot_tell);
  EXPECT_TRUE((*proactor)->reopen()) << "in the process that has opened it there is nothing to do";
}

TEST(Opening, the_facts_of_the_engines_are_in_the_order_of_the_configuration) {
  Config config;
  config.processors.push_back(
      {.operations = stream_operations, .engine = "emulated", .wait = "poll"});
  config.processors.push_back({.engine = "emulated", .wait = "select"});
  for (const Mode mode : {Mode::shared, Mode::per_thread}) {
    for (ProcessorConfig& processor : config.processors) {
      processor.mode = mode;
      processor.threads = mode == Mode::per_thread ? 2 : 0;
    }
    const auto proactor = Proactor::open(config);
    ASSERT_TRUE(proactor) << proactor.error().reason;
    const std::vector<EngineInfo> engines = (*proactor)->engines();
    ASSERT_EQ(engines.size(), 2U);
    EXPECT_EQ(engines[0].wait_name, "poll");
    EXPECT_EQ(engines[1].wait_name, "select");
    for (const EngineInfo& one : engines) EXPECT_EQ(one.name, "emulated");
  }
}

TEST(Opening, names_of_tags_are_bounded) {
  Proactor proactor;
  for (std::uint32_t tag = 0; tag < limits::tag_names_max; ++tag) {
    ASSERT_TRUE(proactor.name_tag(tag, "a name"));
  }
  EXPECT_FALSE(proactor.name_tag(limits::tag_names_max, "one too many"));
  EXPECT_TRUE(proactor.name_tag(0, "another name"));
}

TEST(Opening, a_registry_takes_no_engine_that_cannot_be_made) {
  EXPECT_EQ(registry().add("well_formed", EngineFactory{}, "none"), errc::bad_configuration);
}

// -- engines by themselves, as a program's own code may open them ---------------------------------

TEST(Engines, open_without_a_configuration_and_without_an_explanation) {
  for (const auto& entry : registry().engines()) {
    EngineOptions options;
    options.handles_max = 100;
    const auto opened = entry.factory(options);
    const ProcessorConfig config;
    options.config = &config;
    options.explain = [](std::string_view) {};
    EXPECT_EQ(opened.has_value(), entry.factory(options).has_value()) << entry.name;
    if (opened) {
      EXPECT_EQ((*opened)->info().name, entry.name);
    } else {
      EXPECT_NE(opened.error().reason, "") << entry.name;
    }
  }
}

TEST(Engines, replace_parts_that_they_do_not_have) {
  for (const bool explained : {false, true}) {
    ProcessorConfig config;
    config.wait = "select";
    config.interrupt = "pipe";
    std::vector<std::string> lines;
    EngineOptions options;
    options.config = &config;
    options.handles_max = 100;
    if (explained) options.explain = [&](std::string_view line) { lines.emplace_back(line); };
    for (const char* const name : {"io_uring", "linux_aio", "posix_aio"}) {
      lines.clear();
      const auto engines = registry().engines();
      const auto entry = std::find_if(engines.begin(), engines.end(),
                                      [&](const auto& one) { return one.name == name; });
      ASSERT_NE(entry, engines.end());
      const auto opened = entry->factory(options);
      if (!opened) continue;  // the machine has none, as the suite above says
      EXPECT_EQ(lines.empty(), !explained) << name;
      for (const std::string& line : lines) EXPECT_TRUE(ends_in_code(line)) << line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(every, Startup, testing::ValuesIn(combinations()),
                         conformance::combination_name);

}  // namespace
}  // namespace baton::test
