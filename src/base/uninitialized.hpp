// BATON_UNINITIALIZED: for a local array on the fast path that is filled before it is read. Release
// builds clear every other variable on the stack (-ftrivial-auto-var-init=zero). Clearing an array
// that a wait or a transfer is about to overwrite would slow down each of them.
#pragma once

#if defined(__clang__)
#define BATON_UNINITIALIZED [[clang::uninitialized]]
#elif defined(__GNUC__) && __GNUC__ >= 12
#define BATON_UNINITIALIZED [[gnu::uninitialized]]
#else
#define BATON_UNINITIALIZED
#endif
