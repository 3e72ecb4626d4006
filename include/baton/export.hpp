// BATON_EXPORT marks what the shared library shows: every public class with members outside its
// header, every class with virtual functions, every public function. All else is hidden
// (-fvisibility=hidden), so that a program's own symbols cannot collide with the library's inner
// ones.
#pragma once

#include "baton/version.hpp"  // the ABI tag comes along with everything that is exported

#ifndef BATON_EXPORT
#define BATON_EXPORT __attribute__((visibility("default")))
#endif
