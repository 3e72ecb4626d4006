// Connections broken by a firewall or an administrator: nft drop and reset, ss -K.
#include <netinet/in.h>

#include "machine.hpp"

namespace baton::machine {
namespace {

using namespace std::chrono_literals;
using conformance::Fd;
using conformance::Probe;

class Connections : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    if (IsSkipped()) return;
    if (!has("nft") || shell("nft add table inet baton") != 0) {
      GTEST_SKIP() << "nft is not here, or the kernel has no nftables";
    }
    ASSERT_EQ(shell("nft 'add chain inet baton input "
                    "{ type filter hook input priority 0; policy accept; }'"),
              0);
    no_rules();  // those of the test before may be for the port that this one gets
    listening_ = conformance::listener(endpoint);
  }
  /// For packets to the listener's port, or from it.
  void rule(const std::string& direction, const std::string& verdict) const {
    ASSERT_EQ(shell("nft 'add rule inet baton input tcp " + direction + " " + port() + " " +
                    verdict + "'"),
              0);
  }
  static void no_rules() { ASSERT_EQ(shell("nft flush chain inet baton input"), 0); }
  [[nodiscard]] std::string port() const { return std::to_string(endpoint.port()); }

  struct Connected {
    Handle* handle;
    Fd peer;
  };
  /// Our end connects to the listener.
  Connected connected() {
    Fd ours = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool done =
        ::connect(ours.get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()) == 0;
    EXPECT_TRUE(done) << errno;
    Fd peer = done ? ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC) : -1;
    return {adopt(ours), std::move(peer)};
  }
  Probe& connecting() {
    Fd fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Probe& probe = plain(OperationKind::connect, adopt(fd));
    probe.set_endpoint(&endpoint);
    return probe;
  }
  Endpoint endpoint = Endpoint::loopback(0);

 private:
  Fd listening_;
};
BATON_CONFORMANCE_SOCKET_SUITE(Connections);

TEST_P(Connections, a_firewall_that_drops_is_met_by_the_deadline) {
  rule("dport", "drop");
  Probe& late = connecting();
  late.set_deadline(Deadline::after(20ms));
  Probe& cancelled = connecting();
  start(late);
  start(cancelled);
  finish(late);
  EXPECT_EQ(late.error(), errc::timed_out);
  proactor().cancel(cancelled);
  finish(cancelled);
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  no_rules();
  Probe& connect = connecting();
  finish(connect);
  EXPECT_FALSE(connect.failed()) << connect.error().message();
}

TEST_P(Connections, a_firewall_that_rejects_is_a_refusal) {
  rule("dport", "reject with tcp reset");
  Probe& connect = connecting();
  finish(connect);
  EXPECT_EQ(connect.error(), std::errc::connection_refused);
}

TEST_P(Connections, dropped_readiness_is_reported_when_it_is_wanted) {
  Connected one = connected();
  std::string& into = memory(5);
  Probe& read = reading(one.handle, into, Operation::exactly);
  start(read);
  rule("sport", "drop");
  conformance::send_all(one.peer.get(), "later");
  run_for(5ms);
  EXPECT_FALSE(read.done());
  no_rules();
  finish(read);
  EXPECT_EQ(into, "later");
}

TEST_P(Connections, a_reset_by_a_firewall_ends_pending_operations_once) {
  Connected one = connected();
  Probe& read = reading(one.handle, memory(8));
  start(read);
  rule("dport", "reject with tcp reset");
  // The rule answers our bytes with a reset.
  std::string& text = memory("data");
  Probe& write = writing(one.handle, text);
  finish(write);
  finish(read);
  EXPECT_EQ(read.error(), std::errc::connection_reset) << read.error().message();
  // The handle stays valid: each further operation has its own outcome.
  Probe& after = reading(one.handle, memory(8));
  finish(after);
  EXPECT_TRUE(after.failed() || after.bytes() == 0);
  finish_close(one.handle);
}

TEST_P(Connections, killed_by_an_administrator) {
  if (!has("ss")) GTEST_SKIP() << "ss is not here";
  Connected one = connected();
  Probe& read = reading(one.handle, memory(8));
  start(read);
  if (shell("ss -K state established dport = :" + port() + " | grep -q " + port()) != 0) {
    proactor().cancel(read);
    finish(read);
    GTEST_SKIP() << "the kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)";
  }
  finish(read);
  EXPECT_EQ(read.error(), std::errc::connection_aborted) << read.error().message();
  finish_close(one.handle);
}

}  // namespace
}  // namespace baton::machine
