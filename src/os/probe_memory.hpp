// Memory that may be unmapped: copies from and to it, and reports what is missing instead of
// faulting. For the debug mode of the engines, which reads memory that users may have freed.
#pragma once

#include <cstddef>

namespace baton::os {

/// True: all of it could be read. By the kernel (process_vm_readv), so that neither a fault nor a
/// sanitizer ends the program; where a sandbox forbids that, by a plain copy.
bool copy_if_readable(void* to, const void* from, std::size_t size) noexcept;

/// True: all of it could be written.
bool copy_if_writable(void* to, const void* from, std::size_t size) noexcept;

}  // namespace baton::os
