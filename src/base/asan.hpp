// BATON_ASAN is defined in builds with AddressSanitizer, of gcc and of clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define BATON_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BATON_ASAN 1
#endif
#endif
