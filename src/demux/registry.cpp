// The only list of wait and interrupt strategies, in order of preference, with the reason. A new
// strategy adds the declaration of its factory and its line here, and its file to CMakeLists.txt.
#include "demux/registry.hpp"

#include <utility>

#include "os/process_mutex.hpp"
#include "os/system.hpp"

namespace baton::demux {

Result<std::unique_ptr<WaitStrategy>, Failure> open_epoll(const WaitOptions& options);
Result<std::unique_ptr<WaitStrategy>, Failure> open_poll(const WaitOptions& options);
Result<std::unique_ptr<WaitStrategy>, Failure> open_select(const WaitOptions& options);
Result<std::unique_ptr<WaitStrategy>, Failure> open_rt_signals(const WaitOptions& options);

Result<std::unique_ptr<InterruptStrategy>, Failure> open_eventfd(const InterruptOptions& options);
Result<std::unique_ptr<InterruptStrategy>, Failure> open_pipe(const InterruptOptions& options);
Result<std::unique_ptr<InterruptStrategy>, Failure> open_signal(const InterruptOptions& options);

std::vector<RegistryEntry<WaitStrategyFactory>> builtin_wait_strategies() {
  return {
      {"epoll", open_epoll, "its cost depends on the number of events, not of descriptors"},
      {"poll", open_poll, "any number of descriptors, but each wait looks at all of them"},
      {"select", open_select,
       "exists everywhere, but takes no descriptor from FD_SETSIZE (1024) on"},
      {"rt_signals", open_rt_signals,
       "like epoll, without its set; needs one thread that waits and two signal numbers"},
  };
}

std::vector<RegistryEntry<InterruptStrategyFactory>> builtin_interrupt_strategies() {
  return {
      {"eventfd", open_eventfd, "one descriptor, one counter: never full, drained by one read"},
      {"pipe", open_pipe, "exists everywhere; takes two descriptors"},
      {"signal", open_signal, "takes no descriptor, but a signal number of the program"},
  };
}

namespace {

bool well_formed(std::string_view name) {
  return !name.empty() && name != "auto" &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// Guarded by os::process_mutex, which the functions below take. It guards the construction, too.
template <class Factory>
class List {
 public:
  explicit List(std::vector<RegistryEntry<Factory>> builtin) : entries_(std::move(builtin)) {}

  std::vector<RegistryEntry<Factory>> copy() { return entries_; }
  std::optional<RegistryEntry<Factory>> find(std::string_view name) {
    for (const auto& entry : entries_) {
      if (entry.name == name) return entry;
    }
    return std::nullopt;
  }
  std::error_code add(RegistryEntry<Factory> entry) {
    if (!well_formed(entry.name) || !entry.factory) return errc::bad_configuration;
    for (const auto& present : entries_) {
      if (present.name == entry.name) return errc::bad_configuration;
    }
    entries_.push_back(std::move(entry));
    return {};
  }

 private:
  std::vector<RegistryEntry<Factory>> entries_;
};

// Made at first use and never destroyed: a program may open a proactor in the destructor of a
// static object.
List<WaitStrategyFactory>& wait_list() {
  static auto& list = *new List<WaitStrategyFactory>(builtin_wait_strategies());
  return list;
}
List<InterruptStrategyFactory>& interrupt_list() {
  static auto& list = *new List<InterruptStrategyFactory>(builtin_interrupt_strategies());
  return list;
}

}  // namespace

std::vector<RegistryEntry<WaitStrategyFactory>> wait_strategies() {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return wait_list().copy();
}
std::vector<RegistryEntry<InterruptStrategyFactory>> interrupt_strategies() {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return interrupt_list().copy();
}

std::optional<RegistryEntry<WaitStrategyFactory>> find_wait_strategy(std::string_view name) {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return wait_list().find(name);
}
std::optional<RegistryEntry<InterruptStrategyFactory>> find_interrupt_strategy(
    std::string_view name) {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return interrupt_list().find(name);
}

std::error_code add_wait_strategy(RegistryEntry<WaitStrategyFactory> entry) {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return wait_list().add(std::move(entry));
}
std::error_code add_interrupt_strategy(RegistryEntry<InterruptStrategyFactory> entry) {
  const os::LockGuard lock{os::process_mutex, os::real_system()};
  return interrupt_list().add(std::move(entry));
}

}  // namespace baton::demux
