// The cost of a message in a program written for ACE's Proactor on the bridge: an echo in
// lock-step (lock_step.hpp), as bench/rivals/ace/proactor.cpp has it.
//
//   ace_lock_step --sessions N --block B --rounds R
//
// BATON=engine=...,mode=... chooses the rest. The thread is attached (per_thread mode), as
// libbaton-ace-preload attaches the threads of an event loop.
#include "lock_step.hpp"

#include <ace/Asynch_IO.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>

#include <memory>
#include <vector>

#include "baton/ace/attachment.hpp"
#include "baton/ace/proactor.hpp"
#include "baton/ace/timer_queue.hpp"

namespace {

class Session final : public ACE_Handler {
 public:
  Session(ACE_Proactor& with, int fd, lock_step::Peers& peers)
      : ACE_Handler(&with), peers_(peers), block_(peers.block()) {
    if (reader_.open(*this, fd, nullptr, &with) != 0) std::abort();
    if (writer_.open(*this, fd, nullptr, &with) != 0) std::abort();
    read();
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    if (!result.success() || result.bytes_transferred() == 0) return;
    if (writer_.write(block_, block_.length()) != 0) std::abort();
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    if (!result.success()) return;
    peers_.answered();
    read();
  }

 private:
  void read() {
    block_.reset();
    if (reader_.read(block_, block_.space()) != 0) std::abort();
  }

  lock_step::Peers& peers_;
  ACE_Message_Block block_;
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
};

}  // namespace

int main(int argc, char** argv) {
  lock_step::Peers peers(argc, argv);
  baton::ace::TimerQueue timers;
  baton::ace::Proactor bridge;
  ACE_Proactor proactor(&bridge, false, &timers);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const int fd : peers.sessions()) {
    sessions.push_back(std::make_unique<Session>(proactor, fd, peers));
  }
  const baton::ace::Attachment attached{bridge};
  peers.begin();
  return proactor.proactor_run_event_loop();
}
