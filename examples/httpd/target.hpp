// From a request target to a path below the root: the first of two walls against path traversal.
// The second is DocumentRoot, which lets the kernel refuse whatever would leave the root.
#pragma once

#include <string>
#include <string_view>

#include "status.hpp"

namespace httpd {

/// A path below the root, without a slash at its beginning and with only real names in it: no empty
/// ones, no "." and no "..". Empty: the root itself.
struct Path {
  std::string text;
  /// The target named a folder: it ended in a slash.
  bool folder = false;
};

/// Takes the path out of a target ("/a/b.html?query", or "http://host/a/b.html") and decodes it.
/// Status::ok, or why not: bad_request for what is malformed or tries to climb, not_found for names
/// that begin with a dot, which are private (`.well-known` excepted) unless `hidden`.
/// `path.text` is only set, so that its memory serves the next request.
Status resolve_target(std::string_view target, bool hidden, Path& path);

/// A path as the target of a link, escaped: always begins with exactly one slash, so that it can
/// not be taken for another host.
std::string to_target(const Path& path);

/// One name, or a path, with all bytes escaped that have a meaning in targets or in headers.
void append_escaped(std::string& out, std::string_view text);

}  // namespace httpd
