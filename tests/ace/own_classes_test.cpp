// Classes of the program's own: results that it starts and posts itself, and ACE's operations that
// it makes without the proactor's factories.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// Notes how it ends. The program decides what complete() does, with a handler or without.
class ResultOfTheProgram final : public ACE_POSIX_Asynch_Result {
 public:
  struct Seen {
    int completed = 0;
    int deleted = 0;
    std::size_t bytes = 0;
    u_long error = 0;
  };
  ResultOfTheProgram(const ACE_Handler::Proxy_Ptr& handler, Seen& seen)
      : ACE_POSIX_Asynch_Result(handler, nullptr, ACE_INVALID_HANDLE, 0, 0, 0, ACE_SIGRTMIN),
        seen_(seen) {}
  ~ResultOfTheProgram() override { ++seen_.deleted; }
  void complete(std::size_t bytes, int, const void*, u_long error) override {
    ++seen_.completed;
    seen_.bytes = bytes;
    seen_.error = error;
  }

 private:
  Seen& seen_;
};

class OwnResults : public AceTest {
 protected:
  ~OwnResults() override {
    end();
    destroy();  // before what its completions use
  }
  void start_read(const ACE_Handler::Proxy_Ptr& handler) {
    auto* const result = new ResultOfTheProgram(handler, seen_);
    result->aio_fildes = pair_.first;
    result->aio_buf = data_;
    result->aio_nbytes = sizeof(data_);
    result->aio_offset = 0;
    ASSERT_EQ(0, implementation().start_aio(result, ACE_POSIX_Proactor::ACE_OPCODE_READ));
  }
  /// A read that transfers something, one that is cancelled, one at the end of the stream, and a
  /// posted one: each is completed and deleted once.
  void expect_completions(const ACE_Handler::Proxy_Ptr& handler) {
    start_read(handler);
    ASSERT_EQ(3, ::write(pair_.second, "abc", 3));
    ASSERT_TRUE(drive([&] { return seen_.deleted == 1; }));
    EXPECT_EQ(1, seen_.completed);
    EXPECT_EQ(3U, seen_.bytes);
    start_read(handler);
    EXPECT_EQ(0, implementation().cancel_aio(pair_.first));
    ASSERT_TRUE(drive([&] { return seen_.deleted == 2; }));
    EXPECT_EQ(2, seen_.completed);
    EXPECT_EQ(u_long{ECANCELED}, seen_.error);
    start_read(handler);
    ASSERT_EQ(0, ::shutdown(pair_.second, SHUT_WR));
    ASSERT_TRUE(drive([&] { return seen_.deleted == 3; }));
    EXPECT_EQ(3, seen_.completed);
    EXPECT_EQ(0U, seen_.bytes);
    EXPECT_EQ(0U, seen_.error);
    ASSERT_EQ(0, implementation().post_completion(new ResultOfTheProgram(handler, seen_)));
    ASSERT_TRUE(drive([&] { return seen_.deleted == 4; }));
    EXPECT_EQ(4, seen_.completed);
  }

  const SocketPair pair_;
  ResultOfTheProgram::Seen seen_;
  char data_[10] = {};
};

TEST_F(OwnResults, AreCompletedWhenTheirHandlerIsDeleted) {
  auto handler = std::make_unique<ACE_Handler>();
  const ACE_Handler::Proxy_Ptr proxy = handler->proxy();
  handler.reset();
  expect_completions(proxy);
}

TEST_F(OwnResults, NeedNoHandler) { expect_completions(ACE_Handler::Proxy_Ptr()); }

TEST_F(OwnResults, WithoutAHandlerAreCompletedByAClose) {
  start_read(ACE_Handler::Proxy_Ptr());
  EXPECT_EQ(0, implementation().close());
  EXPECT_EQ(1, seen_.completed);
  EXPECT_EQ(u_long{ECANCELED}, seen_.error);
  EXPECT_EQ(1, seen_.deleted);
}

// -- ACE's own operations -------------------------------------------------------------------------

/// The bytes and errors of its reads.
class Reads final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override { took(result); }
  void handle_read_file(const ACE_Asynch_Read_File::Result& result) override { took(result); }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override { took(result); }
  void handle_connect(const ACE_Asynch_Connect::Result& result) override { took(result); }
  int all = 0;
  std::size_t bytes = 0;
  u_long error = 0;

 private:
  template <class Result>
  void took(const Result& result) {
    ++all;
    bytes = result.bytes_transferred();
    error = result.error();
  }
};

/// They tell the bridge nothing when they are opened.
class OwnOperations : public AceTest {
 protected:
  ~OwnOperations() override {
    destroy();
    ::close(number_);
  }
  /// The number names a file of ten digits now.
  void name_a_file() {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(nullptr, file);
    ASSERT_EQ(10, ::write(::fileno(file), "0123456789", 10));
    ASSERT_EQ(number_, ::dup2(::fileno(file), number_));
    std::fclose(file);
  }
  /// The number names a socket now, from which there is this to read.
  void name_a_socket(std::string_view data) {
    peer_ = std::make_unique<SocketPair>();
    ASSERT_EQ(number_, ::dup2(peer_->first, number_));
    ASSERT_EQ(static_cast<ssize_t>(data.size()), ::write(peer_->second, data.data(), data.size()));
  }
  std::string read_file(std::size_t bytes, u_long offset) {
    ACE_POSIX_Asynch_Read_File reader{&implementation()};
    EXPECT_EQ(0, reader.open(reads_.proxy(), number_, nullptr, ace()));
    ACE_Message_Block block(10);
    EXPECT_EQ(0, reader.read(block, bytes, offset, 0, nullptr, 0, ACE_SIGRTMIN));
    return text_of(block);
  }
  std::string read_socket() {
    ACE_POSIX_Asynch_Read_Stream reader{&implementation()};
    EXPECT_EQ(0, reader.open(reads_.proxy(), number_, nullptr, ace()));
    ACE_Message_Block block(10);
    EXPECT_EQ(0, reader.read(block, 10, nullptr, 0, ACE_SIGRTMIN));
    return text_of(block);
  }
  std::string text_of(const ACE_Message_Block& block) {
    const int before = reads_.all;
    EXPECT_TRUE(drive([&] { return reads_.all > before; }));
    EXPECT_EQ(0U, reads_.error);
    return {block.rd_ptr(), block.length()};
  }

  const int number_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::unique_ptr<SocketPair> peer_;
  Reads reads_;
};

TEST_F(OwnOperations, ReadAFileWithTheNumberOfASocket) {
  name_a_socket("socket");
  EXPECT_EQ("socket", read_socket());
  name_a_file();
  EXPECT_EQ("56789", read_file(5, 5));
}

TEST_F(OwnOperations, ReadASocketWithTheNumberOfAFile) {
  name_a_file();
  EXPECT_EQ("2345", read_file(4, 2));
  name_a_socket("socket");
  EXPECT_EQ("socket", read_socket());
  name_a_socket("other");
  EXPECT_EQ("other", read_socket());
}

// ACE's own would wait for a thread that the bridge never starts.
TEST_F(OwnOperations, AcceptIsRefused) {
  static_cast<void>(bridge());  // only Baton's
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ACE_POSIX_Asynch_Accept accept{&implementation()};
  EXPECT_EQ(-1, accept.open(reads_.proxy(), listener, nullptr, ace()));
  EXPECT_EQ(EINVAL, errno);
  ::close(listener);
}

// It cannot connect at once, and would wait for the same thread.
TEST_F(OwnOperations, ConnectEndsWithAnError) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ASSERT_EQ(0, ::listen(listener, 0));
  std::vector<int> others;
  for (int i = 0; i < 3; ++i) {  // so many fill the listener
    others.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(others.back(), static_cast<const sockaddr*>(where.get_addr()),
              static_cast<socklen_t>(where.get_size()));
  }
  ACE_POSIX_Asynch_Connect connect{&implementation()};
  ASSERT_EQ(0, connect.open(reads_.proxy(), ACE_INVALID_HANDLE, nullptr, ace()));
  const int answer =
      connect.connect(ACE_INVALID_HANDLE, where, ACE_Addr::sap_any, 1, nullptr, 0, ACE_SIGRTMIN);
  if (answer == 0) {
    ASSERT_TRUE(drive([&] { return reads_.all == 1; }));
    EXPECT_NE(0U, reads_.error);
  }
  for (const int each : others) ::close(each);
  ::close(listener);
}

}  // namespace
}  // namespace baton::ace::test
