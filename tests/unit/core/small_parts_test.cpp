// Small parts of the core, each alone: adopted numbers, kept lanes, exceptions of tasks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "baton/error.hpp"
#include "core/adopted_numbers.hpp"
#include "core/handle_table.hpp"
#include "core/kept_lane.hpp"
#include "core/task_exceptions.hpp"
#include "os/fork.hpp"
#include "support/child.hpp"
#include "support/descriptors.hpp"

namespace {
thread_local volatile int calloc_fails = 0;
}  // namespace

extern "C" [[gnu::visibility("default")]] void* calloc(std::size_t count,
                                                       std::size_t size) noexcept {
  if (calloc_fails != 0 || (size != 0 && count > SIZE_MAX / size)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const found = std::malloc(count * size);
  return found != nullptr ? std::memset(found, 0, count * size) : nullptr;
}

namespace baton {
namespace {

class Numbers : public testing::Test {
 protected:
  Handle& handle(int fd, Ownership ownership) {
    return *table_.allocate(fd, HandleKind::stream_socket, ownership, true, 0);
  }
  AdoptedNumbers numbers{os::real_system()};

 private:
  HandleTable table_{64, os::real_system()};
};

TEST_F(Numbers, BelongToOneHandleAtATime) {
  const test::SocketPair pair;
  for (const Ownership ownership : {Ownership::owned, Ownership::borrowed}) {
    const Handle& first = handle(pair.ours.get(), ownership);
    const Handle& second = handle(pair.ours.get(), ownership);
    EXPECT_FALSE(numbers.claim(first));
    EXPECT_EQ(numbers.claim(second), errc::already_adopted);
    numbers.forget(second);  // not its own
    EXPECT_EQ(numbers.claim(second), errc::already_adopted);
    numbers.forget(first);
    EXPECT_FALSE(numbers.claim(second));
    numbers.forget(second);
  }
}

// The lender has closed it between operations, and another file has its number.
TEST_F(Numbers, OfABorrowedFileThatIsClosedAreFree) {
  test::SocketPair pair;
  const int number = pair.ours.get();
  const Handle& first = handle(number, Ownership::borrowed);
  EXPECT_FALSE(numbers.claim(first));
  const test::SocketPair other;
  ASSERT_EQ(::dup3(other.ours.get(), number, O_CLOEXEC), number);
  const Handle& second = handle(number, Ownership::borrowed);
  EXPECT_FALSE(numbers.claim(second));
  numbers.forget(first);  // not its own any more
  EXPECT_EQ(numbers.claim(first), errc::already_adopted);
}

// The system numbers sockets one after the other, so the next file's inode is a neighbour.
TEST_F(Numbers, OfNeighbouringFilesAreTwo) {
  test::SocketPair pair;
  const int number = pair.ours.get();
  constexpr int files = 15;  // each needs a handle
  for (int i = 0; i < files; ++i) {
    EXPECT_FALSE(numbers.claim(handle(number, Ownership::borrowed))) << i;
    const int next = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::dup3(next, number, O_CLOEXEC), number);
    ::close(next);
  }
}

TEST(KeptLane, IsLetGoOnceWhenItsThreadEnds) {
  int count = 0;
  const auto let_go = [](void* context) { ++*static_cast<int*>(context); };
  KeptLane lane;
  std::thread{[&] {
    EXPECT_TRUE(lane.keep(let_go, &count));
    EXPECT_TRUE(lane.keep(let_go, &count));  // as each of its turns does
    EXPECT_EQ(count, 0);
  }}.join();
  EXPECT_EQ(count, 1);
  lane.forget();  // no thread keeps it
  std::thread{[&] {
    EXPECT_TRUE(lane.keep(let_go, &count));
    lane.forget();
  }}.join();
  EXPECT_EQ(count, 1);
  std::thread{[&] { EXPECT_TRUE(lane.keep(let_go, &count)); }}.join();
  EXPECT_EQ(count, 2);
}

// glibc ends the process when it has no memory to register the destructor of a thread's object.
TEST(KeptLane, NeedsNoMemory) {
  int count = 0;
  KeptLane lane;
  std::thread{[&] {
    calloc_fails = 1;
    const bool kept = lane.keep([](void* context) { ++*static_cast<int*>(context); }, &count);
    calloc_fails = 0;
    EXPECT_TRUE(kept);
  }}.join();
  EXPECT_EQ(count, 1);
}

// In a program of its own, because the first lane takes the key.
TEST(KeptLane, IsRefusedToAThreadWhoseEndCannotBeNoticed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        pthread_key_t key;
        while (::pthread_key_create(&key, nullptr) == 0) continue;
        KeptLane lane;
        ::_exit(lane.keep([](void*) {}, nullptr) ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

// A thread's last calls may come after the destructors of its objects.
TEST(KeptLane, IsLetGoByAThreadThatComesBackAtItsEnd) {
  static int count;
  static KeptLane lane;
  count = 0;
  std::thread{[] {
    struct Last {
      ~Last() {
        EXPECT_TRUE(lane.keep([](void*) { ++count; }, nullptr));
      }
    };
    static thread_local const Last last;
    static_cast<void>(&last);
    KeptLane other;
    EXPECT_TRUE(other.keep([](void*) {}, nullptr));
    other.forget();
  }}.join();
  EXPECT_EQ(count, 1);
  lane.forget();  // in no list any more
}

// Before main(), so exit() calls it after the end of the thread's list.
bool ends_the_child = false;
[[maybe_unused]] const int registered = std::atexit([] {
  if (ends_the_child) ::_exit(0);
});

// The lane is the parent's.
TEST(KeptLane, IsNotLetGoInAForkedChild) {
  KeptLane lane;
  pid_t child = -1;
  std::thread{[&] {
    EXPECT_TRUE(lane.keep([](void*) { ::_exit(1); }, nullptr));
    child = ::fork();
    if (child == 0) {
      ends_the_child = true;
      std::exit(2);
    }
    lane.forget();
  }}.join();
  EXPECT_EQ(test::status_of(child), 0);
}

TEST(TaskExceptions, KeepTheirHandlerInAChild) {
  int told = 0;
  TaskExceptions parents{os::real_system()};
  parents.set_handler([&](const std::exception_ptr&) { ++told; });
  TaskExceptions childs{os::real_system()};
  childs.take_over_after_fork(parents);
  childs.tell(std::make_exception_ptr(std::runtime_error{"a task's"}));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(childs.count(), 1U);
}

}  // namespace
}  // namespace baton
