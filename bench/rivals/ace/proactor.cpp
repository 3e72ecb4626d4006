// The echo on ACE's POSIX Proactor, as its examples write it: a service handler a connection, one
// operation of each on its way, several threads in the event loop. Underneath are the system's
// aio_read and aio_write, whose threads serve some twenty descriptors that wait: with more sessions
// some get no answer, which the load reports. Completions come by real-time signals; ACE's variant
// by aio_suspend does not see requests that another thread starts while it waits. Connections are
// accepted by a thread of their own, as ACE's own acceptor does it on POSIX.
//
//   ace_proactor [--port P] [--block B] [--threads T] [--delay-us D] [--random-us R] [--slow-us S]
#include <ace/Asynch_IO.h>
#include <ace/Message_Block.h>
#include <ace/POSIX_Proactor.h>
#include <ace/Proactor.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "rivals/rival.hpp"

namespace {

std::atomic<unsigned long long> messages{0};
std::size_t block = 512;
handler_work::Plan plan;

class Session : public ACE_Service_Handler {
 public:
  explicit Session(int fd) : fd_(fd), buffer_(block) {}
  ~Session() override {
    messages.fetch_add(count_, std::memory_order_relaxed);
    ::close(fd_);
  }

  void open(ACE_HANDLE handle, ACE_Message_Block&) override {
    const bool opened = reader_.open(*this, handle, nullptr, proactor()) == 0 &&
                        writer_.open(*this, handle, nullptr, proactor()) == 0;
    if (!opened || !read()) delete this;
  }

  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    if (!result.success() || result.bytes_transferred() == 0) return void(delete this);
    work_();
    ++count_;
    if (writer_.write(buffer_, buffer_.length()) != 0) delete this;
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    if (!result.success()) return void(delete this);
    const bool rest = buffer_.length() > 0;
    const bool begun = rest ? writer_.write(buffer_, buffer_.length()) == 0 : read();
    if (!begun) delete this;
  }

 private:
  bool read() {
    buffer_.reset();
    return reader_.read(buffer_, buffer_.space()) == 0;
  }

  int fd_;
  ACE_Message_Block buffer_;
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
  handler_work::Work work_ = plan.next();
  unsigned long long count_ = 0;
};

void accept_all(int listener, ACE_Proactor& proactor) {
  ::fcntl(listener, F_SETFL, 0);  // it may wait
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    rival::no_delay(fd);
    auto* const session = new Session(fd);
    session->proactor(&proactor);
    ACE_Message_Block nothing;
    session->open(fd, nothing);
  }
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  const sigset_t ending = rival::block_ending_signals();
  block = lock_step::number(argc, argv, "--block", 512);
  plan.set(rival::work_of(argc, argv));
  ACE_Proactor proactor(new ACE_POSIX_SIG_Proactor, true);
  std::thread(accept_all, rival::listen_on(lock_step::number(argc, argv, "--port", 0)),
              std::ref(proactor))
      .detach();
  for (unsigned long i = 0; i < lock_step::number(argc, argv, "--threads", 1); ++i) {
    std::thread([&proactor] { proactor.proactor_run_event_loop(); }).detach();
  }
  int signal = 0;
  sigwait(&ending, &signal);
  rival::print_statistics("ace_proactor", messages.load());
  std::_Exit(0);  // sessions and threads that are still there are the system's to end
}
