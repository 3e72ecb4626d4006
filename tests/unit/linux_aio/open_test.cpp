// Opening: the number of slots, missing features and their reasons, and falling back to the next
// engine.
#include <errno.h>

#include <thread>
#include <utility>
#include <vector>

#include "baton/proactor.hpp"
#include "driver.hpp"
#include "engines/linux_aio/engine.hpp"

namespace baton::test {
namespace {

class Open : public testing::Test {
 protected:
  Result<std::unique_ptr<Engine>, Failure> open(const ProcessorConfig& config = {}) {
    explained.clear();
    EngineOptions options;
    options.system = &system;
    options.config = &config;
    options.explain = [this](std::string_view line) { explained.emplace_back(line); };
    return engines::open_linux_aio(options);
  }
  /// The reason why it does not open; empty if it does.
  std::string reason() {
    const auto opened = open();
    if (opened) return {};
    EXPECT_EQ(opened.error().code, errc::engine_unavailable);
    return opened.error().reason;
  }
  const os::System& system = aio_system();
  std::vector<std::string> explained;
};

TEST_F(Open, only_files_and_any_leader) {
  const auto opened = open();
  ASSERT_TRUE(opened);
  const EngineInfo& info = (*opened)->info();
  EXPECT_EQ(info.leader_rule, LeaderRule::any);
  EXPECT_TRUE(info.start_from_any_thread);
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const bool of_files = file_operations.has(static_cast<OperationKind>(i));
    const Support other = static_cast<OperationKind>(i) == OperationKind::close
                              ? Support::assisted
                              : Support::unsupported;
    EXPECT_EQ(info.support[i], of_files ? Support::native : other) << i;
  }
}

TEST_F(Open, few_slots_unless_more_are_asked_for) {
  ASSERT_TRUE(open());
  EXPECT_EQ(aio_faults().slots, 129U) << "one is for interrupts";
  ProcessorConfig config;
  config.started_max = 300;
  const auto opened = open(config);
  ASSERT_TRUE(opened);
  EXPECT_EQ(aio_faults().slots, 301U);
  EXPECT_EQ((*opened)->info().operations_max, 300U);
  config.operations_max = 20;
  ASSERT_TRUE(open(config));
  EXPECT_EQ(aio_faults().slots, 21U);
  EXPECT_TRUE(explained.empty());
  config = {};
  config.started_max = 1'000'000;
  ASSERT_TRUE(open(config));
  EXPECT_EQ(aio_faults().slots, 4'097U);
  ASSERT_EQ(explained.size(), 1U);
  EXPECT_NE(explained[0].find("1000000 -> 4096"), std::string::npos);
}

TEST_F(Open, an_unfit_part_is_replaced_visibly) {
  ProcessorConfig config;
  config.wait = "epoll";
  config.interrupt = "pipe";
  ASSERT_TRUE(open(config));
  ASSERT_EQ(explained.size(), 2U);
  EXPECT_NE(explained[0].find("wait: epoll -> io_getevents"), std::string::npos);
  EXPECT_NE(explained[1].find("interrupt: pipe -> io_submit"), std::string::npos);
}

TEST_F(Open, a_failure_says_what_is_missing) {
  const std::pair<int, const char*> cases[] = {{ENOSYS, "CONFIG_AIO"},
                                               {EPERM, "seccomp"},
                                               {EACCES, "seccomp"},
                                               {ENOMEM, "no memory"},
                                               {EIO, "Input/output error"}};
  for (const auto& [error, words] : cases) {
    aio_faults().setup_error = error;
    EXPECT_NE(reason().find(words), std::string::npos) << error << ": " << reason();
  }
  aio_faults().setup_error = 0;
  aio_faults().poll_error = EINVAL;
  EXPECT_NE(reason().find("4.18"), std::string::npos) << reason();
  EXPECT_EQ(aio_faults().destroyed, 1U) << "what was set up is given back";
}

TEST_F(Open, used_up_slots_name_the_sysctl_and_its_value) {
  aio_faults().setup_error = EAGAIN;
  aio_faults().sysctl = "4711\n";
  EXPECT_NE(reason().find("fs.aio-max-nr is 4711, "), std::string::npos) << reason();
  EXPECT_NE(reason().find(" 128 more were asked for"), std::string::npos);
  aio_faults().sysctl = "";
  EXPECT_NE(reason().find("fs.aio-max-nr is unknown"), std::string::npos);
}

TEST_F(Open, the_next_engine_takes_its_place_visibly) {
  aio_faults().setup_error = EAGAIN;
  aio_faults().sysctl = "64\n";
  Config config;
  config.system = &system;
  config.processors = {{.engine = "linux_aio"}};
  const auto proactor = Proactor::open(config);
  ASSERT_TRUE(proactor) << proactor.error().reason;
  const std::string text = (*proactor)->explain();
  EXPECT_NE(text.find("engine: linux_aio -> emulated: "), std::string::npos) << text;
  EXPECT_NE(text.find("fs.aio-max-nr is 64"), std::string::npos) << text;
}

TEST_F(Open, until_the_system_has_no_more) {
  ProcessorConfig config;
  config.started_max = 4'096;
  std::vector<std::unique_ptr<Engine>> engines;
  for (;;) {
    auto opened = open(config);
    if (!opened) {
      EXPECT_NE(opened.error().reason.find("fs.aio-max-nr is "), std::string::npos)
          << opened.error().reason;
      break;
    }
    engines.push_back(std::move(*opened));
    if (engines.size() == 64) GTEST_SKIP() << "fs.aio-max-nr allows more than is sensible to take";
  }
  EXPECT_GT(engines.size(), 0U);
  engines.clear();
  // Given back: the kernel counts a destroyed context out when its last user is gone.
  for (int i = 0; i < 1000; ++i) {
    if (open(config)) return;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "the slots do not come back";
}

}  // namespace
}  // namespace baton::test
