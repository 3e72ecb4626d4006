// The library's version, and the guard against programs built with other settings than the library.
//
// This is the header below all others: export.hpp includes it, so that nothing of the library can
// be used without the guard. It cannot use BATON_EXPORT itself.

#pragma once

#include <string_view>

#define BATON_VERSION_MAJOR 0
#define BATON_VERSION_MINOR 1
#define BATON_VERSION_PATCH 0

namespace baton {

/// The version of the loaded library, "0.1.0". A shared library may be newer than the
/// BATON_VERSION_ macros with which the program was compiled. Any thread.
[[gnu::visibility("default")]] std::string_view version() noexcept;

}  // namespace baton

// The ABI tag. The types of these headers are compiled twice: into the library and into the
// program. If the two layouts differ, nothing notices until memory is corrupted at run time. So
// every object file that uses Baton refers to one symbol whose name spells the settings that
// layouts depend on, and the library defines the one symbol of its own settings:
//
//   undefined reference to `baton_abi_v0_1_libstdcxx_cxx11_debug'
//
// is the linker saying that the program was built with _GLIBCXX_DEBUG and the library was not, or
// that headers and library come from different versions. The parts of the name:
//
//   v0_1                 the version; before 1.0 every minor version may change layouts
//   libstdcxx or libcxx  the standard library: std::string and its kin differ
//   cxx11                libstdc++'s string and list; oldabi with _GLIBCXX_USE_CXX11_ABI=0
//   debug                _GLIBCXX_DEBUG: every container carries bookkeeping
//
// There is no switch of Baton's own here, because none may change a layout: IPv4 and IPv6 are
// always both on, and public headers do not look at NDEBUG. A switch that must change one adds its
// part here.
#if defined(_LIBCPP_VERSION)
#define BATON_ABI_LIBRARY _libcxx
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define BATON_ABI_LIBRARY _libstdcxx_oldabi
#else
#define BATON_ABI_LIBRARY _libstdcxx_cxx11
#endif

#if defined(_GLIBCXX_DEBUG)
#define BATON_ABI_DEBUG _debug
#else
#define BATON_ABI_DEBUG
#endif

#define BATON_ABI_JOIN_EXPANDED(major, minor, library, debug) \
  baton_abi_v##major##_##minor##library##debug
#define BATON_ABI_JOIN(major, minor, library, debug) \
  BATON_ABI_JOIN_EXPANDED(major, minor, library, debug)
#define BATON_ABI_TAG \
  BATON_ABI_JOIN(BATON_VERSION_MAJOR, BATON_VERSION_MINOR, BATON_ABI_LIBRARY, BATON_ABI_DEBUG)

extern "C" [[gnu::visibility("default")]] void BATON_ABI_TAG() noexcept;

namespace baton::detail {

// Never read; it exists so that the object file carries the reference. `used` keeps the compiler
// from dropping it, `retain` keeps --gc-sections from doing so. One pointer per program, as the
// linker folds inline variables.
[[gnu::used, gnu::retain]] inline void (*const abi_reference)() noexcept = &BATON_ABI_TAG;

}  // namespace baton::detail
