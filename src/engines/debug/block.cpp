// Copies, patterns, and the faults that they show.
#include "engines/debug/block.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/asan.hpp"
#include "baton/handle.hpp"
#include "engines/debug/report.hpp"
#include "os/probe_memory.hpp"

#ifdef BATON_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace baton::engines::debug {
namespace {

constexpr std::size_t fence_size = 64;
constexpr std::size_t page = 4'096;  // direct I/O asks for no more
constexpr std::byte fence{0xfc};
constexpr std::byte grave{0xdb};

bool all_are(const std::byte* from, std::size_t size, std::byte value) noexcept {
  return std::all_of(from, from + size, [value](std::byte one) { return one == value; });
}

/// AddressSanitizer knows that the memory is freed, or belongs to a function that has returned.
bool known_gone([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t size) noexcept {
#ifdef BATON_ASAN
  return __asan_region_is_poisoned(const_cast<void*>(memory), size) != nullptr;
#else
  return false;
#endif
}

void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t size) noexcept {
#ifdef BATON_ASAN
  __asan_poison_memory_region(memory, size);
#endif
}
void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t size) noexcept {
#ifdef BATON_ASAN
  __asan_unpoison_memory_region(memory, size);
#endif
}

}  // namespace

// -- one buffer -----------------------------------------------------------------------------------

// The copy has the same offset in its page as the user's buffer, so that direct I/O succeeds or
// fails as it would without the copy.
Extent::Extent(void* theirs, std::size_t size, std::size_t watched_from, bool filled)
    : theirs_(theirs),
      size_(size),
      watched_from_(std::min(watched_from, size)),
      filled_(filled),
      allocated_(size + 2 * page) {
  memory_ = static_cast<std::byte*>(::operator new(allocated_, std::align_val_t{page}));
  std::memset(memory_, static_cast<int>(fence), allocated_);
  std::size_t offset = reinterpret_cast<std::uintptr_t>(theirs) % page;
  if (offset < fence_size) offset += page;
  ours_ = memory_ + offset;
  // At most a page and a fence before it, and a fence behind.
  static_assert(page + fence_size + fence_size <= 2 * page);
}

Extent::~Extent() {
  if (memory_ != nullptr) ::operator delete(memory_, std::align_val_t{page});
}

Extent::Extent(Extent&& other) noexcept
    : theirs_(other.theirs_),
      size_(other.size_),
      watched_from_(other.watched_from_),
      filled_(other.filled_),
      allocated_(other.allocated_),
      memory_(std::exchange(other.memory_, nullptr)),
      ours_(other.ours_) {}

Extent& Extent::operator=(Extent&& other) noexcept {
  std::swap(theirs_, other.theirs_);
  std::swap(size_, other.size_);
  std::swap(watched_from_, other.watched_from_);
  std::swap(filled_, other.filled_);
  std::swap(allocated_, other.allocated_);
  std::swap(memory_, other.memory_);
  std::swap(ours_, other.ours_);
  return *this;
}

bool Extent::take(std::byte pattern) noexcept {
  if (!os::copy_if_readable(ours_, theirs_, size_)) return false;
  if (!filled_) return true;
  std::byte part[1'024];
  std::memset(part, static_cast<int>(pattern), sizeof(part));
  for (std::size_t done = watched_from_; done < size_; done += sizeof(part)) {
    const std::size_t count = std::min(sizeof(part), size_ - done);
    if (os::copy_if_writable(static_cast<std::byte*>(theirs_) + done, part, count)) continue;
    static_cast<void>(os::copy_if_writable(theirs_, ours_, done));
    return false;
  }
  return true;
}

bool Extent::give_back() const noexcept {
  return !filled_ || os::copy_if_writable(theirs_, ours_, size_);
}

const char* Extent::look(std::byte pattern, std::size_t& where) const noexcept {
  where = 0;
  if (known_gone(theirs_, size_)) return "was freed";
  std::byte now[1'024];
  for (std::size_t begin = filled_ ? watched_from_ : 0; begin < size_; begin += sizeof(now)) {
    const std::size_t count = std::min(sizeof(now), size_ - begin);
    where = begin;
    if (!os::copy_if_readable(now, static_cast<const std::byte*>(theirs_) + begin, count)) {
      return "is not mapped any more";
    }
    for (std::size_t i = 0; i < count; ++i) {
      where = begin + i;
      if (now[i] == (filled_ ? pattern : ours_[where])) continue;
      return filled_ ? "was written to, freed, or given to another operation"
                     : "was changed, freed, or given to another operation";
    }
  }
  return nullptr;
}

bool Extent::overrun() const noexcept {
  return !all_are(ours_ - fence_size, fence_size, fence) ||
         !all_are(ours_ + size_, fence_size, fence);
}

void Extent::bury() noexcept {
  std::memset(memory_, static_cast<int>(grave), allocated_);
  poison(memory_, allocated_);
}

bool Extent::undisturbed() const noexcept {
  unpoison(memory_, allocated_);
  return all_are(memory_, allocated_, grave);
}

// -- one operation --------------------------------------------------------------------------------

Block::Block(Operation& original, std::uint64_t serial, std::int64_t now_ns)
    : original_(&original),
      since_ns_(now_ns),
      pattern_(static_cast<std::byte>(0x81 + serial % 0x60)),
      data_before_(memory_of(original)),
      size_before_(size_of(original)),
      extra_before_(extra_of(original)),
      flags_before_(original.flags()),
      native_(original.handle() != nullptr ? original.handle()->native() : invalid_handle) {
  stand_for(original);
  std::memcpy(state_before_, original.engine_state<State>(), sizeof(State));
  copy_buffers();
  copy_extra();
  frames_count_ = callers(frames_, frames_max);
}

// Which buffers there are, and room for their copies.
void Block::copy_buffers() {
  if (has(pooled)) return;
  bool reads = false;
  switch (kind()) {
    case OperationKind::read_stream:
    case OperationKind::read_file:
    case OperationKind::read_datagram:
      reads = true;
      break;
    case OperationKind::write_stream:
    case OperationKind::write_file:
    case OperationKind::write_datagram:
      break;
    default:
      return;
  }
  const std::size_t watched_from = has(until) ? bytes() : 0;
  if (has(vectored)) {
    const auto list = original_->buffers();
    list_before_.assign(list.begin(), list.end());
    list_ = list_before_;
  } else {
    list_.assign(1, MutableBuffer{data_before_, size_before_});
  }
  extents_.reserve(list_.size());
  for (const MutableBuffer& one : list_) {
    if (one.size == 0 || one.size > copied_max || copy_of(one) != nullptr) continue;
    extents_.emplace_back(one.data, one.size, watched_from, reads);
    bytes_held_ += one.size + 2 * page;
  }
}

const Extent* Block::copy_of(const MutableBuffer& buffer) const noexcept {
  const auto found =
      std::find_if(extents_.begin(), extents_.end(), [&buffer](const Extent& extent) {
        return extent.theirs() == buffer.data && extent.size() == buffer.size;
      });
  return found != extents_.end() ? &*found : nullptr;
}

void Block::copy_extra() {
  if (has_endpoint(*original_)) {
    endpoint_ = *original_->endpoint();
    set_extra(&endpoint_);
  }
  if (has(until)) {
    delimiter_ = *original_->delimiter();
    delimiter_view_ = delimiter_;
    set_extra(&delimiter_view_);
  }
}

void Block::take_over() noexcept {
  std::memset(original_->engine_state<State>(), static_cast<int>(pattern_), sizeof(State));
  // Memory that cannot be copied is left to the engine, which reports its error.
  std::erase_if(extents_, [this](Extent& one) { return !one.take(pattern_); });
  for (MutableBuffer& one : list_) {
    if (const Extent* copy = copy_of(one)) one.data = copy->ours();
  }
  if (list_.empty()) return;
  if (has(vectored)) {
    set_memory(list_.data(), list_.size());
  } else {
    set_memory(list_.front().data, list_.front().size);
  }
}

std::string Block::faults_of_operation() const {
  constexpr const char* hint = ": the object was freed, overwritten or prepared anew";
  if (known_gone(original_, sizeof(Operation))) return "its memory was freed";
  alignas(Operation) std::byte bytes_now[sizeof(Operation)];
  if (!os::copy_if_readable(bytes_now, original_, sizeof(Operation))) {
    return "its memory is not mapped any more";
  }
  auto& now = *std::launder(reinterpret_cast<Operation*>(bytes_now));
  const State& state = now.engine_state<State>();
  if (!all_are(state, sizeof(State), pattern_)) {
    return std::string("the library's part of it was changed") + hint;
  }
  if (now.activation() != activation()) {
    return std::string("its activation is ") + std::to_string(now.activation()) + " now" + hint;
  }
  if (now.kind() != kind() || now.handle() != handle() || now.flags() != flags_before_ ||
      memory_of(now) != data_before_ || size_of(now) != size_before_ ||
      extra_of(now) != extra_before_) {
    return std::string("its request was changed") + hint;
  }
  return {};
}

std::string Block::users_fault() const {
  if (std::string fault = faults_of_operation(); !fault.empty()) {
    return "an operation was destroyed or changed before it was complete\n  " + fault;
  }
  for (std::size_t i = 0; i < list_before_.size(); ++i) {
    MutableBuffer now;
    const auto* one = static_cast<const MutableBuffer*>(data_before_) + i;
    if (known_gone(one, sizeof(now)) || !os::copy_if_readable(&now, one, sizeof(now)) ||
        now.data != list_before_[i].data || now.size != list_before_[i].size) {
      return "the list of buffers of a pending operation was changed or freed, at number " +
             std::to_string(i);
    }
  }
  for (const Extent& one : extents_) {
    std::size_t where = 0;
    const char* fault = one.look(pattern_, where);
    if (fault == nullptr) continue;
    return "a buffer of a pending operation " + std::string(fault) + "\n  buffer " +
           address(one.theirs()) + " of " + std::to_string(one.size()) + " bytes, seen at byte " +
           std::to_string(where);
  }
  return {};
}

std::string Block::engines_fault() const {
  for (const Extent& one : extents_) {
    if (one.overrun()) return "the engine or the kernel wrote outside the buffer it was given";
  }
  return {};
}

void Block::give_back() noexcept {
  std::memcpy(original_->engine_state<State>(), state_before_, sizeof(State));
  for (const Extent& one : extents_) static_cast<void>(one.give_back());
  const bool fills = kind() == OperationKind::accept || kind() == OperationKind::read_datagram;
  if (fills && has_endpoint(*original_)) *original_->endpoint() = endpoint_;
}

void Block::bury() noexcept {
  for (Extent& one : extents_) one.bury();
  std::memcpy(image_, static_cast<const void*>(static_cast<Operation*>(this)), sizeof(image_));
  poison(static_cast<Operation*>(this), sizeof(Operation));
}

std::string Block::grave_robber() const {
  const void* here = static_cast<const Operation*>(this);
  unpoison(here, sizeof(Operation));
  bool quiet = std::memcmp(image_, here, sizeof(image_)) == 0;
  if (!quiet) return "the engine changed an operation after it had given it back";
  for (const Extent& one : extents_) quiet = one.undisturbed() && quiet;
  if (quiet) return {};
  return "the engine or the kernel wrote into a buffer after the operation was given back";
}

std::string Block::describe(std::string_view engine, std::int64_t now_ns) const {
  std::string text = "  operation " + address(original_) + ": " + to_string(kind());
  if (native_ != invalid_handle) text += " on descriptor " + std::to_string(native_);
  text += ", activation " + std::to_string(activation()) + ", tag " + std::to_string(tag());
  text += "\n  given to engine " + std::string(engine) + " " +
          std::to_string((now_ns - since_ns_) / 1'000) + " us ago, by:\n";
  return text + frames_text(frames_, frames_count_);
}

}  // namespace baton::engines::debug
