#pragma once

namespace baton::test {

/// Sanitizers make everything about ten times slower, so loops are shorter.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 10;
#else
inline constexpr int slowness = 1;
#endif

}  // namespace baton::test
