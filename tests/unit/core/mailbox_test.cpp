// The multi-producer mailbox of a lane (P-14).
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/lane.hpp"

namespace baton {
namespace {

TEST(Mailbox, gives_everything_in_the_order_of_pushing) {
  Mailbox mailbox;
  Operation operations[3];
  EXPECT_TRUE(mailbox.empty());
  EXPECT_TRUE(mailbox.push(operations[0]));  // it was empty: a thread may have to be woken
  EXPECT_FALSE(mailbox.push(operations[1]));
  EXPECT_FALSE(mailbox.push(operations[2]));
  EXPECT_FALSE(mailbox.empty());
  Operation* taken = mailbox.take_all();
  for (Operation& operation : operations) {
    ASSERT_EQ(taken, &operation);
    taken = OperationAccess::next(*taken);
  }
  EXPECT_EQ(taken, nullptr);
  EXPECT_TRUE(mailbox.empty());
  EXPECT_EQ(mailbox.take_all(), nullptr);
}

TEST(Mailbox, that_is_closed_refuses_what_does_not_open_it) {
  Mailbox mailbox;
  Operation operations[3];
  EXPECT_TRUE(mailbox.push(operations[0]));
  EXPECT_FALSE(mailbox.close()) << "it is not empty";
  EXPECT_EQ(mailbox.take_all(), &operations[0]);
  EXPECT_TRUE(mailbox.close());
  EXPECT_TRUE(mailbox.close());
  EXPECT_TRUE(mailbox.empty());
  EXPECT_EQ(mailbox.push(operations[1], false), Mailbox::Pushed::refused);
  EXPECT_EQ(mailbox.take_all(), nullptr);
  EXPECT_EQ(mailbox.push(operations[1], false), Mailbox::Pushed::refused) << "it stays closed";
  EXPECT_EQ(mailbox.push(operations[1], true), Mailbox::Pushed::first);
  EXPECT_EQ(mailbox.push(operations[2], false), Mailbox::Pushed::more);
  EXPECT_EQ(mailbox.take_all(), &operations[1]);
}

// The order of each producer is kept, nothing is lost, and a push finds the box empty only after a
// take.
TEST(Mailbox, keeps_the_order_of_each_of_several_producers) {
  constexpr std::uint32_t producers = 4;
  constexpr std::uint32_t each = 20'000;
  Mailbox mailbox;
  const auto operations = std::make_unique<Operation[]>(producers * each);
  std::atomic<std::uint32_t> found_empty{0};
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < producers; ++p) {
    threads.emplace_back([&, p] {
      for (std::uint32_t i = 0; i < each; ++i) {
        Operation& operation = operations[p * each + i];
        operation.set_tag(i);
        if (mailbox.push(operation)) found_empty.fetch_add(1);
      }
    });
  }
  std::uint32_t next_of[producers] = {};
  std::uint32_t taken = 0;
  std::uint32_t takings = 0;
  bool in_order = true;
  while (taken < producers * each) {
    Operation* operation = mailbox.take_all();
    if (operation != nullptr) ++takings;
    for (; operation != nullptr; operation = OperationAccess::next(*operation), ++taken) {
      const auto p = static_cast<std::uint32_t>(operation - operations.get()) / each;
      in_order = in_order && operation->tag() == next_of[p];
      ++next_of[p];
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(found_empty.load(), takings);
}

}  // namespace
}  // namespace baton
