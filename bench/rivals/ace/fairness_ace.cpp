// The fairness scenario on ACE's reactors: select (one thread, it can have no more), tp or
// dev_poll.
//
//   fairness_ace --reactor select|tp|dev_poll --connections N --threads M --seconds T
#include <ace/Dev_Poll_Reactor.h>
#include <ace/Event_Handler.h>
#include <ace/Reactor.h>
#include <ace/Select_Reactor.h>
#include <ace/TP_Reactor.h>
#include <ace/Thread.h>

#include <memory>

#include "arena.hpp"
#include "write_out.hpp"

namespace {

class Reader final : public ACE_Event_Handler {
 public:
  Reader(int fd, std::size_t chunk, fairness::Counter& counter)
      : fd_(fd), chunk_(chunk), counter_(counter) {}
  ACE_HANDLE get_handle() const override { return fd_; }
  int handle_input(ACE_HANDLE) override {
    return fairness::read_chunk(fd_, chunk_, counter_) ? 0 : -1;
  }

 private:
  int fd_;
  std::size_t chunk_;
  fairness::Counter& counter_;
};

std::unique_ptr<ACE_Reactor_Impl> make(std::string_view kind) {
  if (kind == "select") return std::make_unique<ACE_Select_Reactor>();
  if (kind == "tp") return std::make_unique<ACE_TP_Reactor>();
  if (kind == "dev_poll") return std::make_unique<ACE_Dev_Poll_Reactor>();
  std::fprintf(stderr, "fairness_ace: --reactor select, tp or dev_poll\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  fairness::Options options = fairness::parse(argc, argv);
  std::string kind = "dev_poll";
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--reactor") kind = argv[i + 1];
  }
  if (kind == "select") options.threads = 1;
  fairness::Arena arena(options.connections);
  std::vector<fairness::Counter> counters(options.connections);
  auto implementation = make(kind);
  ACE_Reactor reactor(implementation.get());
  std::vector<std::unique_ptr<Reader>> readers;
  for (std::size_t i = 0; i < options.connections; ++i) {
    readers.push_back(std::make_unique<Reader>(arena.sockets[i], options.chunk, counters[i]));
    if (reactor.register_handler(readers.back().get(), ACE_Event_Handler::READ_MASK) != 0) {
      fairness::die("register_handler");
    }
  }
  const std::string name = "ace_" + kind;
  fairness::run(
      name.c_str(), options, arena, counters,
      [&](std::size_t) {
        if (kind == "select") reactor.owner(ACE_Thread::self());
        reactor.run_reactor_event_loop();
      },
      [&] { reactor.end_reactor_event_loop(); });
  baton::bench::write_out();
  std::_Exit(0);  // its destructors would call handlers that are gone
}
