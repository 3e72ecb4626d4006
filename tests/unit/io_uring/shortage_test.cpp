// Accepts without descriptors: how long they pause.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <vector>

#include "../../support/patience.hpp"
#include "driver.hpp"

namespace baton::test {
namespace {

class Shortage : public testing::TestWithParam<Form> {
 protected:
  static constexpr rlim_t descriptors = 256;

  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{descriptors, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  void TearDown() override {
    for (const int fd : fill_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  void use_up(int some) {
    for (int fd = ::dup(some); fd >= 0; fd = ::dup(some)) fill_.push_back(fd);
  }
  void give_one_back() {
    ::close(fill_.back());
    fill_.pop_back();
  }

  Driver driver{GetParam()};

 private:
  rlimit before_{};
  std::vector<int> fill_;
};

INSTANTIATE_TEST_SUITE_P(forms, Shortage, testing::Values(Form::any, Form::single, Form::pinned),
                         form_name);

// The other accepts of the listener kept the long pauses, so that a server with one of many
// descriptors free looked at its listener once a second.
TEST_P(Shortage, a_connection_ends_the_long_pauses_of_all_accepts) {
  Endpoint address;
  Handle* const acceptor = driver.adopt(listener(address), HandleKind::listener);
  std::array<int, 20> clients{};
  for (int& client : clients) {
    client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(client, static_cast<sockaddr*>(address.data()), address.size()), 0);
  }
  use_up(clients.front());
  std::array<Operation, 2> accepts;
  for (Operation& accept : accepts) {
    accept.prepare(OperationKind::accept, acceptor);
    driver.start(accept);
  }
  const auto backoffs = [&] { return driver.engine().counters().accept_backoffs; };
  const Deadline limit = at_last();
  while (backoffs() < 7 && is_ahead(limit)) {
    driver.wait_once(Deadline::after(std::chrono::milliseconds{50}));
  }
  ASSERT_EQ(backoffs(), 7U) << "the next pause takes more than half a second";

  give_one_back();
  const auto done = [&] { return driver.is_done(accepts[0]) || driver.is_done(accepts[1]); };
  while (!(done() && backoffs() == 8) && is_ahead(limit)) {
    driver.wait_once(Deadline::after(std::chrono::milliseconds{50}));
  }
  ASSERT_EQ(backoffs(), 8U);
  EXPECT_LE(driver.engine().due(), Deadline::after(std::chrono::milliseconds{100}));

  Operation& left = driver.is_done(accepts[0]) ? accepts[1] : accepts[0];
  Operation& taken = driver.is_done(accepts[0]) ? accepts[0] : accepts[1];
  EXPECT_FALSE(taken.failed());
  ::close(taken.accepted());
  ASSERT_TRUE(driver.run_until(left));
  ::close(left.accepted());
  for (const int client : clients) ::close(client);
}

}  // namespace
}  // namespace baton::test
