// A full-duplex echo on a proactor, by ACE only: ACE's own implementation hangs in it.
#pragma once

#include <ace/Asynch_IO.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

/// Reads first, and then writes: ACE's own implementation has the write wait behind the read.
class Side : public ACE_Handler {
 public:
  Side(ACE_Proactor* with, int fildes) : ACE_Handler(with) {
    reader_.open(*this, fildes, nullptr, with);
    writer_.open(*this, fildes, nullptr, with);
    reader_.read(in_, in_.space());
  }
  void say(const char* text) {
    out_.copy(text, std::strlen(text));
    writer_.write(out_, out_.length());
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    heard += result.bytes_transferred();
  }
  void handle_time_out(const ACE_Time_Value&, const void*) override { ++timers; }
  std::size_t heard = 0;
  int timers = 0;

 private:
  ACE_Message_Block in_{100};
  ACE_Message_Block out_{100};
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
};

/// 0: both have heard the other, and a timer has fired.
inline int talk(ACE_Proactor& proactor) {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) return 1;
  Side left{&proactor, both[0]};
  Side right{&proactor, both[1]};
  left.say("hello");
  right.say("good day");
  proactor.schedule_timer(left, nullptr, ACE_Time_Value::zero);
  ACE_Time_Value wait{20};
  while (left.heard + right.heard < 13 || left.timers == 0) {
    if (proactor.handle_events(wait) != 1) return 1;
  }
  std::printf("echoed %zu, timers %d\n", left.heard + right.heard, left.timers);
  return ::close(both[0]) | ::close(both[1]);
}
