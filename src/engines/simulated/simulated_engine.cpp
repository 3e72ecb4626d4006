// Performs operations on simulated descriptors.
#include "engines/simulated/simulated_engine.hpp"

#include <errno.h>

#include <array>
#include <utility>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::simulated {
namespace {

using sim::Event;
using sim::Kernel;

std::int64_t number(OperationKind kind) noexcept { return static_cast<std::int64_t>(kind); }

bool is_file(const sim::Node& node) noexcept {
  return node.kind == sim::NodeKind::file || node.kind == sim::NodeKind::null;
}

/// True: the operation is complete without the descriptor.
bool nothing_to_move(const Operation& operation) noexcept {
  return !operation.has(Operation::pooled) && operation.kind() != OperationKind::accept &&
         operation.kind() != OperationKind::read_datagram && remaining_bytes(operation) == 0;
}

constexpr std::int64_t rest_ns = 10'000'000;  // back-off of an accept without descriptors

}  // namespace

SimulatedEngine::SimulatedEngine(const EngineOptions& options, sim::World& world)
    : world_(world),
      needs_flush_(world.traits.needs_flush),
      blind_wait_(world.traits.start_interrupts_leader),
      pinned_(world.traits.pinned && options.pinned_ok),
      records_(options.handles_max) {
  info_.name = "simulated";
  for (Support& support : info_.support) support = Support::native;
  info_.support[static_cast<std::size_t>(OperationKind::timer)] = Support::unsupported;
  info_.support[static_cast<std::size_t>(OperationKind::user)] = Support::unsupported;
  info_.leader_rule = pinned_ ? LeaderRule::pinned : LeaderRule::any;
  info_.start_from_any_thread = !pinned_ && world.traits.start_from_any_thread;
  info_.start_interrupts_leader = blind_wait_;
  info_.works_in_submit = !needs_flush_;
  info_.operations_max = world.traits.operations_max;
  if (world.traits.has_descriptor) {
    const int fd = world_.kernel().event(0);
    if (fd >= 0) descriptor_ = fd;
  }
  if (descriptor_ == invalid_handle) ++world_.without_descriptor;
}

SimulatedEngine::~SimulatedEngine() {
  if (held_ != 0) world_.violated("an engine is destroyed with operations inside");
  world_.unflushed -= unflushed_counted_;
  world_.scheduler().forget(*this);
  if (descriptor_ == invalid_handle) {
    --world_.without_descriptor;
  } else {
    world_.kernel().close(descriptor_);
  }
}

// -- handles --------------------------------------------------------------------------------------

std::error_code SimulatedEngine::attach(Handle& handle) noexcept {
  world_.point();
  if (!records_.ensure(handle.index())) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
  Record& record = records_[handle.index()];
  world_.check(record.node == nullptr, "a handle is attached twice");
  sim::Node* node = world_.kernel().find(handle.native());
  if (node == nullptr) return {EBADF, std::system_category()};
  record.engine = this;
  record.node = node;
  record.index = handle.index();
  world_.kernel().watch(*node, record);
  return {};
}

void SimulatedEngine::detach(Handle& handle) noexcept {
  world_.point();
  Record* record = records_.find(handle.index());
  if (record == nullptr || record->node == nullptr) return;
  world_.check(record->in.empty() && record->out.empty() && record->loose.empty(),
               "a handle is detached with operations inside");
  Kernel::unwatch(*record->node, *record);
  world_.scheduler().forget(*record);
  record->due = false;
  forget_cut(*record);
  record->node = nullptr;
}

void Record::fire(std::uint32_t) noexcept {
  due = false;
  if (!cut) engine->run(*this);
}

void Record::changed(sim::Node&) noexcept {
  if (!in.empty() || !out.empty() || !loose.empty()) engine->expect(*this);
}

// -- the calls ------------------------------------------------------------------------------------

void SimulatedEngine::check_thread() noexcept {
  if (!pinned_) return;
  if (owner_thread_ == 0) owner_thread_ = world_.scheduler().self();
  // Another thread may take a released lane while nothing is inside.
  if (owner_thread_ != world_.scheduler().self() && held_ == 0) {
    owner_thread_ = world_.scheduler().self();
  }
  world_.check(owner_thread_ == world_.scheduler().self(),
               "a pinned engine is used by another thread");
}

Submission SimulatedEngine::submit(Operation& operation, void*) noexcept {
  world_.point();
  check_thread();
  State& mine = state(operation);
  mine = State{};
  world_.note(Event::submit, number(operation.kind()), operation.handle()->index());
  if (operation.cancel_asked()) {
    operation.finish(ECANCELED);
    settle_pooled(operation, mine.attempt);
    return Submission::completed;
  }
  if (operation.kind() == OperationKind::close) {
    const Handle& handle = *operation.handle();
    operation.finish(handle.owned() ? -world_.kernel().close(handle.native()) : 0);
    return Submission::completed;
  }
  const bool full = info_.operations_max != 0 && held_ >= info_.operations_max;
  if (full || world_.random.chance(world_.faults().busy)) {
    // There will be room soon; the timer ends the wait then.
    world_.scheduler().at(world_.scheduler().now() + 5'000, *this, 0);
    return Submission::busy;
  }
  Record& record = records_[operation.handle()->index()];
  world_.check(record.node != nullptr, "a submit on a handle that is not attached");
  mine.record = &record;
  const Place place = place_of(operation);
  if (!needs_flush_ && (place == Place::loose || queue_of(record, place).empty()) &&
      possible(record, operation) && world_.random.chance(world_.faults().at_once) &&
      perform(record, operation) == Done::yes) {
    settle_pooled(operation, mine.attempt);
    world_.note(Event::engine_done, number(operation.kind()), operation.error_value());
    return Submission::completed;
  }
  mine.owner = this;
  mine.in_wait = blind_wait_ && waiting_ ? wait_number_ : 0;
  ++held_;
  if (needs_flush_) {
    mine.place = Place::unflushed;
    unflushed_.push_back(operation);
    count_unflushed();
  } else {
    queue(operation);
  }
  return Submission::pending;
}

void SimulatedEngine::flush() noexcept {
  world_.point();
  hand_over();
}

CancelAnswer SimulatedEngine::cancel(Operation& operation) noexcept {
  world_.point();
  check_thread();
  State& mine = state(operation);
  Record* record = records_.find(operation.handle()->index());
  CancelAnswer answer = CancelAnswer::too_late;
  if (mine.owner == this && record != nullptr && mine.record == record) {
    if (world_.random.chance(world_.faults().late_cancel)) {
      // As if the operation or its cancellation were in progress: the completion tells which.
      while (mine.place == Place::unflushed) queue(unflushed_.pop_front());
      count_unflushed();
      mine.cancelled = true;
      world_.scheduler().forget(*record);  // an accept that backs off ends now
      record->due = false;
      expect(*record);
      answer = CancelAnswer::requested;
    } else {
      if (mine.place == Place::unflushed) {
        unflushed_.erase(operation);
      } else {
        queue_of(*record, mine.place).erase(operation);
      }
      if (record->in.empty() && record->out.empty()) forget_cut(*record);
      count_unflushed();
      operation.finish(ECANCELED);
      if (world_.random.coin()) {
        done(operation);
        answer = CancelAnswer::requested;
      } else {
        settle_pooled(operation, mine.attempt);
        leave(operation);
        --held_;
        answer = CancelAnswer::completed;
      }
      expect(*record);  // the next operation in order
    }
  }
  world_.note(Event::engine_cancel, number(operation.kind()), static_cast<std::int64_t>(answer));
  return answer;
}

void SimulatedEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  world_.point();
  check_thread();
  world_.check(!waiting_, "two threads wait in one engine");
  hand_over();
  waiting_ = true;
  ++wait_number_;
  seen_done_ = static_cast<std::uint32_t>(done_.size());
  const bool nothing = world_.random.chance(world_.faults().empty_wait);
  while (seen_done_ == 0 && !interrupted_ && !nothing && world_.scheduler().now() < deadline.ns()) {
    if (cut_.empty()) {
      world_.scheduler().sleep(this, deadline.ns());
    } else {
      see_what_was_cut();
      hand_over();
    }
  }
  waiting_ = false;
  if (!nothing) see_what_was_cut();
  const std::size_t before = done_.size();
  std::size_t taken = 0;
  while (!done_.empty() && !nothing) {
    if (taken > 0 && world_.random.chance(world_.faults().part_of_batch)) break;
    completed.push_back(done_.pop_front());
    ++taken;
  }
  held_ -= static_cast<std::uint32_t>(taken);
  world_.undelivered -= static_cast<std::uint32_t>(taken);
  // An interrupt ends one wait: this one, even if it ended for another reason.
  if (!nothing) interrupted_ = false;
  if (taken == before && !interrupted_ && cut_.empty()) unsignal();
  world_.note(Event::engine_wait, static_cast<std::int64_t>(taken));
}

bool SimulatedEngine::unpin(OperationQueue&) noexcept {
  world_.point();
  check_thread();
  if (world_.traits.bound) return false;
  pinned_ = false;
  info_.leader_rule = LeaderRule::any;
  return true;
}

void SimulatedEngine::interrupt() noexcept {
  world_.point();
  world_.note(Event::interrupt, info_.operations_max);
  interrupted_ = true;
  signal();
  world_.scheduler().wake(this, 1);
}

// There is room for refused operations now.
void SimulatedEngine::fire(std::uint32_t) noexcept {
  interrupted_ = true;
  signal();
  world_.scheduler().wake(this, 1);
}

void SimulatedEngine::signal() noexcept {
  sim::Node* node = world_.kernel().find(descriptor_);
  if (node == nullptr || node->counter != 0) return;
  node->counter = 1;
  world_.kernel().changed(*node);
}

void SimulatedEngine::unsignal() noexcept {
  if (sim::Node* node = world_.kernel().find(descriptor_)) node->counter = 0;
}

// -- queues ---------------------------------------------------------------------------------------

SimulatedEngine::Place SimulatedEngine::place_of(const Operation& operation) noexcept {
  if (operation.kind() == OperationKind::shutdown) return Place::out;
  if (!is_ordered(operation)) return Place::loose;
  const bool reads = operation.kind() == OperationKind::read_stream ||
                     operation.kind() == OperationKind::read_file;
  return reads ? Place::in : Place::out;
}

OperationList& SimulatedEngine::queue_of(Record& record, Place place) noexcept {
  if (place == Place::in) return record.in;
  return place == Place::out ? record.out : record.loose;
}

void SimulatedEngine::queue(Operation& operation) noexcept {
  State& mine = state(operation);
  mine.place = place_of(operation);
  queue_of(*mine.record, mine.place).push_back(operation);
  expect(*mine.record);
}

// Hands submitted operations, and transfers to be continued, to the simulated kernel.
void SimulatedEngine::hand_over() noexcept {
  while (!unflushed_.empty()) queue(unflushed_.pop_front());
  for (Record* record : std::exchange(again_, {})) {
    record->cut = false;
    expect(*record);
  }
  count_unflushed();
}

void SimulatedEngine::cut_short(Record& record) noexcept {
  record.cut = true;
  cut_.push_back(&record);
  signal();
  world_.scheduler().wake(this, 1);
}

void SimulatedEngine::forget_cut(Record& record) noexcept {
  record.cut = false;
  std::erase(cut_, &record);
  std::erase(again_, &record);
  count_unflushed();
}

void SimulatedEngine::see_what_was_cut() noexcept {
  again_.insert(again_.end(), cut_.begin(), cut_.end());
  cut_.clear();
  count_unflushed();
}

void SimulatedEngine::count_unflushed() noexcept {
  const auto count = static_cast<std::uint32_t>(unflushed_.size() + again_.size());
  world_.unflushed += count - unflushed_counted_;
  unflushed_counted_ = count;
}

void SimulatedEngine::leave(Operation& operation) noexcept { state(operation).owner = nullptr; }

void SimulatedEngine::done(Operation& operation) noexcept {
  State& mine = state(operation);
  settle_pooled(operation, mine.attempt);
  const bool seen = !waiting_ || mine.in_wait != wait_number_;
  leave(operation);
  done_.push_back(operation);
  ++world_.undelivered;
  world_.note(Event::engine_done, number(operation.kind()), operation.error_value());
  signal();
  if (!seen) return;
  ++seen_done_;
  world_.scheduler().wake(this, 1);
}

// -- the world's side -----------------------------------------------------------------------------

void SimulatedEngine::expect(Record& record) noexcept {
  if (record.due || record.cut || record.node == nullptr) return;
  const sim::Faults& faults = world_.faults();
  const bool file = is_file(*record.node);
  const std::int64_t least = file ? faults.disk_least_ns : faults.engine_least_ns;
  const std::int64_t most = file ? faults.disk_most_ns : faults.engine_most_ns;
  record.due = true;
  const std::int64_t delay = most == 0 ? 0 : world_.random.between(least, most);
  world_.scheduler().at(world_.scheduler().now() + delay, record, 0);
}

bool SimulatedEngine::possible(const Record& record, Operation& operation) noexcept {
  const sim::Node& node = *record.node;
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::accept:
    case OperationKind::read_datagram:
      return (Kernel::ready(node) & (Kernel::readable | Kernel::hung_up)) != 0 ||
             nothing_to_move(operation);
    case OperationKind::write_stream:
      return (Kernel::ready(node) & (Kernel::writable | Kernel::hung_up)) != 0 ||
             nothing_to_move(operation);
    case OperationKind::connect:
      return !state(operation).begun || node.link != sim::Link::connecting;
    case OperationKind::wait_ready: {
      std::uint32_t wanted = Kernel::broken | Kernel::hung_up;
      if (operation.has(Operation::readable)) wanted |= Kernel::readable;
      if (operation.has(Operation::writable)) wanted |= Kernel::writable;
      return (Kernel::ready(node) & wanted) != 0;
    }
    case OperationKind::sync_file: {
      // A sync covers the writes submitted before it.
      if (!record.out.empty()) return false;
      for (const Operation* each = record.loose.front(); each != nullptr && each != &operation;
           each = OperationList::next(*each)) {
        if (each->kind() == OperationKind::write_file) return false;
      }
      return true;
    }
    default:
      return true;
  }
}

void SimulatedEngine::run(Record& record) noexcept {
  // Reads and writes are independent, and unordered operations run at any time.
  const std::uint32_t first = world_.random.below(3);
  bool more = false;
  for (std::uint32_t i = 0; i < 3 && !record.cut; ++i) {
    switch ((first + i) % 3) {
      case 0:
        more |= run_ordered(record, record.in);
        break;
      case 1:
        more |= run_ordered(record, record.out);
        break;
      default:
        more |= run_loose(record);
    }
  }
  // The write that has just ended may be the last one that a sync waits for.
  for (Operation* each = record.loose.front(); each != nullptr && !more;
       each = OperationList::next(*each)) {
    more = each->kind() == OperationKind::sync_file && possible(record, *each);
  }
  if (more && !record.cut) expect(record);
}

bool SimulatedEngine::run_ordered(Record& record, OperationList& queue) noexcept {
  for (int i = 0; i < 4; ++i) {
    Operation* front = queue.front();
    if (front == nullptr) return false;
    const bool cancelled = state(*front).cancelled;
    Done outcome = Done::no;
    if (possible(record, *front)) outcome = perform(record, *front);
    if (outcome != Done::yes && cancelled) {
      front->finish(ECANCELED);
      outcome = Done::yes;
    }
    if (outcome == Done::no) break;
    if (outcome == Done::partly) {
      if (needs_flush_ && world_.random.coin()) cut_short(record);
      return true;
    }
    done(queue.pop_front());
  }
  // An operation behind the first may be cancelled.
  for (Operation* each = queue.front(); each != nullptr; each = OperationList::next(*each)) {
    if (!state(*each).cancelled) continue;
    queue.erase(*each);
    each->finish(ECANCELED);
    done(*each);
    return true;
  }
  return queue.front() != nullptr && possible(record, *queue.front());
}

bool SimulatedEngine::run_loose(Record& record) noexcept {
  bool more = false;
  for (Operation* each = record.loose.front(); each != nullptr;) {
    Operation* next = OperationList::next(*each);
    Operation& operation = *each;
    each = next;
    const bool cancelled = state(operation).cancelled;
    if (!possible(record, operation) && !cancelled) continue;
    // Others may overtake this operation.
    if (record.loose.has_several() && !cancelled && world_.random.below(3) == 0) {
      more = true;
      continue;
    }
    Done outcome = possible(record, operation) ? perform(record, operation) : Done::no;
    if (outcome != Done::yes && cancelled) {
      operation.finish(ECANCELED);
      outcome = Done::yes;
    }
    if (outcome == Done::partly) more = true;
    if (outcome != Done::yes) continue;
    record.loose.erase(operation);
    done(operation);
  }
  return more;
}

SimulatedEngine::Done SimulatedEngine::failed(Operation& operation, std::int64_t result) noexcept {
  if (result == -EAGAIN) return Done::no;
  fail(operation, static_cast<int>(-result));
  return Done::yes;
}

SimulatedEngine::Done SimulatedEngine::perform(Record& record, Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      return perform_stream(record, operation);
    case OperationKind::read_datagram:
    case OperationKind::write_datagram:
      return perform_datagram(record, operation);
    case OperationKind::read_file:
    case OperationKind::write_file:
      return perform_file(record, operation);
    case OperationKind::accept:
      return perform_accept(record, operation);
    case OperationKind::connect:
      return perform_connect(record, operation);
    case OperationKind::sync_file:
      operation.finish(-world_.kernel().sync(*record.node));
      return Done::yes;
    case OperationKind::shutdown:
      operation.finish(-world_.kernel().shutdown_writing(*record.node));
      return Done::yes;
    case OperationKind::wait_ready:
      operation.finish(0);
      return Done::yes;
    case OperationKind::close:
    case OperationKind::timer:
    case OperationKind::user:
      break;
  }
  BATON_UNREACHABLE("a kind that no engine sees");
}

SimulatedEngine::Done SimulatedEngine::perform_stream(Record& record,
                                                      Operation& operation) noexcept {
  Attempt& attempt = state(operation).attempt;
  if (needs_no_transfer(operation, attempt)) return Done::yes;
  const bool reads = operation.kind() == OperationKind::read_stream;
  if (reads && !take_block(operation, attempt)) return Done::yes;
  std::array<iovec, pieces_max> pieces;
  const std::span<const iovec> rest{pieces.data(), remaining(operation, pieces)};
  const std::int64_t moved = reads ? world_.kernel().receive(*record.node, rest)
                                   : world_.kernel().send(*record.node, rest);
  world_.note(Event::perform, number(operation.kind()), moved);
  if (moved >= 0) {
    return advance(operation, static_cast<std::size_t>(moved)) ? Done::yes : Done::partly;
  }
  const Done outcome = failed(operation, moved);
  if (reads && outcome == Done::no) give_block_back(operation, attempt);
  return outcome;
}

SimulatedEngine::Done SimulatedEngine::perform_datagram(Record& record,
                                                        Operation& operation) noexcept {
  const bool reads = operation.kind() == OperationKind::read_datagram;
  Attempt& attempt = state(operation).attempt;
  if (reads && !take_block(operation, attempt)) return Done::yes;
  iovec single;
  const std::span<const iovec> all = datagram_pieces(operation, single);
  Endpoint* const peer = operation.endpoint();
  std::int64_t moved = 0;
  if (reads) {
    std::uint16_t from = 0;
    moved = world_.kernel().receive_from(*record.node, all, &from);
    if (moved >= 0 && peer != nullptr) *peer = Endpoint::loopback(from);
  } else {
    moved = world_.kernel().send_to(*record.node, all, peer != nullptr ? peer->port() : 0);
  }
  world_.note(Event::perform, number(operation.kind()), moved);
  if (moved >= 0) {
    static_cast<void>(advance(operation, static_cast<std::size_t>(moved)));
    return Done::yes;
  }
  const Done outcome = failed(operation, moved);
  if (reads && outcome == Done::no) give_block_back(operation, attempt);
  return outcome;
}

SimulatedEngine::Done SimulatedEngine::perform_file(Record& record, Operation& operation) noexcept {
  Attempt& attempt = state(operation).attempt;
  if (needs_no_transfer(operation, attempt)) return Done::yes;
  if (!offset_fits(operation)) {
    operation.finish(EINVAL);
    return Done::yes;
  }
  const bool reads = operation.kind() == OperationKind::read_file;
  if (reads && !take_block(operation, attempt)) return Done::yes;
  std::array<iovec, pieces_max> pieces;
  const std::span<const iovec> rest{pieces.data(), remaining(operation, pieces)};
  sim::Node& node = *record.node;
  const bool ordered = is_ordered(operation);
  const std::uint64_t offset = ordered ? node.position : operation.offset() + operation.bytes();
  const std::int64_t moved = reads ? world_.kernel().read_at(node, rest, offset)
                                   : world_.kernel().write_at(node, rest, offset);
  world_.note(Event::perform, number(operation.kind()), moved);
  if (moved < 0) {
    const int error = static_cast<int>(-moved);
    if (!FileCalls::ended_between_blocks(sim::system(), operation, error)) {
      fail_file(operation, error);
      return Done::yes;
    }
    static_cast<void>(advance_file(operation, 0));
    return Done::yes;
  }
  if (ordered) node.position += static_cast<std::uint64_t>(moved);
  return advance_file(operation, static_cast<std::size_t>(moved)) ? Done::yes : Done::partly;
}

SimulatedEngine::Done SimulatedEngine::perform_accept(Record& record,
                                                      Operation& operation) noexcept {
  std::uint16_t from = 0;
  int taken = -ECONNABORTED;
  while (taken == -ECONNABORTED) taken = world_.kernel().accept(*record.node, &from);
  world_.note(Event::perform, number(operation.kind()), taken);
  if (taken >= 0) {
    if (Endpoint* peer = operation.endpoint()) *peer = Endpoint::loopback(from);
    operation.set_bytes(static_cast<std::size_t>(taken));
    operation.finish(0);
    return Done::yes;
  }
  if (taken == -EMFILE || taken == -ENOBUFS) {
    // It stays pending and backs off: nothing reports when there are descriptors again.
    if (!record.due) {
      record.due = true;
      world_.scheduler().at(world_.scheduler().now() + rest_ns, record, 0);
    }
    return Done::no;
  }
  return failed(operation, taken);
}

SimulatedEngine::Done SimulatedEngine::perform_connect(Record& record,
                                                       Operation& operation) noexcept {
  sim::Node& node = *record.node;
  bool& begun = state(operation).begun;
  if (!begun) {
    begun = true;
    const Endpoint* peer = operation.endpoint();
    const int answer =
        peer == nullptr ? -EDESTADDRREQ : world_.kernel().connect(node, peer->port());
    if (answer == -EINPROGRESS) return Done::no;
    operation.finish(-answer);
    return Done::yes;
  }
  if (node.link == sim::Link::connecting) return Done::no;
  // Another operation may have consumed the error.
  int error = world_.kernel().take_error(node);
  if (error == 0 && node.link != sim::Link::up) error = ECONNABORTED;
  operation.finish(error);
  return Done::yes;
}

}  // namespace baton::engines::simulated
