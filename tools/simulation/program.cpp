// Rounds: how a proactor is opened, driven and ended.
#include "simulation/program.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace baton::tools::simulation {

namespace {
constexpr std::size_t slots_max = 160;
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t end_most_ns = 30'000 * ms;
/// The longest time from a stop until the last thread leaves, without handlers and slow calls.
constexpr std::int64_t leave_most_ns = ms / 10;
/// The interval of looks of a wait over several engines, one of them without a descriptor.
constexpr std::int64_t slice_ns = 2 * ms;
/// The longest time that a lane waits for a thread of its own.
constexpr std::int64_t patience_ns = 30 * ms;
}  // namespace

Program::Program() {
  for (std::size_t i = 0; i < slots_max; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->program = this;
    slots_.back()->number = static_cast<std::uint32_t>(i);
    slots_.back()->operation.set_completion(completed, slots_.back().get());
  }
}
Program::~Program() = default;

void Program::run(sim::World& world, const ProgramOptions& options) {
  world_ = &world;
  options_ = options;
  started_ = 0;
  sim::Random& random = world.random;
  world.kernel().witness(&reasons_);
  emulated_ = options.engine == EngineChoice::emulated ||
              (options.engine == EngineChoice::any && random.below(4) == 0);
  std::uint32_t failures = 0;
  while (started_ < options.operations && failures < 8) {
    const auto left = static_cast<std::uint32_t>(options.operations - started_);
    // Short rounds test beginnings and ends, long ones the time between.
    const std::uint32_t most = random.coin() ? 400U : 4'000U;
    if (!round(std::min(left, 20 + random.below(most)))) ++failures;
  }
}

bool Program::round(std::uint32_t operations) {
  sim::Random& random = world_->random;
  free_.clear();
  for (const auto& slot : slots_) {
    world_->check(!slot->pending, "an operation outlives its proactor");
    free_.push_back(slot.get());
  }
  reasons_.begin();
  connects_lost_ = 0;
  open_ends_.clear();
  ends_used_ = connections_used_ = 0;
  objects_ = pending_ = posts_ = in_run_ = in_handler_ = opening_ = changing_ = 0;
  cancelling_all_ = 0;
  finishing_ = quiet_ = leave_ = cancelled_all_ = false;
  cancels_all_ = random.below(6) == 0;
  round_end_ = started_ + operations;
  target_ = 1U << random.below(7);
  slow_ = random.below(3) == 0 ? 1U << random.below(11) : 0;
  throwing_ = random.below(4) == 0 ? 1U << random.below(9) : 0;
  stopping_ = random.below(4) == 0 ? 1U << random.below(8) : 0;
  visiting_ = random.below(4) == 0;
  drain_acts_ = 0;
  timer_most_ns_ = (2 * ms) << (random.below(3) == 0 ? random.below(6) : 0);
  timer_due_ = sim::Scheduler::never;
  neglected_since_ = undelivered_since_ = lingers_since_ = free_since_ = 0;
  draw_mixture();
  if (!open_proactor()) return false;
  world_->scheduler().on_idle(look_idle, this);

  std::vector<std::uint32_t> threads;
  threads.reserve(threads_);
  for (std::uint32_t i = 0; i < threads_; ++i) {
    threads.push_back(world_->scheduler().start(enter_thread, this));
  }
  drive();
  constexpr Ending endings[] = {Ending::to_the_end, Ending::to_the_end, Ending::drain, Ending::stop,
                                Ending::destroy};
  Ending ending = random.one_of(endings);
  // A read would wait for ever for a write that may not be started any more.
  if (limited_ && ending == Ending::to_the_end) ending = Ending::destroy;
  end_round(ending);
  leave_ = true;
  // A restart that another thread has begun would undo the stop.
  wait_until([&] { return changing_ == 0; }, "a stop or a restart never ends");
  if (ending != Ending::drain) proactor_->stop();
  for (const std::uint32_t thread : threads) world_->scheduler().join(thread);
  destroy_everything();
  world_->scheduler().on_idle(nullptr, nullptr);
  check_balance();
  return true;
}

// -- opening --------------------------------------------------------------------------------------

void Program::draw_processors(Config& config) {
  sim::Random& random = world_->random;
  constexpr Mode modes[] = {Mode::shared, Mode::shared, Mode::dedicated, Mode::per_thread};
  mode_ = random.one_of(modes);
  processors_ = random.below(3) == 0 ? 2 : 1;
  config.processors.clear();
  bool all_pinned = false;
  for (std::uint32_t i = 0; i < processors_; ++i) {
    ProcessorConfig processor;
    processor.mode = mode_;
    // The second processor may take a part of the work, and have another mode if that is allowed.
    if (i == 0 && processors_ == 2) {
      processor.operations = random.coin() ? file_operations : stream_operations;
      if (mode_ != Mode::dedicated && random.below(3) == 0) processor.mode = Mode::dedicated;
    }
    processor.threads = lanes_;
    if (random.below(4) == 0) processor.started_max = 1 + random.below(16);
    if (random.below(6) == 0) processor.operations_max = 8 + random.below(64);
    if (random.below(4) == 0) processor.start = StartRule::leader_only;
    processor.workers = 1 + random.below(4);
    if (emulated_) {
      processor.engine = "emulated";
      constexpr const char* waits[] = {"epoll", "poll", "select"};
      constexpr const char* interrupts[] = {"eventfd", "pipe"};
      processor.wait = random.one_of(waits);
      processor.interrupt = random.one_of(interrupts);
    } else {
      processor.engine = "simulated";
    }
    if (processor.mode == Mode::per_thread) {
      processor.start = StartRule::automatic;
      all_pinned = true;
    }
    config.processors.push_back(processor);
  }
  sim::EngineTraits& traits = world_->traits;
  traits = {};
  traits.start_from_any_thread = random.below(4) != 0;
  traits.start_interrupts_leader = random.below(3) == 0;
  traits.needs_flush = random.below(3) == 0;
  traits.has_descriptor = random.below(4) != 0;
  // Only the engine's leader may call it, but the lanes of the other processor would have to: open
  // refuses that.
  if (mode_ == Mode::per_thread && config.processors[0].mode == Mode::dedicated) {
    traits.start_from_any_thread = true;
  }
  traits.pinned = random.below(3) == 0 && ((all_pinned && processors_ == 1) ||
                                           config.processors[0].start == StartRule::leader_only);
  // A thread for each lane; otherwise work of a lane without a thread would be refused.
  const bool full = lanes_ == threads_ && random.coin();
  traits.bound = traits.pinned && (mode_ != Mode::per_thread || full);
  if (random.below(4) == 0) traits.operations_max = 1 + random.below(32);
  limited_ = traits.operations_max != 0;
  started_max_ = config.processors[0].started_max;
  if (!emulated_ && traits.operations_max != 0 &&
      (started_max_ == 0 || traits.operations_max < started_max_)) {
    started_max_ = traits.operations_max;
  }
  bounded_ = false;
  for (const ProcessorConfig& each : config.processors) {
    bounded_ = bounded_ || each.operations_max != 0;
    limited_ = limited_ || each.started_max != 0 || each.operations_max != 0;
  }
}

bool Program::open_proactor() {
  sim::Random& random = world_->random;
  threads_ = options_.threads != 0 ? options_.threads : 1 + random.below(4);
  lanes_ = random.below(3) == 0 ? threads_ : 1 + random.below(5);
  Config config;
  draw_processors(config);
  config.system = &sim::system();
  config.handles_max = 256;
  config.understudy_look_us = 25U << random.below(7);
  // The standby's second look, the slices of a merged wait, readiness that is reported late.
  far_ns_ = ms + 3'000 * rarest_look * static_cast<std::int64_t>(config.understudy_look_us) +
            (merges() ? 2 * slice_ns : 0) + (emulated_ ? 3 * ms : 0) +
            (has_patience() ? patience_ns : 0);
  glances_ =
      visiting_ && mode_ != Mode::per_thread && !world_->traits.bound && random.below(3) == 0;
  vain_glances_ = 0;
  constexpr AcceptPolicy policies[] = {AcceptPolicy::round_robin, AcceptPolicy::least_loaded,
                                       AcceptPolicy::same_thread};
  config.accept_policy = random.one_of(policies);
  auto opened = Proactor::open(std::move(config));
  if (!opened) {
    // A lack of descriptors or threads is a fault of this machine. Any other error is a violation.
    const std::error_code code = opened.error().code;
    const bool scarce = code == std::errc::too_many_files_open ||
                        code == std::errc::resource_unavailable_try_again ||
                        code == errc::engine_unavailable;
    if (!scarce) world_->violated("a proactor does not open: " + opened.error().reason);
    return false;
  }
  proactor_ = opened->release();
  return true;
}

// -- threads --------------------------------------------------------------------------------------

void Program::enter_thread(void* self) { static_cast<Program*>(self)->thread_loop(); }

// A lane of a bound engine is kept for the thread that an exception has brought out. It would be
// let go at the end of that thread, which a fiber does not have. So the thread leaves once more.
void Program::thread_loop() {
  bool keeps_lane = false;
  while (!leave_ || keeps_lane) {
    ++in_run_;
    try {
      turn_once();
      keeps_lane = false;
    } catch (const std::runtime_error&) {
      // A handler's, as expected.
      keeps_lane = world_->traits.bound;
    }
    --in_run_;
    if (leave_ || !proactor_->stopped()) continue;
    if (finishing_) {
      world_->scheduler().work(10'000);
    } else {
      // The other threads return from the same stop. A second stop could be undone by their
      // restarts.
      ++changing_;
      if (world_->random.below(8) == 0) {
        proactor_->stop();
      } else {
        proactor_->restart();
      }
      --changing_;
    }
  }
}

void Program::turn_once() {
  sim::Random& random = world_->random;
  if (glances_) {
    --in_run_;
    world_->scheduler().work(random.between(1'000, 2 * ms));
    ++in_run_;
    return glance();
  }
  // With profile=pinned operations are cancelled when their thread leaves, and it has to deliver
  // them.
  const std::uint32_t way = world_->traits.bound ? 0 : random.below(visiting_ ? 4 : 12);
  // The other threads manage without those that are away.
  if (visiting_ && way != 0 && mode_ != Mode::per_thread) {
    --in_run_;
    world_->scheduler().work(random.between(0, (10 * ms) << random.below(3)));
    ++in_run_;
  }
  if (visiting_ && mode_ == Mode::per_thread && random.below(8) == 0) return stay_attached();
  call(way);
}

// A visit that does not wait. Its thread never sleeps in the proactor, so look_idle does not see it
// neglect what is queued. The first visits may bring an interrupt only, or meet a drawn fault.
void Program::glance() {
  constexpr std::uint32_t vain_most = 8;
  const auto something_waits = [&] {
    return in_run_ == 1 && world_->in_slow_calls == 0 && !finishing_ && !leave_ &&
           !proactor_->stopped() && (posts_ != 0 || world_->undelivered != 0);
  };
  const bool waited = something_waits();
  const std::uint64_t completed = completed_;
  proactor_->poll();
  if (!waited || completed_ != completed || !something_waits()) {
    vain_glances_ = 0;
  } else if (++vain_glances_ == 1) {
    vain_since_ = now();
  } else if (vain_glances_ > vain_most && now() - vain_since_ > std::max(20 * ms, far_ns_)) {
    world_->violated("work is queued, and threads that do not wait pass by" + state_of_affairs());
  }
}

// Between its calls the thread counts as being in a handler, and may start operations.
void Program::stay_attached() {
  sim::Random& random = world_->random;
  const Attachment attached{*proactor_};
  const std::uint32_t calls = random.below(12);
  for (std::uint32_t i = 0; i < calls && !leave_ && !proactor_->stopped(); ++i) {
    call(world_->traits.bound ? 0 : random.below(4));
    const Inside between{in_handler_};
    for (std::uint32_t acts = random.below(3); acts > 0 && pending_ < target_; --acts) {
      if (!leave_ && started_ < round_end_) static_cast<void>(act());
    }
    if (random.below(4) == 0) world_->scheduler().work(random.between(0, ms));
  }
}

void Program::call(std::uint32_t way) {
  sim::Random& random = world_->random;
  const auto soon = [&] { return Deadline::at_ns(now() + random.between(0, 3 * ms)); };
  switch (way) {
    case 1:
      proactor_->run_one(soon());
      break;
    case 2:
      proactor_->poll();
      --in_run_;
      world_->scheduler().work(5'000);
      ++in_run_;
      break;
    case 3:
      proactor_->handle_events(soon(), random.below(8));
      break;
    default:
      proactor_->run();
  }
}

// -- the driver: a thread outside -----------------------------------------------------------------

void Program::drive() {
  sim::Random& random = world_->random;
  // In long pauses the other threads have only their own work: see look_idle.
  const std::int64_t pause = std::int64_t{1000} << random.below(18);
  std::uint64_t last = started_;
  std::uint32_t idle_rounds = 0;
  for (std::uint32_t i = 0; i < 3; ++i) open_something();
  while (started_ < round_end_) {
    for (std::uint32_t i = 0; i < 8 && pending_ < target_ && started_ < round_end_; ++i) {
      static_cast<void>(act());
    }
    world_->scheduler().work(random.between(1, pause));
    // Pending operations may have used all places, so one of them has to end.
    if (started_ == last && ++idle_rounds > 4) {
      idle_rounds = 0;
      if (!act_close() && !act_cancel()) ++target_;
      open_something();
      static_cast<void>(act_timer());
      if (++target_ > 2 * slots_max) break;
    }
    if (started_ != last) {
      last = started_;
      idle_rounds = 0;
    }
  }
}

// Operations in flight, for the report.
std::string Program::state_of_affairs() const {
  std::string text = "\n" + proactor_->explain() + affairs_of_threads();
  const Statistics statistics = proactor_->statistics();
  text += ", " + std::to_string(statistics.pending) + " pending, " +
          std::to_string(statistics.handles) + " handles";
  for (const auto& slot : slots_) {
    if (!slot->pending) continue;
    text += "\n  operation " + std::to_string(slot->number) + ", " +
            to_string(slot->operation.kind()) + ", " + to_string(slot->operation.state());
    if (slot->object != nullptr) text += ", of object " + std::to_string(slot->object->number);
  }
  for (const End* end : open_ends_) {
    text += "\n  object " + std::to_string(end->number) + (end->open ? "" : " closed");
    if (end->in != nullptr && !end->in->at_end) text += ", is not read to its end";
    if (end->out != nullptr && !end->out->fin) text += ", has not ended its writes";
  }
  return text;
}

template <class Done>
void Program::wait_until(Done&& done, const char* what) {
  const std::int64_t end = now() + end_most_ns;
  while (!done()) {
    if (now() > end) world_->violated(std::string{what} + state_of_affairs());
    world_->scheduler().sleep(this, now() + 10 * ms);
  }
}

void Program::end_round(Ending ending) {
  sim::Random& random = world_->random;
  quiet_ = true;
  if (ending == Ending::to_the_end || ending == Ending::drain) {
    // A start during a stop or a restart may be refused.
    wait_until([&] { return changing_ == 0 && !proactor_->stopped(); }, "a restart never ends");
  }
  if (ending == Ending::to_the_end) return read_to_the_end();
  finishing_ = true;
  expect_gaps();
  switch (ending) {
    case Ending::to_the_end:
    case Ending::destroy:
      return;
    case Ending::drain:
      if (random.coin()) {
        // Only operations that handlers start are left, until the handlers are done.
        cancelled_all_ = true;
        proactor_->cancel_all();
      }
      if (random.coin()) drain_acts_ = random.below(100);
      proactor_->drain(Deadline::at_ns(now() + random.between(0, 20 * ms)));
      wait_until([&] { return proactor_->stopped(); }, "a drain with a deadline never ends");
      world_->check(pending_ == 0, "a drain has ended with operations pending");
      return;
    case Ending::stop:
      proactor_->stop();
      return;
  }
}

// Cancels only operations that would never end, and reads every stream to its end.
void Program::read_to_the_end() {
  const auto is_endless = [](const std::unique_ptr<Slot>& slot) {
    return slot->pending && (slot->what == What::accept || slot->what == What::receive_from ||
                             slot->what == What::ready);
  };
  // What is opened too late would not be closed.
  wait_until([&] { return opening_ == 0; }, "an object is never open");
  // An operation whose start has not returned yet could not be cancelled. No other start begins.
  wait_until(
      [&] {
        return std::none_of(slots_.begin(), slots_.end(), [&](const std::unique_ptr<Slot>& slot) {
          return is_endless(slot) && slot->object->users != 0;
        });
      },
      "a start never ends");
  for (const auto& slot : slots_) {
    if (!is_endless(slot)) continue;
    slot->may_cancel = true;
    proactor_->cancel(slot->operation);
  }
  // Streams: writers close, readers go on.
  wait_until(
      [&] {
        bool all = true;
        // A client in a backlog is reset.
        for (const auto& each : listeners_) {
          if (each->open) all = close_object(*each, each->acceptor) && all;
        }
        for (std::size_t i = 0; i < open_ends_.size(); ++i) {
          End& end = *open_ends_[i];
          if (!end.open) continue;
          if (end.out != nullptr && !end.out->fin) {
            all = false;
            if (end.is_socket) {
              static_cast<void>(start_half_close(end));
            } else if (end.out->writes() == 0 && end.users == 0 && end.pending == 0) {
              forget_end(end);
              end.open = true;  // for the check of close_object
              static_cast<void>(close_object(end, end.pipe));
              break;
            }
          } else if (end.in != nullptr && !end.in->at_end) {
            all = false;
            if (end.in->reads() == 0) static_cast<void>(start_read(end));
          }
        }
        for (const auto& slot : slots_) {
          all &= !slot->pending || slot->untold() || is_endless(slot);
        }
        return all;
      },
      "a stream is never read to its end: readiness or a wake-up was lost");
  finishing_ = true;
  for (End* end : open_ends_) end->open = end->open && end->users == 0;
  while (!open_ends_.empty()) {
    End& end = *open_ends_.back();
    open_ends_.pop_back();
    const bool open = end.open;
    end.open = true;
    if (!open || !(end.is_socket ? close_object(end, end.socket) : close_object(end, end.pipe))) {
      end.stream().close_detached();
    }
    end.open = false;
  }
  for (const auto& each : listeners_) each->acceptor.close_detached();
  for (const auto& each : mailboxes_) each->socket.close_detached();
  for (const auto& each : disks_) each->file.close_detached();
  wait_until(
      [&] {
        return std::ranges::none_of(
            slots_, [](const auto& slot) { return slot->pending && !slot->untold(); });
      },
      "an operation of a closed handle never completes");
  wait_until([&] { return proactor_->statistics().handles == 0; }, "a close never ends");
  world_->check(proactor_->statistics().pending == 0,
                "the statistics count operations that are not pending");
}

// Handlers still run in the destructor and may use the objects, which have no handle any more.
void Program::destroy_everything() {
  const auto let_go = [&](IoObject& object) {
    if (world_->random.coin()) {
      object.close_detached();
    } else {
      static_cast<void>(object.release());
    }
  };
  for (std::size_t i = 0; i < ends_used_; ++i) {
    ends_[i]->open = false;
    let_go(ends_[i]->stream());
  }
  for (const auto& each : listeners_) let_go(each->acceptor);
  for (const auto& each : mailboxes_) let_go(each->socket);
  for (const auto& each : disks_) let_go(each->file);
  open_ends_.clear();
  ends_before_ = now() + end_most_ns;
  delete proactor_;
  ends_before_ = 0;
  proactor_ = nullptr;
}

void Program::check_balance() {
  world_->check(pending_ == 0, "an operation was started and never completed");
  world_->check(world_->undelivered == 0, "an engine's completion was never delivered");
  world_->check(world_->kernel().open_descriptors() == 0, "a descriptor was never closed");
  for (std::size_t i = 0; i < connections_used_; ++i) {
    for (const Flow* flow : {&connections_[i]->forth, &connections_[i]->back}) {
      world_->check(flow->received() <= flow->sent(), "more bytes were received than sent");
    }
  }
  check_files();
  check_connections();
  if (const char* const wrong = reasons_.datagrams.wrong()) world_->violated(wrong);
  listeners_.clear();
  mailboxes_.clear();
  disks_.clear();
}

// Called when every thread sleeps and the next event is far away: checks that there is no work.
const char* Program::look_idle(void* argument, std::int64_t until) {
  Program& self = *static_cast<Program*>(argument);
  const char* const missed = self.missed(until);
  if (missed != nullptr) self.world_->violated(missed + self.state_of_affairs());
  return nullptr;
}

const char* Program::missed(std::int64_t until) {
  if (until == sim::Scheduler::never) return "every thread sleeps for ever: a wake-up was lost";
  if (world_->scheduler().was_disturbed()) {
    lingers_since_ = undelivered_since_ = free_since_ = neglected_since_ = 0;
  }
  if (ends_before_ != 0 && until > ends_before_) return "the destructor of a proactor never ends";
  const bool at_rest = world_->in_slow_calls == 0;
  // Operations of a pinned engine have to end before its thread leaves; readiness may be reported
  // late.
  const bool lingers = at_rest && proactor_ != nullptr && proactor_->stopped() &&
                       in_run_ > in_handler_ && !world_->traits.bound && !emulated_ && !sliced();
  if (lasts(lingers, lingers_since_) && until - lingers_since_ > leave_most_ns) {
    return "stopped, and a thread stays inside";
  }
  if (leave_ || finishing_) return nullptr;
  // During a long handler a free thread has to take queued results. A lane has only its own thread.
  const bool others_help = mode_ != Mode::per_thread && processors_ == 1;
  const std::uint32_t least = world_->traits.bound ? threads_ - 1 : 0;
  const bool free_thread = mode_ == Mode::per_thread
                               ? in_run_ > least && in_handler_ == 0
                               : in_run_ > in_handler_ && (in_handler_ == 0 || others_help);
  if (neglects(free_thread)) return "a thread is free, but ready work is not taken";
  // With slices, each look may find another result that is queued for a short time.
  const bool lie = at_rest && free_thread && in_handler_ == 0 && world_->undelivered != 0;
  if (lasts(lie, undelivered_since_) && until - (sliced() ? now() : undelivered_since_) > far_ns_) {
    return "every thread sleeps, and an engine has completions: a wake-up was lost";
  }
  // A long handler has delayed everything that came due meanwhile.
  const bool free_for_long =
      lasts(free_thread && at_rest, free_since_) && until - free_since_ > far_ns_;
  if (!free_thread || !at_rest) return nullptr;
  if (free_for_long && overdue(until)) return "every thread sleeps, and a timer is overdue";
  // A thread needs looks to find work only while another is in a handler. A thread that leaves a
  // pinned engine waits for its operations.
  const bool at_once =
      in_handler_ == 0 && !emulated_ && !sliced() && !world_->traits.pinned && !has_patience();
  if (until - now() < (at_once ? ms / 20 : far_ns_)) return nullptr;
  if (world_->unflushed != 0) return "every thread sleeps, and an engine was not flushed";
  if (posts_ != 0) return "every thread sleeps, and posted work is queued";
  std::uint32_t started = 0;
  std::uint32_t deferred = 0;
  for (const auto& slot : slots_) {
    if (slot->pending && slot->operation.handle() != nullptr && slot->what != What::close) {
      started += slot->operation.state() == OperationState::started ? 1U : 0U;
      deferred += slot->operation.state() == OperationState::deferred ? 1U : 0U;
    }
    if (slot->pending && slot->operation.state() == OperationState::result_ready) {
      return "every thread sleeps, and a result is queued";
    }
    if (slot->pending && slot->deadline != 0 && slot->deadline + 100 * ms < now()) {
      return "every thread sleeps, but an operation is long past its deadline";
    }
  }
  const bool room = started_max_ == 0 || started < started_max_;
  if (others_help && in_handler_ == 0 && deferred > 0 && room) {
    return "every thread sleeps, there is room, and operations are deferred";
  }
  return nullptr;
}

// A thread may wait in several engines at once.
bool Program::merges() const noexcept {
  return processors_ > 1 || (mode_ == Mode::per_thread && lanes_ > 1);
}

// Some engines have no descriptor.
bool Program::sliced() const noexcept {
  return merges() && (emulated_ || world_->without_descriptor != 0);
}

// `since`: the first of the consecutive looks at which the condition held.
bool Program::lasts(bool fact, std::int64_t& since) const {
  if (!fact) {
    since = 0;
  } else if (since == 0) {
    since = now();
  }
  return fact;
}

bool Program::overdue(std::int64_t until) {
  if (timer_due_ >= until - far_ns_) return false;
  timer_due_ = sim::Scheduler::never;
  for (const auto& slot : slots_) {
    if (slot->pending && slot->what == What::timer &&
        slot->operation.state() == OperationState::started) {
      timer_due_ = std::min(timer_due_, slot->not_before);
    }
  }
  return timer_due_ < until - far_ns_;
}

// Looks may be so frequent that the next event is always near: checks that queued work is taken.
bool Program::neglects(bool free_thread) {
  const std::int64_t long_ns = std::max(20 * ms, far_ns_);
  if (!free_thread || (world_->undelivered == 0 && posts_ == 0)) {
    neglected_since_ = 0;
  } else if (neglected_since_ == 0 || completed_ != completed_before_) {
    neglected_since_ = now();
    completed_before_ = completed_;
  }
  return neglected_since_ != 0 && now() - neglected_since_ > long_ns;
}

}  // namespace baton::tools::simulation
