#include "support.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

namespace baton::ace::test {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    ++count;
  }
  return count;
}

int listen_on_loopback(ACE_INET_Addr& where) {
  const int fildes = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(0, ::bind(fildes, reinterpret_cast<sockaddr*>(&address), size));
  EXPECT_EQ(0, ::listen(fildes, 1'024));
  EXPECT_EQ(0, ::getsockname(fildes, reinterpret_cast<sockaddr*>(&address), &size));
  where.set(&address, sizeof(address));
  return fildes;
}

SocketPair::SocketPair() {
  int both[2];
  EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both));
  first = both[0];
  second = both[1];
}
SocketPair::~SocketPair() {
  if (first >= 0) ::close(first);
  if (second >= 0) ::close(second);
}

AceTest::AceTest(Config config)
    : bridge_(std::make_unique<Proactor>(Config::from_environment(std::move(config)),
                                         Options::from_environment().value())),
      ace_(std::make_unique<ACE_Proactor>(bridge_.get(), false, &timers_)) {}

AceTest::~AceTest() {
  end();
  destroy();
}

void AceTest::destroy() {
  ace_.reset();
  bridge_.reset();
}

void AceTest::run(unsigned threads) {
  const std::vector<ProcessorConfig>& processors = bridge_->native().config().processors;
  if (processors.front().mode == Mode::per_thread) threads = bridge_->native().lanes();
  ACE_Proactor* const proactor = ace_.get();
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this, proactor] {
      const Attachment attached{*bridge_};
      EXPECT_NE(-1, proactor->proactor_run_event_loop());
    });
  }
}

void AceTest::end() {
  if (threads_.empty()) return;
  EXPECT_EQ(0, ace_->proactor_end_event_loop());
  for (std::thread& each : threads_) each.join();
  threads_.clear();
  ace_->proactor_reset_event_loop();
}

bool AceTest::drive(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    ACE_Time_Value wait{0, 10'000};
    if (ace_->handle_events(wait) == -1) return false;
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

}  // namespace baton::ace::test
