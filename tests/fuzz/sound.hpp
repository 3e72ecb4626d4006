// Every input must give a configuration that survives printing and parsing, or a failure that has a
// code and states the reason on one line.
#pragma once

#include "baton/config.hpp"
#include "expect.hpp"

namespace baton::fuzz {

using Parsed = Result<Config, Failure>;

/// All settings; neither the account of sources nor the pointers.
bool same(const Config& a, const Config& b);

/// Checks the sentence and the code of a failure. Checks of a configuration: validate() agrees or
/// names policies that a later source may still satisfy; to_xml() is read back the same, and so is
/// the text form.
void expect_sound(const Parsed& parsed);

/// A program's own configuration, as a base for others.
Config program_config();

}  // namespace baton::fuzz
