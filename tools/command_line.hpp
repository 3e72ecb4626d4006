// What is said of a command line that is wrong: one sentence, which names the word, what may stand
// there, and the nearest known word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tools {

// The one of `known` that was probably meant: it begins with the word, or has few other letters. ""
// if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Says what is wrong with the command line, or prints what --help and --version are answered with.
// Returns the exit status.
int answer(const CLI::App& app, const CLI::ParseError& error);

}  // namespace baton::tools
