// Copies requests to doubles and results back.
#include "engines/common/operation_double.hpp"

namespace baton {

void OperationDouble::stand_for(const Operation& original) noexcept {
  prepare(original.kind(), original.handle(), original.flags());
  data_ = original.data_;
  size_ = original.size_;
  extra_ = original.extra_;
  set_bytes(original.bytes());
  set_tag(original.tag());
  set_deadline(original.deadline());
  activation_.store(original.activation(), std::memory_order_relaxed);
  cancel_asked_.store(original.cancel_asked(), std::memory_order_relaxed);
}

void OperationDouble::report_to(Operation& original) const noexcept {
  original.set_bytes(bytes());
  original.finish(error_value());
  if (has(pooled)) original.set_taken_buffer(data_, size_);
}

bool OperationDouble::has_endpoint(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::accept:
    case OperationKind::connect:
    case OperationKind::read_datagram:
    case OperationKind::write_datagram:
      return operation.endpoint() != nullptr;
    default:
      return false;
  }
}

}  // namespace baton
