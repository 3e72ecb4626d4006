#include "sampler.hpp"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

// Of a sanitizer's allocator, which mallinfo2 does not see; null without one.
extern "C" [[gnu::weak]] std::size_t __sanitizer_get_current_allocated_bytes();

namespace baton::soak {

std::uint64_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int found = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return found == 2 ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::size_t count_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::uint64_t allocated_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) {
    return __sanitizer_get_current_allocated_bytes();
  }
  const auto all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace baton::soak
