// readdir, sorted, in HTML.
#include "listing.hpp"

#include <dirent.h>
#include <errno.h>

#include <algorithm>
#include <memory>
#include <system_error>

#include "file_cache.hpp"

namespace httpd {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

Status make_listing(const DocumentRoot& root, const Path& path, bool hidden, std::string& page) {
  Opened opened;
  if (const std::error_code error = root.open_below(path.text, opened)) return status_of(error);
  if (opened.kind != Opened::Kind::folder) return Status::not_found;
  const std::unique_ptr<DIR, CloseFolder> folder{::fdopendir(opened.descriptor())};
  if (folder == nullptr) return status_of({errno, std::system_category()});
  opened.release();

  std::vector<ListedName> names;
  bool cut_off = false;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.') && (!hidden || name == "." || name == "..")) continue;
    cut_off = names.size() == listed_max;
    if (cut_off) break;
    names.push_back({std::string(name), entry->d_type == DT_DIR});
  }
  page = listing_page(path, names, cut_off);
  return Status::ok;
}

std::string listing_page(const Path& path, const std::vector<ListedName>& names, bool cut_off) {
  std::vector<ListedName> sorted = names;
  std::ranges::sort(sorted, [](const ListedName& a, const ListedName& b) {
    return a.folder != b.folder ? a.folder : a.name < b.name;
  });
  std::string page = "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>/";
  append_html(page, path.text);
  page += "</title></head>\n<body><h1>/";
  append_html(page, path.text);
  page += "</h1>\n<ul>\n";
  if (!path.text.empty()) page += "<li><a href=\"../\">../</a></li>\n";
  for (const ListedName& entry : sorted) {
    // "./" so that a colon in a name is not taken for a scheme.
    page += "<li><a href=\"./";
    append_escaped(page, entry.name);
    page += entry.folder ? "/\">" : "\">";
    append_html(page, entry.name);
    page += entry.folder ? "/</a></li>\n" : "</a></li>\n";
  }
  page += "</ul>\n";
  if (cut_off) page += "<p>Only the first " + std::to_string(listed_max) + " are shown.</p>\n";
  page += "</body></html>\n";
  return page;
}

void append_html(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
}

}  // namespace httpd
