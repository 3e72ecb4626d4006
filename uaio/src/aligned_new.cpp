// Aligned memory by malloc and free alone. The C++ library takes it by aligned_alloc. A program may
// have a malloc, calloc, realloc and free of its own and no aligned_alloc, which the C library
// permits ("Replacing malloc"). Then the block would be glibc's, and the program's free would get
// it.
//
// These are the C++ library's two functions to which all others of their kind lead (ld --wrap).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" {

/// The start of the whole block is stored before the aligned one.
void* __wrap__ZnwmSt11align_val_t(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  std::size_t whole = 0;
  void* const start =
      __builtin_add_overflow(size, step + sizeof(void*), &whole) ? nullptr : std::malloc(whole);
  if (start == nullptr) throw std::bad_alloc{};
  const std::size_t least = reinterpret_cast<std::uintptr_t>(start) + sizeof(void*);
  char* const block = static_cast<char*>(start) + sizeof(void*) + (step - least % step) % step;
  reinterpret_cast<void**>(block)[-1] = start;
  return block;
}
void __wrap__ZdlPvSt11align_val_t(void* block, std::align_val_t /*alignment*/) noexcept {
  if (block != nullptr) std::free(static_cast<void**>(block)[-1]);
}

}  // extern "C"
