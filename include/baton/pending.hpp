// The report of stuck operations: the pending ones, since when, on which handle, and from
// where. It shows what a server waits for when it seems to hang.
//
//   std::fputs(proactor.pending(std::chrono::seconds{30}).to_string().c_str(), stderr);
//
// Three things show where an operation was started. They cost nothing until a report is made. The
// tag (Operation::set_tag) is a word that is stored anyway. The program may give a name to a tag
// (Proactor::name_tag), which is looked up when the report is made. `addr2line -C -f -e module
// offset` turns the address of the handler into the line of the lambda.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "baton/deadline.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/limits.hpp"
#include "baton/operation.hpp"

namespace baton {

/// What to look for.
struct PendingQuery {
  Duration age{};          ///< pending for at least this long; exact to about 20 ms
  OperationKinds kinds{};  ///< only these; empty: all, timers included
  std::size_t shown = 64;  ///< how many, the oldest first; at most limits::pending_shown_max
  /// How long to wait for lanes of other threads (per_thread mode) to answer.
  Duration patience = std::chrono::milliseconds{200};
};

/// One operation as it was when the report was made; it may be complete by now.
struct PendingOperation {
  OperationKind kind = OperationKind::user;  ///< what it does
  /// started: the engine's; deferred: waits for room, or for the leader.
  OperationState state = OperationState::started;
  bool cancel_asked = false;             ///< a cancel was requested
  Duration age{};                        ///< since its start
  NativeHandle native = invalid_handle;  ///< invalid_handle: a timer
  std::uint32_t handle = 0;              ///< Handle::index() and generation()
  std::uint32_t generation = 0;          ///< see handle
  std::uint16_t processor = 0;           ///< number in the team, as explain() counts
  std::uint16_t lane = 0;                ///< per_thread mode: whose thread
  std::size_t bytes = 0;                 ///< moved so far
  std::uint32_t tag = 0;                 ///< see Operation::set_tag
  std::string name;                      ///< of the tag, if the program gave one
  CompletionFunction handler = nullptr;  ///< of a coroutine: the library's own
};

/// The pending operations at a moment.
struct BATON_EXPORT PendingReport {
  /// A lane that did not answer in time.
  struct SilentLane {
    std::uint16_t lane = 0;  ///< its number
    /// False: no thread is in run() for it. True: its thread is in a handler, or attached and away.
    bool driven = false;
  };

  std::vector<PendingOperation> operations;  ///< the oldest first, `shown` at most
  std::uint64_t matching = 0;                ///< how many there are, those not shown included
  /// Results and posted work that wait for a thread in run(). Many of them and few old operations
  /// mean that handlers are slow, not peers. Results that a thread has taken are not counted.
  std::uint64_t queued = 0;
  /// Timers and deadlines beyond the first 8,192, which were not looked at.
  std::uint64_t timers_unseen = 0;
  std::vector<SilentLane> silent;  ///< lanes that did not answer in time

  /// For a person: a line for each operation, and what was left out.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace baton
