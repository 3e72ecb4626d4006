// The lock-free parts of the library under relacy: the sources of src/, compiled with relacy's
// atomics, in as many random schedules as requested. Each scenario runs as the source is written,
// which must never fail, and with one order weakened, which must fail. Otherwise the scenario would
// prove nothing.
//
//   relacy_test [SCHEDULES]          of each scenario, a million by default
//
// relacy reports data races, and threads that sleep for ever (a lost wake-up). The assertions are
// those of the test.
#include <cstdlib>
#include <string_view>

#include "atomics.hpp"

namespace baton::model {
namespace {

/// A mailed node. Its content and its link are plain memory: relacy finds unordered reads of
/// them.
struct Node {
  rl::var<int> content;
  rl::var<Node*> next;
};

struct NodeLinks {
  static Node* next(Node& node) { return node.next(RL_INFO); }
  static void set_next(Node& node, Node* next) { node.next(RL_INFO) = next; }
};

template <template <class> class Atomic>
using TestedMailbox = BasicMailbox<Node, NodeLinks, Atomic>;

constexpr int mails = 2;  // of each sender

/// The nodes that the owner has taken: each once, and those of one sender in its order.
struct Received {
  void take(Node* first) {
    for (Node* node = first; node != nullptr; node = NodeLinks::next(*node)) {
      const int content = node->content(RL_INFO);
      const int sender = content / mails;
      RL_ASSERT(content % mails == next_of[sender]);
      ++next_of[sender];
      ++count;
    }
  }
  int next_of[4] = {};
  int count = 0;
};

/// The interrupt of an engine: sticky and coalescing, as an eventfd.
class Interrupt {
 public:
  void send() {
    mutex_.lock(RL_INFO);
    is_set_(RL_INFO) = 1;
    changed_.notify_all(RL_INFO);
    mutex_.unlock(RL_INFO);
  }
  void wait() {
    mutex_.lock(RL_INFO);
    while (is_set_(RL_INFO) == 0) changed_.wait(mutex_, RL_INFO);
    is_set_(RL_INFO) = 0;
    mutex_.unlock(RL_INFO);
  }
  void clear() { is_set_(RL_INFO) = 0; }

 private:
  rl::mutex mutex_;
  rl::condition_variable changed_;
  rl::var<int> is_set_;
};

// -- a mailbox alone: nothing is lost, doubled or seen before it was written ----------------------

template <template <class> class Atomic>
struct MailboxAlone : rl::test_suite<MailboxAlone<Atomic>, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      received.take(mailbox.take_all());
      received.take(mailbox.take_all());
    } else {
      for (int i = 0; i < mails; ++i) {
        const int content = static_cast<int>(index - 1) * mails + i;
        nodes[content].content(RL_INFO) = content;
        mailbox.push(nodes[content]);
      }
    }
  }
  void after() {
    received.take(mailbox.take_all());
    RL_ASSERT(received.count == 2 * mails);
    RL_ASSERT(mailbox.empty());
  }
  TestedMailbox<Atomic> mailbox;
  Node nodes[2 * mails];
  Received received;
};

// -- an owner that closes its mailbox: what is not refused is received ----------------------------

template <template <class> class Atomic>
struct ClosingOwner : rl::test_suite<ClosingOwner<Atomic>, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      while (!mailbox.close()) received.take(mailbox.take_all());
    } else {
      for (int i = 0; i < mails; ++i) {
        const int content = static_cast<int>(index - 1) * mails + i;
        nodes[content].content(RL_INFO) = content;
        const bool opens = false;
        if (mailbox.push(nodes[content], opens) == TestedMailbox<Atomic>::Pushed::refused) return;
        ++pushed[index - 1];
      }
    }
  }
  void after() {
    RL_ASSERT(received.count == pushed[0] + pushed[1]);
    RL_ASSERT(mailbox.empty() && mailbox.take_all() == nullptr);
    RL_ASSERT(mailbox.push(nodes[0]) && !mailbox.empty());
  }
  TestedMailbox<Atomic> mailbox;
  Node nodes[2 * mails];
  int pushed[2] = {};
  Received received;
};

// -- mailbox and sleep word: an owner that sleeps is woken for every mail -------------------------

template <template <class> class Atomic>
bool wakes(BasicSleepWord<Atomic>& word) {
  return word.notify() == BasicSleepWord<Atomic>::Needs::interrupt;
}

// As LaneLoop::wait and LaneLoop::mail have it.
template <template <class> class Atomic>
struct SleepingOwner : rl::test_suite<SleepingOwner<Atomic>, 3> {
  void before() {
    interrupt.clear();
    word.wake_up();
  }
  void thread(unsigned index) {
    if (index == 0) {
      while (received.count < 2 * mails) {
        if (!mailbox.empty()) received.take(mailbox.take_all());
        if (received.count == 2 * mails) break;
        word.fall_asleep();
        if (mailbox.empty()) interrupt.wait();
        word.wake_up();
      }
    } else {
      for (int i = 0; i < mails; ++i) {
        const int content = static_cast<int>(index - 1) * mails + i;
        nodes[content].content(RL_INFO) = content;
        if (mailbox.push(nodes[content]) && wakes(word)) interrupt.send();
      }
    }
  }
  TestedMailbox<Atomic> mailbox;
  BasicSleepWord<Atomic> word;
  Interrupt interrupt;
  Node nodes[2 * mails];
  Received received;
};

// -- sleep word and a flag: as LaneLoop::stop and LaneLoop::request -------------------------------

template <template <class> class Atomic>
struct SleepingOwnerAndFlag : rl::test_suite<SleepingOwnerAndFlag<Atomic>, 3> {
  void before() {
    interrupt.clear();
    word.wake_up();
  }
  void thread(unsigned index) {
    if (index == 0) {
      while (!both()) {
        word.fall_asleep();
        if (!both()) interrupt.wait();
        word.wake_up();
      }
    } else {
      flags[index - 1].store(1, std::memory_order_seq_cst);
      if (wakes(word)) interrupt.send();
    }
  }
  bool both() {
    return flags[0].load(std::memory_order_seq_cst) + flags[1].load(std::memory_order_seq_cst) == 2;
  }
  Atomic<std::uint32_t> flags[2] = {0, 0};
  BasicSleepWord<Atomic> word;
  Interrupt interrupt;
};

// -- an owner that leaves: it finds the work, or the thread that has queued it does ---------------

// As LaneLoop::let_go and Crew::look_round have it, and Crew::find_leader.
template <template <class> class Atomic>
struct LeavingOwner : rl::test_suite<LeavingOwner<Atomic>, 3> {
  void before() { word.wake_up(); }
  void thread(unsigned index) {
    if (index == 0) {
      word.fall_asleep();
      if (!mailbox.empty()) received.take(mailbox.take_all());
      word.wake_up();
      word.go();
      if (!mailbox.empty()) found.store(1, std::memory_order_relaxed);
    } else {
      nodes[index - 1].content(RL_INFO) = static_cast<int>(index - 1) * mails;
      const bool first = mailbox.push(nodes[index - 1]);
      if (first && word.notify() == BasicSleepWord<Atomic>::Needs::owner) {
        found.store(1, std::memory_order_relaxed);
      }
    }
  }
  void after() { RL_ASSERT(mailbox.empty() || found.load(std::memory_order_relaxed) != 0); }
  TestedMailbox<Atomic> mailbox;
  BasicSleepWord<Atomic> word;
  Atomic<std::uint32_t> found{0};
  Node nodes[2];
  Received received;
};

// -- a parking slot: an unpark is never lost, and brings what was written before it ---------------

// Regression: the second of two unparks, coming between park's load and its clearing of the word,
// was taken for done, but what its caller had written was not seen: the owner slept for ever.

template <template <class> class Atomic>
struct ParkingTwice : rl::test_suite<ParkingTwice<Atomic>, 3> {
  void thread(unsigned index) {
    constexpr Futex futex;
    if (index == 0) {
      // Two unparks may be merged: their data is checked after each.
      while (arrived[0].load(std::memory_order_relaxed) == 0 ||
             arrived[1].load(std::memory_order_relaxed) == 0) {
        slot.park(futex, Deadline::never());
      }
    } else {
      arrived[index - 1].store(1, std::memory_order_relaxed);
      slot.unpark(futex);
    }
  }
  Atomic<std::uint32_t> arrived[2] = {0, 0};
  os::BasicParkingSlot<Futex, Atomic> slot;
};

/// One waker at a time, as in the dispatcher: its writes are visible.
template <template <class> class Atomic>
struct ParkingLetter : rl::test_suite<ParkingLetter<Atomic>, 2> {
  void before() { letter(RL_INFO) = 0; }
  void thread(unsigned index) {
    constexpr Futex futex;
    if (index == 0) {
      RL_ASSERT(slot.park(futex, Deadline::never()));
      RL_ASSERT(letter(RL_INFO) == 1);
    } else {
      letter(RL_INFO) = 1;
      slot.unpark(futex);
    }
  }
  rl::var<int> letter;
  os::BasicParkingSlot<Futex, Atomic> slot;
};

// -- a flag that spares interrupts, and the kernel's counter: none is lost ------------------------

// As the eventfd and pipe strategies, io_uring and linux_aio have it: the first that raises the
// flag makes the system call. The waiter consumes that first and then clears the flag.
template <template <class> class Atomic>
struct SparedInterrupt : rl::test_suite<SparedInterrupt<Atomic>, 3> {
  void before() { interrupt.clear(); }
  void thread(unsigned index) {
    if (index == 0) {
      while (left[0].load(std::memory_order_relaxed) + left[1].load(std::memory_order_relaxed) <
             2) {
        interrupt.wait();
        pending.exchange(false, std::memory_order_acq_rel);
      }
    } else {
      left[index - 1].store(1, std::memory_order_relaxed);
      if (!pending.exchange(true, std::memory_order_acq_rel)) interrupt.send();
    }
  }
  Atomic<std::uint32_t> left[2] = {0, 0};
  Atomic<bool> pending{false};
  Interrupt interrupt;
};

// -- running them ---------------------------------------------------------------------------------

/// Relacy's messages, kept without a call of operator new: relacy replaces that one, and does not
/// expect memory to outlive the simulation.
class Told : public std::streambuf {
 public:
  Told() { setp(text_, text_ + sizeof(text_)); }
  [[nodiscard]] std::string_view text() const {
    return {text_, static_cast<std::size_t>(pptr() - pbase())};
  }

 private:
  char text_[32'768];
};

template <class Suite>
rl::test_params run(unsigned schedules, Told& buffer) {
  std::ostream told{&buffer};
  rl::test_params params;
  params.iteration_count = schedules;
  params.output_stream = &told;
  params.progress_stream = &told;
  rl::simulate<Suite>(params);
  return params;
}

template <template <template <class> class> class Suite>
bool holds(std::string_view name, unsigned schedules) {
  Told told;
  const rl::test_params params = run<Suite<AsWritten>>(schedules, told);
  if (params.test_result == rl::test_result_success) {
    std::cout << name << ": " << schedules << " schedules, no fault\n";
    return true;
  }
  std::cout << name << ": " << rl::test_result_str(params.test_result) << '\n' << told.text();
  return false;
}

template <template <template <class> class> class Suite, template <class> class Weak>
bool breaks(std::string_view name, std::string_view how, unsigned schedules) {
  Told told;
  const rl::test_params params = run<Suite<Weak>>(schedules, told);
  std::cout << name << ", " << how << ": "
            << (params.test_result == rl::test_result_success
                    ? "NOT FOUND"
                    : rl::test_result_str(params.test_result))
            << ", schedule " << params.stop_iteration << '\n';
  return params.test_result != rl::test_result_success;
}

/// Every scenario is run, also after a failure.
bool run_all(unsigned schedules) {
  bool good = true;
  good &= holds<MailboxAlone>("mailbox", schedules);
  good &= breaks<MailboxAlone, AllRelaxed>("mailbox", "all orders relaxed", schedules);
  good &= holds<ClosingOwner>("closing", schedules);
  good &= breaks<ClosingOwner, AllRelaxed>("closing", "all orders relaxed", schedules);
  good &= holds<SleepingOwner>("sleep", schedules);
  good &= breaks<SleepingOwner, NoSeqCst>("sleep", "without seq_cst", schedules);
  good &= breaks<SleepingOwner, AllRelaxed>("sleep", "all orders relaxed", schedules);
  good &= holds<SleepingOwnerAndFlag>("flag", schedules);
  good &= breaks<SleepingOwnerAndFlag, NoSeqCst>("flag", "without seq_cst", schedules);
  good &= holds<LeavingOwner>("leaving", schedules);
  good &= breaks<LeavingOwner, NoSeqCst>("leaving", "without seq_cst", schedules);
  good &= breaks<LeavingOwner, AllRelaxed>("leaving", "all orders relaxed", schedules);
  good &= holds<ParkingLetter>("parking", schedules);
  good &= breaks<ParkingLetter, AllRelaxed>("parking", "all orders relaxed", schedules);
  good &= holds<ParkingTwice>("parking, two unparks", schedules);
  good &= breaks<ParkingTwice, AllRelaxed>("parking, two unparks", "all orders relaxed", schedules);
  good &= holds<SparedInterrupt>("spared interrupt", schedules);
  good &= breaks<SparedInterrupt, AllRelaxed>("spared interrupt", "all orders relaxed", schedules);
  return good;
}

}  // namespace
}  // namespace baton::model

int main(int argc, char** argv) {
  const long schedules = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1'000'000;
  if (schedules < 1 || schedules > 1'000'000'000) {
    std::cerr << "usage: relacy_test [SCHEDULES]\n";
    return 2;
  }
  return baton::model::run_all(static_cast<unsigned>(schedules)) ? 0 : 1;
}
