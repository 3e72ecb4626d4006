// One thread waits and three change its set, on every kind of strategy. Every byte must be
// reported: a lost report leaves a thread without its byte, and the test hangs.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "demux/demultiplexer.hpp"
#include "fake_strategies.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {
namespace {

using demux::Demultiplexer;
using demux::Watch;

// The client's side of one descriptor: a lock, under which it watches, drops and handles reports,
// and whether it waits for readiness.
struct Client {
  std::mutex mutex;
  std::condition_variable told;
  bool attached = false;
  bool wanted = false;
  bool ready = false;
};

class Stress {
 public:
  Stress(Demultiplexer& demux, std::uint32_t count) : demux_(demux), clients_(count) {}

  void wait_until_stopped() {
    std::array<Report, 8> reports;
    bool interrupted = false;
    while (!stop_.load()) {
      const std::size_t count = demux_.wait(reports, Deadline::never(), interrupted);
      for (std::size_t i = 0; i < count; ++i) handle(reports[i].token.index);
    }
  }
  void stop() {
    stop_ = true;
    demux_.interrupt();
  }

  // Opens a descriptor, reads some bytes, closes it.
  void life(std::uint32_t index, int bytes) {
    const SocketPair pair;
    const Ownership ownership = index % 2 == 0 ? Ownership::owned : Ownership::borrowed;
    Client& client = clients_[index];
    {
      const std::scoped_lock lock(client.mutex);
      ASSERT_FALSE(demux_.attach(index, pair.ours.get(), ownership));
      client.attached = true;
    }
    for (int i = 0; i < bytes; ++i) {
      std::unique_lock lock(client.mutex);
      char byte = 0;
      for (bool sent = false; ::read(pair.ours.get(), &byte, 1) != 1;) {
        ASSERT_EQ(errno, EAGAIN);
        client.wanted = true;
        client.ready = false;
        std::error_code error;
        const Watch answer = demux_.watch(index, Interest::in, error);
        ASSERT_NE(answer, Watch::failed) << error.message();
        if (!sent) {
          lock.unlock();
          pair.make_readable();
          sent = true;
          lock.lock();
        }
        if (answer == Watch::armed) client.told.wait(lock, [&] { return client.ready; });
        client.wanted = false;
      }
    }
    const std::scoped_lock lock(client.mutex);
    demux_.detach(index);
    client.attached = false;
  }

 private:
  void handle(std::uint32_t index) {
    Client& client = clients_[index];
    const std::scoped_lock lock(client.mutex);
    if (!client.attached) return;
    if (client.wanted) {
      client.ready = true;
      client.told.notify_one();
    } else {
      demux_.drop(index, Interest::in);
    }
  }

  Demultiplexer& demux_;
  std::vector<Client> clients_;
  std::atomic<bool> stop_{false};
};

class demux_stress : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static auto opened(std::uint32_t descriptors) {
    add_fake_strategies();
    demux::Options options;
    options.wait = std::get<0>(GetParam());
    options.interrupt = std::get<1>(GetParam());
    options.one_thread_waits = true;
    options.descriptors_max = descriptors;
    return Demultiplexer::open(options);
  }
};
INSTANTIATE_TEST_SUITE_P(, demux_stress,
                         testing::Combine(testing::Values("epoll", "poll", "select", "rt_signals",
                                                          "fake_edge", "fake_one_shot"),
                                          testing::Values("eventfd", "pipe", "signal")),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param)) + "_" +
                                  std::get<1>(parameter.param);
                         });

TEST_P(demux_stress, every_byte_is_reported) {
  constexpr std::uint32_t threads = 3;
  constexpr int lives = 60;
  constexpr int bytes = 10;
  auto demux = opened(threads);
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;

  Stress stress(**demux, threads);
  std::thread waiter([&] { stress.wait_until_stopped(); });
  std::vector<std::thread> workers;
  for (std::uint32_t index = 0; index < threads; ++index) {
    workers.emplace_back([&stress, index] {
      for (int i = 0; i < lives; ++i) stress.life(index, bytes);
    });
  }
  for (std::thread& worker : workers) worker.join();
  stress.stop();
  waiter.join();
}

// Two directions of one descriptor, watched and dropped by two threads at once.
void watch_two_directions(Demultiplexer& demux, Ownership ownership) {
  const SocketPair pair;
  ASSERT_FALSE(demux.attach(0, pair.ours.get(), ownership));
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    std::array<Report, 8> reports;
    bool interrupted = false;
    while (!stop) demux.wait(reports, Deadline::never(), interrupted);
  });
  const auto body = [&](Interest interest) {
    for (int i = 0; i < 500; ++i) {
      std::error_code error;
      EXPECT_NE(demux.watch(0, interest, error), Watch::failed);
      demux.trying(0, interest);
      demux.drop(0, interest);
    }
  };
  std::thread in(body, Interest::in);
  std::thread out(body, Interest::out);
  in.join();
  out.join();
  stop = true;
  demux.interrupt();
  waiter.join();
  demux.detach(0);
}

TEST_P(demux_stress, two_directions_at_once) {
  auto demux = opened(4);
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  watch_two_directions(**demux, Ownership::owned);
  watch_two_directions(**demux, Ownership::borrowed);
}

// The owner of a borrowed descriptor closes it when nothing is watched. A wait that still has it
// would keep it open.
TEST_P(demux_stress, a_descriptor_let_go_is_closed_by_its_owner) {
  auto demux = opened(4);
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  std::atomic<bool> stop{false};
  WatchedThread waiter([&] {
    std::array<Report, 8> reports;
    bool interrupted = false;
    while (!stop) (*demux)->wait(reports, Deadline::never(), interrupted);
  });
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    SocketPair pair;
    ASSERT_FALSE((*demux)->attach(0, pair.ours.get(), Ownership::borrowed));
    std::error_code error;
    EXPECT_NE((*demux)->watch(0, Interest::in, error), Watch::failed);
    waiter.until_asleep([] { return true; });
    (*demux)->let_go(0, Interest::in);
    pair.ours.close();
    pollfd peer{.fd = pair.peer.get(), .events = POLLIN, .revents = 0};
    const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(patience());
    EXPECT_EQ(::poll(&peer, 1, static_cast<int>(longest.count())), 1);
    (*demux)->detach(0);
  }
  stop = true;
  (*demux)->interrupt();
  waiter.join();
}

}  // namespace
}  // namespace baton::test
