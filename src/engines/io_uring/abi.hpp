// The kernel's io_uring interface, as far as this engine uses it. The numbers and layouts are our
// own, because the headers of a long-lived distribution lack much of what newer kernels offer
// (docs/decisions). A test compares each of them with the system's headers, where those have it.
// Features of the running kernel are found by trying (probe.cpp), never by its version; the
// versions here say why something has to be tried.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::engines::uring::abi {

/// One request. A union of the kernel's struct appears as its widest member.
struct Sqe {
  std::uint8_t opcode;
  std::uint8_t flags;  // SqeFlag
  std::uint16_t ioprio;
  std::int32_t fd;
  std::uint64_t offset;  // also: addr2, length of an address
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t operation_flags;  // rw_flags, msg_flags, poll32_events, accept_flags, ...
  std::uint64_t user_data;
  std::uint64_t rest[3];
};
static_assert(sizeof(Sqe) == 64);

/// One completion.
struct Cqe {
  std::uint64_t user_data;
  std::int32_t result;
  std::uint32_t flags;
};
static_assert(sizeof(Cqe) == 16);

struct SqOffsets {
  std::uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, reserved;
  std::uint64_t user_address;
};
struct CqOffsets {
  std::uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved;
  std::uint64_t user_address;
};
struct Parameters {
  std::uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd;
  std::uint32_t reserved[3];
  SqOffsets sq;
  CqOffsets cq;
};
static_assert(sizeof(Parameters) == 120);

struct Timespec {
  std::int64_t seconds;
  std::int64_t nanoseconds;
};

/// The argument of enter with enter_ext_arg (since Linux 5.11).
struct GetEventsArgument {
  std::uint64_t signal_mask;
  std::uint32_t signal_mask_size;
  std::uint32_t min_wait_us;
  std::uint64_t timeout;  // Timespec*, relative
};
static_assert(sizeof(GetEventsArgument) == 24);

struct ProbeOperation {
  std::uint8_t opcode;
  std::uint8_t reserved;
  std::uint16_t flags;  // probe_supported
  std::uint32_t reserved2;
};
inline constexpr std::uint32_t probe_operations = 64;
struct Probe {
  std::uint8_t last_opcode;
  std::uint8_t count;
  std::uint16_t reserved;
  std::uint32_t reserved2[3];
  ProbeOperation operations[probe_operations];
};
static_assert(sizeof(Probe) == 16 + 8 * probe_operations);
inline constexpr std::uint16_t probe_supported = 1U << 0;

// Parameters::flags.
inline constexpr std::uint32_t setup_cq_size = 1U << 3;         // 5.5
inline constexpr std::uint32_t setup_clamp = 1U << 4;           // 5.6
inline constexpr std::uint32_t setup_disabled = 1U << 6;        // 5.10
inline constexpr std::uint32_t setup_submit_all = 1U << 7;      // 5.18
inline constexpr std::uint32_t setup_coop_taskrun = 1U << 8;    // 5.19
inline constexpr std::uint32_t setup_taskrun_flag = 1U << 9;    // 5.19
inline constexpr std::uint32_t setup_single_issuer = 1U << 12;  // 6.0
inline constexpr std::uint32_t setup_defer_taskrun = 1U << 13;  // 6.1
inline constexpr std::uint32_t setup_no_sqarray = 1U << 16;     // 6.6

// Parameters::features.
inline constexpr std::uint32_t feature_single_mmap = 1U << 0;       // 5.4
inline constexpr std::uint32_t feature_no_drop = 1U << 1;           // 5.5
inline constexpr std::uint32_t feature_submit_stable = 1U << 2;     // 5.5
inline constexpr std::uint32_t feature_current_position = 1U << 3;  // 5.6
inline constexpr std::uint32_t feature_fast_poll = 1U << 5;         // 5.7
inline constexpr std::uint32_t feature_ext_arg = 1U << 8;           // 5.11
inline constexpr std::uint32_t feature_no_iowait = 1U << 17;        // 6.15

// mmap offsets.
inline constexpr std::uint64_t offset_rings = 0;
inline constexpr std::uint64_t offset_sqes = 0x1000'0000;

// The flags word of the submission ring.
inline constexpr std::uint32_t sq_cq_overflow = 1U << 1;
inline constexpr std::uint32_t sq_taskrun = 1U << 2;

// io_uring_enter.
inline constexpr std::uint32_t enter_get_events = 1U << 0;
inline constexpr std::uint32_t enter_ext_arg = 1U << 3;    // 5.11
inline constexpr std::uint32_t enter_no_iowait = 1U << 7;  // 6.15

// io_uring_register.
inline constexpr std::uint32_t register_files = 2;          // 5.1
inline constexpr std::uint32_t register_probe = 8;          // 5.6
inline constexpr std::uint32_t register_enable_rings = 12;  // 5.10
inline constexpr std::uint32_t register_send_message = 31;  // 6.13; without a ring: descriptor -1

enum Opcode : std::uint8_t {
  op_nop = 0,
  op_readv = 1,
  op_writev = 2,
  op_fsync = 3,
  op_poll_add = 6,
  op_sendmsg = 9,
  op_recvmsg = 10,
  op_accept = 13,
  op_async_cancel = 14,
  op_connect = 16,
  op_close = 19,
  op_read = 22,
  op_write = 23,
  op_send = 26,
  op_recv = 27,
  op_shutdown = 34,  // 5.11
  op_msg_ring = 40,  // 5.18
};

// Sqe::flags.
inline constexpr std::uint8_t sqe_async = 1U << 4;

// Sqe::length of op_poll_add: continues after the first event (5.13).
inline constexpr std::uint32_t poll_add_multi = 1U << 0;

// Cqe::flags: more completions of the same request will come.
inline constexpr std::uint32_t cqe_more = 1U << 1;

// Sqe::operation_flags.
inline constexpr std::uint32_t fsync_data_only = 1U << 0;
inline constexpr std::uint32_t cancel_all = 1U << 0;  // 5.19
inline constexpr std::uint32_t cancel_any = 1U << 2;  // 5.19
inline constexpr std::uint32_t rw_no_signal = 0x100;  // RWF_NOSIGNAL, 6.18

}  // namespace baton::engines::uring::abi
