// Shared by the tests of the ACE bridge: a proactor on the engine and mode named by BATON, or ACE's
// own, the threads of its event loop, and waiting for events.
#pragma once

#include <ace/Asynch_IO.h>
#include <ace/INET_Addr.h>
#include <ace/Message_Block.h>
#include <ace/POSIX_Asynch_IO.h>
#include <ace/Proactor.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "baton/ace/attachment.hpp"
#include "baton/ace/proactor.hpp"
#include "baton/ace/timer_queue.hpp"

namespace baton::ace::test {

/// The longest wait for something that must happen, on a machine that is busy with other things.
inline constexpr std::chrono::seconds patience{60};

/// A number that goes up, and the threads that wait for it.
class Count {
 public:
  void add(long by = 1) {
    const std::lock_guard guard{mutex_};
    value_ += by;
    changed_.notify_all();
  }
  [[nodiscard]] long value() const {
    const std::lock_guard guard{mutex_};
    return value_;
  }
  /// False when it has not reached this in time.
  [[nodiscard]] bool reaches(long value) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return value_ >= value; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  long value_ = 0;
};

/// Descriptors of this process that are open.
std::size_t open_descriptors();

/// Sockets of the system's own on the loopback: of a type, one that listens, a connected pair.
int bound_to_loopback(int type, ACE_INET_Addr& where);
int listen_on_loopback(ACE_INET_Addr& where);
struct SocketPair {
  SocketPair();
  ~SocketPair();
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  int first = -1;
  int second = -1;
};

/// A result to post, whose completion calls a function.
class PostedCall final : public ACE_POSIX_Asynch_Result {
 public:
  PostedCall(ACE_Handler& handler, std::function<void()> function)
      : ACE_POSIX_Asynch_Result(handler.proxy(), nullptr, ACE_INVALID_HANDLE, 0, 0, 0, 0),
        function_(std::move(function)) {}
  void complete(std::size_t, int, const void*, u_long) override { function_(); }

 private:
  std::function<void()> function_;
};

/// BATON_TEST_ACE=stock: the tests run on the proactor that ACE chooses by itself
/// (tests/ace/table.py).
bool on_stock();

class AceTest : public testing::Test {
 protected:
  explicit AceTest(Config config = {});
  ~AceTest() override;

  /// As many threads in the event loop as asked for; in per_thread mode as many as it has lanes.
  void run(unsigned threads = 1);
  /// Ends the event loop, and waits for the threads.
  void end();
  /// Without threads: handles events in this thread until the condition holds. False: out of time.
  bool drive(const std::function<bool()>& condition);
  [[nodiscard]] ACE_Proactor* ace() { return ace_.get(); }
  [[nodiscard]] ACE_POSIX_Proactor& implementation() {
    return dynamic_cast<ACE_POSIX_Proactor&>(*ace_->implementation());
  }
  /// What ACE's own proactor does not have. There, an exception ends the test.
  [[nodiscard]] Proactor& bridge();
  /// Destroys in the right order, which ACE does not keep: ACE's proactor with its timer thread
  /// first.
  void destroy();

 private:
  std::unique_ptr<Proactor> bridge_;
  TimerQueue timers_;
  std::unique_ptr<ACE_Proactor> ace_;
  std::vector<std::thread> threads_;
};

}  // namespace baton::ace::test
