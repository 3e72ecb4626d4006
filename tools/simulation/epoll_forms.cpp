// Each form is the library's own strategy over epoll, with other flags in the system call and other
// declared facts.
#include "simulation/epoll_forms.hpp"

#include <errno.h>
#include <sys/epoll.h>

#include <utility>

#include "baton/registry.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/registry.hpp"
#include "sim/world.hpp"

namespace baton::tools::simulation {
namespace {

// The state of the round and of the current call. Globals, because the table's entries are plain
// functions; all threads of the machine are fibers of one thread.
thread_local std::uint32_t failing = 0;
thread_local std::uint32_t flags = 0;

int control(int epoll, int operation, int fd, epoll_event* event) {
  if (operation != EPOLL_CTL_DEL) event->events |= flags;
  // A change of a member of the set needs no memory.
  if (operation == EPOLL_CTL_ADD && sim::World::current()->random.chance(failing)) {
    errno = ENOMEM;
    return -1;
  }
  return sim::system().epoll_ctl(epoll, operation, fd, event);
}

class EpollForm final : public WaitStrategy {
 public:
  EpollForm(std::unique_ptr<WaitStrategy> epoll, const WaitStrategyInfo& facts,
            std::uint32_t more) noexcept
      : epoll_(std::move(epoll)), facts_(facts), flags_(more) {}

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts_; }
  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    const WithFlags here(flags_);
    return epoll_->add(fd, interest, token);
  }
  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    const WithFlags here(flags_);
    return epoll_->modify(fd, interest, token);
  }
  std::error_code remove(NativeHandle fd) noexcept override { return epoll_->remove(fd); }
  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    return epoll_->wait(reports, deadline, unblocked);
  }

 private:
  /// The call reads it before it yields to another thread.
  struct WithFlags {
    explicit WithFlags(std::uint32_t more) noexcept { flags = more; }
    ~WithFlags() { flags = 0; }
    WithFlags(const WithFlags&) = delete;
    WithFlags& operator=(const WithFlags&) = delete;
  };

  const std::unique_ptr<WaitStrategy> epoll_;
  const WaitStrategyInfo facts_;
  const std::uint32_t flags_;
};

void add(const WaitStrategyInfo& facts, std::uint32_t more) {
  const auto factory =
      [facts, more](const WaitOptions& options) -> Result<std::unique_ptr<WaitStrategy>, Failure> {
    auto epoll = demux::find_wait_strategy("epoll")->factory(options);
    if (!epoll) return unexpected{epoll.error()};
    return std::unique_ptr<WaitStrategy>(new EpollForm(std::move(*epoll), facts, more));
  };
  static_cast<void>(registry().add(std::string(facts.name), WaitStrategyFactory(factory),
                                   "for the simulation of the reactor"));
}

}  // namespace

void add_epoll_forms() {
  static const bool added = [] {
    add({.name = "sim_edge", .trigger = Trigger::edge, .changes_during_wait = true}, EPOLLET);
    add({.name = "sim_one_shot", .trigger = Trigger::one_shot, .changes_during_wait = true},
        EPOLLONESHOT);
    add({.name = "sim_one_thread",
         .trigger = Trigger::edge,
         .any_thread_waits = false,
         .hands_over = true},
        EPOLLET);
    return true;
  }();
  static_cast<void>(added);
}

const os::System& reactor_system(std::uint32_t watch_fails) noexcept {
  failing = watch_fails;
  static const os::System table = [] {
    os::System made = sim::system();
    made.epoll_ctl = control;
    return made;
  }();
  return table;
}

}  // namespace baton::tools::simulation
