// A few operations of every kind, checked byte by byte: for engines opened in unusual conditions.
#pragma once

#include "driver.hpp"

namespace baton::test {

void exercise(Driver& driver);

}  // namespace baton::test
