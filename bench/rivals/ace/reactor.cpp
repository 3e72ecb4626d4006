// The echo on ACE's reactors, as its examples write it: an event handler a connection, several
// threads in the event loop. The papers compare their Proactor with the thread-pool reactor.
//
//   ace_reactor --reactor tp|dev_poll [--port P] [--block B] [--threads T] [--delay-us D]
//       [--random-us R] [--slow-us S]
#include <ace/ACE.h>
#include <ace/Dev_Poll_Reactor.h>
#include <ace/Event_Handler.h>
#include <ace/Reactor.h>
#include <ace/TP_Reactor.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "rivals/rival.hpp"

namespace {

std::atomic<unsigned long long> messages{0};
std::size_t block = 512;
handler_work::Plan plan;

class Session : public ACE_Event_Handler {
 public:
  Session(ACE_Reactor* reactor, int fd) : ACE_Event_Handler(reactor), fd_(fd), buffer_(block) {}
  ~Session() override { messages.fetch_add(count_, std::memory_order_relaxed); }

  ACE_HANDLE get_handle() const override { return fd_; }
  int handle_input(ACE_HANDLE) override {
    const ssize_t got = ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) return -1;
    work_();
    ++count_;
    // The peers of this benchmark read their answers: a blocking send ends.
    return ::send(fd_, buffer_.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got ? 0 : -1;
  }
  int handle_close(ACE_HANDLE, ACE_Reactor_Mask) override {
    ::close(fd_);
    delete this;
    return 0;
  }

 private:
  int fd_;
  std::vector<char> buffer_;
  handler_work::Work work_ = plan.next();
  unsigned long long count_ = 0;
};

class Listener : public ACE_Event_Handler {
 public:
  Listener(ACE_Reactor* reactor, int fd) : ACE_Event_Handler(reactor), fd_(fd) {}

  ACE_HANDLE get_handle() const override { return fd_; }
  int handle_input(ACE_HANDLE) override {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return 0;
    rival::no_delay(fd);
    auto session = std::make_unique<Session>(reactor(), fd);
    if (reactor()->register_handler(session.get(), ACE_Event_Handler::READ_MASK) == 0) {
      static_cast<void>(session.release());
    } else {
      ::close(fd);  // select's set is full
    }
    return 0;
  }

 private:
  int fd_;
};

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  const sigset_t ending = rival::block_ending_signals();
  bool dev_poll = false;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--reactor") {
      dev_poll = std::string_view(argv[i + 1]) == "dev_poll";
    }
  }
  block = lock_step::number(argc, argv, "--block", 512);
  plan.set(rival::work_of(argc, argv));
  ACE_Reactor_Impl* implementation = nullptr;
  if (dev_poll) {
    // As many as ACE's own limit of descriptors, which it has read before ours was raised.
    ACE::set_handle_limit(-1, 1);
    implementation = new ACE_Dev_Poll_Reactor(static_cast<size_t>(ACE::max_handles()));
  } else {
    implementation = new ACE_TP_Reactor;
  }
  ACE_Reactor reactor(implementation, true);
  reactor.restart(1);  // else a thread leaves its loop when a tracer interrupts the wait
  Listener listener(&reactor, rival::listen_on(lock_step::number(argc, argv, "--port", 0)));
  if (reactor.register_handler(&listener, ACE_Event_Handler::ACCEPT_MASK) != 0) {
    rival::die("register_handler");
  }
  std::vector<std::thread> threads;
  for (unsigned long i = 0; i < lock_step::number(argc, argv, "--threads", 1); ++i) {
    threads.emplace_back([&reactor] { reactor.run_reactor_event_loop(); });
  }
  int signal = 0;
  sigwait(&ending, &signal);
  reactor.end_reactor_event_loop();
  for (auto& thread : threads) thread.join();
  rival::print_statistics("ace", messages.load());
  std::_Exit(0);  // sessions that are still open are the system's to close
}
