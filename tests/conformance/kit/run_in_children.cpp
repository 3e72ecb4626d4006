// A child runs the rest of the list and writes a record of each event into a pipe. The parent reads
// the records, so it can name the running test when the child dies.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

#include "outcome.hpp"

namespace baton::conformance {
namespace {

constexpr std::size_t message_max = 4'000;
constexpr std::uint32_t nobody = ~std::uint32_t{0};

enum class Event : std::uint32_t { begin, message, end };

struct Record {
  Event event;
  Verdict verdict;       // of Event::end
  std::uint32_t index;   // of the test
  std::uint32_t length;  // of the text behind it
};

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// The child's side.
class Reporter : public ::testing::EmptyTestEventListener {
 public:
  Reporter(int fd, const std::vector<Outcome>& outcomes) : fd_(fd) {
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      indexes_.emplace(outcomes[i].full, static_cast<std::uint32_t>(i));
    }
  }

 private:
  void OnTestStart(const ::testing::TestInfo& info) override {
    index_ = indexes_.at(std::string{info.test_suite_name()} + "." + info.name());
    has_message_ = false;
    send({Event::begin, Verdict::not_run, index_, 0}, "");
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (has_message_ || result.passed()) return;
    has_message_ = true;
    std::string text = result.message();
    if (!result.skipped() && result.file_name() != nullptr) {
      text = std::string{result.file_name()} + ":" + std::to_string(result.line_number()) + ": " +
             text;
    }
    text.resize(std::min(text.size(), message_max));
    send({Event::message, Verdict::not_run, index_, static_cast<std::uint32_t>(text.size())}, text);
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const ::testing::TestResult& result = *info.result();
    const Verdict verdict = result.Failed()    ? Verdict::failed
                            : result.Skipped() ? Verdict::skipped
                                               : Verdict::passed;
    send({Event::end, verdict, index_, 0}, "");
  }
  void send(const Record& record, const std::string& text) {
    // The parent is gone.
    if (!write_all(fd_, &record, sizeof(record)) || !write_all(fd_, text.data(), text.size())) {
      ::_exit(1);
    }
  }

  int fd_;
  std::map<std::string, std::uint32_t> indexes_;
  std::uint32_t index_ = 0;
  bool has_message_ = false;
};

[[noreturn]] void run_rest(int fd, const std::vector<Outcome>& outcomes, bool verbose) {
  // Its own group: processes that a test has started end with it.
  ::setpgid(0, 0);
  std::string filter;
  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict == Verdict::not_run) filter += (filter.empty() ? "" : ":") + outcome.full;
  }
  ::testing::GTEST_FLAG(filter) = filter;
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (!verbose) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Reporter{fd, outcomes});
  const int result = RUN_ALL_TESTS();
  std::fflush(nullptr);
  ::_exit(result);
}

// The parent's side: one child, from fork to the end.
class Child {
 public:
  Child(std::vector<Outcome>& outcomes, const RunLimits& limits,
        const std::function<void(std::size_t)>& progress)
      : outcomes_(outcomes), limits_(limits), progress_(progress) {}

  /// False if no process could be made.
  bool start() {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    std::fflush(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      run_rest(ends[1], outcomes_, limits_.verbose);
    }
    ::close(ends[1]);
    from_ = ends[0];
    return process_ > 0;
  }

  /// Reads until the child is gone; true if it came to the end of its list.
  bool follow() {
    while (wait_for_more() && take()) {
    }
    ::close(from_);
    if (too_long_) ::kill(-process_, SIGKILL);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    // Ends the processes that its tests have left behind.
    ::kill(-process_, SIGKILL);
    if (running_ == nobody) return WIFEXITED(status);
    Outcome& victim = outcomes_[running_];
    victim.verdict = Verdict::failed;
    victim.message =
        how_it_ended(status) + (victim.message.empty() ? "" : "; before that: " + victim.message);
    progress_(running_);
    return false;
  }

 private:
  // False at the end of the pipe's life, or when a test lasts too long.
  bool wait_for_more() {
    pollfd one{from_, POLLIN, 0};
    for (;;) {
      const int ready = ::poll(&one, 1, static_cast<int>(limits_.test_seconds_max) * 1'000);
      if (ready > 0) return true;
      if (ready < 0 && errno == EINTR) continue;
      too_long_ = true;
      return false;
    }
  }

  bool take() {
    Record record{};
    if (!read_all(&record, sizeof(record)) || record.index >= outcomes_.size()) return false;
    std::string text(std::min<std::size_t>(record.length, message_max), '\0');
    if (!read_all(text.data(), text.size())) return false;
    Outcome& outcome = outcomes_[record.index];
    switch (record.event) {
      case Event::begin:
        running_ = record.index;
        break;
      case Event::message:
        outcome.message = std::move(text);
        break;
      case Event::end:
        outcome.verdict = record.verdict;
        running_ = nobody;
        progress_(record.index);
        break;
    }
    return true;
  }

  bool read_all(void* data, std::size_t size) {
    auto* at = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t got = ::read(from_, at, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

  [[nodiscard]] std::string how_it_ended(int status) const {
    if (too_long_) {
      return "ended after " + std::to_string(limits_.test_seconds_max) + " s without an end";
    }
    if (WIFSIGNALED(status)) {
      return std::string{"the process died: "} + ::strsignal(WTERMSIG(status));
    }
    return "the process left with exit code " + std::to_string(WEXITSTATUS(status));
  }

  std::vector<Outcome>& outcomes_;
  const RunLimits& limits_;
  const std::function<void(std::size_t)>& progress_;
  pid_t process_ = -1;
  int from_ = -1;
  std::uint32_t running_ = nobody;
  bool too_long_ = false;
};

}  // namespace

bool run_in_children(std::vector<Outcome>& outcomes, const RunLimits& limits,
                     const std::function<void(std::size_t)>& progress) {
  for (unsigned deaths = 0; deaths < limits.deaths_max; ++deaths) {
    Child child{outcomes, limits, progress};
    if (!child.start()) return false;
    if (child.follow()) return true;
    const bool rest = std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
      return outcome.verdict == Verdict::not_run;
    });
    if (!rest) return true;
  }
  return false;
}

}  // namespace baton::conformance
