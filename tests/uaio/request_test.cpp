// The memory of requests: what a fresh one, a used one and a twin begin with.
#include "request.hpp"

#include <gtest/gtest.h>

#include <set>

namespace uaio {
namespace {

Notification some_notification() {
  Notification note;
  note.kind = SIGEV_SIGNAL;
  note.signal = SIGUSR1;
  note.value.sival_int = 7;
  return note;
}

// All that a request has got from its program and from its first user.
void use(Request& request, aiocb& block, Group& group, char* data) {
  request.block = &block;
  request.fildes = 5;
  request.action = Action::writev;
  request.data = data;
  request.size = 3;
  request.bytes = 4;
  request.offset = std::uint64_t{1} << 40;
  request.priority = 9;
  request.note = some_notification();
  request.group = &group;
  request.native.store(native_direct);
  request.moved_before = 11;
  request.after_direct = 12;
  request.started = true;
  request.held = true;
  request.awaited = true;
  request.tally = data;
  request.handover.store(Handover::refused);
  request.next = &request;
  request.descriptor = reinterpret_cast<Descriptor*>(data);
  request.handed_to.store(reinterpret_cast<const Shard*>(data));
}

void expect_fresh(const Request& request) {
  EXPECT_EQ(request.native.load(), native_none);
  EXPECT_EQ(request.moved_before, 0U);
  EXPECT_EQ(request.after_direct, 0U);
  EXPECT_FALSE(request.started);
  EXPECT_FALSE(request.held);
  EXPECT_FALSE(request.awaited);
  EXPECT_EQ(request.tally, nullptr);
  EXPECT_EQ(request.handover.load(), Handover::none);
  EXPECT_EQ(request.handed_to.load(), nullptr);
  EXPECT_EQ(request.next, nullptr);
  EXPECT_EQ(request.descriptor, nullptr);
}

TEST(Request, IsFreshEachTime) {
  aiocb block{};
  Group group;
  char byte = 0;
  Request* const first = take_request();
  ASSERT_NE(first, nullptr);
  use(*first, block, group, &byte);
  give_request(*first);
  EXPECT_EQ(first->stage.load(), Stage::free);
  Request* const second = take_request();
  ASSERT_EQ(second, first) << "the last one that was given back";
  expect_fresh(*second);
  EXPECT_EQ(second->group, nullptr);
  give_request(*second);
}

// The twin does all that is left to do, and the notification of it.
TEST(Request, HasATwinForTheSameTransfer) {
  aiocb block{};
  Group group;
  char byte = 0;
  Request* const request = take_request();
  ASSERT_NE(request, nullptr);
  use(*request, block, group, &byte);
  Request* const twin = take_twin(*request);
  ASSERT_NE(twin, nullptr);
  ASSERT_NE(twin, request);
  EXPECT_EQ(twin->block, &block);
  EXPECT_EQ(twin->fildes, 5);
  EXPECT_EQ(twin->action, Action::writev);
  EXPECT_EQ(twin->data, &byte);
  EXPECT_EQ(twin->size, 3U);
  EXPECT_EQ(twin->bytes, 4U);
  EXPECT_EQ(twin->offset, std::uint64_t{1} << 40);
  EXPECT_EQ(twin->priority, 9);
  EXPECT_EQ(twin->note.kind, SIGEV_SIGNAL);
  EXPECT_EQ(twin->note.signal, SIGUSR1);
  EXPECT_EQ(twin->note.value.sival_int, 7);
  EXPECT_EQ(twin->group, &group);
  expect_fresh(*twin);
  give_request(*twin);
  give_request(*request);
}

TEST(Request, OfWhichManyAreTakenAtOnceIsTakenOnce) {
  std::set<Request*> taken;
  std::set<std::uint32_t> places;
  for (int i = 0; i < 1'000; ++i) {
    Request* const each = take_request();
    ASSERT_NE(each, nullptr);
    EXPECT_TRUE(taken.insert(each).second);
    EXPECT_TRUE(places.insert(each->index).second);
    EXPECT_EQ(request_at(each->index), each);
    EXPECT_LT(each->index, requests_made());
  }
  for (Request* const each : taken) give_request(*each);
  EXPECT_EQ(request_at(requests_made()), nullptr);
}

TEST(Request, PendingOnesAreVisited) {
  Request* const pending = take_request();
  Request* const idle = take_request();
  ASSERT_TRUE(pending != nullptr && idle != nullptr);
  pending->stage.store(Stage::pending);
  std::set<const Request*> visited;
  for_each_pending([&](const Request& each) { visited.insert(&each); });
  EXPECT_EQ(visited, (std::set<const Request*>{pending}));
  give_request(*pending);
  give_request(*idle);
}

TEST(Request, MemoryIsReservedForAsManyAsAsked) {
  const std::size_t more = requests_made() + 1;
  ASSERT_TRUE(reserve_requests(more));
  EXPECT_GE(requests_made(), more);
}

TEST(Group, BeginsWithItsStarterAlone) {
  Group* const group = take_group();
  ASSERT_NE(group, nullptr);
  group->failed = true;
  group->waited_for = true;
  group->left = 5;
  group->users = 5;
  group->note = some_notification();
  give_request(*group->holder);
  Group* const next = take_group();
  ASSERT_EQ(next, group);
  EXPECT_EQ(next->left.load(), 1U);
  EXPECT_EQ(next->users.load(), 1U);
  EXPECT_FALSE(next->failed.load());
  EXPECT_FALSE(next->waited_for);
  EXPECT_TRUE(next->note.silent());
  EXPECT_EQ(&next->holder->list, next);
  give_request(*next->holder);
}

}  // namespace
}  // namespace uaio
