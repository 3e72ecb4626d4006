// Every kind of descriptor × every operation × every engine and mode: the result is the same
// everywhere. outcomes.csv holds the expected result of each case; it is written by
//
//   BATON_WRITE_OUTCOMES=FILE build/tests/descriptors_test --gtest_filter='*/emulated_epoll_shared'
//
// `deviations` below lists results in which an engine differs, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "baton/proactor.hpp"
#include "descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

struct Setting {
  const char* name;
  const char* config;
};
constexpr Setting settings[] = {
    {"emulated_epoll_shared", "engine=emulated,wait=epoll"},
    {"emulated_epoll_dedicated", "engine=emulated,wait=epoll,mode=dedicated"},
    {"emulated_epoll_per_thread", "engine=emulated,wait=epoll,mode=per_thread,threads=1"},
    {"emulated_poll_shared", "engine=emulated,wait=poll"},
    {"emulated_poll_dedicated", "engine=emulated,wait=poll,mode=dedicated"},
    {"emulated_poll_per_thread", "engine=emulated,wait=poll,mode=per_thread,threads=1"},
    {"emulated_select_shared", "engine=emulated,wait=select"},
    {"emulated_select_dedicated", "engine=emulated,wait=select,mode=dedicated"},
    {"emulated_select_per_thread", "engine=emulated,wait=select,mode=per_thread,threads=1"},
    {"emulated_rt_signals_dedicated", "engine=emulated,wait=rt_signals,mode=dedicated"},
    {"emulated_rt_signals_per_thread", "engine=emulated,wait=rt_signals,mode=per_thread,threads=1"},
    {"io_uring_shared", "engine=io_uring"},
    {"io_uring_dedicated", "engine=io_uring,mode=dedicated"},
    {"io_uring_per_thread", "engine=io_uring,mode=per_thread,threads=1"},
    {"linux_aio_shared",
     "operations=stream+accept+connect+datagram,engine=emulated;operations=file,engine=linux_aio"},
    {"posix_aio_dedicated",
     "operations=stream+accept+connect+datagram,engine=emulated;operations="
     "file,engine=posix_aio,mode=dedicated"},
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }

struct Form {
  const char* name;
  Ownership ownership;
  bool blocking;
};
constexpr Form forms[] = {{"owned", Ownership::owned, false},
                          {"borrowed", Ownership::borrowed, false},
                          {"borrowed, blocking", Ownership::borrowed, true}};

struct Verb {
  const char* name;
  OperationKind kind;
  std::uint16_t flags = 0;
};
constexpr Verb verbs[] = {{"read", OperationKind::read_stream},
                          {"read all", OperationKind::read_stream, Operation::exactly},
                          {"write", OperationKind::write_stream},
                          {"receive", OperationKind::read_datagram},
                          {"send", OperationKind::write_datagram},
                          {"accept", OperationKind::accept},
                          {"connect", OperationKind::connect},
                          {"until readable", OperationKind::wait_ready, Operation::readable},
                          {"until writable", OperationKind::wait_ready, Operation::writable},
                          {"shut down", OperationKind::shutdown},
                          {"pread", OperationKind::read_file},
                          {"pwrite", OperationKind::write_file},
                          {"sync", OperationKind::sync_file}};

/// `setting` and `what` are beginnings of a setting's and of a case's name; the first row counts.
struct Deviation {
  std::string_view setting;
  std::string_view what;
  std::string_view outcome;
  std::string_view reason;
};

constexpr std::string_view waits_first =
    "a readiness engine asks once the descriptor is readable; the ring asks at once";
constexpr std::string_view no_socket =
    "epoll refuses a file; the others take it for a socket, which is asked";
constexpr std::string_view room_first =
    "the ring waits for room before it tries a descriptor that blocks, and this one never has any";
constexpr std::string_view a_terminal_of_its_own =
    "the master of a pseudo-terminal cannot be opened anew, so a write that must not block takes "
    "one byte; the ring's does not block";
constexpr const char* einval = "Invalid argument";
constexpr const char* enotsock = "Socket operation on non-socket";

constexpr Deviation deviations[] = {
    {"io_uring", "epoll | read | borrowed, blocking", "pending", waits_first},
    {"io_uring", "epoll | read all | borrowed, blocking", "pending", waits_first},
    {"io_uring", "epoll | read", einval, waits_first},
    {"io_uring", "epoll | write | borrowed, blocking", "pending", room_first},
    {"io_uring", "signalfd | read", einval, waits_first},
    {"emulated_poll", "file as stream | until", "0", no_socket},
    {"emulated_select", "file as stream | until", "0", no_socket},
    {"io_uring", "file as stream | until", "0", no_socket},
    {"emulated_poll", "file as stream | re", enotsock, no_socket},
    {"emulated_select", "file as stream | re", enotsock, no_socket},
    {"io_uring", "file as stream | re", enotsock, no_socket},
    {"io_uring", "pty, quiet | write | borrowed, blocking", "8", a_terminal_of_its_own},
    {"io_uring", "pty, data | write | borrowed, blocking", "8", a_terminal_of_its_own},
    {"io_uring", "pty, other side gone | write | borrowed, blocking", "8", a_terminal_of_its_own},
};

constexpr const char* pending = "pending";
constexpr const char* refused = "refused: a handle of this kind knows no such operation";

/// The file that outcomes are written to instead of being compared.
const char* writing() { return std::getenv("BATON_WRITE_OUTCOMES"); }

class Descriptors : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    auto config = Config::parse(GetParam().config, {});
    ASSERT_TRUE(config) << config.error().reason;
    config->let_threads_change("a test");
    auto opened = Proactor::open(std::move(*config));
    if (!opened) GTEST_SKIP() << opened.error().reason;
    // A replacement would test another engine under this one's name.
    const std::string text = (*opened)->explain();
    for (const char* const engine : {"emulated", "io_uring", "linux_aio", "posix_aio"}) {
      const bool named = std::string_view{GetParam().config}.find(engine) != std::string::npos;
      if (named && text.find(std::string{"engine="} + engine) == std::string::npos) {
        GTEST_SKIP() << text;
      }
    }
    proactor_ = std::move(*opened);
  }

  /// The outcome of a case: "pending", or how it ended. `expected` decides the time limit: a case
  /// that should end gets all the time it needs, a case that should not end is watched for a short
  /// time.
  std::string outcome(const DescriptorKind& kind, const Form& form, const Verb& verb,
                      const std::string& what, const std::string& expected) {
    Subject subject = kind.make();
    if (!form.blocking) {
      ::fcntl(subject.ours.get(), F_SETFL, ::fcntl(subject.ours.get(), F_GETFL) | O_NONBLOCK);
    }
    const auto handle = proactor_->adopt(subject.ours.get(), kind.kind, form.ownership);
    if (!handle) return "not adopted: " + handle.error().message();
    if (form.ownership == Ownership::owned) subject.ours.release();
    Operation operation;
    std::array<char, 16> buffer{};
    Endpoint peer = Endpoint::loopback(1);  // no listener there
    operation.prepare(verb.kind, *handle, verb.flags);
    if (verb.kind == OperationKind::connect) {
      operation.set_endpoint(&peer);
    } else if (verb.kind == OperationKind::write_stream ||
               verb.kind == OperationKind::write_datagram ||
               verb.kind == OperationKind::write_file) {
      buffer = {'1', 0, 0, 0, 0, 0, 0, 0};  // 8 bytes are a number for an eventfd
      operation.set_buffer(MutableBuffer{buffer.data(), 8});
    } else if (verb.kind == OperationKind::read_stream ||
               verb.kind == OperationKind::read_datagram || verb.kind == OperationKind::read_file) {
      operation.set_buffer(MutableBuffer{buffer.data(), buffer.size()});
    }
    std::string told = run(operation, what, expected);
    proactor_->close_detached(**handle);
    while (proactor_->handle_events(Deadline::immediately()) > 0) {
    }
    return told;
  }

 private:
  bool drive(const bool& done, Deadline end) {
    while (!done && is_ahead(end)) proactor_->handle_events(Deadline::after(1ms));
    return done;
  }
  std::string run(Operation& operation, const std::string& what, const std::string& expected) {
    bool done = false;
    operation.set_completion([](Operation& of) { *static_cast<bool*>(of.context()) = true; },
                             &done);
    if (const auto error = proactor_->start(operation)) return "refused: " + error.message();
    const Duration short_look = writing() != nullptr ? 100ms : 2ms;
    if (drive(done, expected == pending ? Deadline::after(short_look) : at_last())) {
      return of(operation);
    }
    static_cast<void>(proactor_->cancel(operation));
    if (!drive(done, at_last())) {
      std::fprintf(stderr, "%s: cancelled, and never ends\n", what.c_str());
      std::abort();  // it would be destroyed while it runs
    }
    return operation.error() == std::errc::operation_canceled ? pending : "late: " + of(operation);
  }
  static std::string of(const Operation& operation) {
    if (operation.kind() == OperationKind::accept && !operation.failed()) {
      ::close(operation.accepted());
      return "accepted";
    }
    const std::string bytes = std::to_string(operation.bytes());
    if (!operation.failed()) return bytes;
    const std::string error = operation.error().message();
    return operation.bytes() == 0 ? error : bytes + ", " + error;
  }

  std::unique_ptr<Proactor> proactor_;
};

INSTANTIATE_TEST_SUITE_P(every, Descriptors, testing::ValuesIn(settings),
                         [](const auto& setting) { return setting.param.name; });

// "descriptor | operation | outcome", or with the form in front of the outcome where forms differ.
// Everything else is refused.
class Outcomes {
 public:
  Outcomes() {
    std::ifstream file(BATON_OUTCOMES);
    for (std::string line; std::getline(file, line);) {
      const std::size_t bar = line.rfind(" | ");
      if (bar != std::string::npos) all_[line.substr(0, bar)] = line.substr(bar + 3);
    }
  }
  [[nodiscard]] std::string of(const std::string& verb, const char* form) const {
    if (writing() != nullptr) return pending;
    if (const auto found = all_.find(verb); found != all_.end()) return found->second;
    const auto found = all_.find(verb + " | " + form);
    return found != all_.end() ? found->second : refused;
  }

 private:
  std::map<std::string, std::string> all_;
};

void write(std::ofstream& out, const std::string& verb,
           const std::vector<std::pair<const char*, std::string>>& told) {
  const bool same = std::all_of(told.begin(), told.end(),
                                [&](const auto& one) { return one.second == told[0].second; });
  if (same && told[0].second != refused) out << verb << " | " << told[0].second << '\n';
  for (const auto& [form, outcome] : told) {
    if (!same) out << verb << " | " << form << " | " << outcome << '\n';
  }
}

const Deviation* deviation_of(std::string_view setting, const std::string& what) {
  // These teams leave all but files to the emulated engine.
  if (setting.starts_with("linux_aio") || setting.starts_with("posix_aio")) setting = "emulated";
  const auto* const found =
      std::find_if(std::begin(deviations), std::end(deviations), [&](const Deviation& one) {
        return setting.starts_with(one.setting) && what.starts_with(one.what);
      });
  return found != std::end(deviations) ? found : nullptr;
}

TEST_P(Descriptors, behave_the_same) {
  const Outcomes expected;
  std::ofstream out;
  if (writing() != nullptr) out.open(writing());
  int cases = 0;
  for (const DescriptorKind& kind : descriptor_kinds()) {
    for (const Verb& verb : verbs) {
      const std::string what = std::string{kind.name} + " | " + verb.name;
      std::vector<std::pair<const char*, std::string>> told;
      for (const Form& form : forms) {
        if (form.blocking && kind.holds_workers) continue;
        const std::string one = what + " | " + form.name;
        const Deviation* const other = deviation_of(GetParam().name, one);
        const std::string wanted =
            other != nullptr ? std::string{other->outcome} : expected.of(what, form.name);
        told.emplace_back(form.name, outcome(kind, form, verb, one, wanted));
        if (writing() == nullptr) {
          EXPECT_EQ(told.back().second, wanted) << one;
        }
        ++cases;
      }
      if (writing() != nullptr) write(out, what, told);
    }
  }
  EXPECT_GT(cases * static_cast<int>(std::size(settings)), 5'000);
}

}  // namespace
}  // namespace baton::test
