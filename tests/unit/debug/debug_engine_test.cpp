// Debug mode around an engine that breaks its own rules: the test's engine does what it is told.
// Also checks what the copies must not change.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "baton/proactor.hpp"
#include "core/access.hpp"
#include "engines/debug/debug_engine.hpp"
#include "engines/debug/engine.hpp"
#include "os/system.hpp"
#include "tells.hpp"

namespace baton::engines {
namespace {

/// Keeps its operations until the test has them completed.
class TamedEngine final : public Engine {
 public:
  TamedEngine() { info_.name = "tamed"; }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation& operation, void*) noexcept override {
    inside = &operation;
    return answer;
  }
  CancelAnswer cancel(Operation& operation) noexcept override {
    if (!operation.cancel_asked()) return CancelAnswer::too_late;
    operation.finish(ECANCELED);
    return CancelAnswer::completed;
  }
  void wait(OperationQueue& completed, Deadline) noexcept override {
    if (inside != nullptr) completed.push_back(*inside);
  }
  void interrupt() noexcept override {}

  Operation* inside = nullptr;
  Submission answer = Submission::pending;

 private:
  EngineInfo info_;
};

struct Watched {
  explicit Watched(const os::System* system = nullptr) {
    auto inner = std::make_unique<TamedEngine>();
    tamed = inner.get();
    EngineOptions options;
    options.system = system;
    engine = open_debug(std::move(inner), options);
    operation.prepare(OperationKind::read_stream, nullptr);
    operation.set_buffer(MutableBuffer{buffer});
  }
  void wait() {
    OperationQueue completed;
    engine->wait(completed, Deadline::immediately());
    while (!completed.empty()) completed.pop_front();
  }

  std::array<char, 16> buffer{};
  Operation operation;
  TamedEngine* tamed = nullptr;
  std::unique_ptr<Engine> engine;
};

TEST(DebugEngine, TheEngineInsideNeverSeesTheUsersMemory) {
  Watched watched;
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  EXPECT_NE(watched.tamed->inside, &watched.operation);
  EXPECT_NE(watched.tamed->inside->buffer().data, watched.buffer.data());
  EXPECT_EQ(watched.tamed->inside->buffer().size, watched.buffer.size());
  std::memcpy(watched.tamed->inside->buffer().data, "abc", 3);
  watched.tamed->inside->set_bytes(3);
  watched.wait();
  EXPECT_EQ(std::string(watched.buffer.data(), 4), std::string("abc\0", 4));
  EXPECT_EQ(watched.operation.bytes(), 3U);
}

TEST(DebugEngine, TheAddressThatTheEngineFoundIsTheUsers) {
  for (const OperationKind kind : {OperationKind::accept, OperationKind::read_datagram}) {
    Watched watched;
    Endpoint address;
    watched.operation.prepare(kind, nullptr);
    if (kind == OperationKind::read_datagram) {
      watched.operation.set_buffer(MutableBuffer{watched.buffer});
    }
    watched.operation.set_endpoint(&address);
    ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
    ASSERT_NE(watched.tamed->inside->endpoint(), &address);
    *watched.tamed->inside->endpoint() = Endpoint::loopback(80);
    EXPECT_EQ(address.size(), 0U) << "not while it is pending";
    watched.wait();
    EXPECT_EQ(address, Endpoint::loopback(80)) << to_string(kind);
  }
}

TEST(DebugEngine, ABusyEngineLeavesTheOperationAsItWas) {
  Watched watched;
  watched.buffer.fill('k');
  watched.tamed->answer = Submission::busy;
  EXPECT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::busy);
  EXPECT_EQ(std::string(watched.buffer.data(), 16), std::string(16, 'k'));
  std::array<std::byte, limits::engine_state_size> zeros{};
  EXPECT_EQ(std::memcmp(&watched.operation.engine_state<decltype(zeros)>(), &zeros, sizeof(zeros)),
            0);
}

TEST(DebugEngine, ACancelThatCameBeforeTheSubmitIsSeen) {
  Watched watched;
  EXPECT_EQ(watched.engine->cancel(watched.operation), CancelAnswer::too_late);
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  EXPECT_EQ(watched.engine->cancel(watched.operation), CancelAnswer::completed);
  EXPECT_EQ(watched.operation.error_value(), ECANCELED);
  watched.tamed->inside = nullptr;
}

// The operation is copied by then, and no cancel finds the copy yet.
TEST(DebugEngine, ACancelInTheMidstOfTheSubmitIsSeen) {
  static Operation* submitted = nullptr;
  static int locks = 0;
  os::System system = os::real_system();
  system.lock_point = [] {
    if (++locks == 2) OperationAccess::ask_cancel(*submitted);
  };
  Watched watched{&system};
  submitted = &watched.operation;
  locks = 0;
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  EXPECT_TRUE(watched.tamed->inside->cancel_asked());
  watched.wait();
}

/// Two pages; the second has its own protection.
class Pages {
 public:
  explicit Pages(int second) {
    auto* const at =
        static_cast<char*>(::mmap(nullptr, std::size_t{2} * page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(at, MAP_FAILED);
    std::memset(at, 'k', std::size_t{2} * page);
    EXPECT_EQ(::mprotect(at + page, page, second), 0);
    first = at;
  }
  ~Pages() { ::munmap(first, std::size_t{2} * page); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static constexpr std::size_t page = 4'096;
  char* first = nullptr;
};

TEST(DebugEngine, MissingMemoryIsPassedOnAndTheRestIsCopied) {
  const Pages pages(PROT_NONE);
  Watched watched;
  const std::array<MutableBuffer, 2> list{MutableBuffer{pages.first + Pages::page, 8},
                                          MutableBuffer{watched.buffer}};
  watched.operation.prepare(OperationKind::read_stream, nullptr);
  watched.operation.set_buffers(MutableBuffers{list});
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  const MutableBuffers inside = watched.tamed->inside->buffers();
  EXPECT_EQ(inside[0].data, pages.first + Pages::page);
  EXPECT_NE(inside[1].data, watched.buffer.data());
  watched.wait();
}

TEST(DebugEngine, MemoryThatIsOnlyPartlyWritableIsPassedOnAsItWas) {
  const Pages pages(PROT_READ);
  Watched watched;
  watched.operation.prepare(OperationKind::read_stream, nullptr);
  watched.operation.set_buffer(MutableBuffer{pages.first, 2 * Pages::page});
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  EXPECT_EQ(watched.tamed->inside->buffer().data, pages.first);
  EXPECT_EQ(std::string(pages.first, Pages::page), std::string(Pages::page, 'k'));
  watched.wait();
}

TEST(DebugEngine, ABufferTwiceInAListIsOneCopy) {
  Watched watched;
  const std::array<MutableBuffer, 2> list{MutableBuffer{watched.buffer},
                                          MutableBuffer{watched.buffer}};
  watched.operation.prepare(OperationKind::read_stream, nullptr);
  watched.operation.set_buffers(MutableBuffers{list});
  ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
  const MutableBuffers inside = watched.tamed->inside->buffers();
  EXPECT_EQ(inside[0].data, inside[1].data);
  EXPECT_NE(inside[0].data, watched.buffer.data());
  watched.wait();
}

TEST(DebugEngine, ManyLargeBuffersAreNotKeptForEver) {
  Watched watched;
  auto& engine = dynamic_cast<debug::DebugEngine&>(*watched.engine);
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::vector<char> large(mebibyte);
  for (int i = 0; i < 100; ++i) {  // a hundred megabytes; the quarantine holds sixteen of them
    watched.operation.prepare(OperationKind::read_stream, nullptr);
    watched.operation.set_buffer(MutableBuffer{large});
    ASSERT_EQ(watched.engine->submit(watched.operation, nullptr), Submission::pending);
    ASSERT_NE(watched.tamed->inside->buffer().data, large.data());
    watched.wait();
    watched.tamed->inside = nullptr;
    ASSERT_LE(engine.quarantined_bytes(), 16 * mebibyte);
  }
  EXPECT_GT(engine.quarantined_bytes(), 14 * mebibyte) << "it keeps as many copies as fit";
}

TEST(DebugEngine, EachPartOfTheRequestIsWatched) {
  const auto changes = {
      +[](Operation& operation, char* data) {
        operation.prepare(OperationKind::write_stream, nullptr);
        operation.set_buffer(MutableBuffer{data, 16});
      },
      +[](Operation& operation, char* data) {
        operation.prepare(OperationKind::read_stream, nullptr, Operation::exactly);
        operation.set_buffer(MutableBuffer{data, 16});
      },
      +[](Operation& operation, char* data) { operation.set_buffer(MutableBuffer{data + 1, 16}); },
      +[](Operation& operation, char* data) { operation.set_buffer(MutableBuffer{data, 15}); }};
  for (const auto change : changes) {
    EXPECT_DEATH(
        {
          Watched watched;
          static_cast<void>(watched.engine->submit(watched.operation, nullptr));
          change(watched.operation, watched.buffer.data());
          watched.wait();
        },
        "its request was changed");
  }
}

void change_a_list(void (*change)(MutableBuffer&, char*)) {
  const Pages pages(PROT_READ | PROT_WRITE);
  Watched watched;
  auto* const one = ::new (pages.first) MutableBuffer{watched.buffer.data(), 8};
  watched.operation.prepare(OperationKind::read_stream, nullptr);
  watched.operation.set_buffers(MutableBuffers{one, 1});
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  change(*one, watched.buffer.data());
  watched.wait();
}

TEST(DebugEngine, EachPartOfAListIsWatched) {
  const auto changes = {
      +[](MutableBuffer& one, char*) { one.size = 7; },
      +[](MutableBuffer& one, char* data) { one.data = data + 1; },
      +[](MutableBuffer& one, char*) { ::mprotect(&one, Pages::page, PROT_NONE); }};
  for (const auto change : changes) {
    EXPECT_DEATH(change_a_list(change),
                 "the list of buffers of a pending operation was changed or freed, at number 0");
  }
}

TEST(DebugEngine, AnOldDoubleOfARestartedOperationIsAnEnginesBug) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  Operation* const old = watched.tamed->inside;
  watched.wait();
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  EXPECT_DEATH(
      {
        watched.tamed->inside = old;
        watched.wait();
      },
      test::Tells({"gave an operation back that it does not have", "a bug of the engine"}));
  watched.wait();
}

TEST(DebugEngine, WithoutOneADestroyedOperationIsStillReported) {
  {
    const Watched gone;
  }  // it has asked to be called
  auto proactor = Proactor::open(Config{});
  ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
  int fd[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
  Handle* const handle =
      (*proactor)->adopt(fd[0], HandleKind::stream_socket, Ownership::owned).value();
  char byte = 0;
  Operation read;
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{&byte, 1});
  ASSERT_FALSE((*proactor)->start(read));
  EXPECT_DEATH(read.~Operation(), "pending");
  proactor->reset();
  ::close(fd[1]);
}

TEST(DebugEngine, ASecondCompletionIsAnEnginesBug) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  watched.wait();
  EXPECT_DEATH(watched.wait(), test::Tells({"gave an operation back that it does not have",
                                            "given to engine tamed", "a bug of the engine"}));
}

TEST(DebugEngine, ALateWriteIntoABufferIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation, nullptr));
        auto* late = static_cast<volatile char*>(watched.tamed->inside->buffer().data);
        watched.wait();
        watched.tamed->inside = nullptr;
        late[3] = 'x';
        watched.engine.reset();
      },
      // AddressSanitizer sees it when it happens, the quarantine when it ends.
      test::Tells(
          {"wrote into a buffer after the operation was given back", "a bug of the engine"}));
}

void write_late_into_the_first_of_two() {
  Watched watched;
  char more[16];
  const std::array<MutableBuffer, 2> list{MutableBuffer{watched.buffer}, MutableBuffer{more}};
  watched.operation.prepare(OperationKind::read_stream, nullptr);
  watched.operation.set_buffers(MutableBuffers{list});
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  auto* late = static_cast<volatile char*>(watched.tamed->inside->buffers()[0].data);
  watched.wait();
  watched.tamed->inside = nullptr;
  late[3] = 'x';
  watched.engine.reset();
}

TEST(DebugEngine, ALateWriteIntoTheFirstOfSeveralBuffersIsAnEnginesBug) {
  EXPECT_DEATH(write_late_into_the_first_of_two(),
               test::Tells({"wrote into a buffer after the operation was given back"}));
}

TEST(DebugEngine, AChangeOfAnOperationAfterwardsIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation, nullptr));
        watched.wait();
        std::exchange(watched.tamed->inside, nullptr)->set_bytes(9);
        watched.engine.reset();
      },
      test::Tells({"changed an operation after it had given it back"}));
}

TEST(DebugEngine, AWriteBeyondTheBufferIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation, nullptr));
        static_cast<volatile char*>(watched.tamed->inside->buffer().data)[16] = 'x';
        watched.wait();
      },
      "wrote outside the buffer it was given");
}

TEST(DebugEngine, OfAParentJudgesNothingAnyMore) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  watched.wait();
  watched.engine->after_fork_in_child();
  watched.engine.reset();
}

TEST(DebugEngine, AWriteBeforeTheBufferIsAnEnginesBug) {
  EXPECT_DEATH(
      {
        Watched watched;
        static_cast<void>(watched.engine->submit(watched.operation, nullptr));
        static_cast<volatile char*>(watched.tamed->inside->buffer().data)[-1] = 'x';
        watched.wait();
      },
      "wrote outside the buffer it was given");
}

TEST(DebugEngine, ASecondSubmitOfAPendingOperationIsAMistake) {
  Watched watched;
  static_cast<void>(watched.engine->submit(watched.operation, nullptr));
  EXPECT_DEATH(static_cast<void>(watched.engine->submit(watched.operation, nullptr)),
               "started again while it was inside the engine");
  watched.wait();
}

}  // namespace
}  // namespace baton::engines
