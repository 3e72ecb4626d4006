// BATON_UNINITIALIZED: before a local array on the hot path that is filled before it is read.
// Release builds clear every other variable on the stack (-ftrivial-auto-var-init=zero), and to
// clear what a wait or a transfer is about to overwrite would be paid by each of them.
#pragma once

#if defined(__clang__)
#define BATON_UNINITIALIZED [[clang::uninitialized]]
#elif defined(__GNUC__) && __GNUC__ >= 12
#define BATON_UNINITIALIZED [[gnu::uninitialized]]
#else
#define BATON_UNINITIALIZED
#endif
