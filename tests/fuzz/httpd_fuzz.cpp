// The parsers of examples/httpd, which read untrusted input: the head of a request, its target, its
// range, its conditions. The file system is used as well: for every target, the opened file lies
// below the root.
//
// The input is a request. Its target, its range and its conditions go on to the next parser, as in
// the server. Each line of the input is also parsed as a target, a range and a date.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "conditional.hpp"
#include "date.hpp"
#include "document_root.hpp"
#include "expect.hpp"
#include "range.hpp"
#include "request.hpp"
#include "target.hpp"

namespace baton::fuzz {
namespace {

using httpd::Request;
using Kind = httpd::Parsed::Kind;

// -- the head -------------------------------------------------------------------------------------

void expect_inside(std::string_view part, std::string_view whole) {
  if (part.empty()) return;
  expect(part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size(),
         "what was parsed points into the text", part);
}

void expect_sound(const Request& request, std::string_view head) {
  for (const std::string_view part :
       {request.target, request.range, request.conditions.if_match,
        request.conditions.if_none_match, request.conditions.if_modified_since,
        request.conditions.if_unmodified_since, request.conditions.if_range}) {
    expect_inside(part, head);
    expect(part.find('\n') == std::string_view::npos, "a value is of one line", part);
  }
  expect(!request.target.empty(), "a request has a target");
  expect((request.body == httpd::BodyKind::sized) == (request.content_length > 0),
         "a length belongs to a body of that length");
}

bool same(const Request& a, const Request& b) {
  return a.method == b.method && a.target == b.target && a.range == b.range &&
         a.conditions.if_match == b.conditions.if_match &&
         a.conditions.if_none_match == b.conditions.if_none_match &&
         a.conditions.if_modified_since == b.conditions.if_modified_since &&
         a.conditions.if_unmodified_since == b.conditions.if_unmodified_since &&
         a.conditions.if_range == b.conditions.if_range && a.content_length == b.content_length &&
         a.body == b.body && a.http_1_0 == b.http_1_0 && a.keep_alive == b.keep_alive &&
         a.expects_continue == b.expects_continue;
}

/// For every first part of the head: no request before its end, and then the same request.
void expect_same_in_parts(std::string_view head, const Request& whole) {
  for (std::size_t size = 0; size < head.size(); size += 1 + size / 8) {
    Request part;
    expect(httpd::parse_request(head.substr(0, size), part).kind == Kind::incomplete,
           "part of a good head is incomplete", head.substr(0, size));
  }
  Request alone;
  const httpd::Parsed parsed = httpd::parse_request(head, alone);
  expect(parsed.kind == Kind::complete && parsed.bytes == head.size() && same(alone, whole),
         "a head is parsed without what comes behind it", head);
}

// -- targets --------------------------------------------------------------------------------------

/// A root with files, folders, and links that lead out of it; and all that is in it.
class Site {
 public:
  Site() {
    namespace fs = std::filesystem;
    std::string name = fs::temp_directory_path() / "baton-fuzz-XXXXXX";
    expect(::mkdtemp(name.data()) != nullptr, "there is a temporary folder");
    top_ = name;
    const fs::path root = top_ / "root";
    fs::create_directories(root / "a" / "b");
    fs::create_directory(root / ".hidden");
    fs::create_directory(top_ / "outside");
    for (const char* const file : {"root/index.html", "root/a/b/c", "root/.hidden/d", "root/a b",
                                   "outside/secret", "secret"}) {
      std::ofstream(top_ / file) << file;
    }
    fs::create_symlink("../outside", root / "out");
    fs::create_symlink("../../secret", root / "a" / "up");
    fs::create_symlink("/", root / "slash");
    fs::create_symlink("/proc/self/root", root / "magic");
    fs::create_symlink("a/b", root / "in");
    remember(root);
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!entry.is_symlink()) remember(entry.path());
    }
    expect(!by_kernel.open(root) && !by_steps.open(root), "a root is opened");
    by_steps.refuse_links();
  }
  ~Site() { std::filesystem::remove_all(top_); }

  [[nodiscard]] bool has(const httpd::Opened& opened) const {
    return inside_.count({opened.device, opened.inode}) != 0;
  }

  httpd::DocumentRoot by_kernel;
  httpd::DocumentRoot by_steps;

 private:
  void remember(const std::filesystem::path& path) {
    struct stat status{};
    expect(::stat(path.c_str(), &status) == 0, "a file is there", path.native());
    inside_.emplace(status.st_dev, status.st_ino);
  }

  std::filesystem::path top_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> inside_;
};

void expect_no_climbing(const httpd::Path& path) {
  const std::string& text = path.text;
  expect(text.find('\0') == std::string::npos, "a path holds no NUL", text);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view name = std::string_view(text).substr(begin, end - begin);
    expect(!name.empty() && name != "." && name != "..", "a path has real names only", text);
    begin = end + 1;
  }
  expect(text.empty() || text.back() != '/', "the slash at the end is told by `folder`", text);
}

void expect_below(const std::string& path) {
  static Site site;
  for (const httpd::DocumentRoot* root : {&site.by_kernel, &site.by_steps}) {
    httpd::Opened opened;
    if (root->open_below(path, opened)) continue;
    expect(site.has(opened), "what is opened lies below the root", path);
  }
}

void check_target(std::string_view target) {
  for (const bool hidden : {false, true}) {
    httpd::Path path;
    if (resolve_target(target, hidden, path) != httpd::Status::ok) continue;
    expect_no_climbing(path);
    expect_below(path.text);
    const std::string link = to_target(path);
    expect(link.starts_with('/') && !link.starts_with("//"), "a link stays on this host", link);
    expect_one_line(link, "a link can stand in a header");
    httpd::Path again;
    expect(resolve_target(link, hidden, again) == httpd::Status::ok && again.text == path.text &&
               (again.folder == path.folder || path.text.empty()),
           "a link leads where it came from", link);
  }
  // The second check alone, with a path that the first one has not seen.
  const std::string raw(target.substr(0, target.find('\0')));
  if (!raw.starts_with('/')) expect_below(raw);
}

// -- ranges and conditions ------------------------------------------------------------------------

void check_range(std::string_view header) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1'000}, most}) {
    const httpd::Range range = httpd::parse_range(header, size);
    if (range.kind != httpd::Range::Kind::part) {
      expect(range.offset == 0 && range.length == 0, "no part has no place", header);
      continue;
    }
    expect(range.length > 0 && range.offset < size && range.length <= size - range.offset,
           "a part lies in the file", header);
  }
}

void check_date(std::string_view text) {
  const auto date = httpd::from_http_date(text);
  if (!date) return;
  const std::string again = httpd::to_http_date(*date);
  expect(httpd::from_http_date(again) == date, "a date is read back the same", text);
}

void check_conditions(const Request& request) {
  const httpd::Validators file{.etag = "\"1-2\"", .modified = 784'111'777};
  const httpd::Verdict verdict = httpd::evaluate(request.conditions, file);
  expect(!request.conditions.none() || verdict == httpd::Verdict::go_on,
         "without a condition there is nothing to refuse");
  const std::string_view if_range = request.conditions.if_range;
  const bool applies = httpd::range_applies(if_range, file, file.modified + 10);
  expect(!applies || if_range.empty() || if_range == file.etag ||
             httpd::from_http_date(if_range) == file.modified,
         "a part is sent of what the client has", if_range);
}

void check(std::string_view text) {
  Request request;
  const httpd::Parsed parsed = httpd::parse_request(text, request);
  if (parsed.kind == Kind::malformed) {
    expect(static_cast<int>(parsed.status) >= 400, "what is wrong has a status");
  }
  if (parsed.kind == Kind::complete) {
    expect(parsed.bytes > 0 && parsed.bytes <= text.size(), "a head ends inside the text");
    const std::string_view head = text.substr(0, parsed.bytes);
    expect_sound(request, head);
    expect_same_in_parts(head, request);
    check_target(request.target);
    check_range(request.range);
    check_conditions(request);
  }
  for (int lines = 0; lines < 4 && !text.empty(); ++lines) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) check_target(line);
    check_range(line);
    check_date(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
