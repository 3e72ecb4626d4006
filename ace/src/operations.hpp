// Operations: the implementations of ACE's operation objects on baton::ace::Proactor. Each keeps
// the bridge alive, so that a program may delete it after the proactor.
#pragma once

#include <ace/POSIX_Asynch_IO.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "bridge.hpp"
#include "results.hpp"

namespace baton::ace {

/// An operation of ACE that notifies the bridge when it is opened for a descriptor, and at its end.
template <class Base>
class Opening : public Base {
 public:
  Opening(ACE_POSIX_Proactor* proactor, std::shared_ptr<Bridge> bridge)
      : Base(proactor), bridge_(std::move(bridge)) {}
  ~Opening() override { bridge_->left(this->handle_); }

  int open(const ACE_Handler::Proxy_Ptr& handler_proxy, ACE_HANDLE handle,
           const void* completion_key, ACE_Proactor* proactor) override {
    if (Base::open(handler_proxy, handle, completion_key, proactor) != 0) return -1;
    const int error = bridge_->opened(this->handle_);
    return error == 0 ? 0 : (errno = error, -1);
  }
  int cancel() override { return bridge_->cancel(this->handle_); }

 protected:
  std::shared_ptr<Bridge> bridge_;
};

/// Streams behave as in ACE: a transfer is clipped to its block, the first of a chain. Results come
/// from a cache, where ACE's own functions allocate each.
template <class Base>
class Streaming : public Opening<Base> {
 public:
  using Opening<Base>::Opening;

 protected:
  template <class Result>
  [[gnu::always_inline]] int start(Action action, ACE_Message_Block& block, char* data,
                                   std::size_t bytes, const void* act, int priority,
                                   int signal_number) {
    auto* const result =
        new (std::nothrow) StreamResult<Result>(this->handler_proxy_, this->handle_, block, bytes,
                                                act, ACE_INVALID_HANDLE, priority, signal_number);
    return this->bridge_->start_stream(result, action, this->handle_, data, bytes);
  }
};

class ReadStream final : public Streaming<ACE_POSIX_Asynch_Read_Stream> {
 public:
  using Streaming::Streaming;
  int read(ACE_Message_Block& block, std::size_t bytes, const void* act, int priority,
           int signal_number) override {
    bytes = std::min(bytes, room_of(block));
    if (bytes == 0) return errno = ENOSPC, -1;
    return start<ACE_POSIX_Asynch_Read_Stream_Result>(Action::read, block, block.wr_ptr(), bytes,
                                                      act, priority, signal_number);
  }
};

class WriteStream final : public Streaming<ACE_POSIX_Asynch_Write_Stream> {
 public:
  using Streaming::Streaming;
  int write(ACE_Message_Block& block, std::size_t bytes, const void* act, int priority,
            int signal_number) override {
    bytes = std::min(bytes, length_of(block));
    if (bytes == 0) return errno = EINVAL, -1;
    return start<ACE_POSIX_Asynch_Write_Stream_Result>(Action::write, block, block.rd_ptr(), bytes,
                                                       act, priority, signal_number);
  }
};

// A position in a file from both halves of the offset, as on Windows. ACE's own implementation
// drops the high half. (u_long is 64 bits wide on every system that the bridge is built for.)
static_assert(sizeof(u_long) == 8);

/// Starts the transfer of a result that a factory has made. 0, or -1 and errno, and then the result
/// is deleted.
inline int start_transfer(Bridge& bridge, ACE_POSIX_Asynch_Result* made, Action action) noexcept {
  std::unique_ptr<ACE_POSIX_Asynch_Result> result{made};
  if (!result) return errno = ENOMEM, -1;
  if (const int error = bridge.transfer(*result, action)) return errno = error, -1;
  static_cast<void>(result.release());
  return 0;
}

class ReadFile final : public Opening<ACE_POSIX_Asynch_Read_File> {
 public:
  using Opening::Opening;
  int read(ACE_Message_Block& block, std::size_t bytes, u_long offset, u_long offset_high,
           const void* act, int priority, int signal_number) override {
    bytes = std::min(bytes, room_of(block));
    if (bytes == 0) return errno = ENOSPC, -1;
    return start_transfer(
        *bridge_,
        posix_part(posix_proactor()->create_asynch_read_file_result(
            handler_proxy_, handle_, block, bytes, act, offset + (offset_high << 32), 0,
            ACE_INVALID_HANDLE, priority, signal_number)),
        Action::read);
  }
};

class WriteFile final : public Opening<ACE_POSIX_Asynch_Write_File> {
 public:
  using Opening::Opening;
  int write(ACE_Message_Block& block, std::size_t bytes, u_long offset, u_long offset_high,
            const void* act, int priority, int signal_number) override {
    bytes = std::min(bytes, length_of(block));
    if (bytes == 0) return errno = EINVAL, -1;
    return start_transfer(
        *bridge_,
        posix_part(posix_proactor()->create_asynch_write_file_result(
            handler_proxy_, handle_, block, bytes, act, offset + (offset_high << 32), 0,
            ACE_INVALID_HANDLE, priority, signal_number)),
        Action::write);
  }
};

}  // namespace baton::ace
