// Rule 1: starts and their refusals (P-10, P-18, P-20).
#include <fcntl.h>

#include <array>
#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Start : public Operations {};
BATON_CONFORMANCE_SUITE(Start);

// That nothing completes inside start, and everything once, is checked by the fixture in all tests;
// here are the operations that could complete at once.
TEST_P(Start, a_ready_operation_completes_once_and_later) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  send_all(pair.peer.get(), "data");
  std::string& into = memory(16);
  Probe& read = reading(handle, into);
  Probe& write = writing(handle, memory("reply"));
  for (int round = 1; round <= 3; ++round) {
    inside([&] { start(write); });
    run([&] { return write.done(); });
    EXPECT_EQ(write.bytes(), 5U);
    EXPECT_EQ(receive(pair.peer.get(), 5), "reply");
    write.prepare(OperationKind::write_stream, handle);
    write.set_buffer(ConstBuffer{std::string_view{"reply"}});
  }
  start(read);
  EXPECT_TRUE(read.is_pending());
  finish(read);
  EXPECT_EQ(read.bytes(), 4U);
  run_for(2ms);  // a second completion would come now
  EXPECT_EQ(read.completions, 1);
  EXPECT_EQ(write.completions, 3);
}

// Otherwise it would complete with the bytes and the error of its last run.
TEST_P(Start, an_operation_that_is_not_prepared_again_is_refused) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& timer = plain(OperationKind::timer, nullptr);
  timer.set_deadline(Deadline::after(1ms, proactor().now()));
  Probe& write = writing(handle, memory("once"));
  std::string& into = memory(4);
  Probe& read = reading(handle, into);
  send_all(pair.peer.get(), "data");
  for (Probe* probe : {&timer, &write, &read}) {
    finish(*probe);
    EXPECT_EQ(proactor().start(*probe), errc::not_prepared);
    inside([&] { EXPECT_EQ(proactor().start(*probe), errc::not_prepared); });
    EXPECT_EQ(probe->state(), OperationState::completed);
  }
  EXPECT_EQ(read.bytes(), 4U) << "what it has brought is left";
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{into.data(), into.size()});
  start(read);
  EXPECT_EQ(read.bytes(), 0U);
  send_all(pair.peer.get(), "more");
  finish(read);
  EXPECT_EQ(into, "more");
  EXPECT_EQ(receive(pair.peer.get(), 4), "once");
}

// A chain that starts the next from the handler of the last neither grows the stack nor nests.
TEST_P(Start, a_handler_starts_its_own_operation_again) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& text = memory("x");
  Probe& write = writing(handle, text);
  int depth = 0;
  write.then = [&] {
    EXPECT_EQ(++depth, 1);
    EXPECT_EQ(receive(pair.peer.get(), 1), "x");
    if (write.completions < 2'000) {
      write.prepare(OperationKind::write_stream, handle);
      write.set_buffer(ConstBuffer{std::string_view{text}});
      start(write);
    }
    --depth;
  };
  start(write);
  run([&] { return write.completions == 2'000; });
  EXPECT_EQ(write.activation(), 2'000U);
}

TEST_P(Start, refuses_an_operation_in_use) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& read = reading(handle, memory(8));
  start(read);
  const std::uint32_t activation = read.activation();
  EXPECT_EQ(try_start(read), errc::operation_in_use);
  EXPECT_EQ(proactor().post(read), errc::operation_in_use);
  EXPECT_EQ(proactor().start_timer(read, Deadline::immediately()), errc::operation_in_use);
  inside([&] { EXPECT_EQ(try_start(read), errc::operation_in_use); });
  EXPECT_EQ(read.activation(), activation);
  EXPECT_EQ(read.kind(), OperationKind::read_stream);
  send_all(pair.peer.get(), "data");
  finish(read);
  EXPECT_EQ(read.bytes(), 4U);
}

TEST_P(Start, refuses_invalid_arguments) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& into = memory(256);
  const std::string_view empty, delimiter = "x";
  const std::string_view too_long{into.data(), limits::delimiter_max + 1};
  const std::vector<MutableBuffer> list(limits::buffers_max + 1, MutableBuffer{into});
  const auto refused = [&](Probe& probe) {
    EXPECT_EQ(try_start(probe), std::errc::invalid_argument) << to_string(probe.kind());
    EXPECT_FALSE(probe.is_pending());
  };
  const auto all_refused = [&] {
    Probe& vectored = plain(OperationKind::read_stream, handle);
    vectored.set_buffers(MutableBuffers{list});
    refused(vectored);
    for (const std::string_view* wrong : {&empty, &too_long}) {
      Probe& until = reading(handle, into);
      until.set_until(wrong, 0);
      refused(until);
    }
    Probe& no_delimiter = reading(handle, into);
    no_delimiter.set_until(nullptr, 0);
    refused(no_delimiter);
    Probe& more_than_there_is = reading(handle, into);
    more_than_there_is.set_until(&delimiter, into.size() + 1);
    refused(more_than_there_is);
    refused(plain(OperationKind::wait_ready, handle));  // for neither direction
    refused(plain(OperationKind::read_stream, nullptr));
    refused(plain(OperationKind::user, nullptr));
  };
  const std::uint64_t before = proactor().statistics().started;
  all_refused();
  EXPECT_EQ(proactor().statistics().started, before);
  inside(all_refused);
  Probe& write = writing(handle, memory("used"));
  start(write);
  finish(write);
  all_refused();
  inside(all_refused);
  run_for(1ms);  // no completion comes
}

TEST_P(Start, refuses_a_kind_that_no_processor_takes) {
  use([](Config& config) { sockets(config).operations = datagram_operations; });
  Pair pair = unix_pair();
  Probe& read = reading(adopt(pair.ours), memory(8));
  EXPECT_EQ(try_start(read), errc::not_supported);
  inside([&] { EXPECT_EQ(try_start(read), errc::not_supported); });
  EXPECT_FALSE(read.is_pending());
}

TEST_P(Start, refuses_while_stopped_and_works_after_restart) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& write = writing(handle, memory("data"));
  Probe& timer = operation();
  proactor().stop();
  EXPECT_TRUE(proactor().stopped());
  EXPECT_EQ(try_start(write), errc::stopped);
  EXPECT_EQ(proactor().start_timer(timer, Deadline::immediately()), errc::stopped);
  EXPECT_EQ(proactor().post(timer), errc::stopped);
  EXPECT_EQ(proactor().adopt(pair.peer.get(), HandleKind::stream_socket).error(), errc::stopped);
  proactor().restart();
  finish(write);
  EXPECT_EQ(receive(pair.peer.get(), 4), "data");
}

TEST_P(Start, a_bad_descriptor_is_a_completion) {
  struct Case {
    OperationKind kind;
    HandleKind handle;
    std::uint16_t flags;
  };
  const Case cases[] = {{OperationKind::read_stream, HandleKind::stream_socket, 0},
                        {OperationKind::write_stream, HandleKind::stream_socket, 0},
                        {OperationKind::read_stream, HandleKind::pipe, 0},
                        {OperationKind::write_stream, HandleKind::pipe, 0},
                        {OperationKind::read_datagram, HandleKind::datagram_socket, 0},
                        {OperationKind::accept, HandleKind::listener, 0},
                        {OperationKind::shutdown, HandleKind::stream_socket, 0},
                        {OperationKind::wait_ready, HandleKind::stream_socket, Operation::readable},
                        {OperationKind::read_file, HandleKind::file, 0},
                        {OperationKind::sync_file, HandleKind::file, 0}};
  // An engine may open a descriptor of its own for accepts; not below, where it would take the
  // number.
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  start(plain(OperationKind::accept, acceptor));
  finish_close(acceptor);
  std::string& bytes = memory(8);
  for (const Case& one : cases) {
    Fd fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    Handle* const handle = borrow(fd, one.handle);
    fd.reset();  // closed underneath
    for (const bool in_handler : {false, true}) {
      Probe& probe = plain(one.kind, handle, one.flags);
      if (one.flags == 0) probe.set_buffer(MutableBuffer{bytes});
      if (one.kind != OperationKind::read_stream && one.kind != OperationKind::write_stream) {
        probe.set_offset(0);
      }
      if (in_handler) inside([&] { start(probe); });
      finish(probe);
      EXPECT_EQ(probe.error(), std::errc::bad_file_descriptor)
          << to_string(one.kind) << " " << probe.error().message();
    }
    finish_close(handle);
  }
}

// Any thread finds the result in the operation before its handler runs (P-20).
TEST_P(Start, the_result_is_published_before_delivery) {
  if (with_troubles()) GTEST_SKIP() << "two results in one look, which a delay forbids";
  Pair pairs[] = {unix_pair(), unix_pair()};
  Probe* reads[2];
  int first = -1;
  for (int i : {0, 1}) {
    send_all(pairs[i].peer.get(), "data");
    reads[i] = &reading(adopt(pairs[i].ours), memory(8));
    reads[i]->then = [&, i] {
      if (first >= 0) return;
      first = i;
      const Probe& other = *reads[1 - i];
      EXPECT_EQ(other.state(), OperationState::result_ready);
      EXPECT_EQ(other.completions, 0);
      EXPECT_EQ(other.bytes(), 4U);
      EXPECT_FALSE(other.error());
    };
  }
  for (Probe* read : reads) start(*read);
  // Any other thread may watch it without entering the library.
  std::thread watcher{[&] {
    wait_until([&] { return reads[1]->state() >= OperationState::result_ready; });
    EXPECT_EQ(reads[1]->bytes(), 4U);
  }};
  // A dedicated leader may have brought one of the two when this thread looks.
  if (GetParam().mode == Mode::dedicated) {
    for (Probe* read : reads) {
      wait_until([&] { return read->state() >= OperationState::result_ready; });
    }
  }
  run([&] { return reads[0]->done() && reads[1]->done(); });
  watcher.join();
}

// A finished operation is at rest: for another request on another handle, a timer or a post.
TEST_P(Start, an_operation_is_reusable_for_anything) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  send_all(pair.peer.get(), "data");
  Probe& probe = reading(handle, memory(8));
  finish(probe);
  start_timer(probe, Deadline::immediately());
  run([&] { return probe.done(); });
  EXPECT_FALSE(probe.failed());
  probe.prepare(OperationKind::write_stream, handle);
  probe.set_buffer(ConstBuffer{std::string_view{"reply"}});
  start(probe);
  finish(probe);
  EXPECT_EQ(receive(pair.peer.get(), 5), "reply");
  ASSERT_FALSE(proactor().post(probe));
  ++probe.starts;
  run([&] { return probe.done(); });
  EXPECT_FALSE(probe.failed());
  finish_close(handle);
}

// From the entry of its handler on an operation is its user's again (P-21).
TEST_P(Start, a_handler_may_destroy_its_own_operation) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  int destroyed = 0;
  for (int i = 0; i < 3; ++i) {
    auto* const read = new Operation;
    read->prepare(OperationKind::read_stream, handle);
    read->set_buffer(MutableBuffer{memory(4)});
    read->set_handler([read, &destroyed](Operation&) {
      delete read;
      ++destroyed;
    });
    ASSERT_FALSE(proactor().start(*read));
  }
  auto* const close = new Operation;
  close->prepare(OperationKind::close, handle);
  close->set_handler([close, &destroyed](Operation&) {
    delete close;
    ++destroyed;
  });
  send_all(pair.peer.get(), "data");
  run([&] { return destroyed == 1; });
  ASSERT_FALSE(proactor().start(*close));
  run([&] { return destroyed == 4; });
}

}  // namespace
}  // namespace baton::conformance
