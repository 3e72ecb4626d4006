// The proactor in the loop of ACE's reactor, as on Windows: a program that has both needs one
// thread. Two echo servers: one by ACE's Proactor, one by handlers of the reactor.
//
//   ace_in_reactor [PORT]     prints "listening PORT" twice: the proactor's, then the reactor's

#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_IO.h>
#include <ace/Dev_Poll_Reactor.h>
#include <ace/INET_Addr.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <ace/Reactor.h>
#include <ace/SOCK_Acceptor.h>
#include <ace/SOCK_Stream.h>
#include <unistd.h>

#include <baton/ace/proactor.hpp>
#include <baton/ace/timer_queue.hpp>
#include <cstdio>
#include <exception>

#include "command_line.hpp"

/// The proactor, for the reactor: handle_events, whenever there may be something to dispatch.
class InReactor : public ACE_Event_Handler {
 public:
  explicit InReactor(ACE_Proactor& proactor) : proactor_(proactor) {}
  ACE_HANDLE get_handle() const override { return proactor_.get_handle(); }
  int handle_input(ACE_HANDLE) override {
    for (;;) {
      ACE_Time_Value none{0, 0};
      const int answer = proactor_.handle_events(none);
      if (answer != 1) return answer;
    }
  }

 private:
  ACE_Proactor& proactor_;
};

/// A connection of the proactor's.
class ProactorEcho : public ACE_Service_Handler {
 public:
  ~ProactorEcho() override {
    if (handle() != ACE_INVALID_HANDLE) ::close(handle());
  }
  void open(ACE_HANDLE handle, ACE_Message_Block&) override {
    const bool opened = reader_.open(*this, handle, nullptr, proactor()) == 0 &&
                        writer_.open(*this, handle, nullptr, proactor()) == 0;
    if (!opened || !read()) delete this;
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    const bool over = !result.success() || result.bytes_transferred() == 0;
    if (over || writer_.write(block_, block_.length()) != 0) delete this;
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    if (!result.success() || !read()) delete this;
  }

 private:
  bool read() {
    block_.reset();
    return reader_.read(block_, block_.space()) == 0;
  }
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
  ACE_Message_Block block_{4'096};
};

/// A connection of the reactor's.
class ReactorEcho : public ACE_Event_Handler {
 public:
  ~ReactorEcho() override { stream.close(); }
  ACE_HANDLE get_handle() const override { return stream.get_handle(); }
  int handle_input(ACE_HANDLE) override {
    char buffer[4'096];
    const ssize_t got = stream.recv(buffer, sizeof(buffer));
    if (got <= 0) return -1;
    return stream.send_n(buffer, static_cast<std::size_t>(got)) == got ? 0 : -1;
  }
  int handle_close(ACE_HANDLE, ACE_Reactor_Mask) override {
    delete this;
    return 0;
  }
  ACE_SOCK_Stream stream;
};

class ReactorListener : public ACE_Event_Handler {
 public:
  ACE_HANDLE get_handle() const override { return acceptor.get_handle(); }
  int handle_input(ACE_HANDLE) override {
    auto* const echo = new ReactorEcho;
    if (acceptor.accept(echo->stream) != 0 || reactor()->register_handler(echo, READ_MASK) != 0) {
      delete echo;
    }
    return 0;
  }
  ACE_SOCK_Acceptor acceptor;
};

int main(int argc, char** argv) try {
  const auto port = examples::port_or_exit(argc, argv);
  baton::ace::TimerQueue timers;
  ACE_Proactor proactor(new baton::ace::Proactor, true, &timers);
  ACE_Reactor reactor(new ACE_Dev_Poll_Reactor, true);
  reactor.restart(true);  // io_uring interrupts its wait (EINTR)

  InReactor in_reactor{proactor};
  if (in_reactor.get_handle() == ACE_INVALID_HANDLE) {
    std::fprintf(stderr, "this engine or mode has no descriptor for a reactor\n");
    return 1;
  }
  ACE_Asynch_Acceptor<ProactorEcho> by_proactor;
  ReactorListener by_reactor;
  if (by_proactor.open(ACE_INET_Addr(port, INADDR_LOOPBACK), 0, false, 128, 1, &proactor) != 0 ||
      by_reactor.acceptor.open(ACE_INET_Addr(static_cast<u_short>(0), INADDR_LOOPBACK)) != 0 ||
      reactor.register_handler(&by_reactor, ACE_Event_Handler::READ_MASK) != 0 ||
      reactor.register_handler(&in_reactor, ACE_Event_Handler::READ_MASK) != 0) {
    std::perror("cannot listen");
    return 1;
  }
  ACE_INET_Addr first;
  ACE_INET_Addr second;
  ACE_SOCK_Stream(by_proactor.get_handle()).get_local_addr(first);
  by_reactor.acceptor.get_local_addr(second);
  std::printf("listening %u\nlistening %u\n", first.get_port_number(), second.get_port_number());
  if (!examples::flush_output()) return 1;
  in_reactor.handle_input(ACE_INVALID_HANDLE);  // for what was started before the loop
  return reactor.run_reactor_event_loop();
} catch (const std::exception& error) {
  return examples::failed(error);
}
