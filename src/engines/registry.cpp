// The only list of built-in engines. A new one adds its line here and its folder to
// src/CMakeLists.txt; no other file names it. src/config/registry.cpp appends the engines that
// programs add.
#include "engines/registry.hpp"

#include <utility>

#include "engines/chaos/engine.hpp"
#include "engines/debug/engine.hpp"
#include "engines/emulated/engine.hpp"
#include "engines/io_uring/engine.hpp"
#include "engines/linux_aio/engine.hpp"
#include "engines/posix_aio/engine.hpp"
#include "engines/simulated/engine.hpp"

namespace baton::engines {

std::vector<RegistryEntry<EngineFactory>> builtin() {
  return {
      {.name = "emulated",
       .factory = open_emulated,
       .reason = "as fast as io_uring for streams, less CPU for short messages, allowed "
                 "everywhere",
       .waits_by_strategy = true},
      {.name = "io_uring",
       .factory = open_io_uring,
       .reason = "one system call for many operations, and files without workers; newer kernels "
                 "only, and often forbidden in containers"},
      {.name = "linux_aio",
       .factory = open_linux_aio,
       .reason = "files only, where io_uring is forbidden; files opened with O_DIRECT need no "
                 "workers, others do, as in emulated",
       .files_only = true},
      {.name = "posix_aio",
       .factory = open_posix_aio,
       .reason = "regular files only, on threads of the C library; for a processor of files, if "
                 "neither of the others is wanted",
       .files_only = true,
       .variants = "notify=suspend notify=sigwait notify=callback"},
      {.name = "simulated",
       .factory = open_simulated,
       .reason = "the engine of a simulated machine, for tests under faults; it opens nowhere "
                 "else"},
      {.name = "chaos",
       .factory = open_chaos,
       .reason = "injects faults, drawn from a seed, into another engine (inner=): for tests of "
                 "programs",
       .only_by_name = true},
  };
}

std::unique_ptr<Engine> watched(std::unique_ptr<Engine> engine, const EngineOptions& options) {
  return open_debug(std::move(engine), options);
}

}  // namespace baton::engines
