// Whether an error has a reason: a fault that the machine has drawn, or an action of the program.
#include <algorithm>

#include "simulation/program.hpp"

namespace baton::tools::simulation {

void Program::judge_error(Slot& slot) {
  const std::error_code error = slot.operation.error();
  // Checked before.
  if (error == std::errc::operation_canceled || error == errc::timed_out) return;
  if (!explained(slot, error)) wrong(slot, "an error without a reason");
}

bool Program::explained(Slot& slot, std::error_code error) {
  // A start from outside a lane gets this error with its completion.
  if (error == errc::limit_reached) return bounded_ && mode_ == Mode::per_thread;
  const bool of_system = error.category() == std::system_category();
  switch (slot.what) {
    case What::read:
    case What::write:
    case What::half_close:
      if (error == errc::end_of_stream) return slot.exactly;  // and see judge_read
      if (error == std::errc::no_buffer_space) return reasons_.take_failure(ENOBUFS);
      return of_system && may_be_broken(*static_cast<End*>(slot.object));
    case What::connect:
      if (error == std::errc::connection_refused) {
        return finishing_ || !slot.listener->open || reasons_.take_failure(ECONNREFUSED);
      }
      if (of_system && error.value() == ETIMEDOUT) return reasons_.take_failure(ETIMEDOUT);
      return of_system && connect_may_break(slot);
    case What::send_to:
      return error == std::errc::no_buffer_space && reasons_.take_failure(ENOBUFS);
    case What::read_at:
      if (error == errc::end_of_stream) return slot.exactly;  // and see judge_contents
      return failed_on_disk(error);
    case What::write_at:
    case What::append:
      if (error == std::errc::no_space_on_device) return lacks_room(slot);
      return failed_on_disk(error);
    case What::sync:
      return failed_on_disk(error);
    case What::accept:
    case What::receive_from:
    case What::ready:
    case What::timer:
    case What::post:
    case What::close:
      return false;
  }
  return false;
}

bool Program::failed_on_disk(std::error_code error) {
  // If one worker does not start (EAGAIN), this holds for everything that had to wait for it.
  if (error == std::errc::not_enough_memory) return reasons_.has_failed(EAGAIN);
  return error == std::errc::io_error && reasons_.take_failure(EIO);
}

// Whether a drawn fault has ended this connection, or the program one of its ends.
bool Program::may_be_broken(const End& end) const {
  if (finishing_ || !end.open) return true;
  for (const Flow* flow : {end.in, end.out}) {
    if (flow != nullptr && flow->channel != 0 && reasons_.has_reset(flow->channel)) return true;
  }
  if (end.in != nullptr && end.in->writer_closed) return true;
  if (end.out != nullptr && end.out->reader_closed) return true;
  const Connection& connection = *end.connection;
  if (connection.port == 0) return false;  // a pair, or a pipe
  // The client gave up; check_connections counts these.
  if (!connection.connected) return true;
  // A client in a backlog is turned away when the listener closes, or when descriptors are short.
  return !connection.accepted &&
         (!connection.listener->open || reasons_.has_aborted(connection.port) ||
          reasons_.may_have_turned_away(connection.port));
}

// After the handshake and before the report, the other side may end it.
bool Program::connect_may_break(const Slot& slot) const {
  if (finishing_ || !slot.listener->open) return true;
  if (reasons_.has_aborted_any() || reasons_.has_reset_any()) return true;
  for (std::size_t i = 0; i < connections_used_; ++i) {
    const Connection& each = *connections_[i];
    if (each.accepted && !each.connected && each.forth.reader_closed) return true;
  }
  return false;
}

void Program::judge_refusal(Slot& slot, std::error_code error) {
  if (error == errc::operation_in_use) wrong(slot, "an operation at rest counts as in use");
  if (error == std::errc::invalid_argument) wrong(slot, "a valid request is refused as invalid");
  const bool scarce = world_->faults().descriptors_max != sim::Faults::none().descriptors_max;
  const bool explained =
      error == errc::limit_reached ? bounded_
      : error == errc::stopped     ? stopping_ != 0 || quiet_
      : slot.what == What::connect
          ? (error == std::errc::too_many_files_open && scarce) || error == errc::no_free_handles
          : false;
  if (!explained) {
    world_->violated("a start is refused without a reason: " +
                     std::string{to_string(slot.operation.kind())} + ", " + error.message());
  }
}

}  // namespace baton::tools::simulation
