// Media types of what web sites are made of. Text is taken to be UTF-8.
#include "mime.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace httpd {
namespace {

struct Type {
  std::string_view ending;
  std::string_view name;
};

constexpr std::array types{
    Type{"html", "text/html; charset=utf-8"},
    Type{"htm", "text/html; charset=utf-8"},
    Type{"css", "text/css; charset=utf-8"},
    Type{"js", "text/javascript; charset=utf-8"},
    Type{"mjs", "text/javascript; charset=utf-8"},
    Type{"json", "application/json"},
    Type{"txt", "text/plain; charset=utf-8"},
    Type{"md", "text/markdown; charset=utf-8"},
    Type{"csv", "text/csv; charset=utf-8"},
    Type{"xml", "application/xml"},
    Type{"svg", "image/svg+xml"},
    Type{"png", "image/png"},
    Type{"jpg", "image/jpeg"},
    Type{"jpeg", "image/jpeg"},
    Type{"gif", "image/gif"},
    Type{"webp", "image/webp"},
    Type{"avif", "image/avif"},
    Type{"ico", "image/x-icon"},
    Type{"woff", "font/woff"},
    Type{"woff2", "font/woff2"},
    Type{"ttf", "font/ttf"},
    Type{"otf", "font/otf"},
    Type{"mp3", "audio/mpeg"},
    Type{"ogg", "audio/ogg"},
    Type{"mp4", "video/mp4"},
    Type{"webm", "video/webm"},
    Type{"pdf", "application/pdf"},
    Type{"wasm", "application/wasm"},
    Type{"zip", "application/zip"},
    Type{"gz", "application/gzip"},
    Type{"xz", "application/x-xz"},
    Type{"tar", "application/x-tar"},
};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::string_view media_type(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    const std::string_view ending = name.substr(dot + 1);
    for (const Type& type : types) {
      if (std::ranges::equal(type.ending, ending, {}, {}, lower)) return type.name;
    }
  }
  return "application/octet-stream";
}

}  // namespace httpd
