// Statistics as text: one "name value" line for each counter, in the order of the header.
#include "baton/statistics.hpp"

#include <iterator>

namespace baton {
namespace {

struct Counter {
  const char* name;
  std::uint64_t Statistics::* value;
};

constexpr Counter counters[] = {
    {"started", &Statistics::started},
    {"completed", &Statistics::completed},
    {"completed_at_once", &Statistics::completed_at_once},
    {"deferred", &Statistics::deferred},
    {"posted", &Statistics::posted},
    {"cancelled", &Statistics::cancelled},
    {"timed_out", &Statistics::timed_out},
    {"refused_limit", &Statistics::refused_limit},
    {"pending", &Statistics::pending},
    {"handles", &Statistics::handles},
    {"waits", &Statistics::waits},
    {"batch_total", &Statistics::batch_total},
    {"batch_max", &Statistics::batch_max},
    {"interrupts_sent", &Statistics::interrupts_sent},
    {"interrupts_suppressed", &Statistics::interrupts_suppressed},
    {"followers_woken", &Statistics::followers_woken},
    {"wakes_suppressed", &Statistics::wakes_suppressed},
    {"leader_changes", &Statistics::leader_changes},
    {"seats_taken", &Statistics::seats_taken},
    {"handler_ns_max", &Statistics::handler_ns_max},
    {"slow_handlers", &Statistics::slow_handlers},
    {"exceptions", &Statistics::exceptions},
    {"accept_backoffs", &Statistics::accept_backoffs},
    {"worker_jobs", &Statistics::worker_jobs},
    {"stale_events", &Statistics::stale_events},
};
// Fails when a counter was added to the header and forgotten here.
static_assert(sizeof(Statistics) == std::size(counters) * sizeof(std::uint64_t));

}  // namespace

std::string Statistics::to_string() const {
  std::string text;
  for (const Counter& counter : counters) {
    text += counter.name;
    text += ' ';
    text += std::to_string(this->*counter.value);
    text += '\n';
  }
  return text;
}

}  // namespace baton
