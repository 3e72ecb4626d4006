// Rounds: how a reactor is opened, driven and ended.
#include "simulation/reactor_program.hpp"

#include <algorithm>
#include <stdexcept>

#include "simulation/epoll_forms.hpp"

namespace baton::tools::simulation {

namespace {
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t end_most_ns = 30'000 * ms;
/// The reactor carries out the answer `drop` when its thread continues, after at most this time.
constexpr std::int64_t answers_most_ns = 20 * ms;
/// The time without events, and the number of system calls that are allowed in it: a wait may be
/// woken in vain, or interrupted, several times in a row, but not for ever.
constexpr std::int64_t idle_ns = 50 * ms;
constexpr std::uint64_t idle_waits_most = 400;
}  // namespace

void ReactorProgram::run(sim::World& world, const ProgramOptions& options) {
  add_epoll_forms();
  world_ = &world;
  options_ = options;
  done_ = 0;
  std::uint32_t failures = 0;
  while (done_ < options.operations && failures < 8) {
    const auto left = static_cast<std::uint32_t>(options.operations - done_);
    // Short rounds test beginnings and ends, long ones the time between.
    const std::uint32_t most = world.random.coin() ? 400U : 4'000U;
    if (!round(std::min(left, 20 + world.random.below(most)))) ++failures;
  }
}

bool ReactorProgram::round(std::uint32_t operations) {
  sim::Random& random = world_->random;
  watched_.clear();
  open_.clear();
  places_ = {};
  to_close_.clear();
  for (auto& each : told_) each = std::make_unique<Told>(*this);
  works_.clear();
  last_work_ = {};
  alarms_.clear();
  told_due_ = told_begun_ = told_accepted_ = 0;
  in_run_ = in_handler_ = loud_calls_ = quiet_calls_ = waiting_removers_ = changing_ = 0;
  about_ = nullptr;
  calls_ = calls_seen_ = 0;
  neglected_since_ = lingers_since_ = unheard_since_ = 0;
  wake_asked_ = quiet_ = closing_ = leave_ = false;
  round_end_ = done_ + operations;
  slow_ = random.below(3) == 0 ? 1U << random.below(12) : 0;
  throwing_ = random.below(4) == 0 ? 1U << random.below(9) : 0;
  ending_ = random.below(4) == 0 ? 1U << random.below(10) : 0;
  partly_ = random.below(3) == 0 ? 0 : 1U << (8 + random.below(8));
  draw_mixture();
  if (!open_reactor()) return false;
  world_->scheduler().on_idle(look_idle, this);

  std::vector<std::uint32_t> threads;
  threads.reserve(threads_);
  for (std::uint32_t i = 0; i < threads_; ++i) {
    threads.push_back(world_->scheduler().start(enter_thread, this));
  }
  drive();
  quiet_ = true;
  const bool to_rest = random.below(4) != 0;
  if (to_rest) come_to_rest();
  leave_ = true;
  // A restart that another thread has begun would undo the end.
  wait_until([&] { return changing_ == 0; }, "an end or a restart never returns");
  reactor_->end();
  for (const std::uint32_t thread : threads) world_->scheduler().join(thread);
  if (to_rest && random.coin()) {
    while (!open_.empty()) remove(*open_.back(), true);
  }
  closing_ = true;
  const std::uint64_t notifications = reactor_->statistics().notifications;
  check(notifications == told_accepted_, "the statistics count other notifications");
  delete reactor_;
  reactor_ = nullptr;
  world_->scheduler().on_idle(nullptr, nullptr);
  check_books();
  return true;
}

// -- opening --------------------------------------------------------------------------------------

bool ReactorProgram::open_reactor() {
  sim::Random& random = world_->random;
  const sim::Faults& faults = world_->faults();
  threads_ = options_.threads != 0 ? options_.threads : 1 + random.below(4);
  constexpr Drive drives[] = {Drive::run, Drive::run, Drive::events, Drive::visits};
  drive_ = random.one_of(drives);
  glances_ = drive_ == Drive::visits && random.coin();
  vain_glances_ = 0;
  constexpr const char* waits[] = {"epoll",    "epoll",        "poll",          "select",
                                   "sim_edge", "sim_one_shot", "sim_one_thread"};
  constexpr const char* interrupts[] = {"eventfd", "pipe"};
  config_ = {};
  config_.wait = random.one_of(waits);
  config_.interrupt = random.one_of(interrupts);
  config_.handles_max = random.below(6) == 0 ? 2 + random.below(8) : 64;
  config_.notifications_max = random.below(3) == 0 ? 1 + random.below(8) : 64;
  config_.timers_max = random.below(4) == 0 ? 1 + random.below(8) : 64;
  config_.understudy_look_us = 25U << random.below(7);
  ReactorTuning& tuning = config_.tuning;
  if (random.below(3) == 0) tuning.suspension = ReactorTuning::Suspension::eager;
  if (random.below(3) == 0) tuning.resumption = ReactorTuning::Resumption::immediate;
  tuning.keep_lead = random.below(3) != 0;
  if (!tuning.keep_lead && random.below(3) == 0) {
    tuning.token_line = true;
    if (random.coin()) tuning.resumption = ReactorTuning::Resumption::token;
    tuning.suspend_notifier = random.coin();
  }
  constexpr std::uint32_t reports[] = {1, 2, 7, limits::reports_max, limits::reports_max};
  tuning.reports_max = random.one_of(reports);
  watch_fails_ = random.below(4) == 0 ? 1U << (4 + random.below(9)) : 0;
  config_.system = &reactor_system(0);

  // The longest interval of the standby's looks, and the next look, which comes soon; late reports
  // of readiness, and milliseconds that are rounded up.
  far_ns_ = 4 * ms + (rarest_look + 2) * 1'000 * std::int64_t{config_.understudy_look_us};
  auto opened = Reactor::open(config_);
  if (!opened) {
    const bool scarce = opened.error().code == std::errc::too_many_files_open ||
                        opened.error().code == errc::engine_unavailable;
    if (!scarce) world_->violated("a reactor does not open: " + opened.error().reason);
    return false;
  }
  reactor_ = opened->release();
  config_.system = &reactor_system(watch_fails_);
  // Turns are counted if the reactor decides the order: with one thread, and a system that reports
  // all ready descriptors in time, or is polled until it has.
  const bool tells_all = tuning.reports_max > places_max || config_.wait == "sim_edge" ||
                         config_.wait == "sim_one_thread";
  counts_turns_ = threads_ == 1 && tells_all && faults.interrupted == 0 && faults.late_ready == 0;
  no_vain_call_ =
      threads_ == 1 && reactor_->info().trigger == Trigger::level && faults.spurious_ready == 0;
  return true;
}

// -- threads --------------------------------------------------------------------------------------

void ReactorProgram::enter_thread(void* self) { static_cast<ReactorProgram*>(self)->thread_loop(); }

void ReactorProgram::thread_loop() {
  while (!leave_) {
    ++in_run_;
    try {
      turn_once();
    } catch (const std::runtime_error&) {
      // A handler's, as expected.
    }
    --in_run_;
    wake_asked_ = false;
    if (leave_ || !reactor_->ended()) continue;
    // The other threads return from the same end. A second end could be undone by their restarts.
    ++changing_;
    if (world_->random.below(8) == 0) {
      reactor_->end();
    } else {
      reactor_->restart();
    }
    --changing_;
  }
}

void ReactorProgram::turn_once() {
  sim::Random& random = world_->random;
  const auto ran = [&](const Result<std::size_t>& count) {
    check(count.has_value(), "a thread is refused");
    return *count;
  };
  if (drive_ == Drive::run) return static_cast<void>(ran(reactor_->run()));
  if (drive_ == Drive::events) return static_cast<void>(ran(reactor_->handle_events()));
  if (glances_) {
    --in_run_;
    world_->scheduler().work(random.between(1'000, 2 * ms));
    ++in_run_;
    return glance();
  }
  if (random.below(3) == 0) {  // the other threads manage without those that are away
    --in_run_;
    world_->scheduler().work(random.between(0, (10 * ms) << random.below(3)));
    ++in_run_;
  }
  const Deadline soon = Deadline::at_ns(now() + random.between(0, 3 * ms));
  switch (random.below(4)) {
    case 0:
      check(ran(reactor_->handle_one(soon)) <= 1, "handle_one has called more than one handler");
      return;
    case 1:
      ran(reactor_->handle_events(Deadline::immediately()));
      --in_run_;
      world_->scheduler().work(5'000);
      ++in_run_;
      return;
    default:
      ran(reactor_->handle_events(soon));
  }
}

// A visit that does not wait. Its thread never sleeps in the reactor, so look_idle does not see it
// neglect what waits. The first visits may bring an interrupt only, or meet a drawn fault.
void ReactorProgram::glance() {
  constexpr std::uint32_t vain_most = 8;
  const auto something_waits = [&] {
    return in_run_ == 1 && !wake_asked_ && !quiet_ && !reactor_->ended() && what_waits() != nullptr;
  };
  const bool waited = something_waits();
  const std::uint64_t calls = calls_;
  check(reactor_->handle_events(Deadline::immediately()).has_value(), "a thread is refused");
  if (!waited || calls_ != calls || !something_waits()) {
    vain_glances_ = 0;
  } else if (++vain_glances_ == 1) {
    vain_since_ = now();
  } else if (vain_glances_ > vain_most && now() - vain_since_ > std::max(20 * ms, far_ns_)) {
    wrong(std::string{what_waits()} + ": threads that do not wait pass by");
  }
}

// -- the driver: a thread outside -----------------------------------------------------------------

void ReactorProgram::drive() {
  sim::Random& random = world_->random;
  // In long pauses the other threads have only their own work: see look_idle.
  const std::int64_t pause = std::int64_t{1000} << random.below(14);
  const std::uint32_t at_once = 1 + random.below(6);
  while (done_ < round_end_) {
    for (std::uint32_t i = 0; i < at_once && done_ < round_end_; ++i) act(nullptr);
    world_->scheduler().work(random.between(1, pause));
  }
}

template <class Done>
void ReactorProgram::wait_until(Done&& done, const char* what) {
  const std::int64_t end = now() + end_most_ns;
  while (!done()) {
    if (now() > end) wrong(what);
    world_->scheduler().sleep(this, now() + 10 * ms);
  }
}

// Nothing new is started. Checks that all events are reported, and that the reactor is idle then.
void ReactorProgram::come_to_rest() {
  reactor_system(0);
  wait_until([&] { return changing_ == 0 && !reactor_->ended(); }, "a restart never ends");
  wait_until([&] { return loud_calls_ == 0; }, "a handler never returns");
  world_->scheduler().work(answers_most_ns);
  for (const auto& alarm : alarms_) {
    if (!alarm->live || alarm->interval == 0) continue;
    if (reactor_->cancel(alarm->key)) alarm->cancelled = true;
    alarm->live = false;
    alarm->late_call = alarm->inside == 0;
  }
  // By index: a registration that ends leaves the list of open ones, not this one.
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& one = *watched_[i];
    if (one.registered && !one.busy && !one.ending) change(one, Interest::in);
    if (one.registered && !one.busy && !one.ending && one.suspended) resume(one);
  }
  wait_until([&] { return what_waits() == nullptr && in_handler_ == 0; },
             "an event is never reported: a readiness event or a wake-up was lost");
  wait_until(
      [&] {
        return std::ranges::none_of(alarms_,
                                    [](const auto& one) { return one->live && !one->cancelled; });
      },
      "a timer never fires");
  // A notifier that is suspended and resumed by notifications is never idle: see ReactorTuning.
  if (drive_ != Drive::visits && !config_.tuning.suspend_notifier) look_at_idleness();
}

void ReactorProgram::look_at_idleness() {
  const std::uint64_t calls = calls_;
  const std::uint64_t waits = reactor_->statistics().waits;
  world_->scheduler().work(idle_ns);
  // If the end of a connection arrived late, the reactor was not idle.
  if (calls_ != calls) return;
  const std::uint64_t more = reactor_->statistics().waits - waits;
  check(more <= idle_waits_most, "an idle reactor spins");
}

void ReactorProgram::check_books() {
  for (const auto& one : watched_) {
    check(!one->registered, "a registration outlives its reactor");
    check(one.use_count() == 1, "a reactor that is gone still keeps a handler");
  }
  for (const auto& one : alarms_) {
    check(one.use_count() == 1, "a reactor that is gone still keeps the handler of a timer");
  }
  close_later_ones();
  check(world_->kernel().open_descriptors() == 0, "a descriptor was never closed");
}

// -- missing calls --------------------------------------------------------------------------------

bool ReactorProgram::readable(const Watched& one) const {
  const sim::Node* const node = world_->kernel().find(one.fd);
  constexpr std::uint32_t told = sim::Kernel::readable | sim::Kernel::broken | sim::Kernel::hung_up;
  return node != nullptr && (sim::Kernel::ready(*node) & told) != 0;
}

bool ReactorProgram::writable(const Watched& one) const {
  const sim::Node* const node = world_->kernel().find(one.fd);
  constexpr std::uint32_t told = sim::Kernel::writable | sim::Kernel::broken | sim::Kernel::hung_up;
  return node != nullptr && (sim::Kernel::ready(*node) & told) != 0;
}

bool ReactorProgram::waits_for_input(const Watched& one) const {
  return one.registered && !one.busy && one.inside == 0 && any(one.wanted() & Interest::in) &&
         readable(one);
}

const char* ReactorProgram::what_waits() const {
  if (told_due_ != 0) return "a notification waits";
  for (const Watched* one : open_) {
    if (one->busy || one->ending || one->inside != 0) continue;
    if (any(one->to_be_told)) return "a notification of a registration is not delivered";
    if (waits_for_input(*one)) return "a descriptor is readable, but its handler is not called";
    if (any(one->wanted() & Interest::out) && writable(*one)) {
      return "a descriptor is writable, and its handler is not called";
    }
  }
  for (const auto& alarm : alarms_) {
    if (!alarm->live || alarm->cancelled || alarm->inside != 0) continue;
    // Missed periods are skipped.
    const std::int64_t due =
        alarm->last != 0 ? std::max(alarm->last, alarm->returned) + alarm->interval : alarm->first;
    if (due < now()) return "a timer is overdue";
  }
  return nullptr;
}

// Called when every thread sleeps and the next event is far away: checks that there is no work.
const char* ReactorProgram::look_idle(void* argument, std::int64_t until) {
  ReactorProgram& self = *static_cast<ReactorProgram*>(argument);
  if (const char* const missed = self.missed(until)) self.wrong(missed);
  return nullptr;
}

const char* ReactorProgram::missed(std::int64_t until) {
  if (until == sim::Scheduler::never) return "every thread sleeps for ever: a wake-up was lost";
  if (reactor_ == nullptr || closing_) return nullptr;
  if (world_->scheduler().was_disturbed()) {
    neglected_since_ = lingers_since_ = unheard_since_ = 0;
  }
  const auto lasts = [&](bool fact, std::int64_t& since) {
    if (!fact) {
      since = 0;
    } else if (since == 0) {
      since = now();
    }
    return fact && until - since > far_ns_;
  };
  const bool free_thread = in_run_ > in_handler_;
  if (lasts(reactor_->ended() && free_thread, lingers_since_)) {
    return "ended, but a thread stays inside";
  }
  // The woken thread may be in a handler first.
  if (lasts(wake_asked_ && drive_ == Drive::events && in_run_ > 0 && in_handler_ == 0,
            unheard_since_)) {
    return "a wake-up was requested, but no thread returns";
  }
  if (calls_ != calls_seen_) neglected_since_ = 0;
  calls_seen_ = calls_;
  const char* const waits = free_thread && !reactor_->ended() ? what_waits() : nullptr;
  return lasts(waits != nullptr, neglected_since_) ? waits : nullptr;
}

// -- reports --------------------------------------------------------------------------------------

void ReactorProgram::wrong(const std::string& what) {
  const ReactorTuning& tuning = config_.tuning;
  std::string text = what + "\n" + config_.wait + ", " + config_.interrupt + ", " +
                     std::to_string(threads_) + " threads that " +
                     (drive_ == Drive::run      ? "run"
                      : drive_ == Drive::events ? "handle events"
                      : glances_                ? "look and go"
                                                : "come and go") +
                     ", reports " + std::to_string(tuning.reports_max) + ", suspension " +
                     (tuning.suspension == ReactorTuning::Suspension::eager ? "eager" : "lazy") +
                     ", resumption " +
                     (tuning.resumption == ReactorTuning::Resumption::late    ? "late"
                      : tuning.resumption == ReactorTuning::Resumption::token ? "by the token"
                                                                              : "immediate") +
                     (tuning.keep_lead ? ", keeps the lead" : "") +
                     (tuning.token_line ? ", a line for the token" : "");
  text += "\n" + std::to_string(in_run_) + " in the loop, " + std::to_string(in_handler_) +
          " of them in handlers, " + std::to_string(told_due_) + " notifications due";
  if (about_ != nullptr) text += ", about registration " + std::to_string(about_->number);
  for (const Watched* one : open_) {
    text += "\n  registration " + std::to_string(one->number) + " of descriptor " +
            std::to_string(one->fd) + ", interest " +
            std::to_string(static_cast<int>(one->interest));
    if (one->suspended) text += ", suspended";
    if (one->ending) text += ", ending";
    if (one->inside != 0) text += ", in a call";
    if (one->busy) text += ", being changed";
    if (any(one->to_be_told)) text += ", to be told";
    if (readable(*one)) text += ", readable";
  }
  world_->violated(text);
}

}  // namespace baton::tools::simulation
