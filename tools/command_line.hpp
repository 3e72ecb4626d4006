// The message about a wrong command line: one sentence, which names the word, the valid ones,
// and the nearest known word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tools {

// The one of `known` that was probably meant: it begins with the word, or has few other letters. ""
// if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Prints the error of the command line, or the texts of --help and --version. Returns the exit
// status.
int answer(const CLI::App& app, const CLI::ParseError& error);

}  // namespace baton::tools
