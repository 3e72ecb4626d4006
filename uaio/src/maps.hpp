// PrivateMemory: which memory is the process's alone, as /proc/self/maps says. It makes only system
// calls, so that the child of a fork may use it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uaio {

class PrivateMemory {
 public:
  PrivateMemory() noexcept;
  ~PrivateMemory();
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;

  /// Goes to the next private mapping that can be read and written. False: there are no more, or
  /// the system does not say.
  bool next() noexcept;
  /// Whether this mapping has all of it.
  [[nodiscard]] bool holds(const void* data, std::size_t size) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return address >= begin_ && address < end_ && size <= end_ - address;
  }

 private:
  int next_character() noexcept;
  std::uintptr_t next_number() noexcept;

  int file_ = -1;
  char text_[1'024];
  std::size_t size_ = 0;
  std::size_t place_ = 0;
  std::uintptr_t begin_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace uaio
