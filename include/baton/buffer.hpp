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

struct MutableBuffer;
struct ConstBuffer;

namespace detail {

/// Ranges that make no sense as bytes: lists of buffers or texts would be sent as pointers and
/// sizes.
template <class Element>
concept ViewOrPointer = std::is_pointer_v<Element> || std::is_member_pointer_v<Element> ||
                        std::is_null_pointer_v<Element> || std::is_same_v<Element, MutableBuffer> ||
                        std::is_same_v<Element, ConstBuffer> || std::ranges::enable_view<Element>;

/// Says why a range is no buffer, when it is compiled.
template <class Range>
constexpr void check_that_it_is_bytes() noexcept {
  using Element =
      std::remove_cv_t<typename decltype(std::span{std::declval<Range&>()})::element_type>;
  static_assert(!ViewOrPointer<Element>,
                "a buffer is bytes, and this range holds pointers, views or buffers: give a list "
                "of buffers to the _vectored form");
  static_assert(std::is_trivially_copyable_v<Element>,
                "a buffer is bytes, and the elements of this range are objects that may not be "
                "copied as such");
}

}  // namespace detail

/// Memory to read into: a borrowed view.
struct MutableBuffer {
  void* data = nullptr;  ///< where it begins
  std::size_t size = 0;  ///< in bytes

  constexpr MutableBuffer() noexcept = default;
  constexpr MutableBuffer(void* memory, std::size_t bytes) noexcept : data(memory), size(bytes) {}
  /// From anything contiguous and writable whose elements are plain data: std::array, std::vector,
  /// std::span of bytes, chars or numbers.
  template <class Range>
    requires requires(Range& range) {
      std::span{range};
    } && (!std::is_const_v<typename decltype(std::span{std::declval<Range&>()})::element_type>)
  constexpr MutableBuffer(Range&& range) noexcept  // NOLINT: a view, implicit on purpose
      : data(std::span{range}.data()), size(std::span{range}.size_bytes()) {
    detail::check_that_it_is_bytes<Range>();
  }
};

/// Memory to write from: a borrowed view.
struct ConstBuffer {
  const void* data = nullptr;  ///< where it begins
  std::size_t size = 0;        ///< in bytes

  constexpr ConstBuffer() noexcept = default;
  constexpr ConstBuffer(const void* memory, std::size_t bytes) noexcept
      : data(memory), size(bytes) {}
  constexpr ConstBuffer(MutableBuffer other) noexcept  // NOLINT: widening
      : data(other.data), size(other.size) {}
  constexpr ConstBuffer(std::string_view text) noexcept  // NOLINT: a view
      : data(text.data()), size(text.size()) {}
  /// A literal has a zero at its end, which is not meant to be sent: write std::string_view{"..."},
  /// or std::span for an array that is all data.
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
      : data(std::span{range}.data()), size(std::span{range}.size_bytes()) {
    detail::check_that_it_is_bytes<const Range>();
  }
};

/// A scatter or gather list: a view of the caller's buffers. The list itself must live as long as
/// the buffers, so a temporary one is refused. A temporary std::span is allowed, because it is a
/// view as well.
template <class Buffer>
class BufferList : public std::span<const Buffer> {
 public:
  constexpr BufferList() noexcept = default;
  constexpr BufferList(const Buffer* first, std::size_t count) noexcept
      : std::span<const Buffer>(first, count) {}
  template <class Range>
    requires std::is_convertible_v<Range&, std::span<const Buffer> >
  constexpr BufferList(Range&& list) noexcept  // NOLINT: a view, implicit on purpose
      : std::span<const Buffer>(list) {
    static_assert(std::is_lvalue_reference_v<Range> || std::ranges::enable_view<Range>,
                  "a list of buffers must live until the operation is complete: give it a name, a "
                  "temporary is gone before");
  }
};

/// Where a scattered read puts its bytes, in order.
using MutableBuffers = BufferList<MutableBuffer>;
/// Where a gathered write takes its bytes from, in order.
using ConstBuffers = BufferList<ConstBuffer>;

}  // namespace baton

template <class Buffer>
inline constexpr bool std::ranges::enable_view<baton::BufferList<Buffer> > = true;
template <class Buffer>
inline constexpr bool std::ranges::enable_borrowed_range<baton::BufferList<Buffer> > = true;
