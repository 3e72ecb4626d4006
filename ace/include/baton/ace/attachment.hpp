// baton::ace::Attachment: keeps a thread that drives an ACE proactor in a loop attached to it
// between its calls of handle_events.
#pragma once

#include <memory>

#include "baton/ace/proactor.hpp"
#include "baton/export.hpp"

namespace baton::ace {

/// baton::Attachment for a thread in ACE's event loop, whose calls then cost about what
/// baton::Proactor::run() costs:
///
///   const baton::ace::Attachment attached{bridge};  // the baton::ace::Proactor
///   ace_proactor.proactor_run_event_loop();
///
/// It matters in per_thread mode, and does nothing in the others. The thread has the duties that
/// baton::Attachment lists: its lane is not served before its next call. close() waits for the
/// attachments of other threads to end, and ends those of the closing thread. In programs that know
/// ACE only, libbaton-ace-preload attaches the threads in ACE_Proactor::proactor_run_event_loop.
class BATON_EXPORT Attachment {
 public:
  /// Does nothing on a closed proactor. Throws what baton::Attachment throws.
  explicit Attachment(Proactor& proactor);
  /// REQUIRES: the thread that attached, not in a handler.
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace baton::ace
