// The lock-free parts of the library under relacy: the sources of src/, compiled over its atomics,
// in as many random schedules as asked for. Each scenario is run as the source is written, which
// must never fail, and with an order weakened, which must: else the scenario would prove nothing.
//
//   relacy_test [SCHEDULES]          of each scenario, a million by default
//
// What relacy reports: reads that race with writes, and threads that sleep for ever (a wake-up that
// was lost). Assertions are its own.
#include <cstdlib>
#include <string_view>

#include "atomics.hpp"

namespace baton::model {
namespace {

/// What is mailed. Its content and its link are plain memory: relacy sees who reads them unordered.
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

/// What the owner has taken: everything once, and what one sender has sent in its order.
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

// -- mailbox and sleep word: an owner that sleeps is woken for every mail -------------------------

// As LaneLoop::wait and LaneLoop::mail have it.
template <template <class> class Atomic>
struct SleepingOwner : rl::test_suite<SleepingOwner<Atomic>, 3> {
  void before() { interrupt.clear(); }
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
        if (mailbox.push(nodes[content]) && word.notify()) interrupt.send();
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
  void before() { interrupt.clear(); }
  void thread(unsigned index) {
    if (index == 0) {
      while (!both()) {
        word.fall_asleep();
        if (!both()) interrupt.wait();
        word.wake_up();
      }
    } else {
      flags[index - 1].store(1, std::memory_order_seq_cst);
      if (word.notify()) interrupt.send();
    }
  }
  bool both() {
    return flags[0].load(std::memory_order_seq_cst) + flags[1].load(std::memory_order_seq_cst) == 2;
  }
  Atomic<std::uint32_t> flags[2] = {0, 0};
  BasicSleepWord<Atomic> word;
  Interrupt interrupt;
};

// -- a parking slot: an unpark is never lost, and brings what was written before it ---------------

// Regression: the second of two unparks, coming between park's load and its clearing of the word,
// was taken for done, but what its caller had written was not seen: the owner slept for ever.

template <template <class> class Atomic>
struct ParkingTwice : rl::test_suite<ParkingTwice<Atomic>, 3> {
  void thread(unsigned index) {
    constexpr Futex futex;
    if (index == 0) {
      // Two unparks may be taken for one: what they say is looked at after each.
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

/// One waker at a time, as the dispatcher has it: what it wrote is there.
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

// -- a stack of free places: nobody has one that another has --------------------------------------

template <template <class> class Atomic>
struct FreePlaces : rl::test_suite<FreePlaces<Atomic>, 3> {
  static constexpr std::uint32_t count = 2;

  void before() {
    for (std::uint32_t i = 0; i < count; ++i) {
      uses[i](RL_INFO) = 0;
      stack.give(i, link_of());
    }
  }
  void thread(unsigned) {
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t mine = stack.take(link_of());
      if (mine == BasicIndexStack<Atomic>::nothing) continue;
      // Two threads here would race.
      uses[mine](RL_INFO) = uses[mine](RL_INFO) + 1;
      stack.give(mine, link_of());
    }
  }
  void after() {
    for (std::uint32_t i = 0; i < count; ++i) {
      RL_ASSERT(stack.take(link_of()) != BasicIndexStack<Atomic>::nothing);
    }
    RL_ASSERT(stack.take(link_of()) == BasicIndexStack<Atomic>::nothing);
  }
  auto link_of() {
    return [this](std::uint32_t index) -> Atomic<std::uint32_t>& { return links[index]; };
  }
  BasicIndexStack<Atomic> stack;
  Atomic<std::uint32_t> links[count] = {0, 0};
  rl::var<int> uses[count];
};

// -- a batch that is recalled: its owner and who recalls it are never inside together -------------

// As TakenBatch has it.
template <template <class> class Atomic>
struct RecalledBatch : rl::test_suite<RecalledBatch<Atomic>, 2> {
  void before() { left(RL_INFO) = 3; }
  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < 3; ++i) {
        const bool inside = gate.enter();
        if (inside) left(RL_INFO) = left(RL_INFO) - 1;
        gate.leave();
        if (!inside) break;
      }
    } else {
      gate.close();
      rl::linear_backoff pause;
      while (gate.busy()) pause.yield(RL_INFO);
      left(RL_INFO) = 0;
    }
  }
  BasicTakingGate<Atomic> gate;
  rl::var<int> left;
};

// -- readers of a name: nobody reads what is being prepared for another one -----------------------

// As the slots of the C interface have it.
template <template <class> class Atomic>
struct NamedSlot : rl::test_suite<NamedSlot<Atomic>, 3> {
  void before() { content(RL_INFO) = 1; }
  void thread(unsigned index) {
    if (index == 0) {
      withdraw_name(name);
      rl::linear_backoff pause;
      while (is_looked_at(readers)) pause.yield(RL_INFO);
      content(RL_INFO) = 2;
      // release, as baton_start names the next activation.
      name.store(2, std::memory_order::release);
    } else {
      for (std::uint32_t wanted : {1U, 2U}) {
        if (begin_look(name, readers, wanted)) {
          RL_ASSERT(content(RL_INFO) == static_cast<int>(wanted));
        }
        end_look(readers);
      }
    }
  }
  Atomic<std::uint32_t> name{1};
  Atomic<std::uint32_t> readers{0};
  rl::var<int> content;
};

// -- a flag that spares interrupts, and the kernel's counter: none is lost ------------------------

// As the eventfd and pipe strategies, io_uring and linux_aio have it: the first that raises the
// flag tells the kernel. The waiter consumes that first and then takes the flag down.
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

/// What relacy tells, kept without a call of operator new: relacy replaces that one, and does not
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

/// Every scenario is run, whatever came of the ones before.
bool run_all(unsigned schedules) {
  bool good = true;
  good &= holds<MailboxAlone>("mailbox", schedules);
  good &= breaks<MailboxAlone, AllRelaxed>("mailbox", "all orders relaxed", schedules);
  good &= holds<SleepingOwner>("sleep", schedules);
  good &= breaks<SleepingOwner, NoSeqCst>("sleep", "without seq_cst", schedules);
  good &= breaks<SleepingOwner, AllRelaxed>("sleep", "all orders relaxed", schedules);
  good &= holds<SleepingOwnerAndFlag>("flag", schedules);
  good &= breaks<SleepingOwnerAndFlag, NoSeqCst>("flag", "without seq_cst", schedules);
  good &= holds<ParkingLetter>("parking", schedules);
  good &= breaks<ParkingLetter, AllRelaxed>("parking", "all orders relaxed", schedules);
  good &= holds<ParkingTwice>("parking, two unparks", schedules);
  good &= breaks<ParkingTwice, AllRelaxed>("parking, two unparks", "all orders relaxed", schedules);
  good &= holds<FreePlaces>("free places", schedules);
  good &= breaks<FreePlaces, AllRelaxed>("free places", "all orders relaxed", schedules);
  good &= holds<RecalledBatch>("recalled batch", schedules);
  good &= breaks<RecalledBatch, NoSeqCst>("recalled batch", "without seq_cst", schedules);
  good &= breaks<RecalledBatch, AllRelaxed>("recalled batch", "all orders relaxed", schedules);
  good &= holds<NamedSlot>("named slot", schedules);
  good &= breaks<NamedSlot, NoSeqCst>("named slot", "without seq_cst", schedules);
  good &= breaks<NamedSlot, AllRelaxed>("named slot", "all orders relaxed", schedules);
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
