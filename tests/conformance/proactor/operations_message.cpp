// Rule 3 for datagrams - boundaries and addresses - and waiting for readiness (P-18, B-03).
#include <fcntl.h>
#include <poll.h>

#include "baton/buffer_pool.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Message : public Operations {
 protected:
  struct Socket {
    Handle* handle = nullptr;
    Endpoint endpoint;
  };

  /// A datagram socket of the proactor's, bound to `endpoint`.
  Socket bind(const Endpoint& endpoint) {
    const auto* address = static_cast<const sockaddr*>(endpoint.data());
    Fd fd = ::socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(fd.get(), address, endpoint.size()), 0) << endpoint.to_string();
    const Endpoint bound = bound_to(fd.get());
    return {adopt(fd, HandleKind::datagram_socket), bound};
  }

  Probe& receiving(const Socket& socket, std::string& into, Endpoint& from) {
    Probe& probe = plain(OperationKind::read_datagram, socket.handle);
    probe.set_buffer(MutableBuffer{into});
    probe.set_endpoint(&from);
    return probe;
  }

  Probe& sending(const Socket& socket, std::string& text, Endpoint& to) {
    Probe& probe = plain(OperationKind::write_datagram, socket.handle);
    probe.set_buffer(ConstBuffer{std::string_view{text}});
    probe.set_endpoint(&to);
    return probe;
  }

  /// Until there is no room, so that the next write is queued. It does not block.
  static void fill_with_records(int fd) {
    const std::string block(filling_size, 'x');
    while (::write(fd, block.data(), block.size()) > 0) {
    }
  }

  /// Queues writes behind what fills it, and answers the sizes of their records as they arrive at
  /// `peer`, which does not block.
  std::vector<ssize_t> records_of_queued_writes(Handle* handle, int peer) {
    std::vector<Probe*> queued;
    for (const ssize_t size : queued_sizes) {
      queued.push_back(&writing(handle, memory(static_cast<std::size_t>(size))));
      start(*queued.back());
    }
    std::vector<ssize_t> records;
    std::string into(8'192, '\0');
    const auto read_all = [&] {
      for (ssize_t size; (size = ::read(peer, into.data(), into.size())) > 0;) {
        if (size != filling_size) records.push_back(size);
      }
    };
    run([&] {
      read_all();
      return !queued.back()->is_pending();
    });
    for (Probe* probe : queued) finish(*probe);
    read_all();
    return records;
  }

  /// Sends lists of bytes from the second of the two, whose records the first reads into such
  /// lists. The last read takes two records, and has a long list left after the first.
  void lists_are_records(const int (&fd)[2], HandleKind kind) {
    Fd in_end = fd[0];
    Fd out_end = fd[1];
    const int raw = in_end.get();
    Handle* const in = adopt(in_end, kind);
    Handle* const out = adopt(out_end, kind);
    for (const std::size_t count : {std::size_t{65}, limits::buffers_max}) {
      std::string& text = memory(pattern(count));
      std::string& into = memory(count);
      std::vector<ConstBuffer> from;
      std::vector<MutableBuffer> to;
      for (std::size_t i = 0; i < count; ++i) {
        from.emplace_back(std::string_view{text}.substr(i, 1));
        to.emplace_back(&into[i], 1);
      }
      const auto write = [&](ConstBuffers list) {
        Probe& written = plain(OperationKind::write_stream, out);
        written.set_buffers(list);
        finish(written);
        EXPECT_EQ(written.bytes(), list.size());
      };
      write(from);
      std::string record(2 * count, '\0');
      EXPECT_EQ(::read(raw, record.data(), record.size()), static_cast<ssize_t>(count));

      write(from);
      Probe& read = plain(OperationKind::read_stream, in);
      read.set_buffers(MutableBuffers{to});
      finish(read);
      EXPECT_EQ(read.bytes(), count);
      EXPECT_TRUE(into == text) << count;

      into.assign(count, '\0');
      write(ConstBuffers{from}.first(10));
      write(ConstBuffers{from}.subspan(10));
      Probe& whole = plain(OperationKind::read_stream, in, Operation::exactly);
      whole.set_buffers(MutableBuffers{to});
      finish(whole);
      EXPECT_TRUE(into == text) << count;
    }
  }
  static constexpr ssize_t filling_size = 1'000;
  const std::vector<ssize_t> queued_sizes{10, 11, 12, 13, 14};
};
BATON_CONFORMANCE_SOCKET_SUITE(Message);

TEST_P(Message, datagrams_carry_their_addresses_both_ways) {
  const std::string unique = "@baton." + std::to_string(::getpid()) + ".";
  const std::pair<Endpoint, Endpoint> cases[] = {
      {Endpoint::loopback(0), Endpoint::loopback(0)},
      {Endpoint::loopback_v6(0), Endpoint::loopback_v6(0)},
      {Endpoint::unix_path(unique + "client").value(),
       Endpoint::unix_path(unique + "server").value()}};
  for (const auto& [here, there] : cases) {
    Socket client = bind(here);
    Socket server = bind(there);
    std::string& into = memory(32);
    Endpoint from;
    Probe& received = receiving(server, into, from);
    start(received);  // waits
    Probe& sent = sending(client, memory("question"), server.endpoint);
    finish(sent);
    finish(received);
    EXPECT_EQ(into.substr(0, received.bytes()), "question");
    EXPECT_EQ(from, client.endpoint) << from.to_string() << " " << client.endpoint.to_string();
    Probe& answer = sending(server, memory("answer"), from);
    finish(answer);
    Endpoint back;
    Probe& answered = receiving(client, into, back);
    finish(answered);
    EXPECT_EQ(into.substr(0, answered.bytes()), "answer");
    EXPECT_EQ(back, server.endpoint);
  }
}

TEST_P(Message, boundaries_are_kept_and_long_datagrams_truncated) {
  Socket client = bind(Endpoint::loopback(0));
  Socket server = bind(Endpoint::loopback(0));
  for (const char* text : {"first", "", "truncated", "last"}) {
    Probe& sent = sending(client, memory(std::string{text}), server.endpoint);
    finish(sent);
    EXPECT_EQ(sent.bytes(), std::string_view{text}.size());
  }
  // The third record fills the buffer and loses its end. The others stay separate, and an empty one
  // is not the end.
  for (const char* text : {"first", "", "truncat", "last"}) {
    std::string& into = memory(7);
    Endpoint from;
    Probe& received = receiving(server, into, from);
    finish(received);
    EXPECT_FALSE(received.failed()) << received.error().message();
    EXPECT_EQ(into.substr(0, received.bytes()), text);
    EXPECT_EQ(from, client.endpoint);
  }
}

TEST_P(Message, vectored_datagrams_are_one_datagram) {
  Socket client = bind(Endpoint::loopback_v6(0));
  Socket server = bind(Endpoint::loopback_v6(0));
  const ConstBuffer pieces[] = {std::string_view{"one "}, std::string_view{""},
                                std::string_view{"datagram"}};
  Probe& sent = plain(OperationKind::write_datagram, client.handle);
  sent.set_buffers(ConstBuffers{pieces});
  sent.set_endpoint(&server.endpoint);
  finish(sent);
  EXPECT_EQ(sent.bytes(), 12U);
  std::string& head = memory(4);
  std::string& tail = memory(32);
  const MutableBuffer parts[] = {head, tail};
  Endpoint from;
  Probe& received = plain(OperationKind::read_datagram, server.handle);
  received.set_buffers(MutableBuffers{parts});
  received.set_endpoint(&from);
  finish(received);
  EXPECT_EQ(received.bytes(), 12U);
  EXPECT_EQ(head + tail.substr(0, 8), "one datagram");
  EXPECT_EQ(from, client.endpoint);
}

TEST_P(Message, a_list_of_any_length_is_one_datagram) {
  Socket client = bind(Endpoint::loopback(0));
  Socket server = bind(Endpoint::loopback(0));
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{64}, std::size_t{65}, limits::buffers_max}) {
    std::string& text = memory(pattern(count));
    std::string& into = memory(count);
    std::vector<ConstBuffer> out;
    std::vector<MutableBuffer> in;
    for (std::size_t i = 0; i < count; ++i) {
      out.emplace_back(std::string_view{text}.substr(i, 1));
      in.emplace_back(&into[i], 1);
    }
    Probe& sent = plain(OperationKind::write_datagram, client.handle);
    sent.set_buffers(ConstBuffers{out});
    sent.set_endpoint(&server.endpoint);
    finish(sent);
    EXPECT_EQ(sent.bytes(), count);
    Probe& received = plain(OperationKind::read_datagram, server.handle);
    received.set_buffers(MutableBuffers{in});
    finish(received);
    EXPECT_EQ(received.bytes(), count);
    EXPECT_TRUE(into == text) << count;
  }
}

// The system writes an address of 111 bytes for a path of 108, and takes none of more than 110.
TEST_P(Message, the_longest_path_of_a_sender_can_be_answered) {
  std::string path = testing::TempDir() + "baton-" + std::to_string(::getpid()) + "-";
  path.resize(108, 'p');
  ::unlink(path.c_str());
  Socket client = bind(Endpoint::unix_path(path).value());
  Socket server =
      bind(Endpoint::unix_path("@baton." + std::to_string(::getpid()) + ".longest").value());
  std::string& into = memory(32);
  Endpoint from;
  Probe& received = receiving(server, into, from);
  Probe& sent = sending(client, memory("question"), server.endpoint);
  finish(sent);
  finish(received);
  EXPECT_EQ(from, client.endpoint) << from.to_string();
  Probe& answer = sending(server, memory("answer"), from);
  finish(answer);
  EXPECT_FALSE(answer.failed()) << answer.error().message();
  ::unlink(path.c_str());
}

// As a stream, too, a socket of type SOCK_SEQPACKET keeps its records: queued writes go alone.
TEST_P(Message, records_of_a_stream_stay_apart) {
  int fd[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
  Fd ours = fd[0];
  const Fd peer = fd[1];
  fill_with_records(ours.get());
  Handle* const handle = adopt(ours);
  EXPECT_EQ(records_of_queued_writes(handle, peer.get()), queued_sizes);
}

TEST_P(Message, packets_of_a_pipe_stay_apart) {
  int fd[2];
  ASSERT_EQ(::pipe2(fd, O_DIRECT | O_CLOEXEC | O_NONBLOCK), 0);
  const Fd peer = fd[0];
  Fd ours = fd[1];
  fill_with_records(ours.get());
  Handle* const handle = adopt(ours, HandleKind::pipe);
  EXPECT_EQ(records_of_queued_writes(handle, peer.get()), queued_sizes);
}

TEST_P(Message, a_list_of_any_length_is_one_record) {
  int fd[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
  lists_are_records(fd, HandleKind::stream_socket);
}

TEST_P(Message, a_list_of_any_length_is_one_packet) {
  int fd[2];
  ASSERT_EQ(::pipe2(fd, O_DIRECT | O_CLOEXEC), 0);
  lists_are_records(fd, HandleKind::pipe);
}

// It ends with 0 bytes, as a blocking read does. A UDP socket is reported ready then, although a
// non-blocking read gets EAGAIN.
TEST_P(Message, a_read_after_the_programs_shutdown_ends) {
  const Socket peer = bind(Endpoint::loopback(0));
  BufferPool pool{32, 1};
  for (const bool pooled : {false, true}) {
    const Socket socket = bind(Endpoint::loopback(0));
    const int fd = socket.handle->native();
    ASSERT_EQ(
        ::connect(fd, static_cast<const sockaddr*>(peer.endpoint.data()), peer.endpoint.size()), 0);
    ASSERT_EQ(::shutdown(fd, SHUT_RD), 0);
    Probe& read = plain(OperationKind::read_datagram, socket.handle);
    if (pooled) {
      read.set_pool(&pool);
    } else {
      read.set_buffer(MutableBuffer{memory(32)});
    }
    finish(read);
    EXPECT_FALSE(read.failed()) << read.error().message();
    EXPECT_EQ(read.bytes(), 0U);
    EXPECT_EQ(pool.available(), 1U);
  }
}

// As of streams: a read that waits pins no block.
TEST_P(Message, pooled_reads_take_a_block_only_for_data) {
  BufferPool pool{32, 1};
  const Socket client = bind(Endpoint::loopback(0));
  Socket server = bind(Endpoint::loopback(0));
  Probe& read = plain(OperationKind::read_datagram, server.handle);
  read.set_pool(&pool);
  start(read);
  run_for(1ms);
  EXPECT_EQ(pool.available(), 1U);
  finish(sending(client, memory(std::string{"data"}), server.endpoint));
  finish(read);
  ASSERT_EQ(read.bytes(), 4U) << read.error().message();
  EXPECT_EQ(pool.available(), 0U);
  pool.give(read.buffer().data);
  // An empty datagram is a result, and needs no memory.
  Probe& empty = plain(OperationKind::read_datagram, server.handle);
  empty.set_pool(&pool);
  start(empty);
  finish(sending(client, memory(std::string{}), server.endpoint));
  finish(empty);
  EXPECT_FALSE(empty.failed()) << empty.error().message();
  EXPECT_EQ(empty.bytes(), 0U);
  EXPECT_EQ(empty.buffer().size, 0U);
  EXPECT_EQ(pool.available(), 1U);
}

TEST_P(Message, an_unspecified_endpoint_is_the_connected_peer) {
  const Socket client = bind(Endpoint::loopback(0));
  const Socket server = bind(Endpoint::loopback(0));
  ASSERT_EQ(::connect(client.handle->native(), static_cast<const sockaddr*>(server.endpoint.data()),
                      server.endpoint.size()),
            0);
  Endpoint nobody;
  std::string& text = memory(std::string{"hello"});
  const ConstBuffer pieces[] = {std::string_view{text}.substr(0, 2),
                                std::string_view{text}.substr(2)};
  for (const bool list : {false, true}) {
    Probe& sent = sending(client, text, nobody);
    if (list) sent.set_buffers(ConstBuffers{pieces});
    finish(sent);
    EXPECT_EQ(sent.bytes(), 5U) << sent.error().message();
    if (sent.failed()) continue;
    Endpoint from;
    Probe& received = receiving(server, memory(32), from);
    finish(received);
    EXPECT_EQ(received.bytes(), 5U);
    EXPECT_EQ(from, client.endpoint);
  }
}

TEST_P(Message, wait_ready_reports_readable_and_writable) {
  Pair pair = unix_pair();
  const int raw = pair.ours.get();
  Handle* const handle = adopt(pair.ours);
  Probe& writable = plain(OperationKind::wait_ready, handle, Operation::writable);
  finish(writable);
  EXPECT_FALSE(writable.failed());
  Probe& readable = plain(OperationKind::wait_ready, handle, Operation::readable);
  start(readable);
  run_for(1ms);
  EXPECT_TRUE(readable.is_pending());
  send_all(pair.peer.get(), "data");
  finish(readable);
  EXPECT_FALSE(readable.failed());
  EXPECT_EQ(receive(raw, 4), "data") << "moves no bytes itself";
  // The buffer is full: writable again only when the peer has read.
  const std::string block(65'536, 'x');
  std::size_t filled = 0;
  for (ssize_t sent; (sent = ::write(raw, block.data(), block.size())) > 0;) {
    filled += static_cast<std::size_t>(sent);
  }
  Probe& full = plain(OperationKind::wait_ready, handle, Operation::writable);
  start(full);
  run_for(1ms);
  EXPECT_TRUE(full.is_pending());
  receive(pair.peer.get(), filled);
  finish(full);
  EXPECT_FALSE(full.failed());
  // A hang-up counts as ready for every interest.
  Probe& hang_up = plain(OperationKind::wait_ready, handle, Operation::readable);
  start(hang_up);
  pair.peer.reset();
  finish(hang_up);
  EXPECT_FALSE(hang_up.failed()) << hang_up.error().message();
}

// No write has found the socket full. After one that does, the system reports more.
TEST_P(Message, wait_ready_tells_of_room_that_no_write_has_missed) {
  for (const int interest : {int{Operation::writable}, Operation::readable | Operation::writable}) {
    Pair pair = unix_pair();
    const int raw = pair.ours.get();
    const std::string block(512, 'x');
    std::size_t filled = 0;
    for (pollfd room{raw, POLLOUT, 0}; ::poll(&room, 1, 0) > 0; filled += block.size()) {
      ASSERT_EQ(::write(raw, block.data(), block.size()), 512);
    }
    Handle* const handle = adopt(pair.ours);
    Probe& full = plain(OperationKind::wait_ready, handle, static_cast<std::uint16_t>(interest));
    start(full);
    run_for(1ms);
    EXPECT_TRUE(full.is_pending());
    receive(pair.peer.get(), filled);
    finish(full);
    EXPECT_FALSE(full.failed()) << full.error().message();
  }
}

// There is no room, neither before the peer shuts both directions down nor after it.
TEST_P(Message, wait_ready_for_room_ends_by_a_hang_up) {
  for (const bool gone_before : {true, false}) {
    Pair pair = unix_pair();
    const std::string block(512, 'x');
    while (::send(pair.ours.get(), block.data(), block.size(), MSG_DONTWAIT) > 0) continue;
    Handle* const handle = adopt(pair.ours);
    if (gone_before) {
      ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_RDWR), 0);
    }
    Probe& full = plain(OperationKind::wait_ready, handle, Operation::writable);
    start(full);
    run_for(1ms);
    if (!gone_before) {
      EXPECT_TRUE(full.is_pending());
      ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_RDWR), 0);
    }
    finish(full);
    EXPECT_FALSE(full.failed()) << full.error().message();
  }
}

// So a writer learns that its reader has gone.
TEST_P(Message, wait_ready_for_the_direction_that_a_pipe_lacks_ends_by_a_hang_up) {
  for (const bool writer : {true, false}) {
    Pair pair = writer ? pipe_to_write() : pipe_to_read();
    Handle* const handle = adopt(pair.ours, HandleKind::pipe);
    Probe& wait = plain(OperationKind::wait_ready, handle,
                        writer ? Operation::readable : Operation::writable);
    start(wait);
    run_for(1ms);
    EXPECT_TRUE(wait.is_pending()) << writer;
    pair.peer.reset();
    finish(wait);
    EXPECT_FALSE(wait.failed()) << wait.error().message();
  }
}

}  // namespace
}  // namespace baton::conformance
