// One lane by itself: mail for a handle that has been closed, late requests, and which requests are
// simple. The engine answers as the test says, and there are no threads, so the test decides the
// order of events.
#include "core/lane_loop.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "baton/proactor.hpp"
#include "baton/strand.hpp"
#include "core/runner.hpp"
#include "core/starter.hpp"
#include "obedient_engine.hpp"

namespace baton {
namespace {

using Access = OperationAccess;
using State = OperationState;
using test::ObedientEngine;
using test::part;
using test::Part;

constexpr int descriptor = 77;  // of no open file
constexpr std::uint16_t other_lane = 5;

class Runner final : public HandlerRunner {
 public:
  using HandlerRunner::HandlerRunner;
  void requeue(Lane&, Operation&) noexcept override { ++requeued; }
  void brought_back(Operation&) noexcept override { ++requeued; }
  void lane_is_quiet(Lane&) noexcept override { ++quiet; }
  void lane_needs_leader() noexcept override { ++leaderless; }
  void returned_elsewhere(Handle&) noexcept override { ++returned; }
  int requeued = 0;
  int quiet = 0;
  int leaderless = 0;
  int returned = 0;
};

// The behaviour of close(2) in the lanes' system.
int close_error = 0;
LaneLoop* stopped_by_close = nullptr;
const os::System& system_with_such_a_close() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.close = [](int) {
      if (stopped_by_close != nullptr) stopped_by_close->stop();
      errno = close_error;
      return close_error != 0 ? -1 : 0;
    };
    return made;
  }();
  return table;
}

// All are inlined wherever they are called; each once here.
bool starts_simply(Operation& operation) {
  Handle* const handle = Starter::handle_of_simple(operation);
  if (handle == nullptr) return Starter::start_less_simple(operation);
  Lane* const lane = Access::route(*handle).load();
  return lane == os::thread_locals.lane && Starter::start_here(*lane, operation, *handle);
}
bool posts_simply(const Ledger& ledger, Operation& operation) {
  return Starter::post_simple(ledger, operation);
}
Handle* run(Runner& runner, Lane& lane, Operation& operation) {
  EXPECT_TRUE(runner.arrives(lane, operation));
  return runner.run(lane, operation, false);
}

class LaneLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    close_error = 0;
    stopped_by_close = nullptr;
  }
  /// A lane with these processors; those in per_thread mode are its own.
  void open(std::vector<Part*> team) {
    ledger_ = std::make_unique<Ledger>(system_with_such_a_close(), 16, true);
    runner_ = std::make_unique<Runner>(*ledger_);
    loop_ = std::make_unique<LaneLoop>(*ledger_, lane_, *runner_);
    ledger_->teams.resize(1);
    for (Part* each : team) {
      ledger_->teams[0].push_back(each->processor.get());
      if (each->processor->mode == Mode::per_thread) {
        loop_->add(*each->processor);
      } else {
        ledger_->handles.add_dedicated_lists();
      }
    }
    starter_ = std::make_unique<Starter>(*ledger_, nullptr);
    starter_->find_route(lane_);
  }
  void open() {
    part_ = part(Mode::per_thread, 0, false);
    open({&part_});
  }
  Handle& handle(Ownership ownership = Ownership::borrowed, std::uint16_t lane = 0,
                 std::uint16_t preferred = Handle::any_processor) {
    Handle& made = *ledger_->handles.allocate(descriptor, HandleKind::stream_socket, ownership,
                                              true, lane, preferred);
    HandleTable::open(made);
    return made;
  }
  /// The record serves another handle from now on.
  Handle& replace(Handle& old, std::uint16_t lane = 0) {
    ledger_->handles.release(old);
    Handle& fresh = handle(Ownership::borrowed, lane);
    EXPECT_EQ(&fresh, &old);
    return fresh;
  }
  std::error_code start(Processor& processor, Operation& operation) {
    return starter_->start(lane_, processor, operation, false);
  }
  static void prepare_read(Operation& operation, Handle& handle) {
    operation.prepare(OperationKind::read_stream, &handle);
  }
  void mail(Operation& operation) {
    Access::activate(operation, State::started);
    loop_->mail(operation);
  }
  std::size_t turn(bool until_stopped = false) {
    const bool outermost = !loop_->driven();
    EXPECT_TRUE(!outermost || loop_->enter(nullptr, LaneLoop::Led::at_home));
    const Deadline until = until_stopped ? Deadline::never() : Deadline::immediately();
    const std::size_t handlers = loop_->turn(until, 0, !until_stopped);
    if (outermost) loop_->leave(false);
    return handlers;
  }
  /// Runs `work` in a handler of this lane.
  template <class Work>
  void inside(Work&& work, bool until_stopped = false) {
    Operation posted;
    posted.prepare(OperationKind::user, nullptr);
    posted.set_completion(
        [](Operation& done) { (*static_cast<std::decay_t<Work>*>(done.context()))(); }, &work);
    Access::activate(posted, State::posted);
    loop_->mail(posted);
    turn(until_stopped);
    EXPECT_EQ(posted.state(), State::completed);
  }
  /// Neither the first nor a later one: the first has not shown a route.
  void expect_no_route(Handle& socket) {
    inside([&] {
      prepare_read(one_, socket);
      EXPECT_FALSE(start(*part_.processor, one_));
      prepare_read(two_, socket);
      EXPECT_FALSE(starts_simply(two_));
    });
    while (!lane_.completed.empty()) turn();
  }
  /// The engine has a read of it, which a cancel completes.
  Handle& begin_read_of_borrowed() {
    ledger_->has_borrowed = true;
    engine().cancel_answer = CancelAnswer::completed;
    Handle& socket = handle();
    prepare_read(one_, socket);
    inside([&] { EXPECT_FALSE(start(*part_.processor, one_)); });
    return socket;
  }
  [[nodiscard]] ObedientEngine& engine() const { return *part_.engine; }

  Part part_;
  Part other_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Runner> runner_;
  Lane lane_;
  std::unique_ptr<LaneLoop> loop_;
  std::unique_ptr<Starter> starter_;
  Operation one_;
  Operation two_;
};

// -- mail -----------------------------------------------------------------------------------------

TEST_F(LaneLoopTest, mail_for_a_handle_that_has_gone_is_refused) {
  open();
  Handle& socket = handle();
  prepare_read(one_, socket);
  mail(one_);
  two_.prepare(OperationKind::close, &socket);
  mail(two_);
  replace(socket);
  EXPECT_EQ(turn(), 2U);
  EXPECT_EQ(one_.error(), errc::handle_closed);
  EXPECT_EQ(two_.error(), errc::handle_closed);
  EXPECT_EQ(engine().submitted, 0);
}

// It was closed, and its record given to another lane, between the choice of the lane and the mail.
TEST_F(LaneLoopTest, mail_for_a_handle_of_another_lane_is_refused) {
  open();
  prepare_read(one_, handle(Ownership::borrowed, other_lane));
  mail(one_);
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(one_.error(), errc::handle_closed);
}

TEST_F(LaneLoopTest, a_second_close_in_the_mail_is_refused) {
  open();
  Handle& socket = handle();
  one_.prepare(OperationKind::close, &socket);
  two_.prepare(OperationKind::close, &socket);
  mail(one_);
  mail(two_);
  EXPECT_EQ(turn(), 2U);
  EXPECT_FALSE(one_.failed());
  EXPECT_EQ(two_.error(), errc::handle_closed);
}

TEST_F(LaneLoopTest, a_mailed_timer_that_is_not_wanted_any_more_ends_at_once) {
  open();
  for (Operation* timer : {&one_, &two_}) {
    timer->prepare(OperationKind::timer, nullptr);
    timer->set_deadline(Deadline::never());
  }
  Access::activate(one_, State::started);
  Access::want_cancel(one_, one_.activation());
  loop_->mail(one_);
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
  // A drain has come to its end meanwhile.
  ledger_->refusing = Refusing::everything;
  ledger_->draining = true;
  mail(two_);
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(two_.error(), std::errc::operation_canceled);
}

// -- requests -------------------------------------------------------------------------------------

// Its record stays out of use until the lane has unlinked it.
TEST_F(LaneLoopTest, requests_to_a_closed_handle_are_void) {
  open();
  Handle& socket = handle();
  const std::uint32_t before = socket.generation();
  loop_->ask(socket, {before, LaneRequests::close_detached});
  Access::set_phase(socket, Access::Phase::closed);
  ledger_->handles.release(socket);
  EXPECT_EQ(ledger_->handles.count(), 1U);
  EXPECT_NE(&handle(), &socket);
  // Further requests do not reach it.
  loop_->ask(socket, {before, LaneRequests::handler_returned});
  turn();
  EXPECT_EQ(ledger_->handles.count(), 1U);
  Handle& fresh = handle(Ownership::borrowed, other_lane);
  EXPECT_EQ(&fresh, &socket);
  loop_->ask(fresh, {before, LaneRequests::close_detached});
  EXPECT_FALSE(lane_.requests.any());
  EXPECT_EQ(Access::phase(fresh), Access::Phase::open);
}

// In the order of their calls, mail and requests.
TEST_F(LaneLoopTest, a_close_ends_earlier_mail_and_refuses_later_mail) {
  open();
  Handle& socket = handle();
  prepare_read(one_, socket);
  mail(one_);
  loop_->ask(socket, {socket.generation(), LaneRequests::close_detached});
  // It is the last operation, also when later requests name the handle.
  loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
  prepare_read(two_, socket);
  mail(two_);
  engine().cancel_answer = CancelAnswer::completed;
  while (turn() > 0) {
  }
  EXPECT_EQ(engine().submitted, 0);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
  EXPECT_EQ(two_.error(), errc::handle_closed);
}

// The thread that has asked may close a borrowed descriptor: the engine must not use it again.
TEST_F(LaneLoopTest, a_cancel_comes_before_the_next_wait) {
  open();
  Handle& socket = begin_read_of_borrowed();
  inside([&] {
    loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
    loop_->wait_alone(Deadline::immediately());
  });
  EXPECT_EQ(engine().cancelled_before_wait, 1);
  while (!lane_.completed.empty()) turn();
}

// A leader of several lanes has prepared its sleep in all of them, and waits in one engine.
TEST_F(LaneLoopTest, a_cancel_comes_before_the_wait_of_a_leader_of_several_lanes) {
  open();
  Handle& socket = begin_read_of_borrowed();
  inside([&] {
    static_cast<void>(loop_->prepare_wait(Deadline::immediately()));
    loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
    loop_->wait_in_engines(Deadline::immediately());
    loop_->end_wait();
  });
  EXPECT_EQ(engine().cancelled_before_wait, 1);
  while (!lane_.completed.empty()) turn();
}

// An engine that is unbound from its thread may continue what it had begun.
TEST_F(LaneLoopTest, a_cancel_comes_before_an_engine_is_unbound) {
  part_ = part(Mode::per_thread, 0, false);
  engine().facts.leader_rule = LeaderRule::pinned;
  open({&part_});
  ledger_->has_borrowed = true;
  engine().cancel_answer = CancelAnswer::completed;
  engine().unpins = true;
  Handle& socket = handle();
  prepare_read(one_, socket);
  inside([&] {
    EXPECT_FALSE(start(*part_.processor, one_));
    loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
    EXPECT_TRUE(loop_->unpin());
  });
  EXPECT_EQ(engine().cancelled_before_unpin, 1);
  while (!lane_.completed.empty()) turn();
}

TEST_F(LaneLoopTest, a_repeated_cancel_keeps_its_place) {
  open();
  engine().cancel_answer = CancelAnswer::completed;
  Handle& socket = handle();
  prepare_read(one_, socket);
  mail(one_);
  loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
  prepare_read(two_, socket);
  mail(two_);
  // The read is over, so the cancel of the handle does not reach it later.
  loop_->ask(socket, {socket.generation(), LaneRequests::cancel_marked});
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
  EXPECT_TRUE(two_.is_pending());
  loop_->ask(LaneRequests::cancel_all);
  EXPECT_EQ(turn(), 1U);
}

// The number of its descriptor may name another file by now.
TEST_F(LaneLoopTest, an_operation_that_was_marked_in_the_mail_is_not_begun) {
  open();
  Handle& socket = handle();
  prepare_read(one_, socket);
  // The request goes where an older one of its handle stands: before the mail.
  loop_->ask(socket, {socket.generation(), LaneRequests::cancel});
  mail(one_);
  Access::want_cancel(one_, one_.activation());
  loop_->ask(socket, {socket.generation(), LaneRequests::cancel_marked});
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(engine().submitted, 0);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
}

TEST_F(LaneLoopTest, handlers_that_other_lanes_have_run_are_counted_here) {
  open();
  Handle& socket = handle();
  Access::pending(socket) = 2;
  Access::returned(socket).store(2);
  loop_->ask(socket, {socket.generation(), LaneRequests::handler_returned});
  turn();
  EXPECT_EQ(Access::pending(socket), 0U);
}

TEST(CancelWanted, is_of_one_activation) {
  Operation operation;
  operation.prepare(OperationKind::timer, nullptr);
  Access::activate(operation, State::posted);
  Access::want_cancel(operation, operation.activation() - 1);
  EXPECT_FALSE(Access::cancel_wanted(operation));
  Access::want_cancel(operation, operation.activation());
  EXPECT_TRUE(Access::cancel_wanted(operation));
  Access::complete(operation);
}

// -- closing --------------------------------------------------------------------------------------

TEST_F(LaneLoopTest, a_close_reports_the_systems_answer) {
  open();
  for (const int error : {0, EIO, EINTR}) {
    close_error = error;
    one_.prepare(OperationKind::close, &handle(Ownership::owned));
    mail(one_);
    EXPECT_EQ(turn(), 1U);
    // Interrupted or not, the descriptor is gone.
    EXPECT_EQ(one_.error_value(), error == EINTR ? 0 : error);
  }
}

TEST_F(LaneLoopTest, a_stop_that_comes_before_the_wait_ends_it) {
  open();
  Handle& socket = handle(Ownership::owned);
  stopped_by_close = loop_.get();
  inside([&] { ledger_->begin_close(lane_, socket, nullptr); }, true);
  EXPECT_TRUE(loop_->stopped());
}

// -- simple requests ------------------------------------------------------------------------------

TEST_F(LaneLoopTest, an_operation_with_a_strand_or_of_the_cache_is_simple_too) {
  open();
  engine().answer = Submission::completed;
  Proactor proactor{Config{}};
  Strand strand{proactor};
  Handle& socket = handle();
  CachedOperation* cached = ledger_->cache.take();
  ASSERT_NE(cached, nullptr);
  static int handlers;
  handlers = 0;
  const auto count = [](Operation&) { ++handlers; };
  inside([&] {
    prepare_read(one_, socket);
    EXPECT_FALSE(starts_simply(one_)) << "the first is asked every question";
    EXPECT_FALSE(start(*part_.processor, one_));
    prepare_read(two_, socket);
    two_.set_strand(&strand);
    two_.set_handler(count);
    EXPECT_TRUE(starts_simply(two_));
    cached->prepare(OperationKind::read_stream, &socket, Operation::cached);
    cached->set_handler(count);
    EXPECT_TRUE(starts_simply(*cached));
    Operation of_nothing;
    of_nothing.prepare(OperationKind::read_stream, nullptr, Operation::cached);
    EXPECT_FALSE(starts_simply(of_nothing)) << "which is for others to refuse";
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(handlers, 2);
  EXPECT_EQ(Access::pending(socket), 0U);
}

TEST_F(LaneLoopTest, with_a_simple_request_the_engine_gets_its_record_of_the_handle) {
  open();
  engine().answer = Submission::completed;
  Handle& first = handle();
  Handle& second = handle();
  prepare_read(one_, first);
  prepare_read(two_, second);
  inside([&] {
    for (Operation* each : {&one_, &two_}) EXPECT_FALSE(start(*part_.processor, *each));
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(engine().record_of_last, &engine().records[second.index()]) << "the first, too";
  prepare_read(one_, first);
  two_.prepare(OperationKind::write_stream, &second);
  inside([&] {
    EXPECT_TRUE(starts_simply(one_));
    EXPECT_EQ(engine().record_of_last, &engine().records[first.index()]);
    EXPECT_TRUE(starts_simply(two_));
    EXPECT_EQ(engine().record_of_last, &engine().records[second.index()]);
  });
  while (!lane_.completed.empty()) turn();
}

TEST_F(LaneLoopTest, a_simple_request_that_is_cancelled_at_once_is_counted) {
  open();
  engine().answer = Submission::completed;
  Handle& socket = handle();
  inside([&] {
    prepare_read(one_, socket);
    EXPECT_FALSE(start(*part_.processor, one_));
    engine().outcome = ECANCELED;
    prepare_read(two_, socket);
    EXPECT_TRUE(starts_simply(two_));
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(lane_.counters.cancelled.get(), 1U);
  inside([&] {
    two_.prepare(OperationKind::write_stream, &socket);
    EXPECT_TRUE(starts_simply(two_));
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(lane_.counters.cancelled.get(), 2U);
}

TEST_F(LaneLoopTest, an_exception_of_a_simple_request_comes_through) {
  open();
  engine().answer = Submission::completed;
  Handle& socket = handle();
  auto start_both = [&] {
    prepare_read(one_, socket);
    EXPECT_FALSE(start(*part_.processor, one_));
    prepare_read(two_, socket);
    two_.set_handler([](Operation&) { throw std::runtime_error{"of the handler"}; });
    EXPECT_TRUE(starts_simply(two_));
  };
  EXPECT_THROW(inside(start_both), std::runtime_error);
  loop_->leave(false);
  EXPECT_EQ(lane_.counters.exceptions.get(), 1U);
  EXPECT_EQ(two_.state(), State::completed);
  EXPECT_EQ(Access::pending(socket), 0U);
}

TEST_F(LaneLoopTest, a_handle_that_prefers_a_processor_has_no_route) {
  open();
  engine().answer = Submission::completed;
  Handle& socket = handle(Ownership::borrowed, 0, 0);
  expect_no_route(socket);
}

TEST_F(LaneLoopTest, a_handle_that_is_closed_by_its_first_operation_has_no_route) {
  open();
  Handle& socket = handle();
  inside([&] {
    prepare_read(one_, socket);
    EXPECT_FALSE(start(*part_.processor, one_));
    EXPECT_TRUE(ledger_->begin_close(lane_, socket, nullptr));
    prepare_read(two_, socket);
    EXPECT_FALSE(starts_simply(two_));
  });
  OperationQueue batch;
  one_.finish(0);
  batch.push_back(one_);
  ledger_->account(*part_.processor, batch);
  ledger_->take_back_all(lane_, batch);
  turn();
}

TEST_F(LaneLoopTest, a_team_that_divides_streams_has_no_route) {
  part_ = part(Mode::per_thread, 0, false, {.operations = {OperationKind::read_stream}});
  other_ = part(Mode::per_thread, 1, false, {.operations = {OperationKind::write_stream}});
  open({&part_, &other_});
  engine().answer = Submission::completed;
  Handle& socket = handle();
  expect_no_route(socket);
}

TEST_F(LaneLoopTest, datagrams_are_simple_too) {
  open();
  engine().answer = Submission::completed;
  Handle& first = handle();
  Handle& second = handle();
  Proactor proactor{Config{}};
  Strand strand{proactor};
  Operation in_strand;
  in_strand.set_strand(&strand);
  inside([&] {
    one_.prepare(OperationKind::read_datagram, &first);
    EXPECT_FALSE(starts_simply(one_)) << "the first is asked every question";
    EXPECT_FALSE(start(*part_.processor, one_));
    for (const OperationKind kind : {OperationKind::read_datagram, OperationKind::write_datagram}) {
      two_.prepare(kind, &first);
      EXPECT_TRUE(starts_simply(two_));
      EXPECT_EQ(engine().record_of_last, &engine().records[first.index()]);
      turn();
      two_.prepare(kind, &first, Operation::vectored);
      EXPECT_FALSE(starts_simply(two_));
    }
    in_strand.prepare(OperationKind::write_datagram, &first);
    EXPECT_TRUE(starts_simply(in_strand));
    two_.prepare(OperationKind::write_datagram, &second);
    EXPECT_FALSE(starts_simply(two_)) << "nor has its handle";
    two_.prepare(OperationKind::write_datagram, nullptr);
    EXPECT_FALSE(starts_simply(two_)) << "which is for others to refuse";
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(Access::pending(first), 0U);
}

TEST_F(LaneLoopTest, datagrams_are_not_simple_while_there_is_something_to_attend_to) {
  open();
  engine().answer = Submission::completed;
  Handle& socket = handle();
  inside([&] {
    one_.prepare(OperationKind::write_datagram, &socket);
    EXPECT_FALSE(start(*part_.processor, one_));
    loop_->call_attention();
    two_.prepare(OperationKind::write_datagram, &socket);
    EXPECT_FALSE(starts_simply(two_)) << "the lane has a request";
  });
  while (!lane_.completed.empty()) turn();
}

TEST_F(LaneLoopTest, datagrams_of_another_processor_are_not_simple) {
  part_ = part(Mode::per_thread, 0, false,
               {.operations = {OperationKind::read_stream, OperationKind::write_stream,
                               OperationKind::read_datagram}});
  other_ = part(Mode::per_thread, 1, false, {.operations = {OperationKind::write_datagram}});
  open({&part_, &other_});
  engine().answer = other_.engine->answer = Submission::completed;
  Handle& socket = handle();
  inside([&] {
    one_.prepare(OperationKind::read_datagram, &socket);
    EXPECT_FALSE(start(*part_.processor, one_));
    turn();
    prepare_read(one_, socket);
    EXPECT_FALSE(starts_simply(one_)) << "a datagram has not shown the route of streams";
    EXPECT_FALSE(start(*part_.processor, one_));
    for (const OperationKind kind : {OperationKind::read_datagram, OperationKind::write_datagram}) {
      two_.prepare(kind, &socket);
      EXPECT_FALSE(starts_simply(two_));
    }
  });
  while (!lane_.completed.empty()) turn();
}

TEST_F(LaneLoopTest, posts_from_inside_are_simple) {
  open();
  Proactor proactor{Config{}};
  Strand strand{proactor};
  const Ledger other{system_with_such_a_close(), 16, true};
  int handlers = 0;
  const auto count = [&handlers](Operation&) { ++handlers; };
  one_.set_handler(count);
  two_.set_handler(count);
  one_.prepare(OperationKind::user, nullptr);
  EXPECT_FALSE(posts_simply(*ledger_, one_)) << "not inside";
  inside([&] {
    EXPECT_FALSE(posts_simply(other, one_)) << "of another proactor";
    EXPECT_TRUE(posts_simply(*ledger_, one_));
    EXPECT_EQ(one_.state(), State::posted);
    EXPECT_FALSE(posts_simply(*ledger_, one_)) << "in use";
    two_.prepare(OperationKind::user, nullptr, Operation::cached);
    EXPECT_FALSE(posts_simply(*ledger_, two_)) << "goes back to the cache";
    two_.prepare(OperationKind::timer, nullptr);
    EXPECT_FALSE(posts_simply(*ledger_, two_)) << "no post yet";
    two_.prepare(OperationKind::user, nullptr);
    two_.set_strand(&strand);
    EXPECT_FALSE(posts_simply(*ledger_, two_)) << "in a strand";
    two_.set_strand(nullptr);
    loop_->call_attention();
    EXPECT_FALSE(posts_simply(*ledger_, two_)) << "posts may be refused";
    loop_->take_mail();
    EXPECT_TRUE(posts_simply(*ledger_, two_));
    EXPECT_EQ(two_.activation(), 1U);
  });
  while (!lane_.completed.empty()) turn();
  EXPECT_EQ(handlers, 2);
  EXPECT_EQ(one_.state(), State::completed);
  EXPECT_EQ(lane_.counters.posted.get(), 3U) << "with the one that was mailed";
  EXPECT_EQ(lane_.counters.completed.get(), 3U);
}

// Very short handlers get at most eight turns between looks. The number of turns depends on time,
// the looks do not.
TEST_F(LaneLoopTest, posts_that_post_themselves_do_not_keep_the_lane_from_its_engine) {
  open();
  constexpr std::size_t handlers_max = 16 * 8 * limits::handlers_per_look;
  std::size_t handlers = 0;
  one_.prepare(OperationKind::user, nullptr);
  one_.set_handler([this, &handlers](Operation& operation) {
    if (++handlers == handlers_max) {
      loop_->stop();
    } else {
      EXPECT_TRUE(posts_simply(*ledger_, operation));
    }
  });
  inside([&] { EXPECT_TRUE(posts_simply(*ledger_, one_)); }, true);
  EXPECT_EQ(handlers, handlers_max);
  EXPECT_GE(lane_.counters.waits.get(), 15U);
  EXPECT_LE(lane_.counters.waits.get(), 16U * 8U);
}

TEST_F(LaneLoopTest, an_exception_of_a_post_comes_through) {
  open();
  one_.prepare(OperationKind::user, nullptr);
  one_.set_handler([](Operation&) { throw std::runtime_error{"of the handler"}; });
  EXPECT_THROW(inside([&] { EXPECT_TRUE(posts_simply(*ledger_, one_)); }), std::runtime_error);
  loop_->leave(false);
  EXPECT_EQ(lane_.counters.exceptions.get(), 1U);
  EXPECT_EQ(one_.state(), State::completed);
}

TEST_F(LaneLoopTest, a_dedicated_leader_learns_of_starts_that_its_engine_had_no_room_for) {
  part_ = part(Mode::per_thread, 0, false, {.operations = {OperationKind::write_stream}});
  other_ = part(Mode::dedicated, 1, true);
  open({&part_, &other_});
  other_.engine->answer = Submission::busy;
  prepare_read(one_, handle());
  inside([&] { EXPECT_FALSE(start(*other_.processor, one_)); });
  EXPECT_EQ(one_.state(), State::deferred);
  EXPECT_EQ(other_.engine->interrupted, 1);
  EXPECT_TRUE(ledger_->cancel(lane_, one_));
  turn();
}

TEST_F(LaneLoopTest, a_lane_without_a_leader_asks_for_one_each_time) {
  open();
  EXPECT_FALSE(loop_->has_something());
  loop_->ask(LaneRequests::cancel_all);
  EXPECT_EQ(runner_->leaderless, 1);
  loop_->ask(LaneRequests::cancel_all);
  EXPECT_EQ(runner_->leaderless, 2);
  EXPECT_TRUE(loop_->needs_leader());
  turn();
  EXPECT_FALSE(loop_->needs_leader());
  EXPECT_TRUE(loop_->enter(nullptr, LaneLoop::Led::at_home));
  engine().answer = Submission::completed;
  prepare_read(one_, handle());
  mail(one_);
  EXPECT_EQ(runner_->leaderless, 2);
  loop_->leave(true);
  EXPECT_TRUE(loop_->needs_leader());
  while (loop_->needs_leader() || !lane_.completed.empty()) turn();
}

TEST_F(LaneLoopTest, is_kept_only_by_a_thread_that_has_left_it) {
  open();
  EXPECT_FALSE(loop_->kept());
  EXPECT_TRUE(loop_->enter(nullptr, LaneLoop::Led::at_home));
  EXPECT_FALSE(loop_->kept());
  loop_->leave(false);
  EXPECT_FALSE(loop_->kept()) << "its engine takes any thread";
}

// The engine's operations end with the thread that it is bound to. Their results need another one.
TEST_F(LaneLoopTest, the_results_of_a_thread_that_has_ended_need_another) {
  part_ = part(Mode::per_thread, 0, false);
  engine().facts.leader_rule = LeaderRule::pinned;
  engine().cancel_answer = CancelAnswer::completed;
  open({&part_});
  Handle& socket = handle();
  std::thread{[&] {
    inside([&] {
      prepare_read(one_, socket);
      EXPECT_FALSE(start(*part_.processor, one_));
    });
    EXPECT_TRUE(loop_->kept());
    EXPECT_EQ(runner_->leaderless, 1) << "for the post";
  }}.join();
  EXPECT_FALSE(loop_->kept());
  EXPECT_EQ(runner_->leaderless, 2);
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(one_.error(), std::errc::operation_canceled);
}

// A close would complete the read of its peer before the kernel has seen the cancel.
TEST_F(LaneLoopTest, an_end_submits_its_cancels_before_it_closes) {
  open();
  engine().cancel_answer = CancelAnswer::completed;
  Handle& socket = handle();
  inside([&] {
    prepare_read(one_, socket);
    EXPECT_FALSE(start(*part_.processor, one_));
  });
  EXPECT_TRUE(loop_->enter(nullptr, LaneLoop::Led::at_home));
  const int before = engine().flushed;
  loop_->cancel_and_close_everything();
  EXPECT_EQ(engine().cancelled, 1);
  EXPECT_EQ(engine().flushed, before + 1);
  loop_->leave(true);
  EXPECT_EQ(turn(), 1U);
}

// Regression: a thread with one lane that looks for others loans its own before each turn, and the
// thread that took it submitted to an engine that was bound to the first.
TEST_F(LaneLoopTest, is_loaned_only_if_its_engine_takes_any_thread) {
  for (const bool pinned : {false, true}) {
    part_ = part(Mode::per_thread, 0, false);
    if (pinned) engine().facts.leader_rule = LeaderRule::pinned;
    open({&part_});
    EXPECT_TRUE(loop_->enter(nullptr, LaneLoop::Led::at_home));
    loop_->loan();
    std::thread([&] {
      EXPECT_NE(loop_->enter(nullptr, LaneLoop::Led::at_home), pinned);
      if (!pinned) loop_->leave(true);
    }).join();
    EXPECT_EQ(loop_->claim(), pinned);
    if (pinned) loop_->leave(true);
  }
}

// Regression: a thread that came in that moment got the answer that the lane belonged to another
// thread.
TEST_F(LaneLoopTest, is_not_kept_while_its_thread_comes_and_goes) {
  open();
  std::atomic<bool> over{false};
  std::thread owner([&] {
    for (int i = 0; i < 300'000; ++i) {
      EXPECT_TRUE(loop_->enter(nullptr, LaneLoop::Led::at_home));
      loop_->leave(false);
    }
    over = true;
  });
  while (!over) EXPECT_FALSE(loop_->kept());
  owner.join();
}

// -- the runner -----------------------------------------------------------------------------------

TEST_F(LaneLoopTest, an_operation_in_a_strand_needs_no_handler) {
  open();
  Proactor proactor{Config{}};
  Strand strand{proactor};
  one_.prepare(OperationKind::timer, nullptr);
  one_.set_strand(&strand);
  Access::activate(one_, State::started);
  Access::publish(one_);
  EXPECT_EQ(run(*runner_, lane_, one_), nullptr);
  EXPECT_EQ(one_.state(), State::completed);
}

// It was counted when it arrived at its strand, and is counted again when its handler runs.
TEST_F(LaneLoopTest, an_operation_that_comes_back_from_a_strand_is_counted_once) {
  open();
  one_.prepare(OperationKind::timer, nullptr);
  Access::activate(one_, State::started);
  Access::publish(one_);
  lane_.counters.completed.add();
  loop_->mail_back(one_);
  EXPECT_EQ(turn(), 1U);
  EXPECT_EQ(lane_.counters.completed.get(), 1U);
}

TEST_F(LaneLoopTest, a_handler_that_ran_in_another_lane_is_reported_to_its_own) {
  open();
  Handle& away = handle(Ownership::borrowed, other_lane);
  const auto deliver = [&](Operation& operation) {
    prepare_read(operation, away);
    Access::activate(operation, State::started);
    Access::publish(operation);
    return run(*runner_, lane_, operation);
  };
  Proactor proactor{Config{}};
  Strand strand{proactor};
  one_.set_strand(&strand);
  EXPECT_EQ(deliver(one_), nullptr);
  EXPECT_EQ(runner_->returned, 1);
  // Without a strand, from the cache.
  CachedOperation* cached = ledger_->cache.take();
  ASSERT_NE(cached, nullptr);
  cached->prepare(OperationKind::read_stream, &away, Operation::cached);
  cached->set_handler([](Operation&) {});
  Access::activate(*cached, State::started);
  Access::publish(*cached);
  EXPECT_EQ(run(*runner_, lane_, *cached), nullptr);
  EXPECT_EQ(runner_->returned, 2);
}

TEST_F(LaneLoopTest, a_cached_operation_goes_back_when_its_handler_throws) {
  open();
  CachedOperation* cached = ledger_->cache.take();
  ASSERT_NE(cached, nullptr);
  cached->prepare(OperationKind::timer, nullptr, Operation::cached);
  cached->set_handler([](Operation&) { throw std::runtime_error{"of the handler"}; });
  Access::activate(*cached, State::started);
  Access::publish(*cached);
  EXPECT_THROW(run(*runner_, lane_, *cached), std::runtime_error);
  EXPECT_EQ(ledger_->cache.take(), cached);
}

}  // namespace
}  // namespace baton
