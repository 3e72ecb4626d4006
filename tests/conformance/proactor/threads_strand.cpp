// Strands: handlers run in order, never overlap and block no thread.
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "baton/strand.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Strands : public Threads {
 protected:
  static constexpr unsigned lanes = 4;
  /// Counts the threads inside, and notes the order of tags.
  struct Inside {
    std::atomic<int> now{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> ran{0};
    std::vector<std::uint32_t> order;  // written inside the strand only
    Strand* strand = nullptr;

    void visit(Operation& operation) {
      if (now.fetch_add(1) != 0) overlaps.fetch_add(1);
      if (!strand->running_in_this_thread()) overlaps.fetch_add(1);
      order.push_back(operation.tag());
      now.fetch_sub(1);
      ran.fetch_add(1);
    }
  };
  Operation& member(Strand& strand, Inside& inside, std::uint32_t tag) {
    Operation& fresh = operation();
    fresh.set_strand(&strand);
    fresh.set_tag(tag);
    fresh.set_handler([to = &inside](Operation& self) { to->visit(self); });
    return fresh;
  }
};

TEST_P(Strands, exclude_each_other_under_four_threads) {
  use(lanes);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  run(lanes);
  constexpr std::uint32_t count = 4'000 / slowness;
  std::vector<Operation*> members;
  for (std::uint32_t i = 0; i < count; ++i) members.push_back(&member(strand, inside, i));
  std::vector<std::thread> posters;
  for (std::uint32_t t = 0; t < 4; ++t) {
    posters.emplace_back([&, t] {
      for (std::uint32_t i = t; i < count; i += 4) {
        ASSERT_FALSE(proactor().post(*members[i], Notify::strong, Home{i % lanes}));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  wait_until([&] { return inside.ran == count; });
  EXPECT_EQ(inside.overlaps, 0);
  stop();
  const Statistics sum = proactor().statistics();
  EXPECT_EQ(sum.started + sum.posted, sum.completed) << "handed on, but counted once";
}

TEST_P(Strands, of_reads_and_writes_of_one_connection) {
  use(2);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  Stream stream;
  Handle* handle = adopt(stream.ours);
  run(2);
  constexpr int rounds = 100 / slowness;
  for (int i = 0; i < rounds; ++i) {
    Operation& read = member(strand, inside, 0);
    Operation& write = member(strand, inside, 1);
    read_byte(handle, read);
    write.prepare(OperationKind::write_stream, handle, Operation::exactly);
    write.set_buffer(ConstBuffer{"y", 1});
    ASSERT_FALSE(proactor().start(write));
    send_all(stream.peer.get(), "x", 1);
    char byte = 0;
    ASSERT_TRUE(receive_all(stream.peer.get(), &byte, 1));
  }
  wait_until([&] { return inside.ran == 2 * rounds; });
  EXPECT_EQ(inside.overlaps, 0);
}

// Handlers run in the order of arrival, however many wait.
TEST_P(Strands, keep_the_order_of_arrival) {
  use(1);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  Gate& until = gate();
  // The first blocks with the strand taken, while the others arrive in it.
  Operation& first = operation();
  first.set_strand(&strand);
  struct Shared {
    Gate& until;
    std::atomic<bool> entered{false};
  } shared{until};
  first.set_handler([to = &shared](Operation&) {
    to->entered = true;
    to->until.wait();
  });
  constexpr std::uint32_t count = 1'000;
  ASSERT_FALSE(proactor().post(first));
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_FALSE(proactor().post(member(strand, inside, i)));
  }
  run(1);
  wait_until([&] { return shared.entered.load(); });
  until.open();
  wait_until([&] { return inside.ran == count; });
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(inside.order[i], i);
}

// The same while other threads take results, too: from inside, and of a stream's reads.
TEST_P(Strands, keep_the_order_of_posts_under_three_threads) {
  use(3);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  constexpr std::uint32_t count = 3'000 / slowness;
  std::vector<Operation*> members;
  for (std::uint32_t i = 0; i < count; ++i) members.push_back(&member(strand, inside, i));
  // The first half from outside, the second from inside.
  Operation& last = operation();
  last.set_strand(&strand);
  last.set_handler([this, &members](Operation&) {
    for (std::size_t i = count / 2; i < count; ++i) EXPECT_FALSE(proactor().post(*members[i]));
  });
  run(3);
  for (std::size_t i = 0; i < count / 2; ++i) ASSERT_FALSE(proactor().post(*members[i]));
  ASSERT_FALSE(proactor().post(last));
  wait_until([&] { return inside.ran == count; });
  EXPECT_EQ(inside.overlaps, 0);
  EXPECT_TRUE(std::is_sorted(inside.order.begin(), inside.order.end()));
}

TEST_P(Strands, keep_the_order_of_reads_under_three_threads) {
  use(3);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  Stream stream;
  Handle* handle = adopt(stream.ours);
  constexpr std::uint32_t count = 1'000 / slowness;
  for (std::uint32_t i = 0; i < count; ++i) read_byte(handle, member(strand, inside, i));
  run(3);
  const std::string text(count, 'x');
  send_all(stream.peer.get(), text.data(), text.size());
  wait_until([&] { return inside.ran == count; });
  EXPECT_EQ(inside.overlaps, 0);
  EXPECT_TRUE(std::is_sorted(inside.order.begin(), inside.order.end()));
}

// One write waits for room, and another one is started when there is room. The second may complete
// inside its start while the leader still handles the first.
TEST_P(Strands, keep_the_order_of_writes_that_wait_and_that_do_not) {
  use(3);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  Stream stream;
  const int ours = stream.ours.get();
  constexpr int small = 4'096;
  ASSERT_EQ(::setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
  Handle* handle = adopt(stream.ours);
  const std::string text(1'000, 'x');
  std::string rest(1U << 16, '\0');
  const auto write = [&](std::uint32_t tag) {
    Operation& fresh = member(strand, inside, tag);
    fresh.prepare(OperationKind::write_stream, handle, Operation::exactly);
    fresh.set_buffer(ConstBuffer{text.data(), text.size()});
    ASSERT_FALSE(proactor().start(fresh));
  };
  run(3);
  const auto rounds = static_cast<std::uint32_t>(tries(300));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    while (::send(ours, text.data(), text.size(), MSG_DONTWAIT) > 0) {
    }
    write(2 * round);
    while (::recv(stream.peer.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
    write(2 * round + 1);
    wait_until([&] {
      while (::recv(stream.peer.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
      }
      return inside.ran == static_cast<int>(2 * round + 2);
    });
  }
  EXPECT_EQ(inside.overlaps, 0);
  EXPECT_TRUE(std::is_sorted(inside.order.begin(), inside.order.end()));
}

// One call runs one handler. The handlers that wait in the strand are for the next call.
TEST_P(Strands, are_counted_by_the_call_that_runs_them) {
  if (GetParam().profile == "pinned") return;  // each lane belongs to the thread that came first
  use(2);
  Strand strand{proactor()};
  Gate& until = gate();
  std::atomic<int> ran{0};
  struct Shared {
    Gate& until;
    std::atomic<int>& ran;
    std::atomic<bool> entered{false};
  } shared{until, ran};
  Operation& first = operation();
  first.set_strand(&strand);
  first.set_handler([to = &shared](Operation&) {
    to->entered = true;
    to->until.wait();
    ++to->ran;
  });
  Operation& second = operation();
  second.set_strand(&strand);
  second.set_handler([to = &shared](Operation&) { ++to->ran; });
  ASSERT_FALSE(proactor().post(first));
  int ran_there = 0;
  std::thread other([&] {
    EXPECT_TRUE(proactor().run_one());
    ran_there = ran;
  });
  wait_until([&] { return shared.entered.load(); });
  ASSERT_FALSE(proactor().post(second));
  EXPECT_FALSE(proactor().run_one(Deadline::after(20ms, proactor().now()))) << "none has run";
  until.open();
  other.join();
  EXPECT_EQ(ran_there, 1);
  EXPECT_TRUE(proactor().run_one());
  EXPECT_EQ(ran, 2);
}

// The handler of a read has returned, and the next one of its strand blocks.
TEST_P(Strands, do_not_hold_up_a_close) {
  use(3);
  Strand strand{proactor()};
  Stream stream;
  Handle* handle = adopt(stream.ours, HandleKind::stream_socket, Home{1});
  Gate& before = gate();
  Gate& after = gate();
  const auto blocks = [&](Gate& until) -> Operation& {
    Operation& fresh = operation();
    fresh.set_strand(&strand);
    fresh.set_handler([to = &until](Operation&) { to->wait(); });
    return fresh;
  };
  Operation& first = blocks(before);
  Operation& last = blocks(after);
  Operation& read = operation();
  read.set_strand(&strand);
  read_byte(handle, read);
  run(3);
  ASSERT_FALSE(proactor().post(first, Notify::strong, Home{0}));
  wait_until([&] { return first.state() == OperationState::completed; });
  Operation& close = operation();
  close.prepare(OperationKind::close, handle);
  ASSERT_FALSE(proactor().start(close));
  wait_until([&] { return read.state() == OperationState::result_ready; });
  ASSERT_FALSE(proactor().post(last, Notify::strong, Home{0}));
  before.open();
  wait_until([&] { return !close.is_pending(); });
  EXPECT_FALSE(after.is_open());
  after.open();
  wait_until([&] { return !last.is_pending(); });
}

TEST_P(Strands, do_not_block_a_thread) {
  use(2);
  Strand strand{proactor()};
  Gate& until = gate();
  run(2);
  std::atomic<int> ran{0};
  struct Shared {
    Gate& until;
    std::atomic<int>& ran;
  } shared{until, ran};
  for (std::uint32_t i = 0; i < 3; ++i) {
    Operation& fresh = operation();
    fresh.set_strand(&strand);
    fresh.set_handler([to = &shared](Operation&) {
      to->until.wait();
      to->ran.fetch_add(1);
    });
    ASSERT_FALSE(proactor().post(fresh, Notify::strong, Home{0}));
  }
  // One is in the strand and blocks, two wait in it; the second thread is free.
  std::atomic<bool> other{false};
  post([&] { other = true; }, Notify::strong, Home{1});
  wait_until([&] { return other.load(); });
  EXPECT_EQ(ran, 0);
  until.open();
  wait_until([&] { return ran == 3; });
}

TEST_P(Strands, go_on_after_an_exception) {
  use(1);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  Operation& bad = operation();
  bad.set_strand(&strand);
  bad.set_handler([](Operation&) { throw std::runtime_error{"in a strand"}; });
  ASSERT_FALSE(proactor().post(bad));
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_FALSE(proactor().post(member(strand, inside, i)));
  EXPECT_THROW(proactor().run(), std::runtime_error);
  run(1);
  wait_until([&] { return inside.ran == 3; });
  EXPECT_EQ(inside.overlaps, 0);
}

// In per_thread mode the handlers of one strand may be at home in different lanes; a close waits
// for a handler that runs elsewhere.
TEST_P(Strands, span_lanes) {
  use(lanes);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  run(lanes);
  constexpr int rounds = 40 / slowness;
  for (int round = 0; round < rounds; ++round) {
    Stream streams[lanes];
    Operation closes[lanes];
    Operation reads[lanes];
    char bytes[lanes];
    for (std::uint32_t i = 0; i < lanes; ++i) {
      Handle* handle = adopt(streams[i].ours, HandleKind::stream_socket, Home{i});
      reads[i].set_strand(&strand);
      reads[i].set_handler([to = &inside](Operation& self) { to->visit(self); });
      reads[i].prepare(OperationKind::read_stream, handle);
      reads[i].set_buffer(MutableBuffer{&bytes[i], 1});
      ASSERT_FALSE(proactor().start(reads[i]));
      send_all(streams[i].peer.get(), "x", 1);
      closes[i].prepare(OperationKind::close, handle);
      ASSERT_FALSE(proactor().start(closes[i]));
    }
    for (std::uint32_t i = 0; i < lanes; ++i) {
      wait_until([&] { return !closes[i].is_pending() && !reads[i].is_pending(); });
    }
  }
  wait_until([&] { return inside.ran == rounds * static_cast<int>(lanes); });
  EXPECT_EQ(inside.overlaps, 0);
}

// Each is run by a thread of its own proactor.
TEST_P(Strands, of_two_proactors_exclude_each_other) {
  use(lanes);
  const std::unique_ptr<Proactor> second = open(lanes);
  Strand strand{proactor()};
  Inside inside;
  inside.strand = &strand;
  std::atomic<int> elsewhere{0};
  constexpr std::uint32_t count = 1'000 / slowness;
  Proactor* const homes[] = {&proactor(), second.get()};
  struct Visit {
    Inside& inside;
    std::atomic<int>& elsewhere;
    Proactor& home;
  } visits[] = {{inside, elsewhere, *homes[0]}, {inside, elsewhere, *homes[1]}};
  std::vector<Operation*> members;
  for (std::uint32_t i = 0; i < count; ++i) {
    members.push_back(&member(strand, inside, i));
    members.back()->set_handler([visit = &visits[i % 2]](Operation& self) {
      if (visit->home.current_lane() >= visit->home.lanes()) ++visit->elsewhere;
      visit->inside.visit(self);
    });
  }
  run(lanes);
  Runners others{*second, lanes};
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_FALSE(homes[i % 2]->post(*members[i]));
  wait_until([&] {
    return std::none_of(members.begin(), members.end(),
                        [](const Operation* each) { return each->is_pending(); });
  });
  wait_until([&] { return inside.ran == count; });
  EXPECT_EQ(inside.overlaps, 0);
  EXPECT_EQ(elsewhere, 0);
  others.stop();
  stop();
}

// All in one thread: the first handler lets the other operations arrive in its strand, so that they
// wait there in turns. When it returns, the strand is handed to the second proactor.
TEST_P(Strands, of_two_proactors_let_each_end_alone) {
  for (const bool second_ends_first : {false, true}) {
    const std::unique_ptr<Proactor> first = open(1);
    const std::unique_ptr<Proactor> second = open(1);
    Strand strand{*first};
    Inside inside;
    inside.strand = &strand;
    struct Shared {
      Proactor* homes[2];
      Operation* others[6];
      Inside& inside;
    } shared{{first.get(), second.get()}, {}, inside};
    for (std::uint32_t i = 0; i < 6; ++i) shared.others[i] = &member(strand, inside, i);
    Operation& beginning = operation();
    beginning.set_strand(&strand);
    beginning.set_handler([to = &shared](Operation&) {
      for (std::size_t i = 0; i < 6; ++i) {
        Proactor& home = *to->homes[(i + 1) % 2];
        EXPECT_FALSE(home.post(*to->others[i]));
        home.poll();
      }
      EXPECT_EQ(to->inside.ran, 0);
    });
    ASSERT_FALSE(first->post(beginning));
    ASSERT_TRUE(first->run_one());
    (second_ends_first ? second : first)->finish();
    EXPECT_EQ(inside.ran, 3);
    (second_ends_first ? first : second)->finish();
    EXPECT_EQ(inside.ran, 6);
    EXPECT_EQ(inside.overlaps, 0);
    const auto is_of_first = [](std::uint32_t tag) { return tag % 2 == 1; };
    std::vector<std::uint32_t> sorted = inside.order;
    std::stable_partition(sorted.begin(), sorted.end(), is_of_first);
    EXPECT_EQ(sorted, (std::vector<std::uint32_t>{1, 3, 5, 0, 2, 4}));
  }
}

BATON_CONFORMANCE_SOCKET_SUITE(Strands);

}  // namespace
}  // namespace baton::conformance
