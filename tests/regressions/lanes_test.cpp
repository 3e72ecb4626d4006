// Bugs of lanes that threads leave and take again, as in simulated_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"
#include "schedules.hpp"

namespace baton {
namespace {

/// Four lanes, each with a read that stays pending, so that none is at rest.
class LanesAtWork {
 public:
  explicit LanesAtWork(sim::World& world) : world_(world), proactor_(config()) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      int fds[2];
      world.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      peers_.push_back(fds[1]);
      sockets_.push_back(
          StreamSocket::adopt(proactor_, fds[0], Ownership::owned, {.lane = lane}).value());
      world.check(!sockets_.back().read(reads_[lane], MutableBuffer{&bytes_[lane], 1}),
                  "a read starts");
      posts_[lane].set_handler([this, lane](Operation&) {
        --queued_;
        for (std::uint32_t other = 1; lane == 0 && other < lanes; ++other) post(other);
      });
    }
    world.scheduler().on_idle(look, this);
  }
  ~LanesAtWork() {
    world_.scheduler().on_idle(nullptr, nullptr);
    for (const int fd : peers_) sim::system().close(fd);
  }
  LanesAtWork(const LanesAtWork&) = delete;
  LanesAtWork& operator=(const LanesAtWork&) = delete;

  [[nodiscard]] Proactor& proactor() noexcept { return proactor_; }
  /// Posts to the first lane a handler that posts to all others.
  void post_to_all() { post(0); }
  [[nodiscard]] std::uint32_t queued() const noexcept { return queued_; }

 private:
  static constexpr std::uint32_t lanes = 4;
  void post(std::uint32_t lane) {
    ++queued_;
    world_.check(!proactor_.post(posts_[lane], Notify::strong, {.lane = lane}), "a post is taken");
  }
  static Config config() {
    Config config;
    config.system = &sim::system();
    config.processors = {{.engine = "simulated", .mode = Mode::per_thread, .threads = lanes}};
    return config;
  }
  static const char* look(void* self, std::int64_t until) {
    const auto& mine = *static_cast<const LanesAtWork*>(self);
    const bool long_sleep = until - mine.world_.scheduler().now() > 1'000'000;
    return long_sleep && mine.queued_ > 0 ? "every thread sleeps, and posted work is queued"
                                          : nullptr;
  }

  sim::World& world_;
  std::uint32_t queued_ = 0;
  char bytes_[lanes] = {};
  Operation reads_[lanes];
  Operation posts_[lanes];
  Proactor proactor_;
  std::vector<StreamSocket> sockets_;
  std::vector<int> peers_;
};

// A thread that led several lanes came back from handle_events() while another stood by, and took
// one lane. The other thread took one. The rest waited some milliseconds for the first thread.
TEST(LaneRegression, LanesWaitForAThreadThatIsBack) {
  test::in_many_schedules(sim::Faults::none(), [](sim::World& here) {
    LanesAtWork all{here};
    Proactor& proactor = all.proactor();
    for (int round = 0; round < 40; ++round) {
      const std::int64_t end = here.scheduler().now() + 50'000;
      {
        const test::Thread first{here, [&] {
                                   proactor.handle_events(Deadline::at_ns(end));
                                   proactor.run();
                                 }};
        const test::Thread second{here, [&] {
                                    here.scheduler().work(40'000 + here.random.below(12'000));
                                    proactor.run();
                                  }};
        here.scheduler().work(200'000);
        all.post_to_all();
        here.scheduler().work(20'000'000);
        here.check(all.queued() == 0, "every lane is led");
        proactor.stop();
      }
      proactor.restart();
    }
  });
}

}  // namespace
}  // namespace baton
