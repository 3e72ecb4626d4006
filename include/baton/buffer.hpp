// Memory to read into and to write from. A buffer is a borrowed view: from start until the
// operation's own completion is delivered the memory belongs to Baton (contract.md, rule 2).
//
// MutableBuffer and ConstBuffer have the layout of the system's iovec (checked in src/os), so that
// a list of them goes to the kernel as it is, without a copy.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

namespace baton {

struct MutableBuffer {
  void* data = nullptr;
  std::size_t size = 0;

  constexpr MutableBuffer() noexcept = default;
  constexpr MutableBuffer(void* memory, std::size_t bytes) noexcept : data(memory), size(bytes) {}
  /// From anything contiguous and writable: std::array, std::vector, std::span of bytes or chars.
  template <class Range>
    requires requires(Range& range) {
      std::span{range};
    } && (!std::is_const_v<typename decltype(std::span{std::declval<Range&>()})::element_type>)
  constexpr MutableBuffer(Range&& range) noexcept  // NOLINT: a view, implicit on purpose
      : data(std::span{range}.data()), size(std::span{range}.size_bytes()) {}
};

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t size = 0;

  constexpr ConstBuffer() noexcept = default;
  constexpr ConstBuffer(const void* memory, std::size_t bytes) noexcept
      : data(memory), size(bytes) {}
  constexpr ConstBuffer(MutableBuffer other) noexcept  // NOLINT: widening
      : data(other.data), size(other.size) {}
  constexpr ConstBuffer(std::string_view text) noexcept  // NOLINT: a view
      : data(text.data()), size(text.size()) {}
  /// A literal has a zero at its end, which nobody means to send: say std::string_view{"..."}, or
  /// std::span for an array that is all data.
  template <std::size_t Size>
  ConstBuffer(const char (&literal)[Size]) = delete;
  template <std::size_t Size>
  constexpr ConstBuffer(char (&array)[Size]) noexcept  // NOLINT: a view
      : data(array), size(Size) {}
  template <class Range>
    requires requires(const Range& range) { std::span{range}; } &&
                 (!std::is_same_v<std::remove_cvref_t<Range>, MutableBuffer>) &&
                 (!std::is_same_v<std::remove_cvref_t<Range>, ConstBuffer>)
  constexpr ConstBuffer(const Range& range) noexcept  // NOLINT: a view, implicit on purpose
      : data(std::span{range}.data()), size(std::span{range}.size_bytes()) {}
};

/// Scatter and gather lists: the list itself must live as long as the buffers.
using MutableBuffers = std::span<const MutableBuffer>;
using ConstBuffers = std::span<const ConstBuffer>;

}  // namespace baton
