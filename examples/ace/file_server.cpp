// A small file server by ACE's transmit-file: a client sends the name of a file in the folder, and
// a newline; the answer is "SIZE\n" and the file, or "-1\n", and then the end of the connection.
//
//   ace_file_server PORT FOLDER     prints "listening PORT"; then: echo name | nc 127.0.0.1 PORT

#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_IO.h>
#include <ace/INET_Addr.h>
#include <ace/Message_Block.h>
#include <ace/Proactor.h>
#include <ace/SOCK_Stream.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <baton/ace/proactor.hpp>
#include <baton/ace/timer_queue.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "command_line.hpp"

namespace {

std::string folder;

/// A regular file of the folder, and its size; -1: there is none of that name.
int open_file(const std::string& name, off_t& size) {
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) return -1;
  const int file = ::open((folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status{};
  if (file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    size = status.st_size;
    return file;
  }
  if (file >= 0) ::close(file);
  return -1;
}

class Session : public ACE_Service_Handler {
 public:
  ~Session() override {
    if (file_ >= 0) ::close(file_);
    if (handle() != ACE_INVALID_HANDLE) ::close(handle());
  }
  void open(ACE_HANDLE handle, ACE_Message_Block&) override {
    const bool opened = reader_.open(*this, handle, nullptr, proactor()) == 0 &&
                        writer_.open(*this, handle, nullptr, proactor()) == 0 &&
                        sender_.open(*this, handle, nullptr, proactor()) == 0;
    if (!opened || reader_.read(request_, request_.space()) != 0) delete this;
  }

  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    if (!result.success() || result.bytes_transferred() == 0) return void(delete this);
    const std::string text(request_.rd_ptr(), request_.length());
    const std::size_t end = text.find('\n');
    const bool begun = end != std::string::npos ? answer(text.substr(0, end))
                                                : reader_.read(request_, request_.space()) == 0;
    if (!begun) delete this;  // it does not fit, or the system refuses
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result&) override { delete this; }
  void handle_transmit_file(const ACE_Asynch_Transmit_File::Result& result) override {
    if (!result.success()) {
      std::fprintf(stderr, "not sent whole: error %lu\n",
                   static_cast<unsigned long>(result.error()));
    }
    delete this;
  }

 private:
  bool answer(const std::string& name) {
    off_t size = -1;
    file_ = open_file(name, size);
    const std::string head = std::to_string(size) + "\n";
    head_.copy(head.data(), head.size());
    if (file_ < 0) return writer_.write(head_, head_.length()) == 0;
    ends_.header_and_trailer(&head_, head_.length(), nullptr, 0);
    return sender_.transmit_file(file_, &ends_, static_cast<size_t>(size)) == 0;
  }

  int file_ = -1;
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
  ACE_Asynch_Transmit_File sender_;
  ACE_Asynch_Transmit_File::Header_And_Trailer ends_;
  ACE_Message_Block request_{256};
  ACE_Message_Block head_{32};
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ace_file_server PORT FOLDER\n");
    return 2;
  }
  const std::uint16_t port = examples::port_or_exit(argc, argv, 2);
  folder = argv[2];
  baton::ace::TimerQueue timers;
  ACE_Proactor proactor(new baton::ace::Proactor, true, &timers);
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
