// Sends one message through a pair of sockets, with ACE's objects on Baton's engine.
#include <ace/Asynch_IO.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <sys/socket.h>

#include <baton/ace/proactor.hpp>

struct Reader : ACE_Handler {
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    bytes = result.bytes_transferred();
  }
  std::size_t bytes = 0;
};

// With an argument it hands in nothing, for baton-ace to replace.
int main(int argc, char**) {
  ACE_Proactor proactor(argc == 1 ? new baton::ace::Proactor : nullptr, true);
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) return 1;
  Reader reader;
  ACE_Asynch_Read_Stream stream;
  ACE_Message_Block block(10);
  if (stream.open(reader, both[0], nullptr, &proactor) != 0) return 1;
  if (stream.read(block, 10) != 0 || ::send(both[1], "hello", 5, 0) != 5) return 1;
  while (reader.bytes == 0) {
    ACE_Time_Value wait(20);
    if (proactor.handle_events(wait) != 1) return 1;
  }
  return reader.bytes == 5 ? 0 : 1;
}
