// Statistics as text: for people, one "name value" line for each counter, in the order of the
// header; for Prometheus, the same with help and type.
#include "baton/statistics.hpp"

#include <cstdio>
#include <iterator>

namespace baton {
namespace {

enum class Type : std::uint8_t {
  counter,
  gauge,
  seconds,  // a gauge that is kept in nanoseconds
};

struct Counter {
  const char* name;
  std::uint64_t Statistics::* value;
  Type type;
  const char* metric;  // behind "baton_"
  const char* help;
};

using S = Statistics;
constexpr Counter counters[] = {
    {"started", &S::started, Type::counter, "operations_started_total", "Starts that succeeded."},
    {"completed", &S::completed, Type::counter, "operations_completed_total",
     "Handlers entered, posted work included."},
    {"completed_at_once", &S::completed_at_once, Type::counter,
     "operations_completed_at_once_total", "Operations that finished inside submit."},
    {"deferred", &S::deferred, Type::counter, "operations_deferred_total",
     "Starts that had to wait for room or for the leader."},
    {"posted", &S::posted, Type::counter, "operations_posted_total", "Posted work."},
    {"cancelled", &S::cancelled, Type::counter, "operations_cancelled_total",
     "Operations that completed as cancelled."},
    {"timed_out", &S::timed_out, Type::counter, "operations_timed_out_total",
     "Operations whose deadline passed."},
    {"refused_limit", &S::refused_limit, Type::counter, "starts_refused_total",
     "Starts refused by operations_max."},
    {"pending", &S::pending, Type::gauge, "operations_pending", "Started and deferred now."},
    {"handles", &S::handles, Type::gauge, "handles_open", "Open handles now."},
    {"waits", &S::waits, Type::counter, "waits_total", "Times an engine was waited on."},
    {"batch_total", &S::batch_total, Type::counter, "batch_operations_total",
     "Operations that those waits brought; divided by the waits, the mean batch."},
    {"batch_max", &S::batch_max, Type::gauge, "batch_operations_max",
     "The largest batch that one wait brought."},
    {"interrupts_sent", &S::interrupts_sent, Type::counter, "interrupts_sent_total",
     "Waits of a leader that were cut short."},
    {"interrupts_suppressed", &S::interrupts_suppressed, Type::counter,
     "interrupts_suppressed_total", "Interrupts not needed: the leader was awake or asked."},
    {"followers_woken", &S::followers_woken, Type::counter, "followers_woken_total",
     "Sleeping threads that were woken."},
    {"wakes_suppressed", &S::wakes_suppressed, Type::counter, "wakes_suppressed_total",
     "Wakes not needed: a woken thread was still on its way."},
    {"leader_changes", &S::leader_changes, Type::counter, "leader_changes_total",
     "Seats of leaders that were taken."},
    {"seats_taken", &S::seats_taken, Type::counter, "seats_taken_total",
     "Seats that the standby took from a leader stuck in a handler."},
    {"handler_ns_max", &S::handler_ns_max, Type::seconds, "handler_seconds_max",
     "The longest handler seen (sampled)."},
    {"slow_handlers", &S::slow_handlers, Type::counter, "slow_handlers_total",
     "Handlers that outlasted the standby's look."},
    {"exceptions", &S::exceptions, Type::counter, "handler_exceptions_total",
     "Exceptions that left a handler."},
    {"accept_backoffs", &S::accept_backoffs, Type::counter, "accept_backoffs_total",
     "Accepts that backed off for lack of descriptors or memory."},
    {"worker_jobs", &S::worker_jobs, Type::counter, "worker_jobs_total",
     "Blocking file operations given to worker threads."},
    {"stale_events", &S::stale_events, Type::counter, "stale_events_total",
     "Events for descriptors that were closed meanwhile."},
};
// Fails when a counter was added to the header and forgotten here.
static_assert(sizeof(Statistics) == std::size(counters) * sizeof(std::uint64_t));

bool fits_label_name(char c, bool first) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}

/// {service="mail",host="a"}, or nothing.
std::string labels_text(std::span<const Statistics::Label> labels) {
  std::string text;
  for (const Statistics::Label& label : labels) {
    text += text.empty() ? '{' : ',';
    if (label.name.empty()) text += '_';
    bool first = true;
    for (const char c : label.name) {
      text += fits_label_name(c, first) ? c : '_';
      first = false;
    }
    text += "=\"";
    for (const char c : label.value) {
      if (c == '\n') {
        text += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }
  if (!text.empty()) text += '}';
  return text;
}

/// Nanoseconds as seconds, exact, without the locale's decimal point.
std::string seconds_text(std::uint64_t ns) {
  constexpr std::uint64_t ns_per_second = 1'000'000'000;
  char text[40];
  std::snprintf(text, sizeof(text), "%llu.%09llu",
                static_cast<unsigned long long>(ns / ns_per_second),
                static_cast<unsigned long long>(ns % ns_per_second));
  return text;
}

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

// Our help texts contain neither backslash nor newline, which would have to be escaped.
std::string Statistics::to_prometheus(std::span<const Label> labels) const {
  const std::string suffix = labels_text(labels);
  std::string text;
  for (const Counter& counter : counters) {
    const std::string metric = std::string("baton_") + counter.metric;
    const std::uint64_t value = this->*counter.value;
    text += "# HELP " + metric + " " + counter.help + "\n";
    text += "# TYPE " + metric + (counter.type == Type::counter ? " counter\n" : " gauge\n");
    text += metric + suffix + " " +
            (counter.type == Type::seconds ? seconds_text(value) : std::to_string(value)) + "\n";
  }
  return text;
}

}  // namespace baton
