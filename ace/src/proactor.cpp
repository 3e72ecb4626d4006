#include "baton/ace/proactor.hpp"

#include <ace/Countdown_Time.h>

#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "bridge.hpp"
#include "connections.hpp"
#include "datagrams.hpp"
#include "operations.hpp"
#include "transmit_file.hpp"

namespace baton::ace {
namespace {

Options options_or_throw() {
  Result<Options, Failure> options = Options::from_environment();
  if (options) return *options;
  throw std::system_error(options.error().code, options.error().reason);
}

/// ACE_Time_Value::max_time is longer than a Duration can be.
Deadline deadline_of(const ACE_Time_Value& wait_time) noexcept {
  constexpr std::chrono::seconds longest = std::chrono::hours{24} * 36'500;
  if (wait_time == ACE_Time_Value::zero) return Deadline::immediately();
  if (wait_time.sec() >= longest.count()) return Deadline::never();
  return Deadline::after(std::chrono::seconds{wait_time.sec()} +
                         std::chrono::microseconds{wait_time.usec()});
}

/// ACE's own accepts and connects, made by a program without the factories, register with the
/// reactor of this task. Its thread is never started here, so they would never complete. With room
/// for no handle the reactor refuses them. It has no descriptors either.
struct UnusedTask : ACE_Asynch_Pseudo_Task {
  static void close(ACE_Asynch_Pseudo_Task& task) {
    Closed::close(task.*&UnusedTask::select_reactor_);
  }

 private:
  struct Closed : ACE_Select_Reactor {
    static void close(ACE_Select_Reactor& reactor) {
      // The destructor of any ACE_Sig_Handler removes the signal handlers of the whole program. So
      // the reactor's own is freed without it, and gets one that is never deleted.
      static ACE_Sig_Handler& of_all = *new ACE_Sig_Handler;
      constexpr bool without_pipe = true;
      (reactor.*(&Closed::delete_signal_handler_)) = false;
      ::operator delete(std::exchange(reactor.*(&Closed::signal_handler_), nullptr));
      reactor.ACE_Select_Reactor::close();
      reactor.open(0, false, &of_all, nullptr, without_pipe);
    }
  };
};

/// An operation object, or null and ENOMEM.
template <class Operation>
Operation* make(Proactor* proactor, const std::shared_ptr<Bridge>& bridge) noexcept {
  try {
    return new Operation(proactor, bridge);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
}

}  // namespace

Proactor::Proactor() : Proactor(Config::from_environment(), options_or_throw()) {}

Proactor::Proactor(Config config, const Options& options)
    : bridge_([&] {
        UnusedTask::close(get_asynch_pseudo_task());  // also if there will be no bridge
        return std::make_shared<Bridge>(std::move(config), options, wakeup_handler_);
      }()) {}

Proactor::~Proactor() {
  bridge_->close();
  Bridge::outlive_calls(std::move(bridge_));
}

baton::Proactor& Proactor::native() noexcept { return bridge_->native(); }

int Proactor::close() { return bridge_->close(); }

// -- driving --------------------------------------------------------------------------------------

int Proactor::handle_events() { return bridge_->handle_events(Deadline::never()); }

int Proactor::handle_events(ACE_Time_Value& wait_time) {
  if (wait_time < ACE_Time_Value::zero) return errno = EINVAL, -1;
  const ACE_Countdown_Time countdown{&wait_time};  // also when a handler throws
  return bridge_->handle_events(deadline_of(wait_time));
}

// -- transfers, results, cancel -------------------------------------------------------------------

int Proactor::start_aio(ACE_POSIX_Asynch_Result* result, Opcode opcode) {
  const Action action = opcode == ACE_OPCODE_READ ? Action::read : Action::write;
  int error = 0;
  if (result == nullptr) {
    error = bridge_->room();
  } else {
    // The program's own results and ACE's own operations have told nothing when they were opened.
    error = bridge_->opened(result->aio_fildes);
    if (error == 0) error = bridge_->transfer(*result, action);
  }
  return error == 0 ? 0 : (errno = error, -1);
}

int Proactor::post_completion(ACE_POSIX_Asynch_Result* result) {
  const int error = result != nullptr ? bridge_->post(*result) : EINVAL;
  return error == 0 ? 0 : (errno = error, -1);
}

int Proactor::cancel_aio(ACE_HANDLE handle) { return bridge_->cancel(handle); }

ACE_POSIX_Proactor::Proactor_Type Proactor::get_impl_type() { return PROACTOR_POSIX; }

ACE_HANDLE Proactor::get_handle() const { return bridge_->descriptor(); }

// -- operation objects ----------------------------------------------------------------------------

ACE_Asynch_Read_Stream_Impl* Proactor::create_asynch_read_stream() {
  return make<ReadStream>(this, bridge_);
}
ACE_Asynch_Write_Stream_Impl* Proactor::create_asynch_write_stream() {
  return make<WriteStream>(this, bridge_);
}
ACE_Asynch_Read_File_Impl* Proactor::create_asynch_read_file() {
  return make<ReadFile>(this, bridge_);
}
ACE_Asynch_Write_File_Impl* Proactor::create_asynch_write_file() {
  return make<WriteFile>(this, bridge_);
}
ACE_Asynch_Read_Dgram_Impl* Proactor::create_asynch_read_dgram() {
  return make<ReadDatagram>(this, bridge_);
}
ACE_Asynch_Write_Dgram_Impl* Proactor::create_asynch_write_dgram() {
  return make<WriteDatagram>(this, bridge_);
}
ACE_Asynch_Accept_Impl* Proactor::create_asynch_accept() { return make<Accept>(this, bridge_); }
ACE_Asynch_Connect_Impl* Proactor::create_asynch_connect() { return make<Connect>(this, bridge_); }
ACE_Asynch_Transmit_File_Impl* Proactor::create_asynch_transmit_file() {
  return make<TransmitFile>(this, bridge_);
}

}  // namespace baton::ace
