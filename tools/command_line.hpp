// The message about a wrong command line: one sentence with the wrong word, the valid ones, and the
// nearest known word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tools {

// The word of `known` that was probably meant: it begins with `word`, or differs in few letters. ""
// if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Prints the error of the command line, or the texts of --help and --version. Returns the exit
// status.
int answer(const CLI::App& app, const CLI::ParseError& error);

}  // namespace baton::tools
