// Checks a part that this program defines: main PART [pairwise] [RULE...], see check_kit.py.
#include <baton/testing/conformance.hpp>
#include <string_view>

#include "file_threads.hpp"
#include "oneshot_epoll.hpp"
#include "wake_pipe.hpp"
#include "wrapping_engine.hpp"

int main(int argc, char** argv) {
  baton::testing::ConformanceOptions options;
  const std::string_view engine = argc > 1 ? argv[1] : "";
  if (engine == "wrapping") {
    options.engines.push_back(
        {.name = "wrapping", .factory = wrapping_engine("wrapping", Fault::none)});
  } else if (engine == "broken") {
    options.engines.push_back(
        {.name = "broken", .factory = wrapping_engine("broken", Fault::end_is_an_error)});
  } else if (engine == "dying") {
    options.engines.push_back(
        {.name = "dying", .factory = wrapping_engine("dying", Fault::dies_in_shutdown)});
  } else if (engine == "sockets") {
    options.engines.push_back({.name = "sockets",
                               .factory = wrapping_engine("sockets", Fault::takes_no_files),
                               .sockets_only = true});
  } else if (engine == "file_threads") {
    options.engines.push_back({.name = own_parts::file_threads_name,
                               .factory = own_parts::open_file_threads,
                               .files_only = true});
  } else if (engine == "oneshot_epoll") {
    options.wait_strategies.push_back(
        {.name = own_parts::oneshot_epoll_name, .factory = own_parts::open_oneshot_epoll});
  } else if (engine == "wake_pipe") {
    options.interrupt_strategies.push_back({.name = "wake_pipe", .factory = open_wake_pipe});
  } else {
    options.engines.push_back({.name = std::string{engine}});
  }
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "pairwise") {
      options.pairwise = true;
    } else {
      options.rules.emplace_back(word);
    }
  }
  return baton::testing::run_conformance(options);
}
