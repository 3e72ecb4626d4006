// Rule 6: close as an operation (P-24). A descriptor number may be reused as soon as it is closed.
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "operations.hpp"
#include "os/system.hpp"

namespace baton::conformance {
namespace {

class Close : public Operations {
 protected:
  static bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
};
BATON_CONFORMANCE_SUITE(Close);

TEST_P(Close, completes_last_after_everything_pending_was_cancelled) {
  Pair pair = unix_pair();
  const int raw = pair.ours.get();
  Handle* const handle = adopt(pair.ours);
  std::string& text = memory(pattern(2 << 20));
  std::vector<Probe*> pending;
  for (int i = 0; i < 10; ++i) pending.push_back(&reading(handle, memory(8)));
  pending.push_back(&writing(handle, text, Operation::exactly));
  pending.push_back(&writing(handle, text, Operation::exactly));
  pending.push_back(&plain(OperationKind::wait_ready, handle, Operation::readable));
  for (Probe* probe : pending) start(*probe);
  run_for(1ms);
  Probe& close = plain(OperationKind::close, handle);
  int before = 0;
  for (Probe* probe : pending) {
    probe->then = [&, probe] {
      ++before;
      EXPECT_EQ(probe->error(), std::errc::operation_canceled);
      EXPECT_FALSE(close.done());
    };
  }
  close.then = [&] {
    EXPECT_EQ(before, 13);
    EXPECT_FALSE(is_open(raw));
  };
  inside([&] {
    start(close);
    // From here on it refuses everything.
    Probe& late = reading(handle, memory(8));
    EXPECT_EQ(try_start(late), errc::handle_closed);
    Probe& second = plain(OperationKind::close, handle);
    EXPECT_EQ(try_start(second), errc::handle_closed);
    proactor().close_detached(*handle);  // nothing more to do
  });
  run([&] { return close.done(); });
  EXPECT_FALSE(close.failed());
  EXPECT_EQ(close.handle(), nullptr);
  receive_rest(pair.peer.get());  // to the end
  EXPECT_EQ(proactor().statistics().handles, 0U);
}

// The handle may never have been attached to the engine.
TEST_P(Close, of_a_handle_that_was_never_used) {
  for (const HandleKind kind : {HandleKind::file, HandleKind::stream_socket}) {
    for (const bool detached : {true, false}) {
      Pair pair = unix_pair();
      Fd fd = kind == HandleKind::file ? temporary(O_RDWR) : std::move(pair.ours);
      const int raw = fd.get();
      Handle* const handle = adopt(fd, kind);
      if (detached) {
        proactor().close_detached(*handle);
      } else {
        start(plain(OperationKind::close, handle));
      }
      run([&] { return proactor().statistics().handles == 0; });
      EXPECT_FALSE(is_open(raw));
    }
  }
}

TEST_P(Close, inside_a_handler_of_the_same_handle) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& read = reading(handle, memory(8));
  Probe& waiting = reading(handle, memory(8));
  Probe& close = plain(OperationKind::close, handle);
  read.then = [&] { start(close); };
  start(read);
  start(waiting);
  send_all(pair.peer.get(), "data");
  run([&] { return read.done() && close.starts == 1 && close.done(); });
  EXPECT_EQ(waiting.error(), std::errc::operation_canceled);
  EXPECT_EQ(receive(pair.peer.get(), 1), "");
}

// What destroying an object does.
TEST_P(Close, detached_with_operations_pending) {
  for (const bool in_handler : {false, true}) {
    Pair pair = unix_pair();
    Handle* const handle = adopt(pair.ours);
    Probe& read = reading(handle, memory(8));
    start(read);
    run_for(1ms);
    if (in_handler) {
      inside([&] { proactor().close_detached(*handle); });
    } else {
      proactor().close_detached(*handle);
    }
    finish(read);
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
    run([&] { return proactor().statistics().handles == 0; });
    EXPECT_EQ(receive(pair.peer.get(), 1), "");
  }
}

class CloseOfFiles : public Close {
 protected:
  /// One after the other, in one handler: it finds none that is closed behind its back.
  void open_and_close(int count) {
    std::uint64_t most = 0;
    std::error_code refused;
    inside([&] {
      for (int i = 0; i < count && !refused; ++i) {
        Fd fd = temporary(O_RDWR);
        const Result<Handle*> file = proactor().adopt(fd.get(), HandleKind::file);
        if (!file) {
          refused = file.error();
          return;
        }
        static_cast<void>(fd.release());
        most = std::max(most, proactor().statistics().handles);
        proactor().close_detached(**file);
      }
    });
    EXPECT_FALSE(refused) << refused.message();
    EXPECT_LE(most, places);
    run([&] { return proactor().statistics().handles == 0; });
  }
  static constexpr std::uint32_t places = 8;
};
BATON_CONFORMANCE_SUITE(CloseOfFiles);

// Each close that an engine has yet to make, or that nobody has taken from it, holds a place.
TEST_P(CloseOfFiles, leave_a_place_in_the_table) {
  use([](Config& config) { config.handles_max = places; });
  open_and_close(100);
}

// The soft limit may be far below the hard one, which bounds the table.
TEST_P(CloseOfFiles, leave_a_descriptor) {
  static const os::System system = [] {
    os::System few = os::real_system();
    few.getrlimit = [](int resource, ::rlimit* limit) {
      const int answer = os::real_system().getrlimit(resource, limit);
      if (resource == RLIMIT_NOFILE) limit->rlim_cur = places;
      return answer;
    };
    return few;
  }();
  use([](Config& config) { config.system = &system; });
  open_and_close(100);
}

// A wait that brings many closes of the library's own is no sign of many handlers to come: the next
// look at the engine comes as soon as ever.
TEST_P(CloseOfFiles, put_no_look_off) {
  const auto open_ones = [this](int count) {
    std::vector<Handle*> files;
    for (int i = 0; i < count; ++i) {
      Fd fd = temporary(O_RDWR);
      files.push_back(adopt(fd, HandleKind::file));
    }
    return files;
  };
  // By any thread: a worker, the ring's, or this one where no engine closes.
  const auto close_and_wait = [this](const std::vector<Handle*>& files) {
    std::vector<int> numbers;
    for (const Handle* file : files) numbers.push_back(file->native());
    inside([&] {
      for (Handle* file : files) proactor().close_detached(*file);
    });
    const Deadline limit = test::at_last();
    for (const int number : numbers) {
      while (is_open(number) && test::is_ahead(limit)) std::this_thread::yield();
    }
  };
  constexpr int many = 300;
  close_and_wait(open_ones(many));
  run([&] { return proactor().statistics().handles == 0; });
  close_and_wait(open_ones(1));
  // A look comes after 128 handlers, and would come after four for each of the many.
  for (int i = 0; i < many && proactor().statistics().handles != 0; ++i) inside([] {});
  if (GetParam().mode == Mode::dedicated) {  // another thread brings it
    run([&] { return proactor().statistics().handles == 0; });
  }
  EXPECT_EQ(proactor().statistics().handles, 0U);
}

// Another thread takes every number at once, for a socket with data in it: that data stays with it,
// and the events of the old owner never reach the new one.
TEST_P(Close, the_number_is_reused_at_once_by_another_thread) {
  Pair witness = unix_pair();
  send_all(witness.peer.get(), "untouched");
  std::atomic<bool> finished{false};
  std::thread thief{[&] {
    while (!finished) {
      Fd taken[4];
      for (Fd& fd : taken) fd = ::dup(witness.ours.get());
    }
  }};
  for (int i = 0; i < 100; ++i) {
    Pair pair = unix_pair();
    Handle* const handle = adopt(pair.ours);
    Probe& read = reading(handle, memory(16));
    Probe& write = writing(handle, memory("bytes"), Operation::exactly);
    Probe& close = plain(OperationKind::close, handle);
    start(read);
    start(write);
    if (i % 2 == 0) run_for(1us);
    start(close);
    pair.peer.reset();  // an event for the old one
    run([&] { return read.done() && close.done(); });
    EXPECT_NE(std::string_view(static_cast<char*>(read.buffer().data), 9), "untouched");
  }
  finished = true;
  thief.join();
  EXPECT_EQ(receive(witness.ours.get(), 9), "untouched");
}

// The same within one proactor: the successor of a number sees its own events only.
TEST_P(Close, events_do_not_cross_to_the_next_owner_of_the_number) {
  int reused = 0;
  for (int i = 0; i < 20; ++i) {
    Pair old = unix_pair();
    const int number = old.ours.get();
    const Fd survivor = ::dup(number);  // keeps the connection, and its events, alive
    Handle* const first = adopt(old.ours);
    Probe& read = reading(first, memory(8));
    start(read);
    run_for(1us);
    finish_close(first);
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
    Pair next = unix_pair();
    reused += next.ours.get() == number ? 1 : 0;
    Handle* const second = adopt(next.ours);
    std::string& into = memory(8);
    Probe& own = reading(second, into);
    start(own);
    send_all(old.peer.get(), "old");
    run_for(500us);
    EXPECT_TRUE(own.is_pending());
    send_all(next.peer.get(), "next");
    finish(own);
    EXPECT_EQ(into.substr(0, own.bytes()), "next");
    finish_close(second);
  }
  EXPECT_GT(reused, 0) << "the test shows nothing";
}

// Files and connections whose close may block are closed elsewhere, and still complete.
TEST_P(Close, operations_that_may_block) {
  Pair pair = tcp_pair();
  const linger lingering{1, 1};
  ::setsockopt(pair.ours.get(), SOL_SOCKET, SO_LINGER, &lingering, sizeof(lingering));
  const int raw = pair.ours.get();
  Handle* const handle = adopt(pair.ours);
  proactor().set_close_may_block(*handle, true);
  Probe& read = reading(handle, memory(8));
  start(read);
  run_for(1ms);
  finish_close(handle);
  EXPECT_TRUE(read.done());
  EXPECT_FALSE(is_open(raw));
  Fd file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const int number = file.get();
  Handle* const second = adopt(file, HandleKind::file);
  proactor().close_detached(*second);
  run([&] { return proactor().statistics().handles == 0; });
  EXPECT_FALSE(is_open(number));
}

// A place in the table is worth less than a thread that is held until the peer reads.
TEST_P(Close, of_a_socket_that_lingers_is_never_made_by_a_thread_of_run) {
  static std::atomic<int> watched;
  static std::atomic<std::thread::id> by;
  static const os::System system = [] {
    os::System noting = os::real_system();
    noting.close = [](int fd) {
      if (fd == watched) by = std::this_thread::get_id();
      return os::real_system().close(fd);
    };
    return noting;
  }();
  use([](Config& config) {
    config.handles_max = 1;
    config.system = &system;
  });
  Pair pair = tcp_pair();
  watched = pair.ours.get();
  by = std::thread::id{};  // the ring may make it, without a call
  Handle* const handle = adopt(pair.ours);
  proactor().set_close_may_block(*handle, true);
  inside([&] { proactor().close_detached(*handle); });
  run([&] { return proactor().statistics().handles == 0; });
  EXPECT_FALSE(is_open(watched));
  EXPECT_NE(by.load(), std::this_thread::get_id());
}

}  // namespace
}  // namespace baton::conformance
