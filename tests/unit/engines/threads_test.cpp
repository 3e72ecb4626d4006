// One thread waits, others start and cancel: no completion is lost or comes twice.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/access.hpp"
#include "driver.hpp"
#include "engines/emulated/engine.hpp"

#include "../demux/fake_strategies.hpp"

namespace baton::test {
namespace {

/// An operation that reports its completion; it publishes as a processor does.
struct Tracked : Operation {
  std::atomic<bool> out{true};
  char buffer[64];
};

class Shared : public testing::TestWithParam<Form> {
 protected:
  Shared() {
    faults().clear();
    add_fake_strategies();
    ProcessorConfig config;
    config.wait = GetParam().wait;
    EngineOptions options;
    options.system = &fault_system();
    options.config = &config;
    options.one_thread_waits = true;
    engine = std::move(*engines::open_emulated(options));
    leader = std::thread{[this] { lead(); }};
  }
  ~Shared() override {
    stop();
    for (Handle* handle : adopted) {
      engine->detach(*handle);
      ::close(handle->native());
    }
  }
  void stop() {
    stopping = true;
    engine->interrupt();
    if (leader.joinable()) leader.join();
  }
  void lead() {
    while (!stopping) {
      OperationQueue completed;
      engine->wait(completed, Deadline::after(std::chrono::seconds{5}));
      while (!completed.empty()) back(static_cast<Tracked&>(completed.pop_front()));
    }
  }
  void back(Tracked& operation) {
    ++returned;
    // release: a thread that sees it may start the operation again.
    EXPECT_FALSE(operation.out.exchange(true, std::memory_order_acq_rel)) << "came back twice";
  }
  Handle* adopt(int fd, HandleKind kind = HandleKind::stream_socket) {
    const std::scoped_lock lock(mutex);
    Handle* const handle = handles.allocate(fd, kind, Ownership::owned, true, 0);
    EXPECT_FALSE(engine->attach(*handle));
    adopted.push_back(handle);
    return handle;
  }
  void start(Tracked& operation) {
    ++started;
    operation.out.store(false, std::memory_order_relaxed);
    if (engine->submit(operation, nullptr) == Submission::completed) back(operation);
  }
  void cancel(Tracked& operation) {
    if (engine->cancel(operation) == CancelAnswer::completed) back(operation);
  }
  static void until_back(const Tracked& operation) {
    while (!operation.out.load(std::memory_order_acquire)) std::this_thread::yield();
  }

  HandleTable handles{1024, os::real_system()};
  std::unique_ptr<Engine> engine;
  std::mutex mutex;
  std::vector<Handle*> adopted;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> returned{0};
  std::thread leader;
};
INSTANTIATE_TEST_SUITE_P(forms, Shared,
                         testing::Values(Form{.wait = "epoll"}, Form{.wait = "poll"},
                                         Form{.wait = "select"}, Form{.wait = "rt_signals"},
                                         Form{.wait = "fake_edge"}, Form{.wait = "fake_one_shot"}),
                         form_name);

TEST_P(Shared, streams_in_full_duplex_with_verified_bytes) {
  constexpr int pairs = 4;
  constexpr std::size_t size = 200'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < pairs; ++i) {
    const Pair pair = stream_pair();
    Handle* const ends[2] = {adopt(pair.ours), adopt(pair.peer)};
    threads.emplace_back([this, left = ends[0], right = ends[1]] {
      const std::string sent = pattern(size);
      std::string received[2] = {std::string(size, '\0'), std::string(size, '\0')};
      Tracked reads[2];
      Tracked writes[2];
      Handle* const handles_of[2] = {left, right};
      for (int end = 0; end < 2; ++end) {
        set_read(reads[end], handles_of[end], received[end], Operation::exactly);
        set_write(writes[end], handles_of[end], std::string_view{sent}, Operation::exactly);
        start(reads[end]);
        start(writes[end]);
      }
      for (int end = 0; end < 2; ++end) {
        until_back(reads[end]);
        until_back(writes[end]);
        EXPECT_EQ(received[end], sent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop();
  EXPECT_EQ(started, returned);
}

// Reads race with cancels: the bytes read are counted, whichever wins.
TEST_P(Shared, cancels_lose_no_byte) {
  const Pair pair = stream_pair();
  Handle* const in = adopt(pair.ours);
  Handle* const out = adopt(pair.peer);
  constexpr unsigned total = 20'000;
  std::thread writer{[&] {
    Tracked write;
    for (unsigned i = 0; i < total; ++i) {
      set_write(write, out, std::string_view{"x"}, Operation::exactly);
      start(write);
      until_back(write);
    }
  }};
  std::size_t got = 0;
  Tracked read;
  std::mt19937 random{1};
  while (got < total) {
    set_read(read, in, read.buffer);
    start(read);
    for (auto spin = random() % 200; spin > 0; --spin) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    if (random() % 2 == 0) {
      OperationAccess::ask_cancel(read);
      cancel(read);
    }
    until_back(read);
    got += read.bytes();
  }
  writer.join();
  stop();
  EXPECT_EQ(got, total);
  EXPECT_EQ(started, returned);
}

TEST_P(Shared, files_from_several_threads) {
  faults().cold(true);
  const int fd = temporary_file(O_APPEND);
  Handle* const log = adopt(fd, HandleKind::file);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this, log, i] {
      std::string line = "thread " + std::to_string(i) + "\n";
      std::vector<Tracked> writes(50);
      for (Tracked& write : writes) {
        set_file(write, OperationKind::write_file, log, line, 0,
                 Operation::append | Operation::exactly);
        start(write);
      }
      Tracked sync;
      sync.prepare(OperationKind::sync_file, log);
      start(sync);
      for (std::size_t w = 0; w < writes.size(); w += 3) {
        OperationAccess::ask_cancel(writes[w]);
        cancel(writes[w]);
      }
      for (Tracked& write : writes) until_back(write);
      until_back(sync);
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop();
  EXPECT_EQ(started, returned);
  std::string all(8192, '\0');
  all.resize(static_cast<std::size_t>(::pread(fd, all.data(), all.size(), 0)));
  EXPECT_EQ(all.size() % 9, 0U) << "lines are whole";
}

// Handles come and go while the leader waits; numbers are used again at once.
TEST_P(Shared, handles_that_come_and_go) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 300; ++round) {
        const Pair pair = stream_pair();
        Handle* const handle =
            handles.allocate(pair.ours, HandleKind::stream_socket, Ownership::owned, true, 0);
        EXPECT_FALSE(engine->attach(*handle));
        Tracked read;
        set_read(read, handle, read.buffer);
        start(read);
        if (round % 3 == 0) {
          cancel(read);
          EXPECT_EQ(::send(pair.peer, "late", 4, 0), 4);
        } else {
          EXPECT_EQ(::send(pair.peer, "x", 1, 0), 1);
          until_back(read);
          EXPECT_EQ(read.bytes(), 1U);
        }
        until_back(read);
        engine->detach(*handle);
        handles.release(*handle);
        ::close(pair.ours);
        ::close(pair.peer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop();
  EXPECT_EQ(started, returned);
}

// The read finds nothing after the write has taken the report, and before it has recorded it.
TEST_P(Shared, a_reset_that_a_write_just_takes_is_no_end_for_reads) {
  for (const std::uint16_t how : {std::uint16_t{0}, std::uint16_t{Operation::exactly}}) {
    Endpoint address;
    const int listening = listener(address);
    const int ours = client(address);
    pollfd waiting{listening, POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, -1), 1);
    const int peer = ::accept(listening, nullptr, nullptr);
    ASSERT_EQ(::fcntl(ours, F_SETFL, O_NONBLOCK), 0);
    Handle* const handle = adopt(ours);
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    ::close(peer);
    pollfd reset{ours, 0, 0};
    ASSERT_EQ(::poll(&reset, 1, -1), 1);

    Tracked read;
    Tracked write;
    set_read(read, handle, MutableBuffer{read.buffer}, how);
    set_write(write, handle, ConstBuffer{"x", 1});
    std::thread reader;
    faults().after_failed_send([&] {
      const std::uint64_t before = faults().count(Call::recv);
      reader = std::thread{[&] { start(read); }};
      while (faults().count(Call::recv) == before) std::this_thread::yield();
      // Time for a read that does not wait for the write.
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    });
    start(write);
    ASSERT_TRUE(reader.joinable());
    reader.join();
    until_back(write);
    until_back(read);
    EXPECT_EQ(write.error(), std::errc::connection_reset) << write.error().message();
    EXPECT_EQ(read.error(), std::errc::connection_reset) << read.error().message();
    ::close(listening);
  }
}

}  // namespace
}  // namespace baton::test
