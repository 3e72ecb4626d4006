// The accounts by themselves: an engine that answers as the test says, no threads, and every path
// of an operation between start and result (P-20).
#include "core/ledger.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "obedient_engine.hpp"

namespace baton {
namespace {

using Access = OperationAccess;
using State = OperationState;

using test::ObedientEngine;
using test::part;
using test::Part;

constexpr int descriptor = 77;  // of no open file: neither the engine nor a test uses it

class LedgerTest : public testing::Test {
 protected:
  /// A ledger with one lane and these processors.
  void open(bool per_thread, std::vector<Processor*> team) {
    ledger_ = std::make_unique<Ledger>(os::real_system(), 16, per_thread);
    ledger_->teams = {std::move(team)};
  }
  void open_shared(bool any_thread = true, const ProcessorConfig& config = {}) {
    part_ = part(Mode::shared, 0, any_thread, config);
    open(false, {part_.processor.get()});
  }
  [[nodiscard]] Processor& processor() const { return *part_.processor; }
  [[nodiscard]] ObedientEngine& engine() const { return *part_.engine; }

  Handle& handle(HandleKind kind = HandleKind::stream_socket,
                 Ownership ownership = Ownership::borrowed, std::uint16_t lane = 0,
                 std::uint16_t preferred = Handle::any_processor) {
    lane_.open_handles.fetch_add(1);
    Handle& made = *ledger_->handles.allocate(descriptor, kind, ownership, true, lane, preferred);
    HandleTable::open(made);
    return made;
  }
  /// With room for one: the second is deferred, and the first ends while the leader is so.
  /// REQUIRES: open.
  void make_room(SeatState leader) {
    Handle& socket = handle();
    prepare(one_, socket);
    prepare(two_, socket);
    start(one_);
    EXPECT_EQ(admit(two_), Admission::deferred);
    processor().seat.state = leader;
    one_.finish(0);
    ledger_->submitted(lane_, processor(), one_, Submission::completed);
    EXPECT_TRUE(ledger_->cancel(lane_, two_));
    while (deliver() != nullptr) {
    }
    expect_balance();
  }
  static void prepare(Operation& operation, Handle& handle,
                      OperationKind kind = OperationKind::read_stream) {
    operation.prepare(kind, &handle);
  }
  Admission admit(Operation& operation, bool may_submit = true) {
    return ledger_->admit(lane_, processor(), operation, may_submit, false, error_);
  }
  /// Started, and inside the engine.
  void start(Operation& operation) {
    ASSERT_EQ(admit(operation), Admission::submit);
    ASSERT_EQ(operation.state(), State::started);
  }
  /// The engine has finished it.
  void finish(Operation& operation, int error = 0) {
    OperationQueue batch;
    operation.finish(error);
    batch.push_back(operation);
    ledger_->account(processor(), batch);
    ledger_->take_back_all(lane_, batch);
  }
  /// A runner's step with the next result; null when there is none.
  Operation* deliver() {
    if (lane_.completed.empty()) return nullptr;
    Operation& operation = lane_.completed.pop_front();
    Handle* of = operation.handle();
    Access::complete(operation);
    if (operation.kind() != OperationKind::timer) ledger_->handler_returned(lane_, of);
    return &operation;
  }
  void expect_balance() {
    EXPECT_EQ(lane_.counters.pending.get(), 0U);
    EXPECT_EQ(processor().started, 0U);
    EXPECT_EQ(processor().outstanding.get(), 0U);
    EXPECT_TRUE(processor().deferred.empty());
    EXPECT_TRUE(lane_.timers.empty());
    EXPECT_EQ(deliver(), nullptr);
  }

  Part part_;
  Part other_;
  std::unique_ptr<Ledger> ledger_;
  Lane lane_;
  std::error_code error_;
  // Declared last: they must not be pending when they are destroyed.
  Operation one_;
  Operation two_;
};

// -- start ----------------------------------------------------------------------------------------

TEST_F(LedgerTest, an_operation_goes_from_start_to_its_result) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  start(one_);
  EXPECT_EQ(engine().attached, 1);
  finish(one_);
  EXPECT_EQ(one_.state(), State::result_ready);
  EXPECT_EQ(deliver(), &one_);
  EXPECT_EQ(one_.state(), State::completed);
  expect_balance();
}

TEST_F(LedgerTest, a_handle_that_is_closing_takes_no_more) {
  open_shared();
  Handle& socket = handle();
  EXPECT_TRUE(ledger_->begin_close(lane_, socket, nullptr));
  EXPECT_FALSE(ledger_->begin_close(lane_, socket, nullptr));
  prepare(one_, socket);
  EXPECT_EQ(admit(one_), Admission::refused);
  EXPECT_EQ(error_, errc::handle_closed);
  expect_balance();
}

TEST_F(LedgerTest, a_stop_refuses_later_starts_by_what_was_stopped) {
  open_shared();
  Handle& listener = handle(HandleKind::listener);
  prepare(one_, listener, OperationKind::accept);
  ledger_->refusing = Refusing::accepts;
  EXPECT_EQ(admit(one_), Admission::refused);
  EXPECT_EQ(error_, errc::stopped);
  // The caller has refused everything else before; this refuses only starts at the end of a drain.
  ledger_->refusing = Refusing::everything;
  prepare(two_, listener, OperationKind::accept);
  EXPECT_EQ(admit(two_), Admission::submit);
  finish(two_);
  deliver();
  ledger_->draining = true;
  prepare(two_, listener);
  EXPECT_EQ(admit(two_), Admission::refused);
  EXPECT_EQ(error_, errc::stopped);
  // A mailed operation has started from its caller's view: it is cancelled.
  EXPECT_EQ(ledger_->admit(lane_, processor(), two_, true, true, error_), Admission::refused);
  EXPECT_EQ(error_, std::errc::operation_canceled);
  ledger_->refusing = Refusing::accepts;
  prepare(two_, listener);
  EXPECT_EQ(admit(two_), Admission::submit) << "a drain lets go on what has begun";
  finish(two_);
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, a_mailed_operation_that_is_refused_completes) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  Access::activate(one_, State::started);
  ledger_->refuse_mailed(lane_, one_, errc::handle_closed);
  EXPECT_EQ(one_.error(), errc::handle_closed);
  EXPECT_EQ(one_.handle(), nullptr);
  EXPECT_EQ(deliver(), &one_);
  expect_balance();
}

TEST_F(LedgerTest, a_processor_holds_no_more_than_its_limit) {
  open_shared(true, {.operations_max = 1});
  Handle& socket = handle();
  prepare(one_, socket);
  prepare(two_, socket);
  start(one_);
  EXPECT_EQ(admit(two_), Admission::refused);
  EXPECT_EQ(error_, errc::limit_reached);
  EXPECT_EQ(lane_.counters.refused_limit.get(), 1U);
  finish(one_);
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, an_engine_that_does_not_take_the_handle_completes_the_start) {
  open_shared();
  engine().attach_error = std::make_error_code(std::errc::not_enough_memory);
  Handle& socket = handle();
  prepare(one_, socket);
  EXPECT_EQ(admit(one_), Admission::finished);
  EXPECT_EQ(one_.error(), std::errc::not_enough_memory);
  EXPECT_EQ(deliver(), &one_);
  // An error of the library's own keeps its category.
  engine().attach_error = errc::not_supported;
  prepare(one_, socket);
  EXPECT_EQ(admit(one_), Admission::finished);
  EXPECT_EQ(one_.error(), errc::not_supported);
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, without_room_an_operation_is_deferred_and_others_behind_it) {
  open_shared(true, {.started_max = 1});
  Handle& socket = handle();
  Operation three;
  for (Operation* each : {&one_, &two_, &three}) prepare(*each, socket);
  start(one_);
  EXPECT_EQ(admit(two_), Admission::deferred);
  finish(one_);
  deliver();
  EXPECT_EQ(admit(three), Admission::deferred) << "there is room, but one waits before it";
  OperationQueue finished;
  ledger_->start_deferred(processor(), finished);
  EXPECT_EQ(two_.state(), State::started);
  EXPECT_EQ(three.state(), State::deferred);
  finish(two_);
  ledger_->start_deferred(processor(), finished);
  finish(three);
  EXPECT_TRUE(finished.empty());
  while (deliver() != nullptr) {
  }
  expect_balance();
}

// -- submitted and deferred -----------------------------------------------------------------------

TEST_F(LedgerTest, immediate_completions_are_counted) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  start(one_);
  one_.finish(0);
  ledger_->submitted(lane_, processor(), one_, Submission::completed);
  EXPECT_EQ(lane_.counters.completed_at_once.get(), 1U);
  EXPECT_EQ(deliver(), &one_);
  expect_balance();
}

TEST_F(LedgerTest, a_busy_engine_defers_operations_that_are_not_cancelled) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  start(one_);
  ledger_->submitted(lane_, processor(), one_, Submission::busy);
  EXPECT_EQ(one_.state(), State::deferred);
  OperationQueue finished;
  engine().answer = Submission::busy;
  ledger_->start_deferred(processor(), finished);
  EXPECT_EQ(one_.state(), State::deferred) << "still no room";
  engine().answer = Submission::completed;
  ledger_->start_deferred(processor(), finished);
  EXPECT_EQ(finished.size(), 1U);
  ledger_->take_back_all(lane_, finished);
  EXPECT_EQ(deliver(), &one_);
  prepare(two_, socket);
  start(two_);
  Access::ask_cancel(two_);
  ledger_->submitted(lane_, processor(), two_, Submission::busy);
  EXPECT_EQ(two_.error(), std::errc::operation_canceled);
  EXPECT_EQ(lane_.counters.cancelled.get(), 1U);
  EXPECT_EQ(deliver(), &two_);
  expect_balance();
}

TEST_F(LedgerTest, a_deferred_operation_whose_handle_is_not_taken_completes) {
  open_shared(false);
  Handle& socket = handle();
  prepare(one_, socket);
  EXPECT_EQ(admit(one_, false), Admission::deferred) << "only the leader may start";
  EXPECT_EQ(engine().attached, 0) << "and only it may attach";
  engine().attach_error = std::make_error_code(std::errc::not_enough_memory);
  OperationQueue finished;
  ledger_->start_deferred(processor(), finished);
  EXPECT_EQ(engine().submitted, 0);
  ledger_->take_back_all(lane_, finished);
  EXPECT_EQ(one_.error(), std::errc::not_enough_memory);
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, a_leader_that_waits_is_notified_of_room) {
  open_shared(true, {.started_max = 1});
  for (const SeatState state : {SeatState::awake, SeatState::waiting}) {
    processor().seat.interrupted = false;
    engine().interrupted = 0;
    make_room(state);
    const bool waits = state == SeatState::waiting;
    EXPECT_EQ(engine().interrupted, waits ? 1 : 0) << "one that is awake comes by itself";
    EXPECT_EQ(processor().seat.interrupted, waits);
  }
}

TEST_F(LedgerTest, a_dedicated_leader_is_always_notified_of_room) {
  part_ = part(Mode::dedicated, 0, true, {.started_max = 1});
  // In a team with lanes the mutex guards the accounts, and no thread holds it here.
  open(true, {part_.processor.get()});
  ledger_->handles.add_dedicated_lists();
  make_room(SeatState::awake);
  EXPECT_EQ(engine().interrupted, 1);
}

TEST_F(LedgerTest, the_thread_of_a_lane_needs_no_notification_of_room) {
  part_ = part(Mode::per_thread, 0, false, {.started_max = 1});
  open(true, {part_.processor.get()});
  make_room(SeatState::waiting);
  EXPECT_EQ(engine().interrupted, 0);
}

// -- the way to a processor -----------------------------------------------------------------------

TEST_F(LedgerTest, a_handle_goes_to_the_processor_that_it_prefers_if_that_takes_the_kind) {
  part_ = part(Mode::shared, 0, true, {}, {OperationKind::read_file});
  other_ = part(Mode::shared, 1, true, {}, {OperationKind::accept});
  open(false, {part_.processor.get(), other_.processor.get()});
  const Handle& any = handle();
  EXPECT_EQ(ledger_->route(lane_, OperationKind::read_stream, any), part_.processor.get());
  EXPECT_EQ(ledger_->route(lane_, OperationKind::read_file, any), other_.processor.get());
  const Handle& second = handle(HandleKind::stream_socket, Ownership::borrowed, 0, 1);
  EXPECT_EQ(ledger_->route(lane_, OperationKind::read_stream, second), other_.processor.get());
  EXPECT_EQ(ledger_->route(lane_, OperationKind::accept, second), part_.processor.get());
  const Handle& third = handle(HandleKind::stream_socket, Ownership::borrowed, 0, 7);
  EXPECT_EQ(ledger_->route(lane_, OperationKind::read_stream, third), part_.processor.get());
  other_ = part(Mode::shared, 1, true, {.operations = {OperationKind::read_file}});
  ledger_->teams = {{other_.processor.get()}};
  EXPECT_EQ(ledger_->route(lane_, OperationKind::read_stream, any), nullptr);
}

// A half close is queued behind writes, and a sync waits for them (rule 3).
TEST_F(LedgerTest, a_half_close_and_a_sync_go_where_the_writes_go) {
  using enum OperationKind;
  part_ = part(Mode::shared, 0, true, {.operations = {write_stream, write_file, accept}});
  other_ = part(Mode::shared, 1, true);
  open(false, {part_.processor.get(), other_.processor.get()});
  const Handle& any = handle();
  EXPECT_EQ(ledger_->route(lane_, shutdown, any), part_.processor.get());
  EXPECT_EQ(ledger_->route(lane_, sync_file, any), part_.processor.get());
  EXPECT_EQ(ledger_->route(lane_, read_stream, any), other_.processor.get());
  const Handle& second = handle(HandleKind::stream_socket, Ownership::borrowed, 0, 1);
  EXPECT_EQ(ledger_->route(lane_, shutdown, second), other_.processor.get());
  part_ = part(Mode::shared, 0, true, {.operations = {write_stream, write_file}},
               {shutdown, sync_file});
  other_ = part(Mode::shared, 1, true, {.operations = {shutdown, sync_file}});
  ledger_->teams = {{other_.processor.get(), part_.processor.get()}};
  EXPECT_EQ(ledger_->route(lane_, shutdown, any), other_.processor.get()) << "the writer cannot";
  ledger_->teams = {{other_.processor.get()}};
  EXPECT_EQ(ledger_->route(lane_, sync_file, any), other_.processor.get()) << "no writes";
}

// -- timers and deadlines -------------------------------------------------------------------------

TEST_F(LedgerTest, a_deadline_that_passes_is_a_cancel_with_another_name) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  one_.set_deadline(Deadline::at_ns(100));
  start(one_);
  engine().cancel_answer = CancelAnswer::completed;
  ledger_->expire(lane_, Deadline::at_ns(99));
  EXPECT_EQ(one_.state(), State::started);
  ledger_->expire(lane_, Deadline::at_ns(100));
  EXPECT_EQ(one_.error(), errc::timed_out);
  EXPECT_EQ(lane_.counters.timed_out.get(), 1U);
  EXPECT_EQ(lane_.counters.cancelled.get(), 0U);
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, a_deadline_that_is_not_needed_is_removed) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  one_.set_deadline(Deadline::at_ns(100));
  start(one_);
  finish(one_);
  EXPECT_TRUE(lane_.timers.empty());
  deliver();
  expect_balance();
}

TEST_F(LedgerTest, timers_come_when_they_are_due_and_can_be_cancelled_until_then) {
  open_shared();
  for (Operation* timer : {&one_, &two_}) {
    timer->prepare(OperationKind::timer, nullptr);
    timer->set_deadline(Deadline::at_ns(100));
    Access::activate(*timer, State::started);
    ledger_->start_timer(lane_, *timer);
  }
  EXPECT_TRUE(ledger_->cancel(lane_, one_));
  EXPECT_FALSE(ledger_->cancel(lane_, one_)) << "it is in the queue already";
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
  ledger_->expire(lane_, Deadline::at_ns(100));
  EXPECT_FALSE(two_.failed());
  EXPECT_EQ(deliver(), &one_);
  EXPECT_EQ(deliver(), &two_);
  expect_balance();
}

// -- cancel ---------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_cancel_follows_the_engines_answer) {
  open_shared();
  Handle& socket = handle();
  EXPECT_FALSE(ledger_->cancel(lane_, socket)) << "nothing is there";
  for (const CancelAnswer answer :
       {CancelAnswer::requested, CancelAnswer::too_late, CancelAnswer::completed}) {
    prepare(one_, socket);
    start(one_);
    engine().cancel_answer = answer;
    EXPECT_TRUE(ledger_->cancel(lane_, socket));
    EXPECT_TRUE(one_.cancel_asked());
    if (answer != CancelAnswer::completed) {
      EXPECT_EQ(one_.state(), State::started);
      finish(one_, answer == CancelAnswer::requested ? ECANCELED : 0);
    }
    EXPECT_EQ(one_.failed(), answer != CancelAnswer::too_late);
    EXPECT_FALSE(ledger_->cancel(lane_, one_)) << "its result is in the queue already";
    EXPECT_EQ(deliver(), &one_);
  }
  EXPECT_EQ(lane_.counters.cancelled.get(), 2U);
  expect_balance();
}

TEST_F(LedgerTest, a_cancel_that_only_the_leader_may_do_waits_for_it) {
  open_shared(false);
  Handle& socket = handle();
  Handle& second = handle();
  Operation three;
  Operation four;
  prepare(one_, socket);
  prepare(two_, socket);
  prepare(three, second);
  prepare(four, second);
  for (Operation* each : {&one_, &two_, &three}) start(*each);
  ASSERT_EQ(admit(four, false), Admission::deferred);
  EXPECT_TRUE(ledger_->cancel(lane_, one_));
  EXPECT_TRUE(ledger_->cancel(lane_, three));
  EXPECT_EQ(engine().cancelled, 0);
  EXPECT_EQ(engine().interrupted, 2);
  engine().cancel_answer = CancelAnswer::completed;
  // The leader comes: it carries out the requested cancels, and starts deferred operations.
  Access::ask_cancel(four);  // as a cancel that is not booked yet: the engine does not have it
  OperationQueue finished;
  ledger_->serve_as_leader(lane_, processor(), finished);
  EXPECT_EQ(engine().cancelled, 2);
  EXPECT_EQ(finished.size(), 2U);
  ledger_->take_back_all(lane_, finished);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
  EXPECT_EQ(two_.state(), State::started);
  EXPECT_EQ(four.state(), State::started);
  // Once more, with an engine that answers the cancel later.
  engine().cancel_answer = CancelAnswer::requested;
  EXPECT_TRUE(ledger_->cancel(lane_, two_));
  ledger_->serve_as_leader(lane_, processor(), finished);
  EXPECT_TRUE(finished.empty());
  ledger_->serve_as_leader(lane_, processor(), finished);
  EXPECT_EQ(engine().cancelled, 4) << "two_ and four, once each";
  finish(two_, ECANCELED);
  finish(four);
  while (deliver() != nullptr) {
  }
  expect_balance();
}

TEST_F(LedgerTest, the_cancel_of_one_processor_leaves_the_others_alone) {
  part_ = part(Mode::shared, 0, false);
  other_ = part(Mode::shared, 1, false);
  open(false, {part_.processor.get(), other_.processor.get()});
  Handle& socket = handle();
  prepare(one_, socket);
  ASSERT_EQ(ledger_->admit(lane_, *other_.processor, one_, true, false, error_), Admission::submit);
  prepare(two_, socket);
  start(two_);
  EXPECT_TRUE(ledger_->cancel(lane_, socket));
  OperationQueue finished;
  engine().cancel_answer = CancelAnswer::completed;
  ledger_->serve_as_leader(lane_, processor(), finished);
  EXPECT_EQ(finished.size(), 1U);
  EXPECT_EQ(other_.engine->cancelled, 0);
  ledger_->take_back_all(lane_, finished);
  OperationQueue rest;
  one_.finish(0);
  rest.push_back(one_);
  ledger_->account(*other_.processor, rest);
  ledger_->take_back_all(lane_, rest);
  while (deliver() != nullptr) {
  }
  expect_balance();
}

TEST_F(LedgerTest, a_close_in_progress_is_not_cancelled) {
  open_shared();
  Handle& socket = handle();
  one_.prepare(OperationKind::close, &socket);
  Access::activate(one_, State::started);
  EXPECT_TRUE(ledger_->begin_close(lane_, socket, &one_));
  EXPECT_FALSE(ledger_->cancel(lane_, one_));
  EXPECT_EQ(ledger_->next_closable(lane_), &socket);
  EXPECT_EQ(ledger_->next_closable(lane_), nullptr);
  EXPECT_FALSE(ledger_->submit_close(lane_, socket)) << "it is borrowed";
  ledger_->closed(lane_, socket, 0);
  EXPECT_EQ(ledger_->handles.count(), 0U);
  EXPECT_EQ(one_.handle(), nullptr);
  EXPECT_EQ(deliver(), &one_);
  expect_balance();
}

TEST_F(LedgerTest, a_cancel_of_all_leaves_other_lanes_and_the_librarys_timers) {
  open_shared();
  Handle& here = handle();
  Handle& elsewhere = handle(HandleKind::stream_socket, Ownership::borrowed, 5);
  prepare(one_, here);
  one_.set_deadline(Deadline::at_ns(1'000));
  start(one_);
  prepare(two_, elsewhere);
  start(two_);
  Operation own;
  Operation users;
  own.prepare(OperationKind::timer, nullptr, Operation::internal);
  users.prepare(OperationKind::timer, nullptr);
  for (Operation* timer : {&own, &users}) {
    timer->set_deadline(Deadline::at_ns(500));
    Access::activate(*timer, State::started);
    ledger_->start_timer(lane_, *timer);
  }
  ledger_->cancel_all(lane_);
  EXPECT_TRUE(one_.cancel_asked());
  EXPECT_FALSE(two_.cancel_asked());
  EXPECT_EQ(deliver(), &users);
  EXPECT_EQ(users.error(), std::errc::operation_canceled);
  EXPECT_EQ(lane_.timers.size(), 1U);
  ledger_->cancel_everything(lane_);
  EXPECT_EQ(own.error(), std::errc::operation_canceled);
  EXPECT_EQ(deliver(), &own);
  finish(one_, ECANCELED);
  finish(two_);
  while (deliver() != nullptr) {
  }
  expect_balance();
}

TEST_F(LedgerTest, a_cancel_of_accepts_leaves_everything_else) {
  open_shared();
  Handle& listener = handle(HandleKind::listener);
  Handle& elsewhere = handle(HandleKind::listener, Ownership::borrowed, 5);
  prepare(one_, listener, OperationKind::accept);
  prepare(two_, listener, OperationKind::wait_ready);
  Operation three;
  prepare(three, elsewhere, OperationKind::accept);
  for (Operation* each : {&one_, &two_, &three}) start(*each);
  ledger_->cancel_accepts(lane_);
  EXPECT_TRUE(one_.cancel_asked());
  EXPECT_FALSE(two_.cancel_asked());
  EXPECT_FALSE(three.cancel_asked());
  for (Operation* each : {&one_, &two_, &three}) finish(*each);
  while (deliver() != nullptr) {
  }
  expect_balance();
}

// -- taking back ----------------------------------------------------------------------------------

TEST_F(LedgerTest, results_of_all_kinds_keep_their_order) {
  open_shared();
  Handle& socket = handle();
  Operation operations[5];
  OperationQueue batch;
  for (int i = 0; i < 5; ++i) {
    prepare(operations[i], socket);
    if (i == 2) operations[i].set_deadline(Deadline::at_ns(1'000));
    start(operations[i]);
    operations[i].finish(i == 3 ? ECANCELED : 0);
    batch.push_back(operations[i]);
  }
  ledger_->account(processor(), batch);
  ledger_->take_back_all(lane_, batch);
  OperationQueue nothing;
  ledger_->take_back_all(lane_, nothing);
  for (Operation& each : operations) EXPECT_EQ(deliver(), &each);
  expect_balance();
}

// -- close ----------------------------------------------------------------------------------------

// The leader has taken the first from its engine, and is on its way to the mutex.
TEST_F(LedgerTest, a_completion_in_a_start_does_not_overtake_the_leaders) {
  using enum OperationKind;
  for (const auto& [first, second, in_order] :
       {std::tuple{write_stream, write_stream, true}, std::tuple{write_stream, shutdown, true},
        std::tuple{read_stream, read_stream, true}, std::tuple{read_stream, write_stream, false},
        std::tuple{read_datagram, read_datagram, false}}) {
    SCOPED_TRACE(std::string{to_string(first)} + " " + to_string(second));
    open_shared();
    Handle& socket = handle();
    prepare(one_, socket, first);
    prepare(two_, socket, second);
    EXPECT_FALSE(Ledger::would_overtake(two_, socket));
    start(one_);
    EXPECT_EQ(Ledger::would_overtake(two_, socket), in_order);
    start(two_);
    two_.finish(0);
    ledger_->submitted(lane_, processor(), two_, Submission::completed);
    EXPECT_EQ(two_.state(), in_order ? State::started : State::result_ready);
    EXPECT_FALSE(ledger_->cancel(lane_, two_)) << "it is over";
    finish(one_);
    EXPECT_EQ(deliver(), in_order ? &one_ : &two_);
    EXPECT_EQ(deliver(), in_order ? &two_ : &one_);
    expect_balance();
  }
}

// Another thread cancels it between its admission and its submit. The earlier read may wait for
// ever.
TEST_F(LedgerTest, an_operation_cancelled_in_its_start_waits_for_nothing) {
  for (const Submission answer : {Submission::completed, Submission::busy}) {
    open_shared();
    Handle& socket = handle();
    for (Operation* const each : {&one_, &two_}) {
      prepare(*each, socket, OperationKind::read_stream);
      start(*each);
    }
    EXPECT_TRUE(ledger_->cancel(lane_, two_));
    if (answer == Submission::completed) two_.finish(ECANCELED);
    ledger_->submitted(lane_, processor(), two_, answer);
    EXPECT_EQ(deliver(), &two_);
    EXPECT_EQ(two_.error_value(), ECANCELED);
    finish(one_);
    EXPECT_EQ(deliver(), &one_);
    expect_balance();
  }
}

// Two threads start one after the other, and the second is the first to take the mutex again.
TEST_F(LedgerTest, completions_of_two_starts_keep_their_order) {
  open_shared();
  Handle& socket = handle();
  Operation three;
  for (Operation* const each : {&one_, &two_, &three}) {
    prepare(*each, socket, OperationKind::write_stream);
    start(*each);
  }
  for (Operation* const each : {&three, &two_, &one_}) {
    each->finish(0);
    EXPECT_EQ(deliver(), nullptr);
    ledger_->submitted(lane_, processor(), *each, Submission::completed);
  }
  for (Operation* const each : {&one_, &two_, &three}) EXPECT_EQ(deliver(), each);
  expect_balance();
}

TEST_F(LedgerTest, a_queued_start_waits_for_its_own_handle_only) {
  open_shared();
  Operation others[2];
  Handle& socket = handle();
  Handle& other = handle();
  for (Operation* const each : {&one_, &two_}) prepare(*each, socket);
  for (Operation& each : others) prepare(each, other);
  for (Operation* const each : {&one_, &others[0], &two_, &others[1]}) start(*each);
  for (Operation* const each : {&two_, &others[1]}) {
    each->finish(0);
    ledger_->submitted(lane_, processor(), *each, Submission::completed);
  }
  finish(others[0]);
  EXPECT_EQ(deliver(), &others[0]);
  EXPECT_EQ(deliver(), &others[1]);
  EXPECT_EQ(deliver(), nullptr);
  finish(one_);
  EXPECT_EQ(deliver(), &one_);
  EXPECT_EQ(deliver(), &two_);
  expect_balance();
}

TEST_F(LedgerTest, a_close_waits_for_pending_operations_and_their_handlers) {
  open_shared();
  Handle& socket = handle();
  prepare(one_, socket);
  prepare(two_, socket);
  start(one_);
  start(two_);
  ledger_->close_everything(lane_);
  EXPECT_EQ(ledger_->next_closable(lane_), nullptr);
  finish(one_);
  finish(two_);
  deliver();
  EXPECT_EQ(ledger_->next_closable(lane_), nullptr);
  deliver();
  EXPECT_EQ(ledger_->next_closable(lane_), &socket);
  ledger_->closed(lane_, socket, 0);
  ledger_->handler_returned(lane_, nullptr);
  expect_balance();
}

TEST_F(LedgerTest, a_close_of_everything_is_one_lanes) {
  open_shared();
  const Handle& elsewhere = handle(HandleKind::stream_socket, Ownership::borrowed, 5);
  ledger_->close_everything(lane_);
  EXPECT_EQ(Access::phase(elsewhere), Access::Phase::open);
}

TEST_F(LedgerTest, a_handle_is_detached_by_an_allowed_thread) {
  open_shared();
  Handle& socket = handle();
  // Attached by the way of a deferred start.
  prepare(one_, socket);
  start(one_);
  ledger_->submitted(lane_, processor(), one_, Submission::busy);
  OperationQueue finished;
  ledger_->start_deferred(processor(), finished);
  EXPECT_EQ(engine().attached, 1);
  finish(one_);
  deliver();
  EXPECT_TRUE(ledger_->begin_close(lane_, socket, nullptr));
  EXPECT_EQ(ledger_->next_closable(lane_), &socket);
  EXPECT_EQ(engine().detached, 1);
  ledger_->closed(lane_, socket, 0);
}

TEST_F(LedgerTest, a_handle_that_only_the_leader_may_detach_goes_through_its_hands) {
  open_shared(false);
  Handle& socket = handle();
  prepare(one_, socket);
  ASSERT_EQ(admit(one_, false), Admission::deferred);
  OperationQueue finished;
  ledger_->start_deferred(processor(), finished);
  finish(one_);
  deliver();
  EXPECT_TRUE(ledger_->begin_close(lane_, socket, nullptr));
  EXPECT_EQ(ledger_->next_closable(lane_), nullptr);
  EXPECT_EQ(engine().detached, 0);
  EXPECT_EQ(engine().interrupted, 1);
  EXPECT_TRUE(processor().has_work());
  ledger_->serve_as_leader(lane_, processor(), finished);
  EXPECT_EQ(engine().detached, 1);
  EXPECT_EQ(ledger_->next_closable(lane_), &socket);
  ledger_->closed(lane_, socket, 0);
  expect_balance();
}

/// A file: its close may block.
class LedgerClose : public LedgerTest {
 protected:
  Handle& closable(Operation* close) {
    Handle& file = handle(HandleKind::file, Ownership::owned);
    if (close != nullptr) {
      close->prepare(OperationKind::close, &file);
      Access::activate(*close, State::started);
    }
    EXPECT_TRUE(ledger_->begin_close(lane_, file, close));
    EXPECT_EQ(ledger_->next_closable(lane_), &file);
    return file;
  }
  void complete_close() {
    OperationQueue batch;
    one_.finish(0);
    batch.push_back(one_);
    ledger_->account(processor(), batch);
    ledger_->take_back_all(lane_, batch);
    EXPECT_EQ(deliver(), &one_);
  }
};

TEST_F(LedgerClose, that_may_block_is_the_engines) {
  open_shared();
  Handle& file = closable(&one_);
  EXPECT_TRUE(ledger_->submit_close(lane_, file));
  EXPECT_EQ(engine().flushed, 1);
  OperationQueue batch;
  one_.finish(EIO);
  batch.push_back(one_);
  ledger_->account(processor(), batch);
  ledger_->take_back_all(lane_, batch);
  EXPECT_EQ(one_.error(), std::errc::io_error);
  EXPECT_EQ(deliver(), &one_);
  expect_balance();
}

TEST_F(LedgerClose, may_be_done_at_once) {
  open_shared();
  engine().answer = Submission::completed;
  engine().outcome = EIO;
  EXPECT_TRUE(ledger_->submit_close(lane_, closable(&one_)));
  EXPECT_EQ(one_.error(), std::errc::io_error);
  EXPECT_EQ(deliver(), &one_);
  EXPECT_EQ(ledger_->handles.count(), 0U);
  expect_balance();
}

TEST_F(LedgerClose, without_a_waiter_takes_an_operation_of_the_librarys) {
  open_shared();
  engine().answer = Submission::completed;
  EXPECT_TRUE(ledger_->submit_close(lane_, closable(nullptr)));
  EXPECT_EQ(ledger_->handles.count(), 0U);
  expect_balance();
}

TEST_F(LedgerClose, of_a_busy_engine_is_the_callers) {
  open_shared();
  engine().answer = Submission::busy;
  Handle& file = closable(&one_);
  EXPECT_FALSE(ledger_->submit_close(lane_, file));
  ledger_->closed(lane_, file, 0);
  EXPECT_EQ(deliver(), &one_);
  expect_balance();
}

TEST_F(LedgerClose, of_an_engine_that_only_its_leader_may_call_is_the_callers) {
  open_shared(false);
  Handle& file = closable(&one_);
  EXPECT_FALSE(ledger_->submit_close(lane_, file));
  EXPECT_EQ(engine().submitted, 0);
  ledger_->closed(lane_, file, 0);
  deliver();
}

TEST_F(LedgerClose, that_no_engine_takes_is_the_callers) {
  part_ = part(Mode::shared, 0, true, {}, {OperationKind::close});
  open(false, {part_.processor.get()});
  Handle& file = closable(&one_);
  EXPECT_FALSE(ledger_->submit_close(lane_, file));
  ledger_->closed(lane_, file, 0);
  deliver();
}

// In a team that gives closes to none of its processors, the caller must not block all the same.
TEST_F(LedgerClose, goes_to_an_engine_that_can_though_none_takes_closes) {
  part_ = part(Mode::shared, 0, true, {.operations = {OperationKind::read_file}});
  open(false, {part_.processor.get()});
  EXPECT_TRUE(ledger_->submit_close(lane_, closable(&one_)));
  EXPECT_EQ(engine().submitted, 1);
  complete_close();
  expect_balance();
}

TEST_F(LedgerClose, of_a_lanes_own_engine_needs_no_flush) {
  part_ = part(Mode::per_thread, 0, false);
  open(true, {part_.processor.get()});
  Handle& file = closable(&one_);
  EXPECT_TRUE(ledger_->submit_close(lane_, file));
  EXPECT_EQ(engine().flushed, 0) << "its thread waits next, and flushes then";
  complete_close();
  expect_balance();
}

}  // namespace
}  // namespace baton
