// Parts of httpd that look at bytes, files and options: request heads, the folder that is served,
// its list, the command line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "document_root.hpp"
#include "listing.hpp"
#include "options.hpp"
#include "request.hpp"

namespace httpd {
namespace {

// -- request heads --------------------------------------------------------------------------------

TEST(RequestHead, is_read_by_the_parser) {
  const std::string text =
      "HEAD /a?b HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nif-none-match: \"x\"\r\n"
      "Content-Length: 7\r\nExpect: 100-Continue\r\n\r\nrest of it";
  Request request;
  const Parsed parsed = parse_request(text, request);
  ASSERT_EQ(parsed.kind, Parsed::Kind::complete);
  EXPECT_EQ(text.substr(parsed.bytes), "rest of it");
  EXPECT_EQ(request.method, Method::head);
  EXPECT_EQ(request.target, "/a?b");
  EXPECT_EQ(request.range, "bytes=0-1");
  EXPECT_EQ(request.conditions.if_none_match, "\"x\"");
  EXPECT_EQ(request.body, BodyKind::sized);
  EXPECT_EQ(request.content_length, 7U);
  EXPECT_TRUE(request.expects_continue);
  EXPECT_TRUE(request.keep_alive);
  for (std::size_t i = 0; i < parsed.bytes; ++i) {
    EXPECT_EQ(parse_request(text.substr(0, i), request).kind, Parsed::Kind::incomplete) << i;
  }
}

TEST(RequestHead, keeps_connections_by_version) {
  Request request;
  const auto keeps = [&](const char* text) {
    EXPECT_EQ(parse_request(text, request).kind, Parsed::Kind::complete) << text;
    return request.keep_alive;
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestHead, folded_lines_are_refused_wherever_they_break) {
  Request request;
  for (const char* lines : {"X: a\r\n b", "X:\r\n b", "X:\r\n\tb", "Content-Length:\r\n 5",
                            "Range:\r\n bytes=0-1", "X: a\r\n \r\nY: b", " X: a"}) {
    const std::string text = "GET / HTTP/1.1\r\nHost: h\r\n" + std::string(lines) + "\r\n\r\n";
    EXPECT_EQ(parse_request(text, request).kind, Parsed::Kind::malformed) << lines;
  }
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nHost:\r\n h\r\n\r\n", request).kind,
            Parsed::Kind::malformed);
}

TEST(RequestHead, host_is_a_name_or_an_address) {
  Request request;
  const auto kind = [&](const std::string& host) {
    return parse_request("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", request).kind;
  };
  for (const char* good : {"", "h", "h:", "h:80", "a.b-c_d~e", "127.0.0.1:8080", "[::1]",
                           "[::1]:80", "[v1.x:y]", "%41b", "a!$&'()*+,;=b"}) {
    EXPECT_EQ(kind(good), Parsed::Kind::complete) << good;
  }
  for (const char* bad : {"a b",    "a/c",   "c@d", "a b/c@d", "h:x",   "h:80:80", "[::1", "[]",
                          "[::1]x", "[g::]", "::1", "%4",      "%zz",   "%4z",     "%z4",  "a\\b",
                          "a?b",    "a#b",   "<a>", "\"a\"",   "h:8 0", "\xc3\xa4"}) {
    EXPECT_EQ(kind(bad), Parsed::Kind::malformed) << bad;
  }
}

TEST(RequestHead, status_505_is_for_other_versions_only) {
  Request request;
  const auto status = [&](const char* text) { return parse_request(text, request).status; };
  EXPECT_EQ(status("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), Status::version_not_supported);
  EXPECT_EQ(status("GET / HTTP/1.1\nHost: h\n\n"), Status::bad_request);
  EXPECT_EQ(status("GET / HTTP/2.0\nHost: h\n\n"), Status::bad_request);
  EXPECT_EQ(status("GET / HTTP/1.1"), Status::bad_request);  // incomplete: nothing else yet
}

TEST(RequestHead, that_comes_in_pieces_is_parsed_in_linear_time) {
  std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
  const std::string line = "X: 0123456789\r\n";
  HeadWatch watch;
  std::size_t looked_at = 0;
  while (text.size() < (std::size_t{1} << 20)) {
    text += line;
    if (watch.is_due(text)) looked_at += text.size();
  }
  EXPECT_LT(looked_at, 3 * text.size());
  text += "\r\n";
  EXPECT_TRUE(watch.is_due(text)) << "complete";
  watch.reset();
  EXPECT_TRUE(watch.is_due("G"));
  EXPECT_FALSE(watch.is_due("GE"));
  EXPECT_TRUE(watch.is_due("GET / HTTP/1.1\n"));
}

// -- the root -------------------------------------------------------------------------------------

class Root : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "baton-httpd-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ / "root/sub");
    std::ofstream(folder_ / "secret") << "secret";
    std::ofstream(folder_ / "root/sub/file") << "content";
    std::filesystem::create_symlink("../secret", folder_ / "root/out");
    std::filesystem::create_symlink(folder_ / "root/sub/file", folder_ / "root/absolute");
    std::filesystem::create_symlink("sub", folder_ / "root/inside");
    std::filesystem::create_symlink("..", folder_ / "root/up");
    ASSERT_EQ(::mkfifo((folder_ / "root/fifo").c_str(), 0600), 0);
    ASSERT_FALSE(root_.open((folder_ / "root").string()));
    if (GetParam()) root_.refuse_links();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string open(const std::string& path) {
    Opened opened;
    const std::error_code error = root_.open_below(path, opened);
    if (error) return "error";
    return opened.kind == Opened::Kind::file     ? "file " + std::to_string(opened.size)
           : opened.kind == Opened::Kind::folder ? "folder"
                                                 : "other";
  }

  std::filesystem::path folder_;
  DocumentRoot root_;
};

TEST_P(Root, opens_what_is_below) {
  EXPECT_EQ(open(""), "folder");
  EXPECT_EQ(open("sub"), "folder");
  EXPECT_EQ(open("sub/file"), "file 7");
  EXPECT_EQ(open("fifo"), "other");
  EXPECT_EQ(open("nothing"), "error");
  EXPECT_EQ(open("sub/file/x"), "error");
  EXPECT_EQ(open("inside/file"), GetParam() ? "error" : "file 7");
}

TEST_P(Root, opens_nothing_else) {
  for (const char* path : {"out", "absolute", "up/secret", "..", "../secret", "sub/../../secret",
                           "/etc/passwd", "inside/../../secret", "sub/.."}) {
    const std::string found = open(path);
    EXPECT_TRUE(found == "error" || (found == "folder" && std::string(path) == "sub/.."))
        << path << ": " << found;
  }
}

// A reader that comes and goes would end a waiting writer by SIGPIPE.
TEST_P(Root, fifo_is_not_opened) {
  EXPECT_EQ(open("fifo"), "other");
  // There is no reader, so opening the FIFO for writing without waiting fails.
  Opened opened;
  ASSERT_FALSE(root_.open_below("fifo", opened));
  const int writer = ::open((folder_ / "root/fifo").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(writer, -1);
  EXPECT_EQ(errno, ENXIO);
  if (writer >= 0) ::close(writer);
}

TEST_P(Root, date_beyond_2262_is_kept) {
  const timespec times[2] = {{0, UTIME_OMIT}, {15'000'000'000, 5}};  // in the year 2445
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder_ / "root/sub/file").c_str(), times, 0), 0);
  struct stat status{};
  ASSERT_EQ(::stat((folder_ / "root/sub/file").c_str(), &status), 0);
  Opened opened;
  ASSERT_FALSE(root_.open_below("sub/file", opened));
  EXPECT_EQ(opened.modified.seconds, status.st_mtim.tv_sec);
  EXPECT_EQ(opened.modified.nanoseconds, status.st_mtim.tv_nsec);
}

TEST_P(Root, long_list_says_that_it_was_cut) {
  std::string page;
  const auto is_cut = [&] {
    EXPECT_EQ(make_listing(root_, {"sub", true}, false, page), Status::ok);
    return page.find("Only the first") != std::string::npos;
  };
  for (std::size_t i = 1; i < listed_max; ++i) {  // one is there
    std::filesystem::create_hard_link(folder_ / "secret", folder_ / "root/sub" / std::to_string(i));
  }
  EXPECT_FALSE(is_cut());
  std::ofstream(folder_ / "root/sub/one more") << "";
  EXPECT_TRUE(is_cut());
}

INSTANTIATE_TEST_SUITE_P(ByKernelAndByStep, Root, testing::Values(false, true));

TEST(Listing, is_escaped) {
  const std::string page = listing_page({"a&b", true}, {{"<x>", false}, {"y z", true}}, true);
  EXPECT_NE(page.find("<title>/a&amp;b</title>"), std::string::npos);
  EXPECT_NE(page.find("<h1>/a&amp;b</h1>"), std::string::npos);
  EXPECT_NE(page.find("href=\"./%3Cx%3E\">&lt;x&gt;</a>"), std::string::npos);
  EXPECT_LT(page.find("href=\"./y%20z/\""), page.find("&lt;x&gt;")) << "folders first";
  EXPECT_NE(page.find("Only the first"), std::string::npos);
}

// -- options --------------------------------------------------------------------------------------

TEST(CommandLine, is_a_table) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "httpd");
    return parse_options(static_cast<int>(words.size()), words.data());
  };
  EXPECT_EQ(parse({"--idle-seconds", "0"}).error().reason,
            "--idle-seconds must be a number from 0.001 to 86400");
  const auto good = parse({"--root", "/x", "--listing", "--idle-seconds", "0.5", "--threads", "3"});
  ASSERT_TRUE(good);
  EXPECT_EQ(good->root, "/x");
  EXPECT_TRUE(good->listing);
  EXPECT_EQ(good->limits.idle_time, std::chrono::milliseconds(500));
  EXPECT_GT(good->limits.header_time.count(), 0);
  const auto config = make_config(*good);
  ASSERT_TRUE(config) << config.error().reason;
  ASSERT_EQ(config->processors.size(), 2U);
  EXPECT_EQ(config->processors[0].threads, 3U);
  EXPECT_TRUE(config->processors[1].operations.has(baton::OperationKind::read_file));
  EXPECT_EQ(threads_of(*config, *good), 3U);
  EXPECT_FALSE(parse({"--threads"}));
  EXPECT_FALSE(parse({"--threads", "0"}));
  EXPECT_FALSE(parse({"--threads", "3x"}));
  EXPECT_FALSE(parse({"--header-seconds", "nan"}));
  EXPECT_FALSE(parse({"--unknown"}));
  EXPECT_FALSE(parse({"x"}));
}

TEST(CommandLine, lanes_are_those_of_the_configuration_unless_the_option_is_given) {
  const auto made = [](const char* surroundings, std::vector<const char*> words) {
    words.insert(words.begin(), "httpd");
    ::setenv("BATON", surroundings, 1);
    const auto options = parse_options(static_cast<int>(words.size()), words.data());
    const auto config = make_config(*options);
    ::unsetenv("BATON");
    EXPECT_TRUE(config) << config.error().reason;
    return std::pair{config->processors[0].threads, threads_of(*config, *options)};
  };
  EXPECT_EQ(made("mode=per_thread,threads=3", {}), std::pair(3U, 3U));
  EXPECT_EQ(made("mode=per_thread,threads=3", {"--threads", "2"}), std::pair(2U, 2U));
  EXPECT_EQ(made("mode=per_thread", {}), std::pair(1U, 1U));
  EXPECT_EQ(made("threads=3", {"--mode", "per_thread"}), std::pair(3U, 3U));
  EXPECT_EQ(made("mode=shared", {}).second, 1U);
  EXPECT_EQ(made("mode=shared", {"--threads", "4"}).second, 4U);
}

}  // namespace
}  // namespace httpd
