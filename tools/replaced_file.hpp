// A file that is written in one step: a reader finds the old content or all of the new text, never
// a part, whatever interrupts the writer. The text goes into a file of its own beside it, which is
// made exclusively and has a name that cannot be foreseen, and is then renamed.
#pragma once

#include <string>

#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::tools {

enum class Existing : unsigned char {
  refuse,   // a file of that name stays
  replace,  // a regular file may be replaced, and nothing else: no link, no FIFO, no device
};

// Whether a write_in_one_step to this name can succeed: the existing file may be replaced, and its
// folder can be written to. The Failure names the file, and what to do. Leaves nothing behind.
Result<void, Failure> check_one_step(const std::string& path, Existing existing);

// Signals of the calling thread that would end the program wait until it is done.
Result<void, Failure> write_in_one_step(const std::string& path, Existing existing,
                                        const std::string& text);

}  // namespace baton::tools
