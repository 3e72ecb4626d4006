// Registration: a descriptor with its handler, one record for each index of the Demultiplexer, and
// the lists of registrations. Guarded by the reactor's mutex, except the members that a running
// call reads.
#pragma once

#include <cstdint>
#include <memory>
#include <system_error>

#include "base/assert.hpp"
#include "baton/event_handler.hpp"
#include "baton/handle.hpp"
#include "baton/interest.hpp"

namespace baton::reactor {

struct Registration;

/// Skips 0, which names no registration.
[[nodiscard]] constexpr std::uint32_t next_generation(std::uint32_t generation) noexcept {
  return generation == UINT32_MAX ? 1 : generation + 1;
}

struct Link {
  Link* next = nullptr;  // null: in no list
  Link* previous = nullptr;
  Registration* owner = nullptr;

  [[nodiscard]] bool linked() const noexcept { return next != nullptr; }
  /// Takes it out of its list.
  void unlink() noexcept {
    BATON_ASSERT(linked());
    previous->next = next;
    next->previous = previous;
    next = previous = nullptr;
  }
};

struct Registration {
  // Constant from add until on_close has returned, so a running call reads them without the lock.
  EventHandler* handler = nullptr;
  std::shared_ptr<EventHandler> kept;
  NativeHandle fd = invalid_handle;

  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // the key's; changed when it ends; 0: never used

  Interest wanted = Interest::none;  // requested by the user
  Interest armed = Interest::none;   // the Demultiplexer will report it
  Interest ready = Interest::none;   // found, and not yet called
  Interest told = Interest::none;    // notified, and not yet called

  bool used = false;
  bool running = false;    // a thread is in one of its calls
  bool suspended = false;  // by the user
  bool ending = false;     // removed; on_close has not returned yet
  bool closing = false;    // on_close has been entered
  bool is_signal = false;  // its handler is a SignalSource
  bool forked = false;     // a call of it was running when this process was forked
  std::error_code why;     // for on_close

  Link queue{.owner = this};  // in ready_, again_ or closing_
  Link late{.owner = this};   // in late_
  Registration* next_free = nullptr;

  /// The interest that should be armed while no call runs.
  [[nodiscard]] Interest desired() const noexcept {
    return suspended || ending ? Interest::none : wanted;
  }
};

/// A FIFO through one of a registration's links. It is a circle that includes the list itself, so
/// that a link can be taken out without knowing its list.
template <Link Registration::* Through>
class RegistrationList {
 public:
  RegistrationList() noexcept = default;
  RegistrationList(const RegistrationList&) = delete;
  RegistrationList& operator=(const RegistrationList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return ends_.next == &ends_; }

  void push(Registration& registration) noexcept {
    Link& link = registration.*Through;
    BATON_ASSERT(!link.linked());
    link.previous = ends_.previous;
    link.next = &ends_;
    ends_.previous->next = &link;
    ends_.previous = &link;
  }
  Registration* pop() noexcept {
    if (empty()) return nullptr;
    Link& link = *ends_.next;
    link.unlink();
    return link.owner;
  }
  /// Moves all of `other` behind the last one here.
  void append(RegistrationList& other) noexcept {
    if (other.empty()) return;
    ends_.previous->next = other.ends_.next;
    other.ends_.next->previous = ends_.previous;
    other.ends_.previous->next = &ends_;
    ends_.previous = other.ends_.previous;
    other.ends_.next = other.ends_.previous = &other.ends_;
  }

 private:
  Link ends_{&ends_, &ends_, nullptr};
};

}  // namespace baton::reactor
