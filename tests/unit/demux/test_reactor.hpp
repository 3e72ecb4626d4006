// A Reactor in 200 lines: a second client of the Demultiplexer, without operations and engines. It
// shows that the parts of src/demux that the emulated engine needs are enough for a reactor.
//
// One thread dispatches; add, remove and wake may be called by any thread, and by handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "demux/demultiplexer.hpp"

namespace baton::test {

class TestReactor {
 public:
  /// Called with the ready directions; a hint. Called without a lock. Level-triggered for the
  /// handler, whatever the strategy: as long as it does not use the readiness up, it is called
  /// again.
  using Handler = std::function<void(Interest ready)>;

  struct Registration {
    std::uint32_t index = 0;
    std::uint32_t serial = 0;
  };

  TestReactor(const demux::Options& options, std::uint32_t handlers_max);
  ~TestReactor();
  TestReactor(const TestReactor&) = delete;
  TestReactor& operator=(const TestReactor&) = delete;

  Result<Registration> add(NativeHandle fd, Interest interest, Handler handler);
  /// After return no new call of the handler begins; one that runs in another thread may still run.
  /// False if the registration is gone already.
  bool remove(Registration registration);
  void wake() { demux_->interrupt(); }

  /// Waits, then calls handlers; how many. Returns with 0 when woken.
  std::size_t dispatch(Deadline deadline);

 private:
  struct Slot {
    std::uint32_t serial = 1;
    Interest interest = Interest::none;
    std::shared_ptr<Handler> handler;  // null: free
  };

  void collect(Deadline deadline);
  std::shared_ptr<Handler> take(std::uint32_t index, Interest& ready, std::uint32_t& serial);
  void watch_again(std::uint32_t index, std::uint32_t serial, Interest ready);

  std::unique_ptr<demux::Demultiplexer> demux_;

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Report> again_;  // may still be ready, without a further report

  std::vector<Report> batch_;  // used by the dispatching thread only
};

}  // namespace baton::test
