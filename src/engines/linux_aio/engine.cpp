// Opens the engine: number of slots, context, a first interrupt as the probe. Explains failures.
//
// Slots are a resource of the whole system: fs.aio-max-nr for all processes together (65536 unless
// an administrator raised it); fs.aio-nr are in use. An engine therefore asks for few.
#include "engines/linux_aio/engine.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include "engines/linux_aio/context.hpp"
#include "engines/linux_aio/linux_aio_engine.hpp"

namespace baton::engines {
namespace {

using linux_aio::Context;
using linux_aio::LinuxAioEngine;

/// More operations than a disk has in flight at once gain nothing.
constexpr std::uint32_t slots_default = 128;
constexpr std::uint32_t slots_max = 4'096;

void explain(const EngineOptions& options, ReasonCode code, std::string_view line) {
  if (options.explain) options.explain(with_code(line, code));
}

void explain_replaced(const EngineOptions& options, const ProcessorConfig& config) {
  if (config.wait != "auto") {
    explain(options, ReasonCode::waits_by_itself,
            "wait: " + config.wait + " -> io_getevents: linux_aio waits by nothing else");
  }
  if (config.interrupt != "auto") {
    explain(options, ReasonCode::waits_by_itself,
            "interrupt: " + config.interrupt +
                " -> io_submit: an operation that is complete at once ends the wait");
  }
}

std::uint32_t slots_for(const EngineOptions& options, const ProcessorConfig& config) {
  std::uint32_t wanted = config.started_max != 0 ? config.started_max : slots_default;
  if (config.operations_max != 0) wanted = std::min(wanted, config.operations_max);
  if (wanted <= slots_max) return wanted;
  explain(options, ReasonCode::limit_kernel,
          "slots: " + std::to_string(wanted) + " -> " + std::to_string(slots_max) +
              ": the rest is deferred, for slots are few in the whole system");
  return slots_max;
}

Failure unavailable(ReasonCode code, std::string reason) {
  return {make_error_code(errc::engine_unavailable), "linux_aio: " + std::move(reason), code};
}

/// The text of a sysctl; "unknown" if /proc is not mounted.
std::string sysctl(const os::System& system, const char* path) {
  char text[32] = {};
  const int file = system.open(path, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return "unknown";
  const ssize_t size = system.read(file, text, sizeof(text) - 1);
  system.close(file);
  const std::string_view found{text, size > 0 ? static_cast<std::size_t>(size) : 0};
  const std::string_view number = found.substr(0, found.find('\n'));
  return number.empty() ? "unknown" : std::string{number};
}

Failure setup_failure(const os::System& system, int error, std::uint32_t slots) {
  switch (error) {
    case EAGAIN:
      return unavailable(ReasonCode::limit_kernel,
                         "the system's slots are used up: fs.aio-max-nr is " +
                             sysctl(system, "/proc/sys/fs/aio-max-nr") + ", " +
                             sysctl(system, "/proc/sys/fs/aio-nr") +
                             " are taken (fs.aio-nr), and " + std::to_string(slots) +
                             " more were asked for; an administrator can raise fs.aio-max-nr with "
                             "`sysctl`, or ask for fewer with started_max");
    case ENOSYS:
      return unavailable(
          ReasonCode::not_in_kernel,
          "the kernel has no native AIO: it was built without CONFIG_AIO (some sandboxes answer "
          "the same)");
    case EPERM:
    case EACCES:
      return unavailable(
          ReasonCode::denied_seccomp,
          "io_setup is not permitted, most likely by a seccomp filter; allow io_setup, io_submit, "
          "io_getevents, io_cancel and io_destroy in its profile, or use another engine");
    case EINVAL:
      return unavailable(
          ReasonCode::kernel_too_old,
          "the kernel's native AIO has no IOCB_CMD_POLL; Linux 4.18 or newer is needed");
    case EMFILE:
    case ENFILE:
      return unavailable(ReasonCode::limit_descriptors,
                         "no descriptor left for the event; raise the limit (`ulimit -n`)");
    case ENOMEM:
      return unavailable(ReasonCode::limit_memory, "no memory for the ring of completions");
    default:
      return unavailable(ReasonCode::system_error, std::system_category().message(error));
  }
}

}  // namespace

Result<std::unique_ptr<Engine>, Failure> open_linux_aio(const EngineOptions& options) {
  const os::System& system = os::or_real(options.system);
  const ProcessorConfig defaults;
  const ProcessorConfig& config = options.config != nullptr ? *options.config : defaults;
  explain_replaced(options, config);
  const std::uint32_t slots = slots_for(options, config);
  try {
    auto context = Context::open(system, slots);
    if (!context) return unexpected{setup_failure(system, context.error(), slots)};
    return std::unique_ptr<Engine>{std::make_unique<LinuxAioEngine>(options, std::move(*context))};
  } catch (const std::bad_alloc&) {
    return unexpected{setup_failure(system, ENOMEM, slots)};
  }
}

}  // namespace baton::engines
