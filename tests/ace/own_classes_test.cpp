// Classes of the program's own: results that it starts and posts itself.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// Notes how it ends. The program decides what complete() does, with a handler or without.
class OwnResult final : public ACE_POSIX_Asynch_Result {
 public:
  struct Seen {
    int completed = 0;
    int deleted = 0;
    std::size_t bytes = 0;
    u_long error = 0;
  };
  OwnResult(const ACE_Handler::Proxy_Ptr& handler, Seen& seen)
      : ACE_POSIX_Asynch_Result(handler, nullptr, ACE_INVALID_HANDLE, 0, 0, 0, ACE_SIGRTMIN),
        seen_(seen) {}
  ~OwnResult() override { ++seen_.deleted; }
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
    auto* const result = new OwnResult(handler, seen_);
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
    ASSERT_EQ(0, implementation().post_completion(new OwnResult(handler, seen_)));
    ASSERT_TRUE(drive([&] { return seen_.deleted == 4; }));
    EXPECT_EQ(4, seen_.completed);
  }

  const SocketPair pair_;
  OwnResult::Seen seen_;
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

}  // namespace
}  // namespace baton::ace::test
