// Block: what debug mode keeps of one operation while the engine has it - the double that the
// engine gets in its place, copies of its buffers, what it looked like, and its starter.
//
// The kernel writes into the block and never into the user's memory. So what the user does to that
// memory meanwhile shows:
//
//   - a buffer to read into is filled with a pattern at the start, and has to hold it at the end;
//     it gets its old content back then, with what was read in it. free() leaves its marks in the
//     first bytes of a block, a stack frame its variables.
//   - a buffer to write from is compared with the copy that was sent.
//   - the engine's room inside the operation holds a pattern, too, and its request has to be what
//     it was.
//   - what is not mapped any more, or is poisoned for AddressSanitizer, is gone.
//
// Once the engine has given it back, a block is filled with another pattern and kept for a while: a
// kernel or an engine that still writes then is found when the block is thrown away.
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
  /// Throws std::bad_alloc. `watched_from`: bytes before it are the user's to read (read_until).
  Extent(void* theirs, std::size_t size, std::size_t watched_from, bool filled);
  ~Extent();
  Extent(Extent&& other) noexcept;
  Extent& operator=(Extent&& other) noexcept;

  /// Copies the user's content, and leaves the pattern there; false: it is no such memory, and
  /// nothing has changed.
  bool take(std::byte pattern) noexcept;
  /// Into the user's memory; false: it is gone.
  [[nodiscard]] bool give_back() const noexcept;
  /// The change of the user's memory: null if it is as it was left. `where`: the first changed
  /// byte.
  const char* look(std::byte pattern, std::size_t& where) const noexcept;
  /// The engine wrote outside.
  [[nodiscard]] bool overrun() const noexcept;
  /// Into quarantine, and what was found when it ended: true if nothing was written. The poison is
  /// lifted.
  void bury() noexcept;
  [[nodiscard]] bool undisturbed() const noexcept;

  [[nodiscard]] std::byte* ours() const noexcept { return ours_; }
  [[nodiscard]] void* theirs() const noexcept { return theirs_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void* theirs_;
  std::size_t size_;
  std::size_t watched_from_;
  bool filled_;  // with a pattern; else compared
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
  /// The fault of the user's memory, in a sentence; empty: none. And the fault of the engine.
  [[nodiscard]] std::string users_fault() const;
  [[nodiscard]] std::string engines_fault() const;
  /// The user's memory as it has to be at completion. REQUIRES: no fault.
  void give_back() noexcept;
  /// Quarantine: buried, and whether it was left untouched meanwhile.
  void bury() noexcept;
  [[nodiscard]] std::string grave_robber() const;

  [[nodiscard]] Operation& original() const noexcept { return *original_; }
  [[nodiscard]] std::size_t bytes_held() const noexcept { return bytes_held_; }
  /// Which operation, where it was started, when.
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
