// The results of a program's operations, and whether they are allowed.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "simulation/program.hpp"

namespace baton::tools::simulation {

namespace {
constexpr std::int64_t slow_most_ns = 20'000'000;
}  // namespace

void Program::wrong(const Slot& slot, const char* what) {
  const std::error_code error = slot.operation.error();
  world_->violated(
      std::string{what} + " (operation " + std::to_string(slot.number) + ", " +
      to_string(slot.operation.kind()) + ", " + std::to_string(slot.operation.bytes()) +
      " bytes of " + std::to_string(slot.size) + ", " + (error ? error.message() : "no error") +
      (slot.object != nullptr ? ", object " + std::to_string(slot.object->number) : std::string{}) +
      ")\n" + proactor_->explain() + affairs_of_threads());
}

void Program::completed(Operation& operation) {
  Slot& slot = *static_cast<Slot*>(operation.context());
  Program& self = *slot.program;
  if (!slot.pending) self.wrong(slot, "a completion without a start");
  if (operation.activation() != slot.activation) self.wrong(slot, "a completion of another start");
  const Inside handler{self.in_handler_};
  self.world_->note(
      sim::Event::complete, slot.number,
      operation.failed() ? -operation.error_value() : static_cast<std::int64_t>(operation.bytes()));
  self.judge(slot);
  ++self.completed_;
  slot.pending = false;
  slot.bytes_before = operation.bytes();
  --self.pending_;
  if (slot.object != nullptr) --slot.object->pending;
  self.free_.push_back(&slot);
  self.after(slot);
}

// Errors that every kind may have, for their reasons.
void Program::judge(Slot& slot) {
  const Operation& operation = slot.operation;
  const std::error_code error = operation.error();
  // With profile=pinned operations are cancelled when their thread leaves.
  const bool may_cancel = slot.may_cancel || cancelled_all_ || finishing_ || world_->traits.bound;
  if (error == std::errc::operation_canceled && !may_cancel) {
    wrong(slot, "cancelled without a request");
  }
  if (error == errc::timed_out && (slot.deadline == 0 || now() < slot.deadline)) {
    wrong(slot, "timed out before its deadline");
  }
  if (error) judge_error(slot);
  switch (slot.what) {
    case What::read:
      return judge_read(slot);
    case What::write:
      return judge_write(slot);
    case What::read_at:
    case What::write_at:
    case What::append:
      return judge_file(slot);
    case What::accept:
      return judge_accept(slot);
    case What::connect:
      return judge_connect(slot);
    case What::receive_from:
    case What::send_to:
      return judge_datagram(slot);
    case What::timer:
      if (!error && now() < slot.not_before) wrong(slot, "a timer is early");
      if (!error && slot.is_cancelled) wrong(slot, "a timer fires, but it was cancelled");
      slot.has_fired = !error;
      return;
    case What::post:
      if (slot.counted_post) --posts_;
      if (error) wrong(slot, "posted work fails");
      return;
    case What::close:
      if (error == std::errc::operation_canceled) wrong(slot, "a close was cancelled");
      // The close's own is left.
      if (slot.object->pending != 1 && !error) {
        wrong(slot, "a close is complete before the operations of its handle");
      }
      return;
    case What::half_close:
      // After a cancel it may be started again. After any other error the connection is lost.
      if (error == std::errc::operation_canceled && slot.object->open) {
        static_cast<End*>(slot.object)->out->fin = false;
      }
      return;
    case What::ready:
      return judge_ready(slot);
    case What::sync:
      return judge_sync(slot);
  }
}

void Program::judge_read(Slot& slot) {
  End& end = *static_cast<End*>(slot.object);
  const Operation& operation = slot.operation;
  const std::size_t bytes = operation.bytes();
  if (bytes > slot.size) wrong(slot, "more bytes than the buffer has");
  if (slot.size < sizeof(slot.buffer) && slot.buffer[slot.size] != std::byte{0x5a}) {
    wrong(slot, "a byte behind the buffer was written");
  }
  if (!end.in->read(slot.read_number, slot.buffer, bytes)) {
    wrong(slot,
          ("the bytes of a stream do not come as they were sent: " + end.in->complaint()).c_str());
  }
  const std::error_code error = operation.error();
  if (slot.exactly && !error && bytes != slot.size) wrong(slot, "read_exactly with less");
  const bool stream_end = (!error && bytes == 0 && slot.size > 0) || error == errc::end_of_stream;
  if (stream_end) {
    if (!end.in->fin && !may_be_broken(end)) {
      wrong(slot, "the end of a stream that was not ended");
    }
    end.in->at_end = true;
  }
  const bool asked = error == std::errc::operation_canceled || error == errc::timed_out;
  if (error && !asked && error != std::errc::no_buffer_space) end.in->at_end = true;
}

void Program::judge_write(Slot& slot) {
  End& end = *static_cast<End*>(slot.object);
  const std::size_t bytes = slot.operation.bytes();
  if (bytes > slot.size) wrong(slot, "more bytes were written than there are");
  if (!slot.operation.failed()) {
    if (slot.exactly && bytes != slot.size) wrong(slot, "write_all with less");
    if (bytes == 0 && slot.size != 0) wrong(slot, "a write of 0 bytes");
  }
  end.out->wrote(slot.size, bytes);
}

// A handler's other actions.
void Program::after(Slot& slot) {
  sim::Random& random = world_->random;
  if (random.chance(slow_)) {
    world_->scheduler().work(random.between(1000, slow_most_ns << random.below(3)));
  }
  if (random.chance(stopping_) && !quiet_) {
    ++changing_;
    proactor_->stop();
    --changing_;
  }
  if (random.chance(throwing_)) throw std::runtime_error("a handler's");
  if (quiet_) {
    // Streams are read to their end.
    if (slot.what == What::read && !finishing_) {
      End& end = *static_cast<End*>(slot.object);
      if (end.open && end.in->reads() == 0) static_cast<void>(start_read(end));
    }
    act_in_drain();
    return;
  }
  for (std::uint32_t i = 0; i < 3 && pending_ < target_ && started_ < round_end_; ++i) {
    static_cast<void>(act());
  }
}

}  // namespace baton::tools::simulation
