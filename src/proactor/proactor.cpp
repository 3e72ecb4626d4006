// Proactor: opens the engines that the configuration names, and hands every call to the core.
#include "baton/proactor.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <system_error>
#include <utility>

#include "baton/driving_refused.hpp"
#include "baton/log.hpp"
#include "baton/misuse.hpp"
#include "baton/registry.hpp"
#include "config/apply.hpp"
#include "config/policy.hpp"
#include "core/core.hpp"
#include "engines/registry.hpp"
#include "os/handles_bound.hpp"

namespace baton {
namespace {

std::uint32_t handles_bound(const Config& config) noexcept {
  return os::handles_bound(os::or_real(config.system), config.handles_max);
}

Mode resolved(Mode mode) noexcept { return mode == Mode::automatic ? Mode::shared : mode; }

/// Opens the engines of one proactor and keeps what explain() tells.
class Opener {
 public:
  explicit Opener(Config config) : config_(std::move(config)) {
    if (config_.processors.empty()) config_.processors.emplace_back();
    opened_ = config_;
  }

  Result<std::unique_ptr<Proactor::Core>, Failure> open() {
    if (auto valid = config_.validate(); !valid) return unexpected{valid.error()};
    const os::System& system = os::or_real(config_.system);
    const std::uint32_t lanes = lane_count();
    auto core = std::make_unique<Proactor::Core>(config_, system, handles_bound(config_), lanes);
    core_ = core.get();
    for (std::size_t i = 0; i < config_.processors.size(); ++i) {
      if (auto added = add_processor(*core, i, lanes); !added) return unexpected{added.error()};
    }
    config::refresh_notes(opened_);
    for (const std::string& source : opened_.sources) text_ += "source: " + source + "\n";
    core->explanation = text_;
    if (const int error = core->start_threads(); error != 0) {
      return unexpected{Failure{{error, std::system_category()},
                                "the thread of a dedicated processor could not be started"}};
    }
    return core;
  }

 private:
  /// 0: no processor is per_thread.
  std::uint32_t lane_count() const {
    for (const ProcessorConfig& processor : config_.processors) {
      if (resolved(processor.mode) != Mode::per_thread) continue;
      return std::min(
          processor.threads != 0 ? processor.threads : os::or_real(config_.system).usable_cores(),
          limits::lanes_max);
    }
    return 0;
  }

  Result<void, Failure> add_processor(Proactor::Core& core, std::size_t index,
                                      std::uint32_t lanes) {
    const ProcessorConfig& processor = config_.processors[index];
    config::EngineWish wish = config::engine_wishes(config_)[index];
    const Mode mode = resolved(processor.mode);
    const std::uint32_t copies = mode == Mode::per_thread ? lanes : 1;
    said_.clear();
    for (std::uint32_t lane = 0; lane < copies; ++lane) {
      lane_ = lane;
      auto engine = open_engine(processor, index, mode, wish);
      if (!engine) return unexpected{engine.error()};
      describe(index, mode, (*engine)->info(), copies);
      core.add(std::move(*engine), processor, mode, static_cast<std::uint16_t>(index), lane);
    }
    return {};
  }

  /// Opens the named engine, or the first candidate of policy and registry. An engine that cannot
  /// be opened is replaced by the next that can, with a note, unless it is required. `wish` becomes
  /// the engine that was found, so that the copies of a per_thread processor are alike.
  Result<std::unique_ptr<Engine>, Failure> open_engine(const ProcessorConfig& processor,
                                                       std::size_t index, Mode mode,
                                                       config::EngineWish& wish) {
    // The reason to report: that of the first candidate, unless it is only forbidden and a later
    // one that can do the work has another reason.
    Failure why{make_error_code(errc::engine_unavailable), "no engine is registered"};
    std::string forbidden_ones;
    for (const auto& candidate : config::candidates(config_, wish, engines::builtin().size())) {
      auto engine = config::forbids(config_, candidate.name)
                        ? forbidden(candidate.name)
                        : open_one(candidate, processor, index, mode);
      // An engine that does part of the work is taken only if the configuration names it.
      if (engine && candidate.name != wish.engine) {
        engine = covering(std::move(*engine), processor);
      }
      if (engine) {
        if (wish.engine != "auto" && candidate.name != wish.engine) {
          note(index,
               with_code("engine: " + wish.engine + " -> " + candidate.name + ": " + why.reason,
                         why.reason_code));
        }
        wish.engine = candidate.name;
        return std::move(*engine);
      }
      const Failure& failure = engine.error();
      note(index,
           with_code("engine " + candidate.name + ": " + failure.reason, failure.reason_code));
      if (why.reason_code == ReasonCode::unspecified ||
          (why.reason_code == ReasonCode::forbidden &&
           failure.reason_code != ReasonCode::forbidden &&
           failure.reason_code != ReasonCode::unsuitable)) {
        why = failure;
      }
      if (failure.reason_code == ReasonCode::forbidden) {
        forbidden_ones += (forbidden_ones.empty() ? "" : ", ") + candidate.name;
      }
    }
    if (why.reason_code == ReasonCode::forbidden) why = forbidden(forbidden_ones).error();
    if (wish.required) {
      why.reason = "engine " + wish.engine + " is required and cannot be opened: " + why.reason;
    }
    return unexpected{why};
  }

  static Result<std::unique_ptr<Engine>, Failure> forbidden(const std::string& engines) {
    const char* const are = engines.find(' ') == std::string::npos ? " is" : " are";
    return unexpected{Failure{make_error_code(errc::engine_forbidden),
                              engines + are + " forbidden by policy (forbid, BATON_FORBID)"}};
  }

  /// The engine, if it does everything that the processor takes.
  static Result<std::unique_ptr<Engine>, Failure> covering(std::unique_ptr<Engine> engine,
                                                           const ProcessorConfig& processor) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(OperationKind::close); ++i) {
      const auto kind = static_cast<OperationKind>(i);
      if (!processor.operations.empty() && !processor.operations.has(kind)) continue;
      if (engine->info().support[i] != Support::unsupported) continue;
      return unexpected{Failure{make_error_code(errc::not_supported),
                                "engine " + std::string{engine->info().name} + " does no " +
                                    to_string(kind) + ", and is not chosen unless it is named",
                                ReasonCode::unsuitable}};
    }
    return engine;
  }

  Result<std::unique_ptr<Engine>, Failure> open_one(const RegistryEntry<EngineFactory>& candidate,
                                                    const ProcessorConfig& processor,
                                                    std::size_t index, Mode mode) {
    EngineOptions options;
    options.system = &os::or_real(config_.system);
    options.log = config_.log;
    options.config = &processor;
    options.concurrent = mode != Mode::per_thread;
    options.pinned_ok = pinned_ok(processor, mode);
    options.one_thread_waits = mode != Mode::shared;
    options.handles_full = handles_bound(config_);
    options.handles_max = options.handles_full + limits::handles_for_accepted;
    options.handles = &core_->ledger().handles.counter();
    options.handle_memory = [](void* core) noexcept {
      return static_cast<Proactor::Core*>(core)->ledger().has_memory_for_accepted();
    };
    options.handle_memory_context = core_;
    options.explain = [this, index](std::string_view line) { note(index, std::string{line}); };
    auto engine = candidate.name == "chaos" && processor.inner == "auto"
                      ? open_around_any(candidate, options)
                      : candidate.factory(options);
    if (engine && (*engine)->info().leader_rule == LeaderRule::steady &&
        !options.one_thread_waits) {
      return unexpected{Failure{make_error_code(errc::bad_configuration),
                                "engine " + candidate.name +
                                    " should not be waited for by changing threads: use mode "
                                    "dedicated or per_thread",
                                ReasonCode::needs_one_thread}};
    }
    if (engine && (*engine)->info().leader_rule == LeaderRule::pinned && !options.pinned_ok) {
      return unexpected{
          Failure{make_error_code(errc::bad_configuration),
                  "engine " + candidate.name +
                      " needs one and the same thread to "
                      "wait: use mode per_thread, or dedicated with start=leader_only",
                  ReasonCode::needs_one_thread}};
    }
    // The lanes of such a team cancel and detach by themselves.
    if (engine && mode == Mode::dedicated && lane_count() > 0 &&
        !(*engine)->info().start_from_any_thread) {
      return unexpected{Failure{make_error_code(errc::bad_configuration),
                                "engine " + candidate.name +
                                    " is called by its leader only, and the threads of per_thread "
                                    "processors beside a dedicated one have to call it, too: use "
                                    "mode per_thread for both",
                                ReasonCode::needs_one_thread}};
    }
    if (engine && processor.debug) {
      auto watched = engines::watched(std::move(*engine), options);
      if (watched == nullptr) {
        return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                                  "no memory for the debug mode of engine " + candidate.name}};
      }
      return watched;
    }
    return engine;
  }

  /// engine=chaos with inner=auto: around the first engine that the policy allows and that does
  /// everything.
  Result<std::unique_ptr<Engine>, Failure> open_around_any(
      const RegistryEntry<EngineFactory>& chaos, const EngineOptions& given) {
    ProcessorConfig processor = *given.config;
    EngineOptions options = given;
    options.config = &processor;
    Failure why{make_error_code(errc::engine_unavailable), "there is no engine to wrap"};
    for (const auto& inner : config::candidates(config_, {}, engines::builtin().size())) {
      if (inner.name == chaos.name) continue;
      processor.inner = inner.name;
      auto engine =
          config::forbids(config_, inner.name) ? forbidden(inner.name) : chaos.factory(options);
      if (engine) engine = covering(std::move(*engine), processor);
      if (engine) return engine;
      if (why.reason_code == ReasonCode::unspecified) why = engine.error();
    }
    // Not ReasonCode::forbidden: chaos itself is not.
    return unexpected{Failure{why.code, "inner=auto: " + why.reason, ReasonCode::unsuitable}};
  }

  /// Whether one thread waits, and in this engine alone: a merged wait cannot see the completions
  /// of a pinned ring.
  bool pinned_ok(const ProcessorConfig& processor, Mode mode) const {
    const auto in_lane = std::count_if(
        config_.processors.begin(), config_.processors.end(),
        [](const ProcessorConfig& one) { return resolved(one.mode) == Mode::per_thread; });
    if (mode == Mode::per_thread) return in_lane == 1;
    // A dedicated leader is one thread, too, but with a pinned engine every start has to wake it.
    return mode == Mode::dedicated && processor.start == StartRule::leader_only && in_lane == 0;
  }

  /// Empty, which stands for all kinds, for an engine that takes them all.
  static OperationKinds taken_by(const EngineInfo& info) {
    OperationKinds taken;
    bool all = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(OperationKind::close); ++i) {
      if (info.support[i] != Support::unsupported) taken.add(static_cast<OperationKind>(i));
      all = all && info.support[i] != Support::unsupported;
    }
    return all ? OperationKinds{} : taken;
  }

  void describe(std::size_t index, Mode mode, const EngineInfo& info, std::uint32_t copies) {
    ProcessorConfig& opened = opened_.processors[index];
    opened.engine = info.name;
    if (opened.operations.empty()) opened.operations = taken_by(info);
    if (config::waits_by_strategy(opened.engine)) opened.wait = info.wait_name;
    if (!info.interrupt_name.empty()) opened.interrupt = info.interrupt_name;
    std::string line = "engine=" + std::string{info.name};
    if (!info.wait_name.empty()) line += " wait=" + std::string{info.wait_name};
    if (!info.interrupt_name.empty()) line += " interrupt=" + std::string{info.interrupt_name};
    line += std::string{" mode="} + to_string(mode);
    if (mode == Mode::per_thread) line += " threads=" + std::to_string(copies);
    line += " leader=" + std::string{to_string(info.leader_rule)};
    line += info.start_from_any_thread ? " start=any_thread" : " start=leader_only";
    if (config_.processors[index].debug) line += " debug=1";
    note(index, line);
  }

  /// The copies of a per_thread processor are alike, so equal notes are written once. A note that
  /// differs reports a limit that was reached meanwhile, and names its lane.
  void note(std::size_t index, const std::string& line) {
    if (!said_.insert(line).second) return;
    std::string text = "processor " + std::to_string(index) + ": ";
    if (lane_ > 0) text += "lane " + std::to_string(lane_) + ": ";
    text += line;
    text_ += text + "\n";
    if (config_.log != nullptr) {
      const std::int64_t now = os::or_real(config_.system).realtime_us();
      config_.log->write(LogLevel::info, iso_8601(now), text);
    }
  }

  Config config_;
  Config opened_;  // with the engines and strategies that were found, for the notes
  Proactor::Core* core_ = nullptr;
  std::string text_;
  std::uint32_t lane_ = 0;        // being opened
  std::set<std::string> said_{};  // of the processor being opened
};

}  // namespace

Result<std::unique_ptr<Proactor>, Failure> Proactor::open(Config config) {
  auto core = Opener{std::move(config)}.open();
  if (!core) return unexpected{core.error()};
  return std::unique_ptr<Proactor>{new Proactor{std::move(*core)}};
}

Proactor::Proactor(Config config) {
  auto core = Opener{std::move(config)}.open();
  if (!core) {
    throw std::system_error(core.error().code,
                            with_code(core.error().reason, core.error().reason_code));
  }
  core_ = core->release();
}

Proactor::Proactor(std::unique_ptr<Core> core) noexcept : core_(core.release()) {}

Proactor::~Proactor() {
  if (core_->forked()) {
    // Threads that do not exist in this process may hold its locks, so its memory is not touched
    // until the process ends.
    core_->abandon_after_fork();
  } else if (core_->inside()) {
    // Other threads may be in run(), or come back to it.
    core_->end_in_handler();
    return;
  } else {
    delete core_;  // its last handlers destroy objects, which need the pointer
  }
  core_ = nullptr;
  // The null outlives the proactor, for close_detached. Without the fence the compiler leaves the
  // store out, because it comes at the end of an object's life.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

namespace {

// A turn may end in a child that one of its handlers has forked. In the child it ends with
// after_fork, unless the child has opened the proactor anew. Then `core` is the new core, and its
// turns follow if the caller wants to go on.
template <class Core>
std::size_t turn(Core* const& core, Deadline deadline, std::size_t handlers_max,
                 bool return_after_handlers, bool for_good) {
  for (;;) {
    Core* const before = core;
    const std::size_t ran = core->turn(deadline, handlers_max, return_after_handlers, for_good);
    if (BATON_UNLIKELY(before->ended_in_handler.is_set())) {
      before->ended_in_handler.refuse_to_go_on(
          "a proactor was ended inside one of its own handlers: call stop() there, and finish or "
          "destroy it when run() has returned");
    }
    if (BATON_LIKELY(!before->forked())) return ran;
    if (core == before) throw DrivingRefused(before->ledger(), errc::after_fork);
    if (return_after_handlers) return ran;
  }
}

}  // namespace

void Proactor::run() { turn(core_, Deadline::never(), 0, false, true); }

bool Proactor::run_one(Deadline deadline) { return turn(core_, deadline, 1, true, false) > 0; }

std::size_t Proactor::poll() { return turn(core_, Deadline::immediately(), 0, true, false); }

std::size_t Proactor::handle_events(Deadline deadline, std::size_t handlers_max) {
  return turn(core_, deadline, handlers_max, true, false);
}

NativeHandle Proactor::descriptor() const noexcept { return core_->descriptor(); }
Glance Proactor::glance() const noexcept { return core_->glance(); }

void Proactor::stop() noexcept { core_->stop(); }
bool Proactor::stopped() const noexcept { return core_->stopped(); }
void Proactor::restart() noexcept { core_->restart(); }
void Proactor::drain(Deadline deadline) noexcept { core_->drain(deadline); }
void Proactor::finish() noexcept {
  if (!core_->forked()) core_->finish();
}

bool Proactor::move_deadline(Operation& operation, Deadline deadline) noexcept {
  return core_->move_deadline(operation, deadline);
}
CancelResult Proactor::cancel(Operation& operation, std::uint32_t activation) noexcept {
  return core_->cancel(operation, activation);
}
CancelResult Proactor::cancel(Handle& handle) noexcept { return core_->cancel(handle); }
void Proactor::cancel_all() noexcept { core_->cancel_all(); }
CancelWait Proactor::cancel_wait(Operation& operation, std::uint32_t activation,
                                 Deadline deadline) noexcept {
  return core_->cancel_wait(operation, activation, deadline);
}

CachedOperation* Proactor::take_cached() noexcept { return core_->ledger().take_cached(); }
void Proactor::give_back(CachedOperation& operation) noexcept {
  core_->ledger().give_back(operation);
}

void Proactor::on_task_exception(std::function<void(std::exception_ptr)> handler) {
  core_->task_exceptions.set_handler(std::move(handler));
}

void Proactor::task_failed(std::exception_ptr exception) noexcept {
  core_->task_exceptions.tell(std::move(exception));
}

Result<Handle*> Proactor::adopt(NativeHandle native, HandleKind kind, Ownership ownership,
                                Home home) noexcept {
  return core_->adopt(native, kind, ownership, home);
}
Result<Handle*> Proactor::adopt_opened(NativeHandle native, HandleKind kind, int flags,
                                       Home home) noexcept {
  return core_->adopt_opened(native, kind, flags, home);
}
std::error_code Proactor::close(Handle& handle, Operation& operation) noexcept {
  return core_->close(handle, operation);
}
void Proactor::close_detached(Handle& handle) noexcept {
  // Called by the destructor of an object, whose proactor may be gone. The null shows that as long
  // as the proactor's memory is not reused.
  if (BATON_UNLIKELY(core_ == nullptr)) {
    detail::misused(
        "an object was destroyed after its proactor: declare it after the proactor, or close it "
        "before the proactor ends");
  }
  core_->close_detached(handle);
}
void Proactor::set_close_may_block(Handle& handle, bool may_block) noexcept {
  OperationAccess::set_close_may_block(handle, may_block);
}

std::uint32_t Proactor::lanes() const noexcept { return core_->lanes(); }
std::uint32_t Proactor::current_lane() const noexcept { return core_->current_lane(); }
std::uint32_t Proactor::home_lane(const Handle& handle) const noexcept {
  return OperationAccess::lane(handle);
}

Deadline Proactor::now() const noexcept { return core_->ledger().now(); }
Statistics Proactor::statistics() const { return core_->statistics(); }
PendingReport Proactor::pending(const PendingQuery& query) const { return core_->pending(query); }
bool Proactor::name_tag(std::uint32_t tag, std::string_view name) {
  return core_->name_tag(tag, name);
}
std::string Proactor::explain() const { return core_->explanation; }
std::vector<EngineInfo> Proactor::engines() const {
  std::vector<EngineInfo> infos;
  for (const Processor* processor : core_->ledger().teams.front()) infos.push_back(processor->info);
  return infos;
}
const Config& Proactor::config() const noexcept { return core_->config; }
const os::System& Proactor::system() const noexcept { return core_->ledger().system(); }

bool DrivingRefused::is_of(const Proactor& proactor) const noexcept {
  return ledger_ == &proactor.core_->ledger();
}

Result<void, Failure> Proactor::reopen() {
  if (!core_->forked()) return {};
  core_->abandon_after_fork();
  auto fresh = Opener{core_->config}.open();
  if (!fresh) return unexpected{fresh.error()};
  (*fresh)->task_exceptions.take_over_after_fork(core_->task_exceptions);
  // Objects of the parent may still name handles of the old core, so its records stay, marked as
  // closed.
  (*fresh)->ancestor.reset(core_);
  core_ = fresh->release();
  return {};
}

}  // namespace baton
