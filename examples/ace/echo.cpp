// An echo server written for ACE's Proactor. Baton runs it in three ways:
//
//   ace_echo_linked [PORT]                                       linked: one line names Baton
//   baton-ace ace_echo [PORT]                                    by the command
//   LD_PRELOAD=$(baton-ace --library) ace_echo [PORT]            preloaded
//
// Each prints "listening PORT"; then try: nc 127.0.0.1 PORT. Both programs are this file. ace_echo
// does not know Baton, and on its own it runs on ACE's own Proactor.

#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_IO.h>
#include <ace/INET_Addr.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <ace/SOCK_Stream.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "command_line.hpp"

#ifdef WITH_BATON
#include <baton/ace/proactor.hpp>
#include <baton/ace/timer_queue.hpp>
#endif

/// Reads a block, writes it back, reads the next one.
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
    if (!result.success()) return void(delete this);
    // ACE's own may write a part; Baton's writes are complete when everything is written.
    const bool rest = block_.length() > 0;
    if (rest ? writer_.write(block_, block_.length()) != 0 : !read()) delete this;
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

int main(int argc, char** argv) try {
  const auto port = examples::port_or_exit(argc, argv);
#ifdef WITH_BATON
  baton::ace::TimerQueue timers;  // without the race of ACE's own
  ACE_Proactor proactor(new baton::ace::Proactor, true, &timers);
#else
  ACE_Proactor proactor;
#endif
  ACE_Asynch_Acceptor<Session> acceptor;
  if (acceptor.open(ACE_INET_Addr(port, INADDR_LOOPBACK), 0, false, 128, 1, &proactor) != 0) {
    std::perror("cannot listen");
    return 1;
  }
  ACE_INET_Addr bound;
  ACE_SOCK_Stream(acceptor.get_handle()).get_local_addr(bound);
  std::printf("listening %u\n", bound.get_port_number());
  if (!examples::flush_output()) return 1;
  return proactor.proactor_run_event_loop();
} catch (const std::exception& error) {
  return examples::failed(error);
}
