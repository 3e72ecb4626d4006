// require, prefer, forbid: their parsing, their conflicts, the engine that a proactor gets, and the
// reason codes.
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "config/keys.hpp"
#include "config/policy.hpp"
#include "engines/common/wrapping_engine.hpp"
#include "engines/registry.hpp"
#include "support.hpp"

namespace baton {
namespace {

using config::engine_wishes;
using Names = std::vector<std::string>;

/// An engine that opens nowhere, for a reason of its own; it counts how often it was asked.
int broken_asked = 0;
const char* broken() {
  static const std::error_code added = registry().add(
      "broken_engine",
      [](const EngineOptions&) -> Result<std::unique_ptr<Engine>, Failure> {
        ++broken_asked;
        return unexpected{Failure{errc::engine_unavailable, "broken_engine: made of paper",
                                  ReasonCode::kernel_too_old}};
      },
      "for this test");
  EXPECT_FALSE(added) << added.message();
  return "broken_engine";
}

/// The emulated engine, but one and the same thread has to wait for it.
LeaderRule rule_of_one_thread = LeaderRule::any;
class OneThread final : public engines::WrappingEngine {
 public:
  explicit OneThread(std::unique_ptr<Engine> inner)
      : WrappingEngine(std::move(inner)), info_(this->inner().info()) {
    info_.leader_rule = rule_of_one_thread;
  }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation& operation, void* record) noexcept override {
    return inner().submit(operation, record);
  }
  CancelAnswer cancel(Operation& operation) noexcept override { return inner().cancel(operation); }
  void wait(OperationQueue& completed, Deadline deadline) noexcept override {
    inner().wait(completed, deadline);
  }

 private:
  EngineInfo info_;
};
const char* one_thread() {
  static const std::error_code added = registry().add(
      "one_thread_engine",
      [](const EngineOptions& options) -> Result<std::unique_ptr<Engine>, Failure> {
        const auto builtin = engines::builtin();
        const auto emulated = std::find_if(builtin.begin(), builtin.end(), [](const auto& entry) {
          return entry.name == "emulated";
        });
        auto engine = emulated->factory(options);
        if (!engine) return engine;
        return std::unique_ptr<Engine>{std::make_unique<OneThread>(std::move(*engine))};
      },
      "for this test");
  EXPECT_FALSE(added) << added.message();
  return "one_thread_engine";
}

Config with_engines(const Names& engines) {
  Config config;
  for (const std::string& engine : engines) {
    config.processors.emplace_back();
    config.processors.back().engine = engine;
  }
  return config;
}

TEST(Policy, IsReadFromEveryForm) {
  const Config text =
      parse_ok("require=io_uring,prefer=io_uring+emulated,forbid=" + std::string(broken()));
  EXPECT_EQ(text.require, Names{"io_uring"});
  EXPECT_EQ(text.prefer, (Names{"io_uring", "emulated"}));
  EXPECT_EQ(text.forbid, Names{"broken_engine"});
  const Config back = parse_xml_ok(text.to_xml());
  EXPECT_EQ(back.require, text.require);
  EXPECT_EQ(back.prefer, text.prefer);
  EXPECT_EQ(back.forbid, text.forbid);
}

TEST(Policy, SourcesAddToRequireAndReplacePrefer) {
  const Variable text{"BATON", "require=io_uring,prefer=io_uring"};
  const Variable require{"BATON_REQUIRE", "emulated"};
  const Variable prefer{"BATON_PREFER", "emulated"};
  const auto parsed = Config::parse_environment(with_engines({"auto", "auto"}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->require, (Names{"io_uring", "emulated"}));
  EXPECT_EQ(parsed->prefer, Names{"emulated"});
  EXPECT_TRUE(has_source(*parsed, "require=emulated from BATON_REQUIRE")) << account(*parsed);
}

TEST(Policy, UnknownNamesListTheValidOnes) {
  for (const char* name : {"BATON_REQUIRE", "BATON_PREFER", "BATON_FORBID"}) {
    const Variable variable{name, "io_urin"};
    const auto parsed = Config::parse_environment({});
    expect_words(reason_of(parsed), {name, "\"io_urin\"", "emulated", "io_uring"});
    EXPECT_EQ(parsed.error().reason_code, ReasonCode::unknown_name);
  }
  const auto foreign = Config::parse("prefer=iocp", {});
  expect_words(reason_of(foreign), {"\"iocp\"", "not in this build", "emulated"});
  EXPECT_EQ(foreign.error().reason_code, ReasonCode::not_built);
}

TEST(Policy, RequiredAndForbiddenIsAContradiction) {
  for (const char* text :
       {"require=emulated,forbid=emulated", "forbid=emulated,require=emulated"}) {
    const auto parsed = Config::parse(text, {});
    expect_words(reason_of(parsed), {"emulated", "required", "forbidden"});
    EXPECT_EQ(parsed.error().reason_code, ReasonCode::contradiction);
    EXPECT_EQ(parsed.error().code, errc::bad_configuration);
  }
}

TEST(Policy, ARequiredEngineNeedsAProcessor) {
  Config config = with_engines({"emulated"});
  config.require = {"io_uring"};
  expect_words(reason_of(config.validate()), {"io_uring", "processor 0 says engine=emulated"});
  EXPECT_EQ(config.validate().error().reason_code, ReasonCode::contradiction);
  config.processors.clear();
  EXPECT_TRUE(config.validate().has_value());
  config.require = {"io_uring", "emulated"};  // both cannot be the one processor's
  EXPECT_FALSE(config.validate().has_value());
}

TEST(Policy, ALaterSourceMayMakeRoomForARequiredEngine) {
  const TemporaryFile file{"<baton require='io_uring'/>"};
  const Variable config_file{"BATON_CONFIG", file.path()};
  const Variable text{"BATON", "engine=auto"};
  const auto parsed = Config::parse_environment(with_engines({"emulated"}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(engine_wishes(*parsed)[0].engine, "io_uring");
}

TEST(Policy, RequiredEnginesFillTheAutoProcessors) {
  Config config = with_engines({"auto", "io_uring", "auto", "auto"});
  config.require = {"io_uring", "emulated"};
  const auto wishes = engine_wishes(config);
  ASSERT_EQ(wishes.size(), 4U);
  EXPECT_EQ(wishes[0].engine, "emulated");  // io_uring is named by another
  EXPECT_EQ(wishes[2].engine, "io_uring");  // all have their place: the first
  EXPECT_EQ(wishes[3].engine, "io_uring");
  EXPECT_TRUE(std::all_of(wishes.begin(), wishes.end(), [](auto& wish) { return wish.required; }));
}

TEST(Policy, PreferIsTheOrderAfterTheNamedEngine) {
  Config config;
  config.prefer = {broken(), "io_uring"};
  const std::size_t builtin = engines::builtin().size();
  const auto order = [&](const char* engine) {
    Names names;
    for (const auto& entry : config::candidates(config, {engine, false}, builtin)) {
      names.push_back(entry.name);
    }
    return names;
  };
  const Names any = order("auto");
  ASSERT_GE(any.size(), 3U);
  EXPECT_EQ(any[0], "broken_engine");
  EXPECT_EQ(any[1], "io_uring");
  EXPECT_EQ(any[2], "emulated");
  EXPECT_EQ(order("emulated")[0], "emulated");
  EXPECT_EQ(order("emulated")[1], "broken_engine");
  config.prefer = {"io_uring"};
  const Names replacements = order("auto");
  EXPECT_EQ(std::count(replacements.begin(), replacements.end(), broken()), 0);
  EXPECT_EQ(order("broken_engine")[0], "broken_engine");
  EXPECT_EQ(config::candidates(config, {"io_uring", true}, builtin).size(), 1U);
}

TEST(Policy, AnEngineThatCannotBeOpenedIsReplacedWithACode) {
  const auto proactor = Proactor::open(with_engines({broken()}));
  ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
  const std::string text = (*proactor)->explain();
  EXPECT_NE(text.find("engine: broken_engine -> "), std::string::npos) << text;
  EXPECT_NE(text.find("made of paper [kernel_too_old]\n"), std::string::npos) << text;
}

TEST(Policy, ARequiredEngineIsNotReplaced) {
  Config config;
  config.require = {broken()};
  const auto proactor = Proactor::open(config);
  ASSERT_FALSE(proactor.has_value());
  EXPECT_EQ(proactor.error().code, errc::engine_unavailable);
  EXPECT_EQ(proactor.error().reason_code, ReasonCode::kernel_too_old);
  expect_words(proactor.error().reason, {"broken_engine is required", "made of paper"});
}

TEST(Policy, AnEngineForOneThreadIsOpenedForNoMore) {
  Config config = with_engines({one_thread()});
  config.require = {one_thread()};
  for (const LeaderRule rule : {LeaderRule::steady, LeaderRule::pinned}) {
    rule_of_one_thread = rule;
    config.processors[0].mode = Mode::shared;
    const auto shared = Proactor::open(config);
    ASSERT_FALSE(shared.has_value()) << (*shared)->explain();
    EXPECT_EQ(shared.error().reason_code, ReasonCode::needs_one_thread);
    config.processors[0].mode = Mode::per_thread;
    EXPECT_TRUE(Proactor::open(config).has_value());
    config.processors[0].mode = Mode::dedicated;
    EXPECT_EQ(Proactor::open(config).has_value(), rule == LeaderRule::steady);
  }
}

TEST(Policy, ForbiddenEnginesAreNotEvenProbed) {
  Config config;
  config.prefer = {broken()};
  config.forbid = {broken()};
  const int before = broken_asked;
  const auto proactor = Proactor::open(config);
  ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
  EXPECT_EQ(broken_asked, before);
  EXPECT_NE((*proactor)->explain().find("[forbidden]"), std::string::npos);

  config.prefer.clear();
  for (const auto& engine : registry().engines()) config.forbid.push_back(engine.name);
  const auto nothing = Proactor::open(config);
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().code, errc::engine_forbidden);
  EXPECT_EQ(nothing.error().reason_code, ReasonCode::forbidden);
}

// In text they are two entries. In code, a name that no engine has would forbid none.
TEST(Policy, AnEntryThatIsALineOfSeveralIsRefused) {
  for (Names Config::* const list : {&Config::require, &Config::prefer, &Config::forbid}) {
    for (const char* entry : {"io_uring,linux_aio", "io_uring+emulated", " io_uring", "io_uring\n",
                              "io_uring linux_aio", ""}) {
      Config config;
      config.*list = {"posix_aio", entry};
      const auto proactor = Proactor::open(config);
      ASSERT_FALSE(proactor.has_value()) << '"' << entry << '"';
      EXPECT_EQ(proactor.error().code, errc::unknown_name);
      expect_words(proactor.error().reason, {config::quoted(entry), "an entry of its own"});
    }
  }
}

TEST(Policy, AnEngineForOtherWorkIsNotBlamedForForbiddenOnes) {
  for (const char* other : {"posix_aio", "simulated"}) {
    Config config;
    for (const auto& engine : registry().engines()) {
      if (engine.name != other) config.forbid.push_back(engine.name);
    }
    const auto proactor = Proactor::open(config);
    ASSERT_FALSE(proactor.has_value());
    EXPECT_EQ(proactor.error().reason_code, ReasonCode::forbidden) << other;
    expect_words(proactor.error().reason, {"forbidden", "BATON_FORBID"});
  }
}

}  // namespace
}  // namespace baton
