// Our constants of the kernel interface, compared with the system's headers where those have them.
#include "engines/io_uring/abi.hpp"

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/io_uring.h>

#include <cstddef>

namespace baton::engines::uring::abi {
namespace {

#define SAME(ours, theirs) static_assert(static_cast<unsigned long long>(ours) == (theirs))
#define SAME_PLACE(Ours, member, Theirs, other)                      \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, other) && \
                sizeof(Ours::member) == sizeof(Theirs::other))

static_assert(sizeof(Sqe) == sizeof(io_uring_sqe));
SAME_PLACE(Sqe, opcode, io_uring_sqe, opcode);
SAME_PLACE(Sqe, flags, io_uring_sqe, flags);
SAME_PLACE(Sqe, ioprio, io_uring_sqe, ioprio);
SAME_PLACE(Sqe, fd, io_uring_sqe, fd);
SAME_PLACE(Sqe, offset, io_uring_sqe, off);
SAME_PLACE(Sqe, offset, io_uring_sqe, addr2);
SAME_PLACE(Sqe, address, io_uring_sqe, addr);
SAME_PLACE(Sqe, length, io_uring_sqe, len);
SAME_PLACE(Sqe, operation_flags, io_uring_sqe, rw_flags);
SAME_PLACE(Sqe, operation_flags, io_uring_sqe, poll32_events);
SAME_PLACE(Sqe, operation_flags, io_uring_sqe, fsync_flags);
SAME_PLACE(Sqe, operation_flags, io_uring_sqe, msg_flags);
SAME_PLACE(Sqe, operation_flags, io_uring_sqe, accept_flags);
SAME_PLACE(Sqe, user_data, io_uring_sqe, user_data);
SAME_PLACE(Cqe, user_data, io_uring_cqe, user_data);
SAME_PLACE(Cqe, result, io_uring_cqe, res);
SAME_PLACE(Cqe, flags, io_uring_cqe, flags);

static_assert(sizeof(Parameters) == sizeof(io_uring_params));
SAME_PLACE(Parameters, sq_entries, io_uring_params, sq_entries);
SAME_PLACE(Parameters, cq_entries, io_uring_params, cq_entries);
SAME_PLACE(Parameters, flags, io_uring_params, flags);
SAME_PLACE(Parameters, features, io_uring_params, features);
SAME_PLACE(Parameters, sq, io_uring_params, sq_off);
SAME_PLACE(Parameters, cq, io_uring_params, cq_off);
SAME_PLACE(SqOffsets, head, io_sqring_offsets, head);
SAME_PLACE(SqOffsets, tail, io_sqring_offsets, tail);
SAME_PLACE(SqOffsets, ring_mask, io_sqring_offsets, ring_mask);
SAME_PLACE(SqOffsets, flags, io_sqring_offsets, flags);
SAME_PLACE(SqOffsets, array, io_sqring_offsets, array);
SAME_PLACE(CqOffsets, head, io_cqring_offsets, head);
SAME_PLACE(CqOffsets, tail, io_cqring_offsets, tail);
SAME_PLACE(CqOffsets, ring_mask, io_cqring_offsets, ring_mask);
SAME_PLACE(CqOffsets, cqes, io_cqring_offsets, cqes);
static_assert(sizeof(GetEventsArgument) == sizeof(io_uring_getevents_arg));
SAME_PLACE(GetEventsArgument, timeout, io_uring_getevents_arg, ts);
static_assert(sizeof(Timespec) == sizeof(__kernel_timespec));
static_assert(sizeof(ProbeOperation) == sizeof(io_uring_probe_op));
SAME_PLACE(ProbeOperation, flags, io_uring_probe_op, flags);
SAME_PLACE(Probe, last_opcode, io_uring_probe, last_op);
static_assert(offsetof(Probe, operations) == sizeof(io_uring_probe));
SAME(probe_supported, IO_URING_OP_SUPPORTED);

SAME(setup_cq_size, IORING_SETUP_CQSIZE);
SAME(setup_clamp, IORING_SETUP_CLAMP);
SAME(setup_disabled, IORING_SETUP_R_DISABLED);
SAME(setup_submit_all, IORING_SETUP_SUBMIT_ALL);
SAME(setup_coop_taskrun, IORING_SETUP_COOP_TASKRUN);
SAME(setup_taskrun_flag, IORING_SETUP_TASKRUN_FLAG);
SAME(setup_single_issuer, IORING_SETUP_SINGLE_ISSUER);
SAME(setup_defer_taskrun, IORING_SETUP_DEFER_TASKRUN);
#ifdef IORING_SETUP_NO_SQARRAY
SAME(setup_no_sqarray, IORING_SETUP_NO_SQARRAY);
#endif

SAME(feature_single_mmap, IORING_FEAT_SINGLE_MMAP);
SAME(feature_no_drop, IORING_FEAT_NODROP);
SAME(feature_submit_stable, IORING_FEAT_SUBMIT_STABLE);
SAME(feature_current_position, IORING_FEAT_RW_CUR_POS);
SAME(feature_fast_poll, IORING_FEAT_FAST_POLL);
SAME(feature_ext_arg, IORING_FEAT_EXT_ARG);
#ifdef IORING_FEAT_NO_IOWAIT
SAME(feature_no_iowait, IORING_FEAT_NO_IOWAIT);
#endif

SAME(offset_rings, IORING_OFF_SQ_RING);
SAME(offset_sqes, IORING_OFF_SQES);
SAME(sq_cq_overflow, IORING_SQ_CQ_OVERFLOW);
SAME(sq_taskrun, IORING_SQ_TASKRUN);
SAME(enter_get_events, IORING_ENTER_GETEVENTS);
SAME(enter_ext_arg, IORING_ENTER_EXT_ARG);
#ifdef IORING_ENTER_NO_IOWAIT
SAME(enter_no_iowait, IORING_ENTER_NO_IOWAIT);
#endif
SAME(register_files, IORING_REGISTER_FILES);
SAME(register_probe, IORING_REGISTER_PROBE);
SAME(register_enable_rings, IORING_REGISTER_ENABLE_RINGS);

SAME(op_nop, IORING_OP_NOP);
SAME(op_readv, IORING_OP_READV);
SAME(op_writev, IORING_OP_WRITEV);
SAME(op_fsync, IORING_OP_FSYNC);
SAME(op_poll_add, IORING_OP_POLL_ADD);
SAME(op_sendmsg, IORING_OP_SENDMSG);
SAME(op_recvmsg, IORING_OP_RECVMSG);
SAME(op_accept, IORING_OP_ACCEPT);
SAME(op_async_cancel, IORING_OP_ASYNC_CANCEL);
SAME(op_connect, IORING_OP_CONNECT);
SAME(op_close, IORING_OP_CLOSE);
SAME(op_read, IORING_OP_READ);
SAME(op_write, IORING_OP_WRITE);
SAME(op_send, IORING_OP_SEND);
SAME(op_recv, IORING_OP_RECV);
SAME(op_shutdown, IORING_OP_SHUTDOWN);

SAME(sqe_async, IOSQE_ASYNC);
SAME(poll_add_multi, IORING_POLL_ADD_MULTI);
SAME(cqe_more, IORING_CQE_F_MORE);
SAME(fsync_data_only, IORING_FSYNC_DATASYNC);
#ifdef RWF_NOSIGNAL
SAME(rw_no_signal, RWF_NOSIGNAL);
#endif

TEST(Abi, agrees_with_the_system_headers) { SUCCEED() << "it compiled"; }

}  // namespace
}  // namespace baton::engines::uring::abi
