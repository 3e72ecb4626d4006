// Block: the state that debug mode keeps of one operation while the engine has it: the double that
// the engine gets instead, copies of the buffers, the operation as it was started, and its callers.
//
// The kernel writes into the block and never into the user's memory, so the user's changes to that
// memory can be found:
//
//   - A buffer to read into is filled with a pattern at the start, and must still hold it at the
//     end. Then the old content returns, with the bytes read in it. free() writes into the first
//     bytes of a block, and a stack frame its variables.
//   - A buffer to write from is compared with the copy that was sent.
//   - The engine's state inside the operation holds a pattern, too, and the request must not have
//     changed.
//   - Memory that is not mapped any more, or is poisoned for AddressSanitizer, is gone.
//
// After the completion a block is filled with another pattern and kept for a while. If a kernel or
// an engine still writes into it, that is found when the block is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baton/endpoint.hpp"
#include "engines/common/operation_double.hpp"

namespace baton::engines::debug {

/// A larger buffer is not copied: the engine gets the user's own, unwatched.
inline constexpr std::size_t copied_max = std::size_t{1} << 20;

/// One buffer of the user's, and the memory that stands for it.
class Extent {
 public:
  /// Throws std::bad_alloc. `watched_from`: the user may read the bytes before it (read_until).
  Extent(void* theirs, std::size_t size, std::size_t watched_from, bool filled);
  ~Extent();
  Extent(Extent&& other) noexcept;
  Extent& operator=(Extent&& other) noexcept;

  /// Copies the user's content and leaves the pattern there. False: there is no such memory, and
  /// nothing has changed.
  bool take(std::byte pattern) noexcept;
  /// Copies the content into the user's memory. False: that memory is gone.
  [[nodiscard]] bool give_back() const noexcept;
  /// Describes a change of the user's memory; null if there is none. `where`: the first changed
  /// byte.
  const char* look(std::byte pattern, std::size_t& where) const noexcept;
  /// The engine wrote outside the buffer.
  [[nodiscard]] bool overrun() const noexcept;
  /// bury() begins the quarantine. undisturbed() ends it: it lifts the poison, and returns true if
  /// nothing was written meanwhile.
  void bury() noexcept;
  [[nodiscard]] bool undisturbed() const noexcept;

  [[nodiscard]] std::byte* ours() const noexcept { return ours_; }
  [[nodiscard]] void* theirs() const noexcept { return theirs_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void* theirs_;
  std::size_t size_;
  std::size_t watched_from_;
  bool filled_;  // with the pattern (a read); else compared (a write)
  std::size_t allocated_;
  std::byte* memory_;
  std::byte* ours_;
};

class Block final : public OperationDouble {
 public:
  /// Throws std::bad_alloc. Nothing is changed yet. `serial` chooses the pattern.
  Block(Operation& original, std::uint64_t serial, std::int64_t now_ns);

  /// Takes over the user's memory, and leaves patterns there.
  void take_over() noexcept;
  /// The user's fault, and the engine's, in a sentence each; empty: none.
  [[nodiscard]] std::string users_fault() const;
  [[nodiscard]] std::string engines_fault() const;
  /// The user's memory as it has to be at completion. REQUIRES: no fault.
  void give_back() noexcept;
  /// bury() begins the quarantine. grave_robber() ends it, and describes a write that happened
  /// meanwhile; empty: none.
  void bury() noexcept;
  [[nodiscard]] std::string grave_robber() const;

  [[nodiscard]] Operation& original() const noexcept { return *original_; }
  [[nodiscard]] std::size_t bytes_held() const noexcept { return bytes_held_; }
  /// Describes the operation: which one, who started it, when.
  [[nodiscard]] std::string describe(std::string_view engine, std::int64_t now_ns) const;

 private:
  using State = std::byte[limits::engine_state_size];
  void copy_buffers();
  void copy_extra();
  [[nodiscard]] const Extent* copy_of(const MutableBuffer& buffer) const noexcept;
  [[nodiscard]] std::string faults_of_operation() const;

  Operation* const original_;
  const std::int64_t since_ns_;
  const std::byte pattern_;
  // The user's operation as it was started.
  void* const data_before_;
  const std::size_t size_before_;
  const std::uint64_t extra_before_;
  const std::uint16_t flags_before_;
  const int native_;
  State state_before_;
  std::vector<MutableBuffer> list_before_;
  // The copy for the engine.
  std::vector<MutableBuffer> list_;
  std::vector<Extent> extents_;
  Endpoint endpoint_;
  std::string delimiter_;
  std::string_view delimiter_view_;
  std::size_t bytes_held_ = 0;
  // For the report.
  static constexpr int frames_max = 24;
  void* frames_[frames_max];
  int frames_count_ = 0;
  // In quarantine: what the double looked like.
  std::byte image_[sizeof(Operation)];
};

}  // namespace baton::engines::debug
