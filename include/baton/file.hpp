// File: a regular file or a block device, read and written at offsets. Each request has the three
// forms of io_object.hpp.
//
// Requests at offsets promise no order among each other; appends of one file are executed in the
// order of their start. No request blocks a thread in run() (contract.md, rule 10). Opening and
// size() do block, for as long as the file system takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "baton/buffer.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton {

/// How a file is opened; a bit set. At least one of read and write.
enum class FileFlags : std::uint16_t {
  none = 0,
  read = 1U << 0,
  write = 1U << 1,
  read_write = read | write,
  create = 1U << 2,     ///< make it if it does not exist
  exclusive = 1U << 3,  ///< with create: EEXIST if it does
  truncate = 1U << 4,   ///< throw away what is in it
  append = 1U << 5,     ///< every write goes to the end: use append_all()
  direct = 1U << 6,     ///< past the page cache: buffers, sizes, offsets aligned (O_DIRECT)
  sync = 1U << 7,       ///< a write is complete when it is on the device (O_SYNC)
  data_sync = 1U << 8,  ///< the same without metadata that is not needed to read it (O_DSYNC)
};
constexpr FileFlags operator|(FileFlags a, FileFlags b) noexcept {
  return static_cast<FileFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether the set contains one of the flags.
constexpr bool has(FileFlags set, FileFlags flag) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(flag)) != 0;
}

/// How a file is opened, beside its flags.
struct FileOptions {
  unsigned permissions = 0666;  ///< of a file that is created, less the umask
  Home home{};                  ///< of the file
};

class BATON_EXPORT File : public IoObject {
 public:
  File() noexcept = default;  ///< closed

  /// Errors: the system's; EISDIR for a folder; EINVAL for anything else that is neither a regular
  /// file nor a block device (a FIFO or a terminal goes to Pipe), and for a path with a zero byte
  /// in it; Proactor::adopt's, for which nothing is created or truncated.
  static Result<File> open(Proactor& proactor, const std::string& path, FileFlags flags,
                           FileOptions options = {}) noexcept;
  /// From a descriptor (see Proactor::adopt). Refuses what open() refuses: a FIFO, a socket or a
  /// terminal would hold a worker for as long as nothing comes, and goes to Pipe or to a socket. On
  /// failure the caller keeps it.
  static Result<File> adopt(Proactor& proactor, NativeHandle native,
                            Ownership ownership = Ownership::owned, Home home = {}) noexcept;

  // -- reading ------------------------------------------------------------------------------------

  /// Reads at least one byte at `offset`: Result<std::size_t>, 0 at the end of the file.
  [[nodiscard]] auto read_at(std::uint64_t offset, MutableBuffer buffer) noexcept {
    return awaitable(reading(0, offset, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_at(std::uint64_t offset, MutableBuffer buffer,
                                        Handler&& handler) noexcept {
    return start_cached(reading(0, offset, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_at(Operation& operation, std::uint64_t offset,
                                        MutableBuffer buffer, Handler handler = {}) noexcept {
    return start_owned(operation, reading(0, offset, buffer), handler);
  }

  /// Fills the whole buffer; errc::end_of_stream if the file ends before.
  [[nodiscard]] auto read_exactly_at(std::uint64_t offset, MutableBuffer buffer) noexcept {
    return awaitable(reading(Operation::exactly, offset, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_exactly_at(std::uint64_t offset, MutableBuffer buffer,
                                                Handler&& handler) noexcept {
    return start_cached(reading(Operation::exactly, offset, buffer),
                        std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_exactly_at(Operation& operation, std::uint64_t offset,
                                                MutableBuffer buffer,
                                                Handler handler = {}) noexcept {
    return start_owned(operation, reading(Operation::exactly, offset, buffer), handler);
  }

  /// read_at into several buffers. The list must live until completion.
  [[nodiscard]] auto read_vectored_at(std::uint64_t offset, MutableBuffers list) noexcept {
    return awaitable(reading_list(offset, list), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_vectored_at(std::uint64_t offset, MutableBuffers list,
                                                 Handler&& handler) noexcept {
    return start_cached(reading_list(offset, list), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_vectored_at(Operation& operation, std::uint64_t offset,
                                                 MutableBuffers list,
                                                 Handler handler = {}) noexcept {
    return start_owned(operation, reading_list(offset, list), handler);
  }

  // -- writing ------------------------------------------------------------------------------------

  /// Writes at least one byte at `offset`: Result<std::size_t>.
  [[nodiscard]] auto write_at(std::uint64_t offset, ConstBuffer buffer) noexcept {
    return awaitable(writing(0, offset, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_at(std::uint64_t offset, ConstBuffer buffer,
                                         Handler&& handler) noexcept {
    return start_cached(writing(0, offset, buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_at(Operation& operation, std::uint64_t offset,
                                         ConstBuffer buffer, Handler handler = {}) noexcept {
    return start_owned(operation, writing(0, offset, buffer), handler);
  }

  /// Writes the whole buffer.
  [[nodiscard]] auto write_all_at(std::uint64_t offset, ConstBuffer buffer) noexcept {
    return awaitable(writing(Operation::exactly, offset, buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_all_at(std::uint64_t offset, ConstBuffer buffer,
                                             Handler&& handler) noexcept {
    return start_cached(writing(Operation::exactly, offset, buffer),
                        std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_all_at(Operation& operation, std::uint64_t offset,
                                             ConstBuffer buffer, Handler handler = {}) noexcept {
    return start_owned(operation, writing(Operation::exactly, offset, buffer), handler);
  }

  /// write_all_at of several buffers. The list must live until completion.
  [[nodiscard]] auto write_all_vectored_at(std::uint64_t offset, ConstBuffers list) noexcept {
    return awaitable(writing_list(offset, list), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_all_vectored_at(std::uint64_t offset, ConstBuffers list,
                                                      Handler&& handler) noexcept {
    return start_cached(writing_list(offset, list), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_all_vectored_at(Operation& operation, std::uint64_t offset,
                                                      ConstBuffers list,
                                                      Handler handler = {}) noexcept {
    return start_owned(operation, writing_list(offset, list), handler);
  }

  /// Writes the whole buffer at the end of the file, behind the appends started before. EINVAL for
  /// a file that is not opened with FileFlags::append (O_APPEND).
  [[nodiscard]] auto append_all(ConstBuffer buffer) noexcept {
    return awaitable(appending(buffer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code append_all(ConstBuffer buffer, Handler&& handler) noexcept {
    return start_cached(appending(buffer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code append_all(Operation& operation, ConstBuffer buffer,
                                           Handler handler = {}) noexcept {
    return start_owned(operation, appending(buffer), handler);
  }

  // -- the rest -----------------------------------------------------------------------------------

  /// Waits until what is written is on the device; data_sync without metadata that is not needed to
  /// read it. It waits for the writes of this file object started before. Result<void>.
  [[nodiscard]] auto sync() noexcept { return awaitable(syncing(0), detail::NoBytes{}); }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code sync(Handler&& handler) noexcept {
    return start_cached(syncing(0), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code sync(Operation& operation, Handler handler = {}) noexcept {
    return start_owned(operation, syncing(0), handler);
  }
  /// As sync(), without metadata that is not needed to read the data.
  [[nodiscard]] auto data_sync() noexcept {
    return awaitable(syncing(Operation::data_only), detail::NoBytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code data_sync(Handler&& handler) noexcept {
    return start_cached(syncing(Operation::data_only), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code data_sync(Operation& operation, Handler handler = {}) noexcept {
    return start_owned(operation, syncing(Operation::data_only), handler);
  }

  /// Bytes in it now; 0 for a block device.
  [[nodiscard]] Result<std::uint64_t> size() const noexcept;

 private:
  friend class IoObject;
  using IoObject::IoObject;

  [[nodiscard]] detail::Request reading(std::uint16_t flags, std::uint64_t offset,
                                        MutableBuffer buffer) const noexcept {
    detail::Request made = request(OperationKind::read_file, flags, buffer);
    made.extra = offset;
    return made;
  }
  [[nodiscard]] detail::Request writing(std::uint16_t flags, std::uint64_t offset,
                                        ConstBuffer buffer) const noexcept {
    detail::Request made = request(OperationKind::write_file, flags, buffer);
    made.extra = offset;
    return made;
  }
  [[nodiscard]] detail::Request reading_list(std::uint64_t offset,
                                             MutableBuffers list) const noexcept {
    detail::Request made = list_request(OperationKind::read_file, 0, list);
    made.extra = offset;
    return made;
  }
  [[nodiscard]] detail::Request writing_list(std::uint64_t offset,
                                             ConstBuffers list) const noexcept {
    detail::Request made = list_request(OperationKind::write_file, Operation::exactly, list);
    made.extra = offset;
    return made;
  }
  [[nodiscard]] detail::Request appending(ConstBuffer buffer) const noexcept {
    return request(OperationKind::write_file, Operation::append | Operation::exactly, buffer);
  }
  [[nodiscard]] detail::Request syncing(std::uint16_t flags) const noexcept {
    return request(OperationKind::sync_file, flags);
  }
};

}  // namespace baton
