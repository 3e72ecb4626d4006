// The page that shows what is in a folder (--listing).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "document_root.hpp"
#include "status.hpp"
#include "target.hpp"

namespace httpd {

struct ListedName {
  std::string name;
  bool folder = false;
};

/// Entries of one page; a larger folder is cut off, visibly.
inline constexpr std::size_t listed_max = 2'000;

/// The page of the folder at `path`. Status::ok, or why there is none. Blocks for as long as the
/// file system takes.
Status make_listing(const DocumentRoot& root, const Path& path, bool hidden, std::string& page);

/// The page itself: names are escaped, as HTML and as links.
std::string listing_page(const Path& path, const std::vector<ListedName>& names, bool cut_off);

/// Text inside HTML.
void append_html(std::string& out, std::string_view text);

}  // namespace httpd
