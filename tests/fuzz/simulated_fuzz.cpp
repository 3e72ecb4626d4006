// Sequences of operations in a simulated machine. The input is the seed of the machine, the
// properties of its engine, and a list of calls - starts of every kind, cancels, closes, deadlines,
// turns of the loop, stops - in any order, with handlers that start their operation again. Each
// successful start completes once, and a failed one never. Nothing is pending when the proactor is
// gone.
//
// A machine that sleeps for ever, or never becomes idle, ends the run by itself (sim/world.hpp).
#include <array>
#include <functional>
#include <memory>

#include "baton/proactor.hpp"
#include "expect.hpp"
#include "input.hpp"
#include "sim/kernel.hpp"
#include "sim/world.hpp"

namespace baton::fuzz {
namespace {

using sim::World;

constexpr std::size_t handles_count = 7;  // two pairs of sockets, the ends of a pipe, a file
constexpr std::size_t slots_count = 16;
constexpr std::size_t buffer_size = 96;
constexpr std::size_t steps_max = 300;

/// The handles come in this order.
constexpr std::size_t pipe_reads = 4;
constexpr std::size_t pipe_writes = 5;
constexpr std::size_t file = 6;

class Run;

struct Slot {
  Operation operation;
  std::array<char, buffer_size> buffer{};
  std::string_view delimiter{"\n"};
  Run* run = nullptr;
  bool taken = false;  ///< from its start until its handler has no more use for it
  int started = 0;
  int completed = 0;
  std::uint8_t again = 0;  ///< how often the handler starts it again
};

class Run {
 public:
  Run(World& world, Input& input, const ProcessorConfig& processor) : world_(world), input_(input) {
    Config config;
    config.system = &sim::system();
    config.handles_max = 32;
    config.processors = {processor};
    auto opened = Proactor::open(std::move(config));
    if (!opened) return;  // a machine may be too poor for it
    owner_ = std::move(*opened);
    proactor_ = owner_.get();
    for (Slot& slot : slots_) slot.run = this;
    open_handles();
  }

  void go(bool with_thread) {
    if (proactor_ == nullptr) return;
    std::uint32_t thread = 0;
    if (with_thread) {
      thread = world_.scheduler().start(
          [](void* self) {
            auto& proactor = *static_cast<Run*>(self)->proactor_;
            // A stop ends run(), and a restart may follow, so run() is called until the last stop.
            while (!static_cast<Run*>(self)->over_) {
              proactor.handle_events(Deadline::after(std::chrono::milliseconds{1}, proactor.now()));
            }
          },
          this);
    }
    for (std::size_t i = 0; i < steps_max && !input_.empty(); ++i) step();
    over_ = true;
    if (thread != 0) world_.scheduler().join(thread);
    owner_.reset();  // its last handlers still call it
    for (const Slot& slot : slots_) {
      world_.check(!slot.operation.is_pending(), "an operation outlives its proactor");
      world_.check(slot.started == slot.completed, "a start without its completion");
    }
  }

 private:
  void open_handles() {
    int fds[handles_count] = {-1, -1, -1, -1, -1, -1, -1};
    static_cast<void>(sim::system().socketpair(0, 0, 0, fds));
    static_cast<void>(sim::system().socketpair(0, 0, 0, fds + 2));
    static_cast<void>(sim::system().pipe2(fds + pipe_reads, 0));
    fds[file] = sim::system().open("file", 0, 0);
    for (std::size_t i = 0; i < handles_count; ++i) {
      if (fds[i] < 0) continue;
      const HandleKind kind = i == file         ? HandleKind::file
                              : i >= pipe_reads ? HandleKind::pipe
                                                : HandleKind::stream_socket;
      const auto adopted = proactor_->adopt(fds[i], kind, Ownership::owned);
      if (adopted) {
        handles_[i] = *adopted;
      } else {
        sim::system().close(fds[i]);
      }
    }
  }

  void step() {
    switch (input_.choice(12)) {
      case 0:
      case 1:
      case 2:
        start(slots_[input_.choice(slots_count)]);
        break;
      case 3:
        start_without_handle(slots_[input_.choice(slots_count)]);
        break;
      case 4: {
        Slot& slot = slots_[input_.choice(slots_count)];
        // Sometimes with an earlier activation, which finds nothing.
        const std::uint32_t activation = slot.operation.activation() - (input_.flag() ? 1U : 0U);
        static_cast<void>(proactor_->cancel(slot.operation, activation));
        break;
      }
      case 5:
        if (Handle* handle = any_handle()) static_cast<void>(proactor_->cancel(*handle));
        break;
      case 6:
        proactor_->poll();
        break;
      case 7:
        proactor_->run_one(in_a_while());
        break;
      case 8:
        close(slots_[input_.choice(slots_count)]);
        break;
      case 9:
        world_.scheduler().work(static_cast<std::int64_t>(input_.word(2)) * 100);
        break;
      case 10:
        proactor_->stop();
        proactor_->restart();
        break;
      default:
        if (input_.choice(8) == 0) proactor_->cancel_all();
        break;
    }
  }

  Deadline in_a_while() {
    return Deadline::after(Duration{static_cast<std::int64_t>(input_.word(2)) * 100},
                           proactor_->now());
  }

  Handle* any_handle() { return handles_[number_ = input_.choice(handles_count)]; }

  /// A request that fits the handle, or one that does not: both have to end properly.
  void fill(Slot& slot, Handle* handle) {
    constexpr std::array stream{OperationKind::read_stream, OperationKind::write_stream,
                                OperationKind::wait_ready, OperationKind::shutdown};
    constexpr std::array files{OperationKind::read_file, OperationKind::write_file,
                               OperationKind::sync_file, OperationKind::read_file};
    const std::size_t choice = input_.choice(4);
    const OperationKind kind = number_ == file ? files[choice] : stream[choice];
    const auto flags = static_cast<std::uint16_t>(
        kind == OperationKind::wait_ready
            ? (number_ == pipe_writes ? Operation::writable : Operation::readable)
            : (input_.flag() ? Operation::exactly : 0));
    Operation& operation = slot.operation;
    operation.prepare(kind, handle, flags);
    const std::size_t size = input_.choice(buffer_size + 1);
    switch (kind) {
      case OperationKind::read_stream:
        operation.set_buffer(MutableBuffer{slot.buffer.data(), size});
        if (size > 0 && (flags & Operation::exactly) == 0 && input_.flag()) {
          operation.set_until(&slot.delimiter, 0);
        }
        break;
      case OperationKind::read_file:
        operation.set_buffer(MutableBuffer{slot.buffer.data(), size});
        operation.set_offset(input_.word(1));
        break;
      case OperationKind::write_file:
        operation.set_buffer(ConstBuffer{slot.buffer.data(), size});
        operation.set_offset(input_.word(1));
        break;
      case OperationKind::write_stream:
        operation.set_buffer(ConstBuffer{slot.buffer.data(), size});
        break;
      default:
        break;
    }
  }

  void start(Slot& slot) {
    Handle* handle = any_handle();
    if (slot.taken || handle == nullptr) return;
    fill(slot, handle);
    if (input_.flag()) slot.operation.set_deadline(in_a_while());
    slot.again = static_cast<std::uint8_t>(input_.choice(4));
    hand_over(slot, [this, &slot] { return proactor_->start(slot.operation); });
  }

  void start_without_handle(Slot& slot) {
    if (slot.taken) return;
    const bool timer = input_.flag();
    slot.operation.prepare(timer ? OperationKind::timer : OperationKind::user, nullptr);
    slot.again = 0;
    if (timer) slot.operation.set_deadline(in_a_while());
    hand_over(slot, [&] {
      return timer ? proactor_->start(slot.operation) : proactor_->post(slot.operation);
    });
  }

  void close(Slot& slot) {
    Handle* handle = any_handle();
    if (slot.taken || handle == nullptr) return;
    handles_[number_] = nullptr;  // the record may be another's once the close is complete
    slot.again = 0;
    if (input_.flag()) {
      proactor_->close_detached(*handle);
      return;
    }
    slot.operation.prepare(OperationKind::close, handle);
    hand_over(slot, [&] { return proactor_->close(*handle, slot.operation); });
  }

  /// Counted before: the handler may run in another thread before the start has returned.
  template <class Start>
  void hand_over(Slot& slot, Start start) {
    slot.operation.set_handler([&slot](Operation&) { slot.run->done(slot); });
    slot.taken = true;
    ++slot.started;
    if (start()) {
      slot.taken = false;
      --slot.started;
    }
  }

  void done(Slot& slot) {
    ++slot.completed;
    const Operation& operation = slot.operation;
    world_.check(slot.completed == slot.started, "completed more often than started");
    world_.check(!operation.is_pending(), "a handler runs for what is pending");
    switch (operation.kind()) {
      case OperationKind::read_stream:
      case OperationKind::write_stream:
      case OperationKind::read_file:
      case OperationKind::write_file:
        world_.check(operation.bytes() <= operation.buffer().size, "more bytes than there are");
        world_.check(!operation.has(Operation::exactly) || operation.failed() ||
                         operation.bytes() == operation.buffer().size,
                     "an exact transfer is short");
        break;
      default:
        break;
    }
    if (slot.again == 0 || operation.kind() == OperationKind::close || operation.failed()) {
      slot.taken = false;
      return;
    }
    --slot.again;
    const MutableBuffer buffer = operation.buffer();
    const std::uint64_t offset = operation.offset();
    const auto flags = static_cast<std::uint16_t>(operation.flags() & ~Operation::until);
    Handle* handle = operation.handle();
    slot.operation.prepare(operation.kind(), handle, flags);
    slot.operation.set_buffer(buffer);
    slot.operation.set_offset(offset);
    hand_over(slot, [this, &slot] { return proactor_->start(slot.operation); });
  }

  World& world_;
  Input& input_;
  bool over_ = false;
  std::size_t number_ = 0;  // of the handle that was chosen last
  std::array<Handle*, handles_count> handles_{};
  std::array<Slot, slots_count> slots_{};
  std::unique_ptr<Proactor> owner_;
  Proactor* proactor_ = nullptr;
};

ProcessorConfig processor_of(Input& input, World& world) {
  ProcessorConfig processor;
  processor.engine = input.choice(4) == 0 ? "emulated" : "simulated";
  if (processor.engine == "emulated") {
    processor.wait = "epoll";
    processor.interrupt = "eventfd";
  }
  processor.mode = input.flag() ? Mode::per_thread : Mode::shared;
  processor.threads = 2;
  processor.started_max = static_cast<std::uint32_t>(input.choice(4));
  processor.operations_max = input.flag() ? 6 : 0;
  const std::uint8_t traits = input.byte();
  world.traits.start_from_any_thread = (traits & 1) == 0;
  world.traits.start_interrupts_leader = (traits & 2) != 0;
  world.traits.needs_flush = (traits & 4) != 0;
  world.traits.has_descriptor = (traits & 8) == 0;
  world.traits.operations_max = (traits & 16) != 0 ? 3 : 0;
  return processor;
}

}  // namespace
}  // namespace baton::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baton::fuzz;
  static auto& world = *new baton::sim::World;
  Input input{data, size};
  const std::uint64_t seed = input.word(2) + 1;
  baton::sim::Options options;
  options.faults = input.flag();
  const bool with_thread = input.flag();
  const baton::sim::Outcome outcome = world.run(seed, options, [&](baton::sim::World& here) {
    const auto processor = processor_of(input, here);
    Run run{here, input, processor};
    run.go(with_thread);
  });
  expect(outcome.ok(), "the machine ends well", outcome.ok() ? "" : outcome.report());
  return 0;
}
