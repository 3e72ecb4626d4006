// What a thread has taken to run alone, by itself; and whom the numbers of members name.
#include "core/taken_batch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "baton/proactor.hpp"

namespace baton {
namespace {

// Nothing of the batch waits in a strand.
bool at_once(Operation&) { return true; }

TEST(TakenBatch, is_given_back_from_where_it_was_begun) {
  Operation operations[3];
  OperationQueue queue;
  for (Operation& each : operations) queue.push_back(each);
  TakenBatch batch;
  batch.take(queue);
  EXPECT_TRUE(batch.out());
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(batch.next(nullptr, at_once), &operations[0]);
  // A forked child sees what was not begun, in order.
  std::vector<const Operation*> seen;
  batch.for_each([&](const Operation& each) { seen.push_back(&each); });
  EXPECT_EQ(seen, (std::vector<const Operation*>{&operations[1], &operations[2]}));
  const auto no_handle = [](Handle&) { ADD_FAILURE() << "no handler has returned"; };
  EXPECT_EQ(batch.recall(os::real_system(), queue, no_handle), 1U);
  EXPECT_FALSE(batch.out());
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(batch.next(nullptr, at_once), nullptr) << "it was recalled";
  while (!queue.empty()) queue.pop_front();
}

/// A read of a pipe that nobody has written to.
struct PendingRead {
  explicit PendingRead(Proactor& proactor) {
    EXPECT_EQ(::pipe(ends), 0);
    handle = proactor.adopt(ends[0], HandleKind::pipe).value();
    operation.prepare(OperationKind::read_stream, handle);
    operation.set_buffer(MutableBuffer{&byte, 1});
  }
  ~PendingRead() { ::close(ends[1]); }
  int ends[2] = {-1, -1};
  char byte = 0;
  Handle* handle = nullptr;
  Operation operation;
};

// Members are counted from one in each proactor, so that this thread has the number there that the
// leader has here. It must not take itself for the leader: then nobody would wake that one.
TEST(Members, of_two_proactors_are_not_taken_for_each_other) {
  Config config;
  config.processors = {{.engine = "emulated", .wait = "poll", .mode = Mode::shared}};
  Proactor there{config};
  Proactor here{config};
  PendingRead first{here};
  PendingRead second{here};
  ASSERT_FALSE(here.start(first.operation));
  second.operation.set_completion(
      [](Operation& done) { static_cast<Proactor*>(done.context())->stop(); }, &here);
  std::thread leader{[&] { here.run(); }};
  while (here.statistics().leader_changes == 0) std::this_thread::yield();
  struct Start {
    Proactor& proactor;
    PendingRead& read;
  } start{here, second};
  Operation posted;
  posted.set_handler([&start](Operation&) {
    EXPECT_FALSE(start.proactor.start(start.read.operation));
    EXPECT_EQ(::write(start.read.ends[1], "x", 1), 1);
  });
  ASSERT_FALSE(there.post(posted));
  EXPECT_EQ(there.poll(), 1U);
  leader.join();  // it has seen the read that was started after it began to wait
  EXPECT_EQ(second.byte, 'x');
  here.restart();
  here.cancel_all();
  while (first.operation.is_pending()) here.poll();
}

// Another thread's close lies in the mail when the lane's own thread closes.
TEST(Lane, a_close_that_comes_second_is_refused_and_starts_nothing) {
  Config config;
  config.processors = {{.engine = "emulated", .mode = Mode::per_thread, .threads = 1}};
  Proactor proactor{config};
  PendingRead read{proactor};
  Operation close;
  close.prepare(OperationKind::close, read.handle);
  Operation posted;
  struct Closing {
    Proactor& proactor;
    Handle& handle;
    Operation& close;
  } closing{proactor, *read.handle, close};
  posted.set_handler([&closing](Operation&) {
    std::thread{[&] { closing.proactor.close_detached(closing.handle); }}.join();
    EXPECT_EQ(closing.proactor.close(closing.handle, closing.close), errc::handle_closed);
    EXPECT_FALSE(closing.close.is_pending());
  });
  ASSERT_FALSE(proactor.post(posted));
  EXPECT_EQ(proactor.poll(), 1U);
}

}  // namespace
}  // namespace baton
