// Attachment: keeps a thread that drives a proactor by single calls attached between them.
#pragma once

#include <memory>

#include "baton/export.hpp"
#include "baton/fwd.hpp"

namespace baton {

class AttachedMember;  // src/core/crew.hpp

/// With an attachment, handle_events(), poll() and run_one() cost a thread about as much as run()
/// does. For programs with a loop of their own:
///
///   const Attachment attached{proactor};
///   while (proactor.handle_events() > 0) look_at_other_things();
///
/// In per_thread mode the thread keeps its lane between the calls, where the library treats it like
/// a handler inside run(). Its starts go straight to the engine, at the latest with its next call.
/// An engine that is bound to the thread stays bound. (Without an attachment, io_uring gives up its
/// bound ring at the first return with operations in flight.) So the thread has the duties of a
/// handler. Until its next call nothing in its lane is served: no timer, no deadline, no start of
/// another thread. And the thread must not wait for one of its own operations by other means
/// (Proactor::cancel_wait). In the other modes threads keep nothing between calls, and an
/// attachment does nothing.
///
/// A thread may be attached to several proactors.
class BATON_EXPORT Attachment {
 public:
  /// Takes a lane if one has no thread. In a handler of this proactor, or in a thread that is
  /// attached to it already, it does nothing. Throws DrivingRefused: errc::wrong_thread when a
  /// pinned lane is kept for another thread, errc::after_fork in a child that has not called
  /// reopen(); and std::bad_alloc.
  explicit Attachment(Proactor& proactor);
  /// Gives the lane up. Pending operations go on, led by the next thread (with profile=pinned they
  /// are cancelled, as when a thread leaves run()). REQUIRES: the thread that attached, not in a
  /// handler; the proactor is alive (checked: its destructor ends the program otherwise). In a
  /// forked child it does nothing.
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// False where the attachment does nothing: as above, in another mode than per_thread, or because
  /// every lane had its thread. The calls work all the same.
  [[nodiscard]] bool has_lane() const noexcept { return member_ != nullptr; }

 private:
  std::unique_ptr<AttachedMember> member_;
};

}  // namespace baton
