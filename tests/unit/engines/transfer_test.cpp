// The rest of a transfer and its completion: the same for every engine.
#include "engines/common/transfer.hpp"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "baton/buffer_pool.hpp"
#include "baton/limits.hpp"
#include "core/handle_table.hpp"
#include "engines/common/records.hpp"

namespace baton::engines {
namespace {

Operation& prepared(Operation& operation, OperationKind kind, std::uint16_t flags = 0) {
  static Handle any;
  operation.prepare(kind, &any, flags);
  return operation;
}

TEST(Remaining, of_one_buffer_begins_behind_the_moved_bytes) {
  char memory[10];
  Operation operation;
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
  operation.add_bytes(4);
  std::array<iovec, 4> pieces;
  ASSERT_EQ(remaining(operation, pieces), 1U);
  EXPECT_EQ(pieces[0].iov_base, memory + 4);
  EXPECT_EQ(pieces[0].iov_len, 6U);
  EXPECT_EQ(remaining_bytes(operation), 6U);
  operation.add_bytes(6);
  EXPECT_EQ(remaining(operation, pieces), 0U);
  EXPECT_EQ(remaining_bytes(operation), 0U);
}

// Against counting byte by byte, for every position in a list with empty buffers.
TEST(Remaining, of_a_list_is_right_at_every_byte) {
  std::string memory = "abcdefghij";
  const MutableBuffer list[] = {{memory.data(), 3},
                                {memory.data() + 3, 0},
                                {memory.data() + 3, 1},
                                {memory.data() + 4, 6},
                                {memory.data() + 10, 0}};
  for (std::size_t moved = 0; moved <= memory.size(); ++moved) {
    Operation operation;
    prepared(operation, OperationKind::read_stream).set_buffers(MutableBuffers{list});
    operation.add_bytes(moved);
    std::array<iovec, 8> pieces;
    std::string rest;
    const std::size_t count = remaining(operation, pieces);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_GT(pieces[i].iov_len, 0U);
      rest.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    }
    EXPECT_EQ(rest, memory.substr(moved));
    EXPECT_EQ(remaining_bytes(operation), memory.size() - moved);
  }
}

TEST(Remaining, fills_no_more_pieces_than_there_are) {
  char byte;
  const std::vector<MutableBuffer> list(200, MutableBuffer{&byte, 1});
  Operation operation;
  prepared(operation, OperationKind::write_stream).set_buffers(MutableBuffers{list});
  std::array<iovec, pieces_max> pieces;
  EXPECT_EQ(remaining(operation, pieces), pieces_max);
  EXPECT_EQ(remaining_bytes(operation), 200U);
}

TEST(Remaining, is_cut_where_the_system_cuts) {
  char byte;
  const MutableBuffer huge[] = {{&byte, limits::transfer_max - 10}, {&byte, 100}, {&byte, 100}};
  Operation operation;
  prepared(operation, OperationKind::write_stream).set_buffers(MutableBuffers{huge});
  std::array<iovec, 4> pieces;
  ASSERT_EQ(remaining(operation, pieces), 2U);
  EXPECT_EQ(pieces[1].iov_len, 10U);
  prepared(operation, OperationKind::write_stream).set_buffer(MutableBuffer{&byte, SIZE_MAX});
  ASSERT_EQ(remaining(operation, pieces), 1U);
  EXPECT_EQ(pieces[0].iov_len, limits::transfer_max);
}

TEST(Advance, plain_is_complete_with_anything) {
  char memory[10];
  Operation operation;
  for (const std::size_t moved : {10U, 3U, 0U}) {
    prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
    EXPECT_TRUE(advance(operation, moved));
    EXPECT_EQ(*operation.result(), moved);
  }
}

TEST(Advance, exactly_goes_on_until_all_or_the_end) {
  char memory[10];
  Operation operation;
  prepared(operation, OperationKind::read_stream, Operation::exactly)
      .set_buffer(MutableBuffer{memory});
  EXPECT_FALSE(advance(operation, 4));
  EXPECT_FALSE(advance(operation, 5));
  EXPECT_TRUE(advance(operation, 1));
  EXPECT_EQ(*operation.result(), 10U);

  prepared(operation, OperationKind::read_stream, Operation::exactly)
      .set_buffer(MutableBuffer{memory});
  EXPECT_FALSE(advance(operation, 4));
  EXPECT_TRUE(advance(operation, 0));
  EXPECT_EQ(operation.error(), errc::end_of_stream);
  EXPECT_EQ(operation.bytes(), 4U);
}

TEST(Advance, a_device_that_takes_nothing_ends_write_all) {
  char memory[10];
  Operation operation;
  prepared(operation, OperationKind::write_stream, Operation::exactly)
      .set_buffer(MutableBuffer{memory});
  EXPECT_TRUE(advance(operation, 0));
  EXPECT_EQ(operation.error_value(), EIO);
}

// Every way to cut the input in two, for delimiters of several lengths.
TEST(Advance, until_finds_the_delimiter_however_it_comes) {
  for (const std::string_view delimiter : {"\n", "\r\n", "abab", "aab"}) {
    std::string memory = std::string("ababaaba") + std::string(delimiter);
    const std::size_t end = memory.find(delimiter) + delimiter.size();
    for (std::size_t first = 1; first < memory.size(); ++first) {
      Operation operation;
      prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
      operation.set_until(&delimiter, 0);
      const bool done = advance(operation, first);
      EXPECT_EQ(done, first >= end) << delimiter << " " << first;
      if (done) continue;
      EXPECT_TRUE(advance(operation, memory.size() - first));
      EXPECT_FALSE(operation.failed());
    }
  }
}

TEST(Advance, until_ends_with_the_buffer_or_the_stream) {
  char memory[] = {'a', 'b', 'c', 'd'};
  const std::string_view delimiter = "\n";
  Operation operation;
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
  operation.set_until(&delimiter, 0);
  EXPECT_FALSE(advance(operation, 2));
  EXPECT_TRUE(advance(operation, 2));
  EXPECT_EQ(operation.error(), errc::delimiter_not_found);
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
  operation.set_until(&delimiter, 0);
  EXPECT_TRUE(advance(operation, 0));
  EXPECT_EQ(operation.error(), errc::end_of_stream);
}

TEST(Advance, a_datagram_is_complete_even_if_empty) {
  char memory[10];
  Operation operation;
  prepared(operation, OperationKind::read_datagram, Operation::exactly)
      .set_buffer(MutableBuffer{memory});
  EXPECT_TRUE(advance(operation, 0));
  EXPECT_FALSE(operation.failed());
}

TEST(WithoutTransfer, zero_bytes_but_not_of_datagrams_and_pools) {
  char memory[10] = {'a', '\n'};
  Operation operation;
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
  EXPECT_FALSE(complete_without_transfer(operation));
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{Operation::exactly}}) {
    prepared(operation, OperationKind::write_stream, flags).set_buffer(MutableBuffer{memory, 0});
    EXPECT_TRUE(complete_without_transfer(operation));
    EXPECT_FALSE(operation.failed());
  }
  prepared(operation, OperationKind::write_datagram).set_buffer(MutableBuffer{memory, 0});
  EXPECT_FALSE(complete_without_transfer(operation));
  BufferPool pool{16, 1};
  prepared(operation, OperationKind::read_stream).set_pool(&pool);
  EXPECT_FALSE(complete_without_transfer(operation));
}

TEST(WithoutTransfer, a_delimiter_that_is_there) {
  char memory[10] = {'a', '\n', 'b'};
  const std::string_view delimiter = "\n";
  const std::string_view nothing;
  Operation operation;
  for (const std::size_t filled : {0U, 1U, 2U, 3U}) {
    prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
    operation.set_until(&delimiter, filled);
    EXPECT_EQ(complete_without_transfer(operation), filled >= 2) << filled;
  }
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory, 1});
  operation.set_until(&delimiter, 1);
  EXPECT_TRUE(complete_without_transfer(operation));
  EXPECT_EQ(operation.error(), errc::delimiter_not_found);
  prepared(operation, OperationKind::read_stream).set_buffer(MutableBuffer{memory});
  operation.set_until(&nothing, 0);
  EXPECT_TRUE(complete_without_transfer(operation));
}

// A lost connection has no end of stream. The system reports the loss once, perhaps to a write.
TEST(Fail, makes_the_next_end_a_loss_if_the_connection_is_lost) {
  char memory[4];
  struct {
    int error;
    int answer;
  } const rows[] = {{ECONNRESET, ECONNRESET},
                    {ECONNABORTED, ECONNRESET},
                    {ETIMEDOUT, ECONNRESET},
                    {ECONNREFUSED, ECONNRESET},
                    {EHOSTUNREACH, ECONNRESET},
                    {ENETUNREACH, ECONNRESET},
                    {EHOSTDOWN, ECONNRESET},
                    {ENONET, ECONNRESET},
                    {ENOPROTOOPT, ECONNRESET},
                    {EACCES, ECONNRESET},
                    {EPROTO, ECONNRESET},
                    {EPIPE, 0},
                    {ENOBUFS, 0},
                    {ENOMEM, 0}};
  for (const auto& row : rows) {
    Handle handle;
    Operation write;
    write.prepare(OperationKind::write_stream, &handle);
    fail(write, row.error);
    EXPECT_EQ(write.error_value(), row.error);
    Operation read;
    read.prepare(OperationKind::read_stream, &handle);
    read.set_buffer(MutableBuffer{memory});
    EXPECT_TRUE(advance(read, 0));
    EXPECT_EQ(read.error_value(), row.answer) << row.error;
  }
}

// A device may take each write for a message (/dev/net/tun), and an eventfd does.
TEST(Records, are_kept_by_all_but_byte_streams) {
  int bytes[2];
  int packets[2];
  int sockets[2];
  int sequence[2];
  ASSERT_EQ(::pipe2(bytes, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(packets, O_CLOEXEC | O_DIRECT), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sequence), 0);
  const int device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int counter = ::eventfd(0, EFD_CLOEXEC);
  HandleTable handles{16, os::or_real(nullptr)};
  struct {
    int fd;
    HandleKind kind;
    OpenFacts facts;
    bool kept;
    bool reads_may_be;
  } const rows[] = {{bytes[1], HandleKind::pipe, {}, false, true},
                    {packets[1], HandleKind::pipe, {.direct = true}, true, true},
                    {device, HandleKind::pipe, {}, true, true},
                    {counter, HandleKind::pipe, {}, true, true},
                    {device, HandleKind::pipe, {.is_terminal = true}, false, true},
                    {device, HandleKind::pipe, {.is_file = true}, false, false},
                    {sockets[0], HandleKind::stream_socket, {}, false, false},
                    {sequence[0], HandleKind::stream_socket, {}, true, true}};
  for (const auto& row : rows) {
    Handle* const handle = handles.allocate(row.fd, row.kind, Ownership::borrowed, false, 0,
                                            Handle::any_processor, row.facts, false);
    ASSERT_NE(handle, nullptr);
    EXPECT_EQ(keeps_records(os::or_real(nullptr), *handle), row.kept) << &row - rows;
    Operation read;
    read.prepare(OperationKind::read_stream, handle);
    EXPECT_EQ(moves_records(os::or_real(nullptr), read), row.reads_may_be) << &row - rows;
  }
  for (const int* pair : {bytes, packets, sockets, sequence}) ::close(pair[0]), ::close(pair[1]);
  ::close(device);
  ::close(counter);
}

}  // namespace
}  // namespace baton::engines
