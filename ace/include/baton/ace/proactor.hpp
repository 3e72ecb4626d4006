// baton::ace::Proactor: an implementation for ACE_Proactor that uses Baton, so that programs
// written for ACE's Proactor run on io_uring or epoll (paper 000 sections 1, 2, 5, 13; P-06, P-11,
// P-12, P-16, P-22).
//
//   ACE_Proactor proactor(new baton::ace::Proactor, true);      // deletes the implementation
//
// The environment chooses the engine (BATON, as everywhere), and the bridge's own options
// (BATON_ACE, see Options). docs/guide/ace.md says how it differs from ACE's own implementations.
//
// Threads: everything may be called by any thread, from inside handlers too, except where a line
// says otherwise. After fork the child may only call close() and delete it.
#pragma once

#include <ace/POSIX_Proactor.h>

#include <cstddef>
#include <memory>
#include <string_view>

#include "baton/config.hpp"
#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

#ifndef ACE_HAS_AIO_CALLS
#error "This ACE was built without the Proactor (ACE_HAS_AIO_CALLS): use one built with it."
#endif

namespace baton::ace {

/// The value of BATON_ACE: words with commas between them, "batch=1,lazy".
struct BATON_EXPORT Options {
  /// batch=N: completions that one call of handle_events may dispatch, 1 to 1,024. At most one of
  /// them is a posted result.
  std::size_t batch = 64;
  /// lazy: an operation is started by a thread in handle_events, never by the thread that requests
  /// it. For programs whose handlers must not run while the requesting function has not returned.
  bool lazy = false;
  /// explain: the preloaded library prints the choices and their reasons on standard error.
  bool explain = false;

  /// An unknown word, or a number out of range, is a Failure that lists the valid ones.
  static Result<Options, Failure> parse(std::string_view text);
  /// BATON_ACE, read with secure_getenv.
  static Result<Options, Failure> from_environment();
};

class Bridge;

class BATON_EXPORT Proactor : public ACE_POSIX_Proactor {
 public:
  /// Configured by the environment (Config::from_environment, Options::from_environment). Throws
  /// std::system_error whose text says what is missing or malformed.
  Proactor();
  explicit Proactor(Config config, const Options& options = {});
  /// Calls close(). Inside one of its own handlers: pending operations complete when that call of
  /// handle_events ends; if the handler ends the program (exit), they stay pending.
  ~Proactor() override;

  /// The proactor underneath, for Baton's own objects beside ACE's in one event loop. It lives
  /// until close(). REQUIRES: not closed.
  [[nodiscard]] baton::Proactor& native() noexcept;

  /// Wakes every thread in handle_events, waits until they are gone, cancels what is pending and
  /// dispatches it in this thread: each operation completes once, with ECANCELED. Posted results
  /// that no thread has taken are deleted, as ACE does. From then on starts, posts, cancels and
  /// handle_events return -1 with ESHUTDOWN (1: the cancel of a connect, of which nothing is
  /// pending). Inside a handler it only wakes the threads, and the destructor does the rest. In
  /// the child of a fork nothing is dispatched, and no result is deleted. When libACE closes its
  /// singleton at the end of the program, nothing is dispatched or freed, and no thread returns
  /// from handle_events. 0, always.
  int close() override;

  /// 1 when completions were dispatched, 0 when the time is over, -1 for errors: EINVAL for a
  /// negative time, ESHUTDOWN when closed, EPERM when a lane has work that no thread can do
  /// (baton::Proactor::run). EINTR is no error. `wait_time` is reduced by the time that has passed.
  /// Throws what handlers throw, those of native() included.
  int handle_events(ACE_Time_Value& wait_time) override;
  int handle_events() override;

  /// Starts a transfer: 0, or -1 and errno (EAGAIN over operations_max, EBADF, EISDIR, EMFILE for a
  /// number of 65,536 or more, ENOMEM, ESHUTDOWN), and then the caller keeps the result. Every
  /// other error is a completion, and so is each that is met only when a start that waits is made:
  /// for a thread in handle_events (lazy), or for an earlier file of the number to go. A null
  /// result asks whether there is room.
  int start_aio(ACE_POSIX_Asynch_Result* result, Opcode opcode) override;
  /// Queues a result; one thread dispatches it and deletes it. On failure (-1; EINVAL for null,
  /// ENOMEM, ESHUTDOWN) the caller keeps the result. ACE's header says otherwise, but ACE's code
  /// does the same, and its timers rely on that.
  int post_completion(ACE_POSIX_Asynch_Result* result) override;
  /// Cancels what is pending for a descriptor, and nothing that is started later. 0: requested, and
  /// each operation completes once; 1: nothing is pending; -1 and errno: EBADF. Never returns ACE's
  /// 2 (not all of them).
  int cancel_aio(ACE_HANDLE handle) override;

  Proactor_Type get_impl_type() override;
  /// Readable when handle_events may have something to dispatch (baton::Proactor::descriptor).
  /// Posted results and timers do not show there. ACE_INVALID_HANDLE when it is closed, and where
  /// no descriptor shows completions: in dedicated mode, on poll, select and rt_signals, and with
  /// several processors or lanes.
  ACE_HANDLE get_handle() const override;

  ACE_Asynch_Read_Stream_Impl* create_asynch_read_stream() override;
  ACE_Asynch_Write_Stream_Impl* create_asynch_write_stream() override;
  ACE_Asynch_Read_File_Impl* create_asynch_read_file() override;
  ACE_Asynch_Write_File_Impl* create_asynch_write_file() override;
  ACE_Asynch_Read_Dgram_Impl* create_asynch_read_dgram() override;
  ACE_Asynch_Write_Dgram_Impl* create_asynch_write_dgram() override;
  ACE_Asynch_Accept_Impl* create_asynch_accept() override;
  ACE_Asynch_Connect_Impl* create_asynch_connect() override;
  ACE_Asynch_Transmit_File_Impl* create_asynch_transmit_file() override;

 private:
  friend class Attachment;
  std::shared_ptr<Bridge> bridge_;  // shared with the operations, which may outlive this
};

}  // namespace baton::ace
