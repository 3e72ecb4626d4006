#include "ending.hpp"

#include <ace/Object_Manager.h>

#include <atomic>
#include <cstdlib>

namespace baton::ace {
namespace {

constinit std::atomic<bool> ends{false};

int tell_at_exit() noexcept {
  return std::atexit([] { ends.store(true, std::memory_order_relaxed); });
}

}  // namespace

void expect_end(bool handlers_follow) noexcept {
  static const int with_the_first_bridge = tell_at_exit();
  static_cast<void>(with_the_first_bridge);
  if (!handlers_follow) return;
  static const int before_the_first_handler = tell_at_exit();
  static_cast<void>(before_the_first_handler);
}

bool program_ends() noexcept { return ends.load(std::memory_order_relaxed); }

bool ace_ends() noexcept { return program_ends() && ACE_Object_Manager::shutting_down() != 0; }

}  // namespace baton::ace
