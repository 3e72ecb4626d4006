// A bit of everything, checked byte by byte: for engines opened under odd circumstances.
#pragma once

#include "driver.hpp"

namespace baton::test {

void exercise(Driver& driver);

}  // namespace baton::test
