#include "transmit_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "results.hpp"

// libACE (up to 7.0.8) does not export this destructor, which derived classes need. This definition
// stays inside this library.
ACE_BEGIN_VERSIONED_NAMESPACE_DECL
ACE_Asynch_Transmit_File_Impl::~ACE_Asynch_Transmit_File_Impl() = default;
ACE_END_VERSIONED_NAMESPACE_DECL

namespace baton::ace {
namespace {

/// The bytes of one piece, unless the program gives a number.
constexpr std::size_t per_send_default = std::size_t{64} << 10;
/// The most that are in memory at a time.
constexpr std::size_t piece_max = std::size_t{1} << 20;

/// A block that shall send bytes and has none: the program has not moved its write pointer.
bool lacks_data(const ACE_Message_Block* block, std::size_t bytes) noexcept {
  return block != nullptr && bytes > 0 && length_of(*block) == 0;
}

}  // namespace

int TransmitFile::transmit_file(ACE_HANDLE file,
                                ACE_Asynch_Transmit_File::Header_And_Trailer* header_and_trailer,
                                std::size_t bytes_to_write, u_long offset, u_long offset_high,
                                std::size_t bytes_per_send, u_long flags, const void* act,
                                int priority, int signal_number) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return -1;
  if (S_ISDIR(status.st_mode)) return errno = EISDIR, -1;
  if (header_and_trailer != nullptr &&
      (lacks_data(header_and_trailer->header(), header_and_trailer->header_bytes()) ||
       lacks_data(header_and_trailer->trailer(), header_and_trailer->trailer_bytes()))) {
    return errno = EINVAL, -1;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  Transmission::Plan plan;
  plan.socket = this->handle_;
  plan.file = file;
  plan.ends = header_and_trailer;
  plan.offset = offset + (offset_high << 32);
  if (plan.offset > size) return errno = EINVAL, -1;
  plan.bytes = bytes_to_write != 0 ? bytes_to_write : size - plan.offset;
  if (plan.bytes > size - plan.offset) return errno = EINVAL, -1;
  if (bytes_per_send == 0) bytes_per_send = per_send_default;
  plan.per_send = std::min(bytes_per_send, piece_max);
  if (const int error = bridge_->opened(file)) return errno = error, -1;

  std::unique_ptr<ACE_POSIX_Asynch_Result> result{
      posix_part(this->posix_proactor()->create_asynch_transmit_file_result(
          this->handler_proxy_, this->handle_, file, header_and_trailer, plan.bytes, plan.offset, 0,
          bytes_per_send, flags, act, ACE_INVALID_HANDLE, priority, signal_number))};
  if (!result) return errno = ENOMEM, -1;
  if (const int error = Transmission::begin(bridge_, plan, *result)) return errno = error, -1;
  static_cast<void>(result.release());
  return 0;
}

}  // namespace baton::ace
