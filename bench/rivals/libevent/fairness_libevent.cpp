// The fairness scenario on libevent. An event_base belongs to one thread, so each thread has its
// own and the sockets are dealt out among them, which is how libevent is used with several threads.
#include <event2/event.h>
#include <event2/thread.h>

#include <memory>

#include "arena.hpp"
#include "write_out.hpp"

namespace {

struct Reader {
  fairness::Counter* counter;
  std::size_t chunk;
};

void on_readable(int fd, short, void* context) {
  const auto* const reader = static_cast<Reader*>(context);
  static_cast<void>(fairness::read_chunk(fd, reader->chunk, *reader->counter));
}

}  // namespace

int main(int argc, char** argv) {
  const fairness::Options options = fairness::parse(argc, argv);
  ::evthread_use_pthreads();
  fairness::Arena arena(options.connections);
  std::vector<fairness::Counter> counters(options.connections);
  std::vector<event_base*> bases;
  for (std::size_t i = 0; i < options.threads; ++i) bases.push_back(::event_base_new());
  std::vector<Reader> readers(options.connections);
  for (std::size_t i = 0; i < options.connections; ++i) {
    readers[i] = {&counters[i], options.chunk};
    event* const made = ::event_new(bases[i % bases.size()], arena.sockets[i], EV_READ | EV_PERSIST,
                                    on_readable, &readers[i]);
    if (made == nullptr || ::event_add(made, nullptr) != 0) fairness::die("event_add");
  }
  fairness::run(
      "libevent", options, arena, counters,
      [&](std::size_t thread) { ::event_base_dispatch(bases[thread]); },
      [&] {
        for (event_base* const base : bases) ::event_base_loopbreak(base);
      });
  baton::bench::write_out();
}
