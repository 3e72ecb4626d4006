// Rule 12: a descriptor has one handle at a time.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/pipe.hpp"
#include "baton/stream_socket.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Adopted : public Operations {};
BATON_CONFORMANCE_SOCKET_SUITE(Adopted);

TEST_P(Adopted, a_descriptor_has_one_handle) {
  for (const Ownership first : {Ownership::owned, Ownership::borrowed}) {
    Pair pair = unix_pair();
    const int number = pair.ours.get();
    Handle* const handle = adopt(pair.ours, HandleKind::stream_socket, first);
    const int status = ::fcntl(number, F_GETFL);
    for (const Ownership second : {Ownership::owned, Ownership::borrowed}) {
      const auto again = proactor().adopt(number, HandleKind::stream_socket, second);
      ASSERT_FALSE(again.has_value());
      EXPECT_EQ(again.error(), errc::already_adopted);
      EXPECT_EQ(again.error(), std::errc::file_exists);
    }
    EXPECT_EQ(::fcntl(number, F_GETFL), status) << "what is refused is as it was";
    std::string& into = memory(8);
    Probe& read = reading(handle, into);
    start(read);
    send_all(pair.peer.get(), "data");
    finish(read);
    EXPECT_EQ(read.bytes(), 4U) << "nothing has happened to the first";
    finish_close(handle);
  }
}

// The system is not asked about them.
TEST_P(Adopted, what_the_library_opens_is_non_blocking_and_close_on_exec) {
  const auto expect_flags = [](const IoObject& object, int access) {
    EXPECT_TRUE(object.handle()->nonblocking());
    EXPECT_EQ(::fcntl(object.native(), F_GETFL) & (O_ACCMODE | O_NONBLOCK), access | O_NONBLOCK);
    EXPECT_EQ(::fcntl(object.native(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(object.handle()->readable(), access != O_WRONLY);
    EXPECT_EQ(object.handle()->writable(), access != O_RDONLY);
  };
  Acceptor acceptor = Acceptor::listen(proactor(), Endpoint::loopback(0)).value();
  expect_flags(acceptor, O_RDWR);
  Endpoint address = acceptor.local_endpoint().value();
  Probe& connect = operation();
  Probe& accept = plain(OperationKind::accept, acceptor.handle());
  start(accept);
  ASSERT_FALSE(Connector{proactor()}.connect(connect, address));
  ++connect.starts;
  run([&] { return accept.done() && connect.done(); });
  StreamSocket accepted = Acceptor::take(proactor(), accept).value();
  StreamSocket connected = Connector::take(proactor(), connect).value();
  expect_flags(accepted, O_RDWR);
  expect_flags(connected, O_RDWR);
  auto pair = StreamSocket::pair(proactor()).value();
  expect_flags(pair.first, O_RDWR);
  expect_flags(pair.second, O_RDWR);
  PipePair pipe = Pipe::create(proactor()).value();
  expect_flags(pipe.reader, O_RDONLY);
  expect_flags(pipe.writer, O_WRONLY);
  expect_flags(DatagramSocket::bind(proactor(), Endpoint::loopback(0)).value(), O_RDWR);
  expect_flags(DatagramSocket::open(proactor(), AddressFamily::ipv4).value(), O_RDWR);
}

// Its flags are the program's, whoever made it.
TEST_P(Adopted, what_the_program_has_opened_is_asked) {
  Pair pair = unix_pair();
  ASSERT_EQ(::fcntl(pair.ours.get(), F_SETFL, 0), 0);
  ASSERT_EQ(::fcntl(pair.ours.get(), F_SETFD, 0), 0);
  EXPECT_FALSE(borrow(pair.ours)->nonblocking());
  Handle* const owned = adopt(pair.peer, HandleKind::stream_socket);
  EXPECT_TRUE(owned->nonblocking());
  EXPECT_NE(::fcntl(owned->native(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(owned->native(), F_GETFD), FD_CLOEXEC);
}

TEST_P(Adopted, a_reader_and_a_writer_take_a_duplicate) {
  Pair pair = unix_pair();
  Fd other = ::dup(pair.ours.get());
  Handle* const in = adopt(pair.ours);
  Handle* const out = adopt(other);
  std::string& into = memory(8);
  Probe& read = reading(in, into);
  start(read);
  Probe& write = writing(out, memory("there"), Operation::exactly);
  finish(write);
  EXPECT_EQ(receive(pair.peer.get(), 5), "there");
  send_all(pair.peer.get(), "back");
  finish(read);
  EXPECT_EQ(read.bytes(), 4U);
}

// The owner of a borrowed descriptor need not wait for the operations that the close has cancelled.
TEST_P(Adopted, a_borrowed_one_again_when_its_close_has_begun) {
  Pair pair = unix_pair();
  Handle* const first = borrow(pair.ours);
  Probe& cancelled = reading(first, memory(8));
  start(cancelled);
  run_for(500us);
  Handle* second = nullptr;
  inside([&] {
    proactor().close_detached(*first);
    second = borrow(pair.ours);
  });
  run([&] { return cancelled.done(); });
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  std::string& into = memory(8);
  Probe& read = reading(second, into);
  start(read);
  send_all(pair.peer.get(), "data");
  finish(read);
  EXPECT_FALSE(read.failed()) << read.error().message();
  EXPECT_EQ(into.substr(0, read.bytes()), "data");
  EXPECT_EQ(proactor().adopt(pair.ours.get(), HandleKind::stream_socket).error(),
            errc::already_adopted)
      << "the end of the first close says nothing of the second handle";
}

// A borrowed number may be closed and used again between operations. Then it names another
// descriptor, whatever the old handle says.
TEST_P(Adopted, a_borrowed_number_that_is_used_again_is_free) {
  Pair old = unix_pair();
  Handle* const stale = borrow(old.ours);
  std::string& first = memory(8);
  Probe& before = reading(stale, first);
  start(before);
  send_all(old.peer.get(), "old");
  finish(before);
  Pair pair = unix_pair();
  const int number = old.ours.get();
  ASSERT_EQ(::dup2(pair.ours.get(), number), number);
  pair.ours.reset();
  Handle* const handle = adopt(old.ours);  // the number is the proactor's now
  finish_close(stale);
  const auto again = proactor().adopt(number, HandleKind::stream_socket);
  ASSERT_FALSE(again.has_value()) << "the close of the old handle has let the new one's number go";
  EXPECT_EQ(again.error(), errc::already_adopted);
  std::string& into = memory(8);
  Probe& read = reading(handle, into);
  start(read);
  send_all(pair.peer.get(), "new");
  finish(read);
  EXPECT_EQ(into.substr(0, read.bytes()), "new");
}

// The new handle waits already when the old one is closed.
TEST_P(Adopted, the_close_of_an_old_handle_leaves_the_numbers_new_one_alone) {
  for (const Ownership second : {Ownership::owned, Ownership::borrowed}) {
    Pair old = unix_pair();
    Handle* const stale = borrow(old.ours);
    std::string& into = memory(8);
    Probe& before = reading(stale, into);
    start(before);
    run_for(500us);
    send_all(old.peer.get(), "old");
    finish(before);
    Pair pair = unix_pair();
    ASSERT_EQ(::dup2(pair.ours.get(), old.ours.get()), old.ours.get());
    pair.ours.reset();
    Handle* const handle = adopt(old.ours, HandleKind::stream_socket, second);
    Probe& read = reading(handle, into);
    start(read);
    run_for(500us);
    EXPECT_TRUE(read.is_pending());
    finish_close(stale);
    send_all(pair.peer.get(), "new");
    finish(read);
    EXPECT_EQ(into.substr(0, read.bytes()), "new");
    finish_close(handle);
  }
}

// Closed and opened by the thousand: a number is free before it is used again.
TEST_P(Adopted, a_number_is_free_when_its_close_is_complete) {
  for (int i = 0; i < 1'000; ++i) {
    Pair pair = unix_pair();
    Handle* const handle = adopt(pair.ours);
    Probe& write = writing(handle, memory("x"));
    finish(write);
    if (i % 2 == 0) {
      finish_close(handle);
    } else {
      proactor().close_detached(*handle);
    }
  }
}

}  // namespace
}  // namespace baton::conformance
