// What every input has to lead to: a configuration that survives being printed and read back, or a
// failure that says why on one line and has a code. Used by the harnesses; a broken promise ends
// the process, which is what a fuzzer looks for.
#pragma once

#include <cstdint>
#include <string_view>

#include "baton/config.hpp"

namespace baton::fuzz {

using Parsed = Result<Config, Failure>;

/// Ends the process with a word about it unless `holds`.
void expect(bool holds, std::string_view what, std::string_view detail = {});

/// All settings; neither the account of sources nor the pointers.
bool same(const Config& a, const Config& b);

/// Of a failure: its sentence and its code. Of a configuration: validate() agrees or names policies
/// that a later source may still satisfy; to_xml() is read back the same, and so is the text form.
void expect_sound(const Parsed& parsed);

/// A program's own configuration, for what is put on top of one.
Config program_config();

}  // namespace baton::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
