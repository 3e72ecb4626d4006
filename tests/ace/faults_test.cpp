// Programs that use the bridge, with each system call and each allocation failing once: Baton's
// calls through its table, the bridge's own calls through the linker, and the allocations of the
// bridge and of libACE. Checks after each run: no crash and no hang; each accepted start completed
// once; each refused start failed with an errno that the fault explains; the proactor works; no
// memory, descriptor, thread or mapping is left behind.
//
// BATON_FAULTS=full: each n; otherwise the first five of a kind and every seventh after them.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "bridge.hpp"
#include "faults_world.hpp"
#include "results.hpp"
#include "support/failing_system.hpp"

namespace baton::ace::test {
namespace {

using baton::test::FailingCalls;
using baton::test::Held;
using faults::FailingAllocations;

// -- the scenarios --------------------------------------------------------------------------------

/// Reads and writes both ways at once over a pair; three blocks each.
void streams(World& world) {
  const auto pair = [] {
    const Own own;
    return std::make_unique<SocketPair>();
  }();
  struct Side {
    explicit Side(World& in) : world(in) {
      const Own own;
      in_block = std::make_unique<ACE_Message_Block>(100);
      out_block = std::make_unique<ACE_Message_Block>(100);
      out_block->copy("0123456789", 10);
    }
    ~Side() {
      const Own own;
      in_block.reset();
      out_block.reset();
    }
    bool open(int fildes) {
      {
        const Own own;
        world.ends_by([this] { return reader.cancel(); });
      }
      return world.take([&] { return reader.open(world, fildes, nullptr, world.ace()); }) &&
             world.take([&] { return writer.open(world, fildes, nullptr, world.ace()); });
    }
    bool exchange() {
      out_block->rd_ptr(out_block->base());
      return world.start([&] { return reader.read(*in_block, 10); }) &&
             world.start([&] { return writer.write(*out_block, 10); });
    }
    World& world;
    ACE_Asynch_Read_Stream reader;
    ACE_Asynch_Write_Stream writer;
    std::unique_ptr<ACE_Message_Block> in_block;
    std::unique_ptr<ACE_Message_Block> out_block;
  };
  Side left{world};
  Side right{world};
  if (left.open(pair->first) && right.open(pair->second)) {
    for (int round = 0; round < 3; ++round) {
      const bool begun = left.exchange() && right.exchange();
      world.settle();
      if (!begun || world.failed()) break;
    }
  }
  world.settle();
}

/// The same with the threads of an event loop.
void threads(World& world) {
  const auto pair = [] {
    const Own own;
    return std::make_unique<SocketPair>();
  }();
  const auto blocks = [] {
    const Own own;
    return std::make_unique<std::array<ACE_Message_Block, 8>>();
  }();
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  {
    const Own own;
    for (ACE_Message_Block& each : *blocks) {
      each.init(10);
      each.copy("0123", 4);
    }
    world.ends_by([&] { return reader.cancel(); });
    world.ends_by([&] { return writer.cancel(); });
  }
  if (world.take([&] { return reader.open(world, pair->first, nullptr, world.ace()); }) &&
      world.take([&] { return writer.open(world, pair->second, nullptr, world.ace()); })) {
    for (std::size_t i = 0; i < 8; ++i) {
      ACE_Message_Block& block = (*blocks)[i];
      if (!(i % 2 == 0 ? world.start([&] { return reader.read(block, 1); })
                       : world.start([&] { return writer.write(block, 4); }))) {
        break;
      }
    }
  }
  world.settle_by(2);
  const Own own;
  for (ACE_Message_Block& each : *blocks) each.init(std::size_t{0});
}

void connections(World& world) {
  ACE_INET_Addr where;
  int listener = -1;
  ACE_Asynch_Accept accept;
  ACE_Asynch_Connect connect;
  std::unique_ptr<ACE_Message_Block> block;
  ACE_INET_Addr local;
  {
    const Own own;
    listener = listen_on_loopback(where);
    block = std::make_unique<ACE_Message_Block>(100);
    local.set(static_cast<u_short>(0), INADDR_LOOPBACK);
    world.ends_by([&] { return accept.cancel(); });
    world.ends_by([&] { return connect.cancel(); });
  }
  const bool opened =
      world.take([&] { return accept.open(world, listener, nullptr, world.ace()); });
  if (opened &&
      world.take([&] { return connect.open(world, ACE_INVALID_HANDLE, nullptr, world.ace()); })) {
    for (int i = 0; i < 2; ++i) {
      const bool begun = world.start([&] {
        return accept.accept(*block, 0, ACE_INVALID_HANDLE);
      }) && world.start([&] { return connect.connect(ACE_INVALID_HANDLE, where, local, 1); });
      world.settle();
      if (!begun || world.failed()) break;
    }
  }
  world.settle();
  const Own own;
  if (!opened) ::close(listener);  // otherwise the open owns it
  block.reset();
}

/// One block, and a chain, to an address.
void datagrams(World& world) {
  ACE_INET_Addr here_address;
  ACE_INET_Addr there_address;
  int here = -1;
  int there = -1;
  std::unique_ptr<ACE_Message_Block> in;
  std::unique_ptr<ACE_Message_Block> out;
  ACE_Asynch_Read_Dgram reader;
  ACE_Asynch_Write_Dgram writer;
  {
    const Own own;
    here = bound_to_loopback(SOCK_DGRAM, here_address);
    there = bound_to_loopback(SOCK_DGRAM, there_address);
    in = std::make_unique<ACE_Message_Block>(100);
    out = std::make_unique<ACE_Message_Block>(100);
    world.ends_by([&] { return reader.cancel(); });
    world.ends_by([&] { return writer.cancel(); });
  }
  std::size_t bytes = 0;
  if (world.take([&] { return reader.open(world, here, nullptr, world.ace()); }) &&
      world.take([&] { return writer.open(world, there, nullptr, world.ace()); })) {
    for (int round = 0; round < 2; ++round) {
      {
        const Own own;
        out->reset();
        out->copy("abc", 3);
        if (round == 1) {
          in->cont(new ACE_Message_Block(10));
          out->cont(new ACE_Message_Block(10));
          out->cont()->copy("def", 3);
        }
      }
      const bool begun = world.start([&] {
        return int(reader.recv(in.get(), bytes, 0, PF_INET));
      }) && world.start([&] { return int(writer.send(out.get(), bytes, 0, here_address)); });
      world.settle();
      if (!begun || world.failed()) break;
    }
  }
  world.settle();
  const Own own;
  in.release()->release();
  out.release()->release();
  ::close(here);
  ::close(there);
}

int scratch_file() {
  char name[] = "/tmp/ace_faults_XXXXXX";
  const int fildes = ::mkostemp(name, O_CLOEXEC);
  ::unlink(name);
  return fildes;
}

/// Written, read, and sent between a header and a trailer.
void files(World& world) {
  int file = -1;
  std::unique_ptr<SocketPair> pair;
  std::unique_ptr<ACE_Message_Block> out;
  std::unique_ptr<ACE_Message_Block> in;
  ACE_Asynch_Write_File writer;
  ACE_Asynch_Read_File reader;
  ACE_Asynch_Transmit_File sender;
  ACE_Asynch_Transmit_File::Header_And_Trailer ends;
  {
    const Own own;
    file = scratch_file();
    pair = std::make_unique<SocketPair>();
    out = std::make_unique<ACE_Message_Block>(100);
    in = std::make_unique<ACE_Message_Block>(100);
    out->wr_ptr(100);
    ends.header_and_trailer(out.get(), 10, out.get(), 10);
    world.ends_by([&] { return writer.cancel(); });
    world.ends_by([&] { return sender.cancel(); });
  }
  const bool opened =
      world.take([&] { return writer.open(world, file, nullptr, world.ace()); }) &&
      world.take([&] { return reader.open(world, file, nullptr, world.ace()); }) &&
      world.take([&] { return sender.open(world, pair->first, nullptr, world.ace()); });
  const auto one = [&](auto&& call) {
    const bool begun = world.start(call);
    world.settle();
    return begun && !world.failed();
  };
  if (opened && one([&] { return writer.write(*out, 100, 0, 0); }) &&
      one([&] { return reader.read(*in, 100, 0, 0); })) {
    out->rd_ptr(out->base());
    if (one([&] { return sender.transmit_file(file, &ends, 0, 0, 0, 40, 0); })) {
      EXPECT_EQ(220, world.bytes_sent.load());
    }
  }
  world.settle();
  const Own own;
  ::close(file);
  pair.reset();
  in.reset();
  out.reset();
}

/// Reads that are cancelled, and others behind them.
void cancels(World& world) {
  const auto pair = [] {
    const Own own;
    return std::make_unique<SocketPair>();
  }();
  const auto block = [] {
    const Own own;
    return std::make_unique<ACE_Message_Block>(100);
  }();
  ACE_Asynch_Read_Stream reader;
  {
    const Own own;
    world.ends_by([&] { return reader.cancel(); });
  }
  world.expects_cancel = true;
  // One byte each: a read may get its byte before the cancel reaches it.
  const auto read = [&] { return world.start([&] { return reader.read(*block, 1); }); };
  if (world.take([&] { return reader.open(world, pair->first, nullptr, world.ace()); }) && read() &&
      read() && world.take([&] { return reader.cancel(); }) && read()) {
    const Own own;
    EXPECT_EQ(3, ::write(pair->second, "xyz", 3));
  }
  world.settle();
}

/// A number that is used again for another file, with a read of the earlier one pending.
void numbers(World& world) {
  std::unique_ptr<SocketPair> old;
  std::unique_ptr<SocketPair> fresh;
  std::unique_ptr<ACE_Message_Block> block;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Read_Stream again;
  int number = -1;
  {
    const Own own;
    old = std::make_unique<SocketPair>();
    fresh = std::make_unique<SocketPair>();
    block = std::make_unique<ACE_Message_Block>(100);
    number = old->first;
    world.ends_by([&] { return again.cancel(); });
  }
  world.expects_cancel = true;
  bool begun = world.take([&] { return reader.open(world, number, nullptr, world.ace()); }) &&
               world.start([&] { return reader.read(*block, 1); });
  {
    const Own own;
    EXPECT_EQ(number, ::dup2(fresh->first, number));
    EXPECT_EQ(2, ::write(fresh->second, "xy", 2));  // a late start may meet the new file
  }
  begun = begun && world.take([&] { return again.open(world, number, nullptr, world.ace()); }) &&
          world.start([&] { return again.read(*block, 1); });
  if (!begun) {
    const Own own;
    world.ends_by([&] { return reader.cancel(); });
  }
  world.settle();
  const Own own;
  old.reset();
  fresh.reset();
  block.reset();
}

class OwnResult final : public ACE_POSIX_Asynch_Result {
 public:
  explicit OwnResult(World& world)
      : ACE_POSIX_Asynch_Result(world.proxy(), nullptr, ACE_INVALID_HANDLE, 0, 0, 0, 0),
        world_(world) {}
  void complete(std::size_t bytes, int, const void*, u_long error) override {
    const Own own;
    world_.took(error == 0, error, bytes);
  }

 private:
  World& world_;
};

void posted(World& world) {
  for (int i = 0; i < 3; ++i) {
    auto* const result = [&] {
      const Own own;
      return new OwnResult(world);
    }();
    if (!world.start([&] { return world.bridge().post_completion(result); })) delete result;
  }
  world.settle();
}

/// No thread drives the proactor now: close() completes the pending operations.
void closes(World& world) {
  const auto pair = [] {
    const Own own;
    return std::make_unique<SocketPair>();
  }();
  const auto block = [] {
    const Own own;
    return std::make_unique<ACE_Message_Block>(100);
  }();
  ACE_Asynch_Read_Stream reader;
  world.expects_cancel = true;
  if (world.take([&] { return reader.open(world, pair->first, nullptr, world.ace()); })) {
    for (int i = 0; i < 3; ++i) world.start([&] { return reader.read(*block, 10); });
  }
  EXPECT_EQ(0, world.bridge().close());
  world.settle();  // nothing is pending, or it hangs
}

struct Scenario {
  const char* name;
  void (*body)(World&);
};
constexpr std::array scenarios{Scenario{"streams", streams},
                               Scenario{"threads", threads},
                               Scenario{"connections", connections},
                               Scenario{"datagrams", datagrams},
                               Scenario{"files", files},
                               Scenario{"cancels", cancels},
                               Scenario{"numbers", numbers},
                               Scenario{"posted", posted},
                               Scenario{"closes", closes}};

// -- the faults -----------------------------------------------------------------------------------

struct Fault {
  enum class Of : unsigned char { none, call, own_call, allocation };
  Of of = Of::none;
  std::size_t call = 0;
  std::size_t nth = 0;
  int error = 0;
  std::size_t times = 1;

  [[nodiscard]] std::string text() const {
    if (of == Of::none) return "no fault";
    if (of == Of::allocation) {
      return "allocation " + std::to_string(nth) + ", " + std::to_string(times) + " times";
    }
    const char* const name =
        of == Of::call ? baton::test::failing_calls()[call].name : wrapped_calls()[call].name;
    return std::string{of == Of::call ? "" : "the bridge's own "} + name + " " +
           std::to_string(nth) + ": " + baton::test::name_of_fault(error);
  }
  /// Whether a program may get this error because of it.
  [[nodiscard]] bool explains(int told) const {
    if (of == Of::allocation) return told == ENOMEM || told == EMFILE;
    // An operation without a worker does not get EAGAIN.
    return told == error || (told == ENOMEM && error == EAGAIN);
  }
};

constexpr std::size_t no_call = 63;  // of Baton's table; it has fewer

struct Seen {
  bool hit = false;
  std::array<std::size_t, no_call> calls{};
  std::array<std::size_t, 16> own_calls{};
  std::size_t allocations = 0;
};

Seen run(const Scenario& scenario, const Fault& fault) {
  Seen seen;
  const Held before = baton::test::held_now();
  {
    World world;
    {
      FailingAllocations allocations(fault.of == Fault::Of::allocation ? fault.nth : 0,
                                     fault.times);
      FailingCalls calls(FailingCalls::Whose::everybody,
                         fault.of == Fault::Of::call ? fault.call : no_call, fault.nth,
                         fault.error);
      FailingWrapped own_calls(fault.call, fault.of == Fault::Of::own_call ? fault.nth : 0,
                               fault.error);
      scenario.body(world);
      allocations.end();
      calls.end();
      own_calls.end();
      seen.hit = allocations.hit() || calls.hit() || own_calls.hit();
      for (std::size_t i = 0; i < seen.calls.size(); ++i) seen.calls[i] = calls.count(i);
      for (std::size_t i = 0; i < wrapped_calls().size(); ++i) {
        seen.own_calls[i] = own_calls.count(i);
      }
      seen.allocations = allocations.count();
    }
    if (world.failed()) {
      EXPECT_TRUE(seen.hit && fault.explains(world.error()))
          << "failed with " << std::strerror(world.error());
    }
    if (scenario.body != closes) world.expect_works();
  }
  Held after = baton::test::held_now();
  after.blocked_signals = before.blocked_signals;
  // A listener that cannot be looked at is not closed.
  const std::string_view call =
      fault.of == Fault::Of::own_call ? wrapped_calls()[fault.call].name : "";
  const bool unseen = call == "fstat" || call == "getsockopt";
  if (unseen && after.descriptors == before.descriptors + 1) --after.descriptors;
  EXPECT_EQ(before, after) << "left behind";
  return seen;
}

/// Once; if memory is left, again: caches of the process may have grown.
Seen try_with(const Scenario& scenario, const Fault& fault) {
  const std::string what = std::string{scenario.name} + ", " + fault.text();
  SCOPED_TRACE(what);
  now_trying(what);
  for (int i = 0;; ++i) {
    const long before = faults::alive();
    const Seen seen = run(scenario, fault);
    const long left = faults::alive() - before;
    if (left <= 0 || testing::Test::HasFailure()) return seen;
    if (i == 3) {
      ADD_FAILURE() << left << " allocations are left";
      return seen;
    }
  }
}

bool chosen(std::size_t nth) {
  static const char* const how = std::getenv("BATON_FAULTS");
  return (how != nullptr && std::string_view{how} == "full") || nth <= 5 || nth % 7 == 0;
}

class Faults : public testing::TestWithParam<Scenario> {};

TEST_P(Faults, EachCallOfBatonFailsOnce) {
  const Seen usual = try_with(GetParam(), {});
  for (std::size_t call = 0; call < baton::test::failing_calls().size(); ++call) {
    for (const int error : baton::test::failing_calls()[call].running) {
      for (std::size_t nth = 1; nth <= usual.calls[call]; ++nth) {
        if (!chosen(nth) || HasFailure()) continue;
        try_with(GetParam(), {Fault::Of::call, call, nth, error});
      }
    }
  }
}

TEST_P(Faults, EachCallOfTheBridgeFailsOnce) {
  const Seen usual = try_with(GetParam(), {});
  for (std::size_t call = 0; call < wrapped_calls().size(); ++call) {
    for (const int error : wrapped_calls()[call].errors) {
      for (std::size_t nth = 1; nth <= usual.own_calls[call] && !HasFailure(); ++nth) {
        try_with(GetParam(), {Fault::Of::own_call, call, nth, error});
      }
    }
  }
}

TEST_P(Faults, EachAllocationFails) {
  const Seen usual = try_with(GetParam(), {});
  for (std::size_t nth = 1; nth <= usual.allocations && !HasFailure(); ++nth) {
    try_with(GetParam(), {Fault::Of::allocation, 0, nth, 0, 1});
    try_with(GetParam(), {Fault::Of::allocation, 0, nth, 0, 20});
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Faults, testing::ValuesIn(scenarios),
                         [](const auto& one) { return std::string{one.param.name}; });

// -- the bridge itself ----------------------------------------------------------------------------

TEST(Opening, EachAllocationThatFailsIsAnException) {
  const ACE_Handler handler;
  const auto try_once = [&handler](std::size_t nth, long& left) {
    bool opened = false;
    const long before = faults::alive();
    bool hit = false;
    {
      FailingAllocations allocations{nth};
      try {
        // Not the whole object: the constructor of ACE_POSIX_Proactor leaks when an allocation
        // fails.
        const Bridge bridge{Config::from_environment(), Options{}, handler};
        opened = true;
      } catch (const std::bad_alloc&) {
      } catch (const std::system_error&) {  // its text names the memory
      }
      allocations.end();
      hit = allocations.hit();
    }
    EXPECT_TRUE(opened || hit);
    left = faults::alive() - before;
    return hit;
  };
  static_cast<void>(error_category());  // made once in a process
  // Caches of the process grow once.
  const auto open = [&](std::size_t nth) {
    long left = 0;
    bool hit = false;
    for (int i = 0; i < 3 && (i == 0 || left > 0); ++i) hit = try_once(nth, left);
    EXPECT_LE(left, 0) << "allocation " << nth;
    return hit;
  };
  std::size_t nth = 1;
  while (open(nth) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 3U);
}

// The memory of results is kept, so the number does not grow with the messages.
TEST(Allocations, AMessageCostsNone) {
  if (Options::from_environment().value().lazy) return;  // there each start waits in a queue
  World world;
  SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, reader.open(world, pair.first, nullptr, world.ace()));
  ASSERT_EQ(0, writer.open(world, pair.second, nullptr, world.ace()));
  ACE_Message_Block in(100);
  ACE_Message_Block out(100);
  out.copy("0123456789", 10);
  const auto exchange = [&] {
    in.reset();
    out.rd_ptr(out.base());
    world.start([&] { return reader.read(in, 10); });
    world.start([&] { return writer.write(out, 10); });
    while (in.length() == 0 || out.length() > 0) {
      ACE_Time_Value wait{patience.count()};
      ASSERT_EQ(1, world.ace()->handle_events(wait));
    }
  };
  for (int i = 0; i < 10; ++i) exchange();
  constexpr std::size_t messages = 100;
  FailingAllocations allocations{0};
  for (std::size_t i = 0; i < messages; ++i) exchange();
  allocations.end();
#ifdef __SANITIZE_ADDRESS__
  EXPECT_EQ(2 * messages, allocations.count());  // so that uses after the end are found
#else
  EXPECT_EQ(0U, allocations.count());
#endif
}

// As by the destructor of a thread_local object that was made before the thread's first result.
TEST(Allocations, AResultThatIsFreedAfterTheEndOfItsThreadIsNotKept) {
  const long before = faults::alive();
  std::thread{[] {
    struct Last {
      void* memory = nullptr;
      ~Last() { ResultMemory::give(memory); }
    };
    static thread_local Last last;
    last.memory = ResultMemory::take();
    ResultMemory::give(ResultMemory::take());
  }}.join();
  EXPECT_EQ(before, faults::alive());
}

}  // namespace
}  // namespace baton::ace::test
