// Request targets, checked by hand: nothing here asks the file system.
#include "target.hpp"

#include <cstddef>

namespace httpd {
namespace {

// -1: no hexadecimal digit.
int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The path of an absolute target ("http://host/path"), as clients of a proxy send it.
std::string_view without_authority(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (scheme == std::string_view::npos || target.front() == '/') return target;
  const std::size_t path = target.find_first_of("/?", scheme + 3);
  if (path == std::string_view::npos || target[path] == '?') return "/";
  return target.substr(path);
}

// Adds the decoded name. An escaped slash would be a separator to the kernel and none to us, and
// control characters have no place in a name that is written into headers and pages.
bool append_decoded(std::string& out, std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    if (c == '%') {
      if (i + 2 >= name.size()) return false;
      const int high = digit_of(name[i + 1]);
      const int low = digit_of(name[i + 2]);
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
      if (c == '/') return false;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    out += c;
  }
  return true;
}

}  // namespace

Status resolve_target(std::string_view target, bool hidden, Path& path) {
  path.text.clear();
  path.folder = false;
  if (target.empty()) return Status::bad_request;
  target = without_authority(target);
  target = target.substr(0, target.find('?'));
  if (target.empty() || target.front() != '/') return Status::bad_request;
  if (target.find('#') != std::string_view::npos) return Status::bad_request;

  path.folder = target.back() == '/';
  Status status = Status::ok;
  while (!target.empty()) {
    target.remove_prefix(1);  // the slash
    const std::string_view name = target.substr(0, target.find('/'));
    target.remove_prefix(name.size());
    if (name.empty()) continue;

    const std::size_t before = path.text.size();
    if (before > 0) path.text += '/';
    const std::size_t begin = path.text.size();
    if (!append_decoded(path.text, name)) return Status::bad_request;
    const std::string_view decoded = std::string_view(path.text).substr(begin);
    if (decoded == "..") return Status::bad_request;
    if (decoded == ".") {
      path.text.resize(before);
      path.folder = path.folder || target.empty();
      continue;
    }
    // Told at the end: a target that climbs is malformed, whatever else is in it.
    if (decoded.front() == '.' && !hidden && decoded != ".well-known") status = Status::not_found;
  }
  return status;
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view plain =
      "/-._~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : text) {
    if (plain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
}

std::string to_target(const Path& path) {
  std::string target = "/";
  append_escaped(target, path.text);
  if (path.folder && !path.text.empty()) target += '/';
  return target;
}

}  // namespace httpd
