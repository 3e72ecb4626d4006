// A proactor ends only when other threads have left its start() and post(): what they started may
// be complete, and the program done with the proactor, before they return. (A task of two proactors
// is brought back like this, and its program cannot know of the thread.)
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "baton/proactor.hpp"
#include "os/system.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

// The visitor is held in its last system call until the program is inside the destructor.
struct Scene {
  std::atomic<bool> waits{false};  // the driving thread
  std::atomic<bool> held{false};
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};
};
std::unique_ptr<Scene> scene;
thread_local bool visits = false;

void until(const std::atomic<bool>& flag) {
  const Deadline end = at_last();
  while (!flag && Deadline::after(0ns) < end) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(flag);
}

void hold_the_visitor() {
  if (scene->held.exchange(true)) return;
  until(scene->ending);
  // The destructor has time to end, if it does not wait.
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(scene->ended) << "the proactor is gone, and its visitor is not";
}

const os::System& system_of_the_scene() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
      if (timeout != 0) scene->waits = true;
      return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    };
    made.futex_wait = [](std::atomic<std::uint32_t>* word, std::uint32_t expected,
                         std::int64_t deadline_ns) {
      if (!visits) scene->waits = true;
      return os::real_system().futex_wait(word, expected, deadline_ns);
    };
    // One of these two wakes the driving thread, after all locks.
    made.write = [](int fd, const void* buffer, size_t size) {
      const ssize_t written = os::real_system().write(fd, buffer, size);
      if (visits) hold_the_visitor();
      return written;
    };
    made.futex_wake = [](std::atomic<std::uint32_t>* word, std::uint32_t count) {
      os::real_system().futex_wake(word, count);
      if (visits) hold_the_visitor();
    };
    return made;
  }();
  return table;
}

class Visitors : public testing::TestWithParam<const char*> {
 protected:
  void end_beside_a_visitor(const std::function<std::error_code(Proactor&, Operation&)>& start) {
    scene = std::make_unique<Scene>();
    Config config = Config::parse(GetParam(), Config{}).value();
    config.system = &system_of_the_scene();
    auto proactor = std::make_unique<Proactor>(config);
    Operation operation;
    bool ran = false;
    operation.set_handler([&ran](Operation&) { ran = true; });
    std::thread visitor{[&] {
      visits = true;
      until(scene->waits);
      EXPECT_FALSE(start(*proactor, operation));
    }};
    while (!ran && Deadline::after(0ns) < at_last()) proactor->handle_events(at_last());
    EXPECT_TRUE(ran);
    scene->ending = true;
    proactor.reset();
    scene->ended = true;
    visitor.join();
    EXPECT_TRUE(scene->held);
  }
};

TEST_P(Visitors, who_post_are_waited_for) {
  end_beside_a_visitor(
      [](Proactor& proactor, Operation& operation) { return proactor.post(operation); });
}

TEST_P(Visitors, who_start_are_waited_for) {
  end_beside_a_visitor([](Proactor& proactor, Operation& operation) {
    return proactor.start_timer(operation, Deadline::after(1ms));
  });
}

INSTANTIATE_TEST_SUITE_P(every, Visitors,
                         testing::Values("engine=emulated,wait=epoll,mode=shared",
                                         "engine=emulated,wait=epoll,mode=per_thread,threads=1"),
                         [](const auto& info) {
                           return info.index == 0 ? "shared" : "per_thread";
                         });

}  // namespace
}  // namespace baton::test
