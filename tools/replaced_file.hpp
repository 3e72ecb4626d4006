// A file that is written in one step: a reader finds the old content or all of the new text, never
// a part, even if the writer is interrupted. The text goes into a new file beside the old one,
// which is created exclusively under an unpredictable name and then renamed.
#pragma once

#include <string>

#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::tools {

enum class Existing : unsigned char {
  refuse,   // an existing file is kept
  replace,  // only a regular file is replaced: no link, no FIFO, no device
};

// Whether a write_in_one_step to this name can succeed: the existing file may be replaced, and its
// folder can be written to. The Failure names the file, and what to do. Leaves nothing behind.
Result<void, Failure> check_one_step(const std::string& path, Existing existing);

// Signals that would end the program are blocked in the calling thread until it is done.
Result<void, Failure> write_in_one_step(const std::string& path, Existing existing,
                                        const std::string& text);

}  // namespace baton::tools
