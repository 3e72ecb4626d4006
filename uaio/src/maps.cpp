#include "maps.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uaio {
namespace {

constexpr int end_of_file = -1;

}  // namespace

// System calls by number: libc's functions for these are cancellation points.
PrivateMemory::PrivateMemory() noexcept
    : file_(static_cast<int>(
          ::syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0))) {}

PrivateMemory::~PrivateMemory() {
  if (file_ >= 0) ::syscall(SYS_close, file_);
}

int PrivateMemory::next_character() noexcept {
  if (place_ == size_) {
    const long got = file_ < 0 ? -1 : ::syscall(SYS_read, file_, text_, sizeof(text_));
    if (got <= 0) return end_of_file;
    size_ = static_cast<std::size_t>(got);
    place_ = 0;
  }
  return static_cast<unsigned char>(text_[place_++]);
}

/// Of hexadecimal digits, and takes the character behind them.
std::uintptr_t PrivateMemory::next_number() noexcept {
  std::uintptr_t number = 0;
  for (;;) {
    const int each = next_character();
    const bool is_letter = each >= 'a' && each <= 'f';
    if (!is_letter && !(each >= '0' && each <= '9')) return number;
    number = number << 4 | static_cast<std::uintptr_t>(is_letter ? each - 'a' + 10 : each - '0');
  }
}

// A line: 7f3a11c00000-7f3a11e00000 rw-p 00000000 00:00 0    its name, if it has one
bool PrivateMemory::next() noexcept {
  for (;;) {
    begin_ = next_number();
    end_ = next_number();
    char rights[4];
    for (char& each : rights) {
      const int next = next_character();
      if (next == end_of_file) return false;
      each = static_cast<char>(next);
    }
    int rest = next_character();
    while (rest != '\n' && rest != end_of_file) rest = next_character();
    if (rights[0] == 'r' && rights[1] == 'w' && rights[3] == 'p') return true;
  }
}

}  // namespace uaio
