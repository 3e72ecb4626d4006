// The common part of the I/O objects.
#include "baton/io_object.hpp"

namespace baton {

std::error_code detail::CloseRequest::fill(Operation& operation) noexcept {
  if (!object_->is_open()) return make_error_code(errc::handle_closed);
  operation.prepare(OperationKind::close, std::exchange(object_->handle_, nullptr));
  return {};
}

void detail::CloseRequest::undo(Operation& operation) noexcept {
  object_->handle_ = operation.handle();
}

IoObject& IoObject::operator=(IoObject&& other) noexcept {
  if (this != &other) {
    close_detached();
    proactor_ = other.proactor_;
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

IoObject::~IoObject() { close_detached(); }

CancelResult IoObject::cancel() noexcept {
  return handle_ != nullptr ? proactor_->cancel(*handle_) : CancelResult::nothing_pending;
}

void IoObject::close_detached() noexcept {
  if (handle_ != nullptr) proactor_->close_detached(*std::exchange(handle_, nullptr));
}

}  // namespace baton
