// ACE's objects and Baton's in one process and one event loop, so that a program can move piece by
// piece: an echo by an ACE handler, and one by a coroutine.
//
//   ace_both [PORT]      prints "listening PORT" (ACE's) and "listening PORT" (Baton's)

#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_IO.h>
#include <ace/INET_Addr.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <ace/SOCK_Stream.h>
#include <unistd.h>

#include <array>
#include <baton/ace/proactor.hpp>
#include <baton/ace/timer_queue.hpp>
#include <baton/baton.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "command_line.hpp"

// -- as the program was ---------------------------------------------------------------------------

class Session : public ACE_Service_Handler {
 public:
  ~Session() override {
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

// -- the part that has moved ----------------------------------------------------------------------

baton::Task<void> session(baton::StreamSocket peer) {
  std::array<std::byte, 4'096> buffer;
  for (;;) {
    auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    if (auto sent = co_await peer.write_all({buffer.data(), *received}); !sent) co_return;
  }
}

baton::Task<void> serve(baton::Acceptor acceptor) {
  while (auto peer = co_await acceptor.accept()) {
    acceptor.proactor().spawn(session(std::move(*peer)));
  }
}

int main(int argc, char** argv) try {
  const auto port = examples::port_or_exit(argc, argv);
  baton::ace::TimerQueue timers;
  auto* const implementation = new baton::ace::Proactor;
  ACE_Proactor proactor(implementation, true, &timers);

  ACE_Asynch_Acceptor<Session> old;
  auto moved = baton::Acceptor::listen(implementation->native(), baton::Endpoint::loopback(0));
  if (!moved || old.open(ACE_INET_Addr(port, INADDR_LOOPBACK), 0, false, 128, 1, &proactor) != 0) {
    std::fprintf(stderr, "cannot listen\n");
    return 1;
  }
  ACE_INET_Addr bound;
  ACE_SOCK_Stream(old.get_handle()).get_local_addr(bound);
  std::printf("listening %u\nlistening %u\n", bound.get_port_number(),
              moved->local_endpoint().value().port());
  if (!examples::flush_output()) return 1;
  implementation->native().spawn(serve(std::move(*moved)));
  return proactor.proactor_run_event_loop();  // both
} catch (const std::exception& error) {
  return examples::failed(error);
}
