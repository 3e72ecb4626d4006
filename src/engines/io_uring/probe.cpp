// Probes by trying. Versions mislead: distributions backport features, and sandboxes take them
// away. A ring that has run a no-op works.
#include "engines/io_uring/probe.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include <memory>
#include <string>
#include <string_view>

#include "engines/common/look.hpp"
#include "engines/io_uring/request.hpp"
#include "engines/io_uring/ring.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::uint64_t noop_tag = 0x6e6f'6f70;
constexpr Duration patience{1'000'000'000};

struct Needed {
  abi::Opcode opcode;
  std::string_view name;
};
constexpr Needed needed[] = {
    {abi::op_nop, "NOP"},
    {abi::op_readv, "READV"},
    {abi::op_writev, "WRITEV"},
    {abi::op_fsync, "FSYNC"},
    {abi::op_poll_add, "POLL_ADD"},
    {abi::op_sendmsg, "SENDMSG"},
    {abi::op_recvmsg, "RECVMSG"},
    {abi::op_accept, "ACCEPT"},
    {abi::op_async_cancel, "ASYNC_CANCEL"},
    {abi::op_connect, "CONNECT"},
    {abi::op_close, "CLOSE"},
    {abi::op_read, "READ"},
    {abi::op_write, "WRITE"},
    {abi::op_send, "SEND"},
    {abi::op_recv, "RECV"},
};

Failure unavailable(ReasonCode code, std::string reason) {
  return {make_error_code(errc::engine_unavailable), "io_uring: " + std::move(reason), code};
}

/// The value of the sysctl, or 0 (it exists since Linux 6.6).
char disabled_by_sysctl(const os::System& system) {
  const int file = system.open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return '0';
  char value = '0';
  if (system.read(file, &value, 1) != 1) value = '0';
  system.close(file);
  return value;
}

Failure denied(const os::System& system) {
  switch (disabled_by_sysctl(system)) {
    case '2':
      return unavailable(
          ReasonCode::denied_sysctl,
          "switched off for every process: kernel.io_uring_disabled is 2; an administrator can "
          "allow it with `sysctl kernel.io_uring_disabled=0`");
    case '1':
      return unavailable(
          ReasonCode::denied_sysctl,
          "kernel.io_uring_disabled is 1: only members of the group kernel.io_uring_group and "
          "CAP_SYS_ADMIN may use it; join the group, or set the sysctl to 0");
    default:
      return unavailable(
          ReasonCode::denied_seccomp,
          "io_uring_setup is not permitted, most likely by a seccomp filter as container runtimes "
          "install it; allow io_uring_setup, io_uring_enter and io_uring_register in its profile, "
          "or use another engine");
  }
}

Entered run_noop(Ring& ring) noexcept {
  abi::Sqe* const request = ring.claim();
  if (request == nullptr) return Entered::congested;
  request->opcode = abi::op_nop;
  request->user_data = noop_tag;
  ring.publish();
  for (;;) {
    const Entered entered = ring.submit_and_wait(Deadline::never());
    if (entered != Entered::interrupted || ring.has_completions()) return entered;
  }
}

Result<void, Failure> check_noop(const os::System& system, Ring& ring) {
  abi::Cqe completion{};
  if (run_noop(ring) != Entered::done || !ring.pop(completion) ||
      completion.user_data != noop_tag || completion.result != 0) {
    // Setup is allowed and the entry is not: a filter that knows only some of the calls.
    if (errno == EPERM || errno == EACCES || errno == ENOSYS) {
      return unexpected{setup_failure(system, errno)};
    }
    return unexpected{
        unavailable(ReasonCode::probe_failed, "a no-op did not come back from the ring")};
  }
  return {};
}

Result<void, Failure> check_operations(Ring& ring, KernelFacts& facts) {
  abi::Probe table{};
  if (const int error = ring.register_call(abi::register_probe, &table, abi::probe_operations);
      error != 0) {
    // EINVAL: a kernel before 5.6. Other errors: a filter that knows only some of the calls.
    const bool old = error == EINVAL;
    return unexpected{unavailable(old ? ReasonCode::kernel_too_old : ReasonCode::denied_seccomp,
                                  "io_uring_register refuses to tell what the kernel can (" +
                                      std::system_category().message(error) +
                                      "); Linux 5.7 or newer and permission for it are needed")};
  }
  const auto has = [&](abi::Opcode opcode) {
    return opcode < abi::probe_operations &&
           (table.operations[opcode].flags & abi::probe_supported) != 0;
  };
  for (const Needed& one : needed) {
    if (has(one.opcode)) continue;
    return unexpected{unavailable(
        ReasonCode::kernel_too_old,
        "the kernel lacks IORING_OP_" + std::string{one.name} + "; Linux 5.7 or newer is needed")};
  }
  facts.shutdown = has(abi::op_shutdown);
  return {};
}

Result<void, Failure> check_features(const Ring& ring) {
  constexpr std::uint32_t wanted = abi::feature_no_drop | abi::feature_submit_stable |
                                   abi::feature_current_position | abi::feature_fast_poll;
  if ((ring.features() & wanted) == wanted) return {};
  return unexpected{
      unavailable(ReasonCode::kernel_too_old,
                  "the kernel's io_uring is too old: without NODROP and FAST_POLL completions "
                  "could be lost and "
                  "idle sockets would each hold a thread; Linux 5.7 or newer is needed")};
}

// Sends a message to the ring itself, which must arrive. EINVAL, EBADF: the kernel cannot do it.
bool takes_messages(const os::System& system, Ring& ring) noexcept {
  if (Ring::send_message(system, ring.descriptor(), message_tag) != 0) return false;
  static_cast<void>(
      ring.submit_and_wait(Deadline::after(patience, Deadline::at_ns(system.monotonic_ns()))));
  abi::Cqe completion{};
  return ring.pop(completion) && completion.user_data == message_tag && completion.result == 0;
}

Result<std::unique_ptr<Ring>, int> open_small(const os::System& system, bool pinned) {
  return Ring::open(system, {.entries = 2, .completions = 4, .pinned = pinned});
}

}  // namespace

Failure setup_failure(const os::System& system, int error) {
  switch (error) {
    case ENOSYS:
      return unavailable(
          ReasonCode::not_in_kernel,
          "the kernel has no io_uring: Linux 5.7 or newer, built with CONFIG_IO_URING, is needed "
          "(some sandboxes answer the same)");
    case EPERM:
    case EACCES:
      return denied(system);
    case ENOMEM:
      return unavailable(
          ReasonCode::limit_memlock,
          "no memory for the ring: before Linux 5.12 its pages count against RLIMIT_MEMLOCK; raise "
          "it (`ulimit -l`), or make ring_entries smaller");
    case EMFILE:
    case ENFILE:
      return unavailable(ReasonCode::limit_descriptors,
                         "no descriptor left for the ring; raise the limit (`ulimit -n`)");
    case EINVAL:
      return unavailable(ReasonCode::kernel_too_old,
                         "the kernel's io_uring is too old: Linux 5.7 or newer is needed");
    default:
      return unavailable(ReasonCode::system_error,
                         "io_uring_setup: " + std::system_category().message(error));
  }
}

Result<ProbeReport, Failure> probe(const os::System& system, const ProbeWish& wish) {
  ProbeReport report;
  report.pinned = wish.pinned;
  Result<std::unique_ptr<Ring>, int> opened = open_small(system, wish.pinned);
  if (!opened && wish.pinned && opened.error() == EINVAL) {
    report.pinned = false;
    opened = open_small(system, false);
  }
  if (!opened) return unexpected{setup_failure(system, opened.error())};
  Ring& ring = **opened;
  if (auto good = check_features(ring); !good) return unexpected{good.error()};
  if (auto good = check_noop(system, ring); !good) return unexpected{good.error()};
  if (auto good = check_operations(ring, report.facts); !good) return unexpected{good.error()};
  report.facts.no_signal = no_signal_flag(system) != 0;
  report.facts.message = wish.message && takes_messages(system, ring);
  return report;
}

}  // namespace baton::engines::uring
