// Engines that wrap another one (debug, chaos) need memory of their own for each operation. Each
// allocation fails in turn, from the opening to the closes. Accepted operations complete once, and
// no descriptor is left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "../support/failing_system.hpp"
#include "../support/patience.hpp"
#include "allocations.hpp"
#include "baton/config.hpp"
#include "baton/log.hpp"
#include "baton/proactor.hpp"

namespace baton::faults {
namespace {

Config debug_around_emulated() {
  Config config;
  ProcessorConfig processor;
  processor.engine = "emulated";
  processor.debug = true;
  config.processors.push_back(processor);
  return config;
}
/// Every transfer in parts, everything else calm.
Config chaos_around_emulated() {
  Config config;
  ProcessorConfig processor;
  processor.engine = "chaos";
  processor.inner = "emulated";
  processor.chaos_short = 100;
  processor.chaos_delay = processor.chaos_error = processor.chaos_late_cancel = 0;
  config.processors.push_back(processor);
  return config;
}

class Around : public testing::TestWithParam<Config (*)()> {
 protected:
  struct Ends {
    explicit Ends(std::array<int, 3> of) : fd(of) {}
    ~Ends() {
      for (const int one : fd) {
        if (one >= 0) ::close(one);
      }
    }
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;
    std::array<int, 3> fd;  // a pair of sockets, a file
  };

  static std::array<int, 3> descriptors() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    char name[] = "/tmp/baton_around_XXXXXX";
    const int file = ::mkostemp(name, O_CLOEXEC);
    EXPECT_GE(file, 0);
    EXPECT_EQ(::unlink(name), 0);
    return {pair[0], pair[1], file};
  }

  /// Reads by a list, writes, and a read that is cancelled, on two sockets; writes and reads of a
  /// file; the closes.
  static void work(Proactor& proactor, Ends& ends) {
    std::array<Handle*, 3> handles{};
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const auto kind = i < 2 ? HandleKind::stream_socket : HandleKind::file;
      const auto handle = proactor.adopt(ends.fd[i], kind, Ownership::owned);
      if (!handle) continue;  // it stays ours
      handles[i] = *handle;
      ends.fd[i] = -1;
    }
    char text[] = "0123456789";
    char one[4];
    char two[6];
    char more[10];
    char beyond[6];
    const MutableBuffer list[] = {one, two};
    std::array<Operation, 6> operations;
    operations[0].prepare(OperationKind::read_stream, handles[0], Operation::exactly);
    operations[0].set_buffers(MutableBuffers{list});
    operations[1].prepare(OperationKind::write_stream, handles[1], Operation::exactly);
    operations[1].set_buffer(ConstBuffer{text, 10});
    operations[2].prepare(OperationKind::read_stream, handles[1]);
    operations[2].set_buffer(MutableBuffer{more});
    operations[3].prepare(OperationKind::write_file, handles[2], Operation::exactly);
    operations[3].set_buffer(ConstBuffer{text, 10});
    operations[4].prepare(OperationKind::read_file, handles[2]);
    operations[4].set_buffer(MutableBuffer{beyond});
    operations[4].set_offset(100);
    operations[5].prepare(OperationKind::sync_file, handles[2]);
    std::array<bool, 6> accepted{};
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].handle() == nullptr) continue;
      accepted[i] = !proactor.start(operations[i]);
    }
    const auto run_until_done = [&](const Operation& operation) {
      const Deadline end = test::at_last();
      while (operation.is_pending() && proactor.now() < end) {
        try {
          proactor.run_one(end);
        } catch (const std::bad_alloc&) {
          // The next try finds memory again.
        }
      }
      ASSERT_FALSE(operation.is_pending());
    };
    if (accepted[1]) run_until_done(operations[1]);
    for (const std::size_t i : {0U, 2U}) {
      const bool written = accepted[1] && !operations[1].failed();
      if (!accepted[i] || (i == 0 && written)) continue;
      proactor.cancel(operations[i], operations[i].activation());
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (!accepted[i]) continue;
      run_until_done(operations[i]);
      const std::error_code error = operations[i].error();
      EXPECT_TRUE(!error || error == std::errc::not_enough_memory ||
                  error == std::errc::operation_canceled)
          << "operation " << i << ": " << error.message();
    }
    if (accepted[0] && !operations[0].failed()) {
      EXPECT_EQ(std::string(one, 4) + std::string(two, 6), "0123456789");
    }
    for (Handle* handle : handles) {
      if (handle != nullptr) proactor.close_detached(*handle);
    }
    for (int i = 0; i < 10; ++i) {
      try {
        proactor.poll();
      } catch (const std::bad_alloc&) {
        // There is some at the next try.
      }
    }
  }
};

// Found: a close for which there was no memory did not close.
TEST_P(Around, each_allocation_fails_in_turn) {
  for (const std::size_t times : {std::size_t{1}, std::size_t{8}}) {
    bool hit = true;
    for (std::size_t nth = 0; hit; ++nth) {  // without a fault first
      SCOPED_TRACE("allocation " + std::to_string(nth) + ", times " + std::to_string(times));
      const std::size_t before = test::held_now().descriptors;
      {
        Ends ends{descriptors()};
        const Config config = GetParam()();
        FailingAllocations failing(nth, times);
        try {
          if (auto opened = Proactor::open(config)) work(**opened, ends);
        } catch (const std::bad_alloc&) {
          // An open may report the shortage in this way.
        }
        failing.end();
        hit = failing.hit() || nth == 0;
      }
      ASSERT_EQ(test::held_now().descriptors, before) << "left behind";
      ASSERT_FALSE(HasFailure());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(engines, Around,
                         testing::Values(debug_around_emulated, chaos_around_emulated),
                         [](const auto& parameter) {
                           return parameter.index == 0 ? "debug" : "chaos";
                         });

// -- a line of log --------------------------------------------------------------------------------

struct Lines final : Log {
  void write(LogLevel, std::string_view, std::string_view) noexcept override { ++count; }
  std::atomic<int> count{0};
};

class LogLine : public testing::TestWithParam<std::string> {};

// Found: io_uring ended the program because it had no memory for its log line about a shortage.
TEST_P(LogLine, of_a_shortage_is_left_out_without_memory) {
  for (const bool memory : {true, false}) {
    Lines log;
    Config config;
    config.log = &log;
    config.processors.emplace_back().engine = GetParam();
    config.require = {GetParam()};
    auto opened = Proactor::open(config);
    if (!opened) GTEST_SKIP() << opened.error().reason;
    Proactor& proactor = **opened;
    const int before = log.count;
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(listener, 8), 0);
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
    Handle* const handle = proactor.adopt(listener, HandleKind::listener, Ownership::owned).value();
    proactor.poll();  // allocates what a first wait needs
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{1, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    Operation accept;
    accept.prepare(OperationKind::accept, handle);
    ASSERT_FALSE(proactor.start(accept));
    {
      FailingAllocations failing(memory ? 0 : 1, 1'000'000);
      const Deadline end = test::at_last();
      while (proactor.statistics().accept_backoffs == 0 && proactor.now() < end) {
        proactor.run_one(Deadline::after(std::chrono::milliseconds{5}, proactor.now()));
      }
    }
    EXPECT_GE(proactor.statistics().accept_backoffs, 1U);
    EXPECT_EQ(log.count > before, memory);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const Deadline end = test::at_last();
    while (accept.is_pending() && proactor.now() < end) proactor.run_one(end);
    ASSERT_FALSE(accept.failed()) << accept.error().message();
    ::close(accept.accepted());
    ::close(client);
  }
}

INSTANTIATE_TEST_SUITE_P(engines, LogLine, testing::Values("emulated", "io_uring"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace baton::faults
