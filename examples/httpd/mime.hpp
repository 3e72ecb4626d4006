// The media type of a file, by the end of its name.
#pragma once

#include <string_view>

namespace httpd {

/// "text/html; charset=utf-8" for "a/b.HTML"; "application/octet-stream" for what is not known.
std::string_view media_type(std::string_view path);

}  // namespace httpd
