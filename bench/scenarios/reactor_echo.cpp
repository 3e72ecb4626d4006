// The echo on Baton's thread-pool Reactor: the papers' reactor test (000 section 13, P-37), held
// against `baton echo`, which is the same on the Proactor. Written as its users would: a handler a
// connection, which reads a block and sends it back; what the socket does not take at once goes
// when there is room, and nothing is read meanwhile.
//
//   reactor_echo [--wait NAME] [--port P] [--block B] [--threads T] [--delay-us D]
//                [--random-us R] [--slow-us S]
//
// The interface to the load is that of the rivals (rivals/rival.hpp).
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "baton/reactor.hpp"
#include "rivals/rival.hpp"
#include "scenario.hpp"

namespace {

using baton::Interest;
using baton::NativeHandle;
using baton::Next;

std::atomic<unsigned long long> messages{0};

struct Shared {
  baton::Reactor& reactor;
  std::size_t block;
  handler_work::Plan plan;
};

class Session final : public baton::EventHandler {
 public:
  explicit Session(Shared& shared)
      : shared_(shared), buffer_(shared.block), work_(shared.plan.next()) {}

  /// The key is stored before the first call: so it is added with no interest.
  std::error_code start(baton::RegistrationKey key) {
    key_ = key;
    return shared_.reactor.change(key_, watched_);
  }

  Next on_input(NativeHandle fd) override {
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Next::keep;
    if (got <= 0) return Next::remove;
    work_();
    ++count_;
    rest_ = std::span{buffer_}.first(static_cast<std::size_t>(got));
    return send(fd);
  }
  Next on_output(NativeHandle fd) override { return send(fd); }
  void on_close(NativeHandle fd, std::error_code) noexcept override {
    messages.fetch_add(count_, std::memory_order_relaxed);
    ::close(fd);
  }

 private:
  Next send(NativeHandle fd) {
    const ssize_t sent = ::send(fd, rest_.data(), rest_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return Next::remove;
    if (sent > 0) rest_ = rest_.subspan(static_cast<std::size_t>(sent));
    const Interest wanted = rest_.empty() ? Interest::in : Interest::out;
    if (wanted == watched_) return Next::keep;
    watched_ = wanted;
    return shared_.reactor.change(key_, wanted) ? Next::remove : Next::keep;
  }

  Shared& shared_;
  std::vector<char> buffer_;
  handler_work::Work work_;
  std::span<const char> rest_;  // of the block that is sent back
  baton::RegistrationKey key_;
  Interest watched_ = Interest::in;
  unsigned long long count_ = 0;
};

Next accept_one(Shared& shared, NativeHandle listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return Next::keep;
  rival::no_delay(fd);
  auto session = std::make_shared<Session>(shared);
  const auto key = shared.reactor.add(fd, Interest::none, session);
  if (!key) {
    ::close(fd);  // select's set is full
  } else if (session->start(*key)) {
    static_cast<void>(shared.reactor.remove(*key));
  }
  return Next::keep;
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  const sigset_t ending = rival::block_ending_signals();
  baton::ReactorConfig config;
  config.wait = baton::bench::option(argc, argv, "--wait", "auto");
  auto reactor = baton::Reactor::open(config);
  if (!reactor) {
    std::fprintf(stderr, "reactor_echo: %s\n", reactor.error().reason.c_str());
    return 1;
  }
  Shared shared{**reactor, lock_step::number(argc, argv, "--block", 512), {}};
  shared.plan.set(rival::work_of(argc, argv));
  const int listener = rival::listen_on(lock_step::number(argc, argv, "--port", 0));
  if (!(*reactor)->add(listener, Interest::in,
                       [&shared](NativeHandle fd, Interest) { return accept_one(shared, fd); })) {
    rival::die("add");
  }
  std::vector<std::thread> threads;
  for (unsigned long i = 0; i < lock_step::number(argc, argv, "--threads", 1); ++i) {
    threads.emplace_back([&] { static_cast<void>((*reactor)->run()); });
  }
  int signal = 0;
  sigwait(&ending, &signal);
  (*reactor)->end();
  for (auto& thread : threads) thread.join();
  reactor->reset();  // the sessions report their counts
  rival::print_statistics("baton_reactor", messages.load());
  ::close(listener);
}
