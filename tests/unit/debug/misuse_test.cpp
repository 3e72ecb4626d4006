// Debug mode: each rule of ownership that a user can break is broken here, on every engine. The
// program ends with a report that names the operation and says what to do.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../../support/patience.hpp"
#include "../../support/real_engines.hpp"
#include "../../support/team.hpp"
#include "base/asan.hpp"
#include "base/tsan.hpp"
#include "baton/proactor.hpp"
#include "os/system.hpp"
#include "tells.hpp"

namespace baton::test {
namespace {

/// The real system, but every read or write of a file has to wait. So a file operation stays inside
/// the engine until a thread waits.
const os::System& slow_files() {
  static const os::System system = [] {
    os::System slow = os::real_system();
    slow.preadv2 = [](int fd, const iovec* list, int count, off_t offset, int flags) -> ssize_t {
      if (flags == 0) return os::real_system().preadv2(fd, list, count, offset, flags);
      errno = EAGAIN;
      return -1;
    };
    slow.pwritev2 = [](int fd, const iovec* list, int count, off_t offset, int flags) -> ssize_t {
      if (flags == 0) return os::real_system().pwritev2(fd, list, count, offset, flags);
      errno = EAGAIN;
      return -1;
    };
    return slow;
  }();
  return system;
}

/// Two ends of a stream, or a file, on a proactor whose engine is watched.
class World {
 public:
  explicit World(const std::string& engine) {
    Config config;
    config.processors.push_back({.engine = engine});
    config.processors.front().debug = true;
    config.system = &slow_files();
    for (const auto& entry : real_engines()) {
      if (entry.name == engine) files_only_ = entry.files_only;
    }
    if (files_only_) make_team(config);
    auto opened = Proactor::open(config);
    if (!opened) {
      reason_ = opened.error().reason;
      return;
    }
    proactor_ = std::move(*opened);
    if (proactor_->explain().find("engine=" + engine + " ") == std::string::npos) {
      reason_ = proactor_->explain();
    }
  }
  ~World() {
    for (const int fd : fd_) {
      if (fd >= 0) ::close(fd);
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] bool files_only() const { return files_only_; }
  [[nodiscard]] Proactor& proactor() { return *proactor_; }

  Handle& stream() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd_) != 0) {
      std::abort();
    }
    const int mine = fd_[0];
    fd_[0] = -1;
    return *proactor_->adopt(mine, HandleKind::stream_socket, Ownership::owned).value();
  }
  Handle& file() {
    char name[] = "/tmp/baton_debug_XXXXXX";
    const int fd = ::mkstemp(name);
    if (fd < 0 || ::unlink(name) != 0) std::abort();
    if (::write(fd, "0123456789", 10) != 10) std::abort();
    return *proactor_->adopt(fd, HandleKind::file, Ownership::owned).value();
  }
  /// The bytes at the other end.
  void send(const char* text) {
    if (::send(fd_[1], text, std::strlen(text), MSG_NOSIGNAL) < 0) std::abort();
  }

  /// A read that stays pending until send(), or a file's, which is inside until the next wait.
  void start_read(Operation& operation, MutableBuffer buffer, Handle& handle) {
    operation.prepare(files_only_ ? OperationKind::read_file : OperationKind::read_stream, &handle);
    operation.set_buffer(buffer);
    operation.set_tag(77);
    if (proactor_->start(operation)) std::abort();
  }
  Handle& handle() { return files_only_ ? file() : stream(); }
  void let_it_come() {
    if (!files_only_) send("12345");
  }
  void run_until_done(const Operation& operation) {
    while (operation.is_pending()) proactor_->run_one(at_last());
  }

 private:
  std::unique_ptr<Proactor> proactor_;
  std::string reason_;
  bool files_only_ = false;
  int fd_[2] = {-1, -1};
};

class DebugMode : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    const World world{GetParam()};
    if (!world.reason().empty()) GTEST_SKIP() << GetParam() << ": " << world.reason();
  }
};

// -- correct programs -----------------------------------------------------------------------------

TEST_P(DebugMode, ReportsThatItIsOn) {
  World world{GetParam()};
  EXPECT_NE(world.proactor().explain().find(" debug=1"), std::string::npos);
}

TEST_P(DebugMode, BytesComeAndTheRestOfTheBufferIsAsItWas) {
  World world{GetParam()};
  Handle& handle = world.handle();
  Operation operation;
  std::array<char, 4'096> buffer{};
  buffer.fill('x');
  world.start_read(operation, buffer, handle);
  world.let_it_come();
  world.run_until_done(operation);
  EXPECT_FALSE(operation.failed()) << operation.error().message();
  const std::string expected = world.files_only() ? "0123456789" : "12345";
  EXPECT_EQ(std::string(buffer.data(), operation.bytes()), expected);
  EXPECT_EQ(std::string(buffer.data() + operation.bytes(), buffer.size() - operation.bytes()),
            std::string(buffer.size() - operation.bytes(), 'x'));
}

TEST_P(DebugMode, BytesThatAReadUpToADelimiterBeginsWithStayReadable) {
  World world{GetParam()};
  if (world.files_only()) GTEST_SKIP() << "no delimiters in files";
  Handle& handle = world.stream();
  Operation operation;
  std::array<char, 64> buffer{'a', 'b'};
  const std::string_view delimiter = "5";
  operation.prepare(OperationKind::read_stream, &handle);
  operation.set_buffer(MutableBuffer{buffer});
  operation.set_until(&delimiter, 2);
  ASSERT_FALSE(world.proactor().start(operation));
  EXPECT_EQ(std::string(buffer.data(), 2), "ab");
  world.let_it_come();
  world.run_until_done(operation);
  EXPECT_EQ(std::string(buffer.data(), operation.bytes()), "ab12345");
}

TEST_P(DebugMode, ACancelledOperationMayBeDestroyedAfterItsHandler) {
  World world{GetParam()};
  if (world.files_only()) GTEST_SKIP() << "a file's read does not stay pending";
  Handle& handle = world.stream();
  auto operation = std::make_unique<Operation>();
  auto buffer = std::make_unique<std::array<char, 64>>();
  buffer->fill('x');
  world.start_read(*operation, *buffer, handle);
  EXPECT_EQ(world.proactor().cancel(*operation, operation->activation()), CancelResult::requested);
  world.run_until_done(*operation);
  EXPECT_TRUE(operation->error() == std::errc::operation_canceled) << operation->error().message();
  EXPECT_EQ(std::string(buffer->data(), buffer->size()), std::string(64, 'x'));
  operation.reset();
  buffer.reset();
}

TEST_P(DebugMode, InvalidMemoryFailsAsWithoutIt) {
  World world{GetParam()};
  Handle& handle = world.handle();
  Operation operation;
  void* none = ::mmap(nullptr, 4'096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(none, MAP_FAILED);
  world.start_read(operation, {none, 4'096}, handle);
  world.let_it_come();
  world.run_until_done(operation);
  EXPECT_TRUE(operation.error() == std::errc::bad_address) << operation.error().message();
  ::munmap(none, 4'096);
}

// -- reported mistakes ----------------------------------------------------------------------------

/// Runs `mistake` on a pending read, and then until the read is complete.
void plant(const std::string& engine,
           const std::function<void(Operation& operation, char* buffer)>& mistake) {
  World world{engine};
  Handle& handle = world.handle();
  // Pages of its own, so that they can be taken away.
  auto* buffer = static_cast<char*>(
      ::mmap(nullptr, 8'192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  void* memory = buffer + 4'096;
  auto& operation = *::new (memory) Operation;
  world.start_read(operation, {buffer, 100}, handle);
  mistake(operation, buffer);
  world.let_it_come();
  for (;;) world.proactor().run_one(at_last());
}

/// The event first, then the operation and the advice.
Tells tells(std::vector<std::string> words) {
  words.insert(words.begin(), "baton: debug: ");
  for (const char* word : {"operation 0x", ": read_", " on descriptor ", ", activation 1, tag 77\n",
                           "given to engine ", " us ago, by:\n", "wait for its completion"}) {
    words.emplace_back(word);
  }
  return Tells{std::move(words)};
}

TEST_P(DebugMode, DestroyingAPendingOperationIsCaught) {
  EXPECT_DEATH(plant(GetParam(), [](Operation& operation, char*) { operation.~Operation(); }),
               tells({"an operation was destroyed before it was complete"}));
}

// As crash reporters do. A fork waits for a lock that the report must not hold any more.
TEST_P(DebugMode, AHandlerOfTheAbortMayFork) {
#ifdef BATON_TSAN
  GTEST_SKIP() << "ThreadSanitizer allocates in each fork, and reports that in a handler";
#endif
  constexpr int forked = 7;
  constexpr unsigned seconds_max = 60;
  const auto fork_and_end = [](int) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(forked);
    int status = 0;
    const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
    ::_exit(ended ? WEXITSTATUS(status) : 1);
  };
  EXPECT_EXIT(
      {
        ::signal(SIGABRT, fork_and_end);
        ::alarm(seconds_max);
        plant(GetParam(), [](Operation& operation, char*) { operation.~Operation(); });
      },
      testing::ExitedWithCode(forked), "an operation was destroyed before it was complete");
}

TEST_P(DebugMode, OverwritingAPendingOperationIsCaught) {
  EXPECT_DEATH(
      plant(GetParam(),
            [](Operation& operation, char*) {
              std::memset(static_cast<void*>(&operation), 0x33, sizeof(operation));
            }),
      tells({"an operation was destroyed or changed", "freed, overwritten or prepared anew"}));
}

TEST_P(DebugMode, PreparingAPendingOperationAnewIsCaught) {
  EXPECT_DEATH(plant(GetParam(),
                     [](Operation& operation, char* buffer) {
                       operation.prepare(operation.kind(), operation.handle());
                       operation.set_buffer(MutableBuffer{buffer, 10});
                     }),
               tells({"an operation was destroyed or changed", "its request was changed"}));
}

/// As munmap, but the page stays reserved: another mapping would make it valid again.
void unmap(char* page) {
  if (::mmap(page, 4'096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page) {
    std::abort();
  }
}

TEST_P(DebugMode, UnmappingAPendingOperationIsCaught) {
  EXPECT_DEATH(
      plant(GetParam(), [](Operation&, char* buffer) { unmap(buffer + 4'096); }),
      tells({"an operation was destroyed or changed", "its memory is not mapped any more"}));
}

TEST_P(DebugMode, WritingIntoTheBufferOfAPendingReadIsCaught) {
  EXPECT_DEATH(plant(GetParam(), [](Operation&, char* buffer) { buffer[99] = 'y'; }),
               tells({"a buffer of a pending operation was written to, freed, or given to another "
                      "operation",
                      "of 100 bytes, seen at byte 99"}));
}

TEST_P(DebugMode, UnmappingTheBufferOfAPendingReadIsCaught) {
  EXPECT_DEATH(plant(GetParam(), [](Operation&, char* buffer) { unmap(buffer); }),
               tells({"a buffer of a pending operation is not mapped any more"}));
}

// The commonest mistake: the C library's marks show it, or AddressSanitizer's.
TEST_P(DebugMode, FreeingTheBufferOfAPendingReadIsCaught) {
#ifdef BATON_TSAN
  GTEST_SKIP() << "ThreadSanitizer's free() leaves no mark";
#endif
  EXPECT_DEATH(
      {
        World world{GetParam()};
        Handle& handle = world.handle();
        Operation operation;
        auto* buffer = static_cast<char*>(std::malloc(100));
        world.start_read(operation, MutableBuffer{buffer, 100}, handle);
        std::free(buffer);
        world.let_it_come();
        world.run_until_done(operation);
      },
      tells({"a buffer of a pending operation was ", "freed"}));
}

#ifdef BATON_ASAN
TEST_P(DebugMode, FreeingAPendingOperationWithoutDestroyingItIsCaught) {
  EXPECT_DEATH(
      {
        World world{GetParam()};
        Handle& handle = world.handle();
        char buffer[100];
        void* memory = std::malloc(sizeof(Operation));
        world.start_read(*::new (memory) Operation, buffer, handle);
        std::free(memory);
        world.let_it_come();
        for (;;) world.proactor().run_one(at_last());
      },
      tells({"an operation was destroyed or changed", "its memory was freed"}));
}
#endif

TEST_P(DebugMode, ChangingTheListOfBuffersIsCaught) {
  EXPECT_DEATH(
      {
        World world{GetParam()};
        Handle& handle = world.handle();
        Operation operation;
        char one[10];
        char two[10];
        std::vector<MutableBuffer> list;
        list.emplace_back(one);
        list.emplace_back(two);
        operation.prepare(
            world.files_only() ? OperationKind::read_file : OperationKind::read_stream, &handle);
        operation.set_buffers(MutableBuffers{list});
        static_cast<void>(world.proactor().start(operation));
        list[1] = MutableBuffer{one};
        world.let_it_come();
        world.run_until_done(operation);
      },
      Tells({"baton: debug: the list of buffers of a pending operation was changed or freed, at "
             "number 1"}));
}

TEST_P(DebugMode, ChangingTheBufferOfAPendingWriteIsCaught) {
  EXPECT_DEATH(
      {
        World world{GetParam()};
        Handle& handle = world.handle();
        Operation operation;
        // More than a socket holds, so that it stays pending, and small enough to be copied.
        std::vector<char> buffer(1'000'000, 'a');
        operation.prepare(
            world.files_only() ? OperationKind::write_file : OperationKind::write_stream, &handle,
            Operation::exactly);
        operation.set_buffer(ConstBuffer{buffer});
        static_cast<void>(world.proactor().start(operation));
        buffer[999'999] = 'b';
        if (!world.files_only()) static_cast<void>(world.proactor().cancel(operation, 1));
        world.run_until_done(operation);
      },
      Tells({"baton: debug: a buffer of a pending operation was changed, freed, or given",
             "of 1000000 bytes, seen at byte 999999"}));
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& engine : real_engines()) all.push_back(engine.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(engines, DebugMode, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace baton::test
