// The end by signal, of the servers on libuv.
#pragma once

#include <signal.h>
#include <uv.h>

namespace rival {

/// SIGTERM and SIGINT stop the loop.
class Ending {
 public:
  explicit Ending(uv_loop_t* loop) {
    const int ending[2] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; ++i) {
      uv_signal_init(loop, &signals_[i]);
      uv_signal_start(&signals_[i], [](uv_signal_t* one, int) { uv_stop(one->loop); }, ending[i]);
    }
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  uv_signal_t signals_[2];
};

}  // namespace rival
