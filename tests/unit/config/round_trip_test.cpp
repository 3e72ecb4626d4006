// Valid settings print and parse back to the same value; broken ones are refused without harm.
#include <random>

#include "support.hpp"

namespace baton {
namespace {

using Random = std::mt19937_64;

std::uint32_t number(Random& random, std::uint32_t last) {
  return std::uniform_int_distribution<std::uint32_t>{0, last}(random);
}
template <class T>
const T& one_of(Random& random, const std::vector<T>& choices) {
  return choices[number(random, static_cast<std::uint32_t>(choices.size() - 1))];
}

ProcessorConfig any_processor(Random& random, bool per_thread_team, std::uint32_t threads) {
  ProcessorConfig processor;
  for (std::size_t i = 0; i < static_cast<std::size_t>(OperationKind::close); ++i) {
    if (number(random, 2) == 0) processor.operations.add(static_cast<OperationKind>(i));
  }
  processor.engine = one_of<std::string>(random, {"auto", "emulated", "io_uring"});
  processor.wait = one_of<std::string>(random, {"auto", "epoll", "poll", "select"});
  processor.interrupt = one_of<std::string>(random, {"auto", "pipe", "eventfd", "signal"});
  processor.mode = one_of<Mode>(
      random, per_thread_team ? std::vector{Mode::per_thread, Mode::dedicated}
                              : std::vector{Mode::automatic, Mode::shared, Mode::dedicated});
  processor.start = one_of<StartRule>(
      random, {StartRule::automatic, StartRule::any_thread, StartRule::leader_only});
  processor.started_max = number(random, 1) * number(random, 1'000'000);
  processor.operations_max = number(random, 1) * number(random, 1'000'000);
  processor.threads = threads;
  processor.workers = number(random, 256);
  processor.wait_signal = one_of<int>(random, {0, 10, 40, 64});
  processor.interrupt_signal = one_of<int>(random, {0, 12, 41, 63});
  processor.ring_entries = one_of<std::uint32_t>(random, {0, 1, 64, 32'768});
  processor.completion_entries = one_of<std::uint32_t>(random, {0, 32'768, 65'536});
  processor.profile = one_of<std::string>(random, {"auto", "any", "pinned"});
  processor.notify = one_of<std::string>(random, {"auto", "suspend", "sigwait", "callback"});
  processor.debug = number(random, 1) == 0;
  processor.inner = one_of<std::string>(random, {"auto", "emulated", "io_uring"});
  processor.chaos_seed = one_of<std::uint32_t>(random, {0, 1, 77, 0xffff'ffff});
  processor.chaos_short = number(random, 100);
  processor.chaos_delay = number(random, 100);
  processor.chaos_delay_us = number(random, 10'000'000);
  processor.chaos_error = number(random, 100);
  processor.chaos_late_cancel = number(random, 100);
  return processor;
}

Config any_config(Random& random) {
  Config config;
  config.handles_max = number(random, 1) * number(random, 1U << 20);
  config.accept_policy = one_of<AcceptPolicy>(
      random, {AcceptPolicy::round_robin, AcceptPolicy::least_loaded, AcceptPolicy::same_thread});
  config.understudy_look_us = 10 + number(random, 10'000);
  const bool per_thread_team = number(random, 1) == 0;
  const std::uint32_t threads = number(random, 256);
  const std::uint32_t count = number(random, 16);
  for (std::uint32_t i = 0; i < count; ++i) {
    config.processors.push_back(any_processor(random, per_thread_team, threads));
  }
  return config;
}

void expect_equal(const Config& a, const Config& b) {
  EXPECT_EQ(a.handles_max, b.handles_max);
  EXPECT_EQ(a.accept_policy, b.accept_policy);
  EXPECT_EQ(a.understudy_look_us, b.understudy_look_us);
  EXPECT_EQ(a.forbid, b.forbid);
  ASSERT_EQ(a.processors.size(), b.processors.size());
  for (std::size_t i = 0; i < a.processors.size(); ++i) {
    const ProcessorConfig& one = a.processors[i];
    const ProcessorConfig& other = b.processors[i];
    EXPECT_EQ(one.operations, other.operations);
    EXPECT_EQ(one.engine, other.engine);
    EXPECT_EQ(one.wait, other.wait);
    EXPECT_EQ(one.interrupt, other.interrupt);
    EXPECT_EQ(one.mode, other.mode);
    EXPECT_EQ(one.start, other.start);
    EXPECT_EQ(one.started_max, other.started_max);
    EXPECT_EQ(one.operations_max, other.operations_max);
    EXPECT_EQ(one.threads, other.threads);
    EXPECT_EQ(one.workers, other.workers);
    EXPECT_EQ(one.wait_signal, other.wait_signal);
    EXPECT_EQ(one.interrupt_signal, other.interrupt_signal);
    EXPECT_EQ(one.ring_entries, other.ring_entries);
    EXPECT_EQ(one.completion_entries, other.completion_entries);
    EXPECT_EQ(one.profile, other.profile);
    EXPECT_EQ(one.notify, other.notify);
    EXPECT_EQ(one.debug, other.debug);
    EXPECT_EQ(one.inner, other.inner);
    EXPECT_EQ(one.chaos_seed, other.chaos_seed);
    EXPECT_EQ(one.chaos_short, other.chaos_short);
    EXPECT_EQ(one.chaos_delay, other.chaos_delay);
    EXPECT_EQ(one.chaos_delay_us, other.chaos_delay_us);
    EXPECT_EQ(one.chaos_error, other.chaos_error);
    EXPECT_EQ(one.chaos_late_cancel, other.chaos_late_cancel);
  }
}

TEST(ConfigRoundTrip, ValidConfigurationsSurviveXml) {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random{seed};
    const Config config = any_config(random);
    ASSERT_TRUE(config.validate().has_value()) << config.validate().error().reason;
    const Config back = parse_xml_ok(config.to_xml());
    expect_equal(config, back);
    EXPECT_EQ(config.to_xml(), back.to_xml());
    if (testing::Test::HasFailure()) break;
  }
}

/// One change: a byte replaced, a piece doubled or cut out.
void damage(Random& random, std::string& text) {
  if (text.empty()) return;
  const std::size_t at = number(random, static_cast<std::uint32_t>(text.size() - 1));
  const std::size_t length = 1 + number(random, 12);
  switch (number(random, 2)) {
    case 0:
      text[at] = static_cast<char>(number(random, 255));
      break;
    case 1:
      text.insert(at, text.substr(at, length));
      break;
    default:
      text.erase(at, length);
  }
}

void expect_sound(const Result<Config, Failure>& parsed) {
  if (!parsed) {
    EXPECT_FALSE(parsed.error().reason.empty());
    EXPECT_EQ(parsed.error().reason.find('\n'), std::string::npos) << parsed.error().reason;
    return;
  }
  const auto valid = parsed->validate();
  ASSERT_TRUE(valid.has_value()) << valid.error().reason << "\n" << parsed->to_xml();
  expect_equal(*parsed, parse_xml_ok(parsed->to_xml()));
}

TEST(ConfigRoundTrip, DamagedXmlIsReadRightOrRefused) {
  for (std::uint64_t seed = 1; seed <= 5'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random{seed};
    std::string text = any_config(random).to_xml();
    for (std::uint32_t i = number(random, 3); i > 0; --i) damage(random, text);
    expect_sound(Config::parse_xml(text, {}));
    if (testing::Test::HasFailure()) break;
  }
}

TEST(ConfigRoundTrip, DamagedTextIsReadRightOrRefused) {
  const std::string good =
      "operations=stream+file,engine=emulated,wait=poll,mode=dedicated;"
      "interrupt=pipe,started_max=100,ring_entries=64,handles=4096,wait_signal=SIGRTMIN+1";
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random{seed};
    std::string text = good;
    for (std::uint32_t i = 1 + number(random, 3); i > 0; --i) damage(random, text);
    expect_sound(Config::parse(text, {}));
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace baton
