#include "support.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace baton::ace::test {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    ++count;
  }
  return count;
}

int bound_to_loopback(int type, ACE_INET_Addr& where) {
  const int fildes = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(0, ::bind(fildes, reinterpret_cast<sockaddr*>(&address), size));
  EXPECT_EQ(0, ::getsockname(fildes, reinterpret_cast<sockaddr*>(&address), &size));
  where.set(&address, sizeof(address));
  return fildes;
}

int listen_on_loopback(ACE_INET_Addr& where) {
  const int fildes = bound_to_loopback(SOCK_STREAM, where);
  EXPECT_EQ(0, ::listen(fildes, 1'024));
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

bool on_stock() {
  const char* const word = std::getenv("BATON_TEST_ACE");
  return word != nullptr && std::string_view{word} == "stock";
}

AceTest::AceTest(Config config)
    : bridge_(on_stock() ? nullptr
                         : std::make_unique<Proactor>(Config::from_environment(std::move(config)),
                                                      Options::from_environment().value())),
      ace_(on_stock() ? std::make_unique<ACE_Proactor>()
                      : std::make_unique<ACE_Proactor>(bridge_.get(), false, &timers_)) {
  if (on_stock()) std::cout << "on ACE's own proactor" << std::endl;
}

Proactor& AceTest::bridge() {
  if (bridge_ == nullptr) throw std::logic_error("only Baton's proactor has this");
  return *bridge_;
}

AceTest::~AceTest() {
  end();
  destroy();
}

void AceTest::destroy() {
  ace_.reset();
  bridge_.reset();
}

void AceTest::run(unsigned threads) {
  if (bridge_ != nullptr &&
      bridge_->native().config().processors.front().mode == Mode::per_thread) {
    threads = bridge_->native().lanes();
  }
  ACE_Proactor* const proactor = ace_.get();
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this, proactor] {
      std::optional<Attachment> attached;
      if (bridge_ != nullptr) attached.emplace(*bridge_);
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
