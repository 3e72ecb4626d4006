// An operation before its start and after its completion.
#include "baton/operation.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "baton/handle.hpp"
#include "baton/operation_queue.hpp"
#include "core/access.hpp"

namespace baton {
namespace {

TEST(Operation, NamesOfKindsAndStates) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    names.insert(to_string(static_cast<OperationKind>(i)));
  }
  EXPECT_EQ(names.size(), operation_kinds);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_STREQ(to_string(OperationKind::user), "user");
  EXPECT_STREQ(to_string(static_cast<OperationKind>(200)), "unknown");

  names.clear();
  constexpr OperationState states[] = {OperationState::initialized, OperationState::started,
                                       OperationState::deferred,    OperationState::result_ready,
                                       OperationState::start_error, OperationState::posted,
                                       OperationState::completed};
  for (const OperationState state : states) names.insert(to_string(state));
  EXPECT_EQ(names.size(), std::size(states));
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_STREQ(to_string(OperationState::result_ready), "result_ready");
  EXPECT_STREQ(to_string(static_cast<OperationState>(200)), "unknown");
}

TEST(Operation, SizesCount) {
  // The cost of an idle connection. A change here is a decision, not an accident.
  EXPECT_LE(sizeof(Operation), 200U);
  // 32 of them hold requests of other threads, which must not allocate.
  EXPECT_LE(sizeof(Handle), 96U);
  EXPECT_EQ(sizeof(MutableBuffer), sizeof(iovec));
  EXPECT_EQ(sizeof(Deadline), 8U);
  EXPECT_LE(sizeof(Endpoint), 120U);
  EXPECT_EQ(sizeof(OperationKinds), 4U);
}

TEST(Operation, BuffersAreTheSystemsVectors) {
  std::array<char, 4> one{};
  std::array<char, 8> other{};
  const std::array<MutableBuffer, 2> list{MutableBuffer{one}, MutableBuffer{other}};
  iovec vectors[2];
  static_assert(sizeof(list) == sizeof(vectors));
  std::memcpy(vectors, list.data(), sizeof(vectors));
  EXPECT_EQ(vectors[0].iov_base, one.data());
  EXPECT_EQ(vectors[1].iov_len, 8U);
}

TEST(Operation, IsNewUntilStarted) {
  Operation operation;
  EXPECT_EQ(operation.state(), OperationState::initialized);
  EXPECT_FALSE(operation.is_pending());
  EXPECT_FALSE(operation.failed());
  EXPECT_EQ(operation.error(), std::error_code{});
  EXPECT_TRUE(operation.deadline().is_never());
  EXPECT_EQ(operation.activation(), 0U);
}

TEST(Operation, ErrorsAreTheSystemsOrOurs) {
  Operation operation;
  operation.finish(ECONNREFUSED);
  EXPECT_EQ(operation.error(), std::errc::connection_refused);
  EXPECT_EQ(operation.error().category(), std::system_category());
  EXPECT_EQ(operation.result().error(), std::errc::connection_refused);
  operation.finish(errc::end_of_stream);
  EXPECT_EQ(operation.error(), errc::end_of_stream);
  EXPECT_EQ(operation.error_value(), -7);
  operation.finish(0);
  operation.set_bytes(12);
  EXPECT_EQ(operation.result().value(), 12U);
}

TEST(Operation, PrepareClearsTheStateOfTheLastUse) {
  Operation operation;
  operation.set_tag(9);
  operation.prepare(OperationKind::read_file, nullptr, Operation::append);
  operation.set_offset(1U << 31);
  operation.add_bytes(5);
  operation.finish(EIO);
  operation.prepare(OperationKind::read_stream, nullptr);
  EXPECT_EQ(operation.kind(), OperationKind::read_stream);
  EXPECT_EQ(operation.flags(), 0);
  EXPECT_EQ(operation.offset(), 0U);
  EXPECT_EQ(operation.bytes(), 0U);
  EXPECT_FALSE(operation.failed());
  EXPECT_EQ(operation.tag(), 9U);
}

TEST(Operation, HandlersLiveInside) {
  Operation operation;
  int calls = 0;
  operation.set_handler([&calls](Operation&) { ++calls; });
  int context = 0;
  operation.set_completion([](Operation&) {}, &context);
  EXPECT_EQ(operation.context(), &context);
  EXPECT_EQ(calls, 0);
}

TEST(OperationDeathTest, EndsTheProgramWhenDestroyedWhilePending) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Operation operation;
        OperationAccess::activate(operation, OperationState::started);
      },
      "destroyed while it was pending");
}

TEST(Operation, MayBeDestroyedAndUsedAgainOnceComplete) {
  Operation operation;
  for (std::uint32_t use = 1; use <= 3; ++use) {
    OperationAccess::activate(operation, OperationState::started);
    EXPECT_TRUE(operation.is_pending());
    EXPECT_EQ(operation.activation(), use);
    OperationAccess::publish(operation);
    EXPECT_TRUE(operation.is_pending());
    OperationAccess::complete(operation);
    EXPECT_FALSE(operation.is_pending());
  }
}

TEST(OperationKinds, AreASet) {
  OperationKinds kinds{OperationKind::accept, OperationKind::user};
  EXPECT_TRUE(kinds.has(OperationKind::accept));
  EXPECT_FALSE(kinds.has(OperationKind::connect));
  kinds |= OperationKinds{OperationKind::connect};
  EXPECT_TRUE(kinds.has(OperationKind::connect));
  EXPECT_FALSE(kinds.empty());
  EXPECT_TRUE(OperationKinds{}.empty());
}

TEST(OperationQueue, KeepsOrderThroughEveryKindOfMove) {
  std::array<Operation, 6> operations;
  OperationQueue queue;
  for (int i = 1; i < 4; ++i) queue.push_back(operations[static_cast<std::size_t>(i)]);
  queue.push_front(operations[0]);
  OperationQueue rest;
  rest.push_back(operations[4]);
  rest.push_back(operations[5]);
  queue.splice_back(rest);
  EXPECT_TRUE(rest.empty());
  queue.erase(operations[2]);
  queue.erase(operations[5]);
  queue.erase(operations[0]);
  EXPECT_EQ(queue.size(), 3U);
  std::vector<Operation*> order;
  while (!queue.empty()) order.push_back(&queue.pop_front());
  EXPECT_EQ(order, (std::vector<Operation*>{&operations[1], &operations[3], &operations[4]}));
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace baton
