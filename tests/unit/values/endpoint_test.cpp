// Endpoints: from text, to text, and as socket addresses.
#include "baton/endpoint.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace baton {
namespace {

Endpoint parsed(std::string_view text) {
  const Result<Endpoint, Failure> result = Endpoint::parse(text);
  EXPECT_TRUE(result.has_value()) << text << ": " << result.error().reason;
  return result.value_or(Endpoint{});
}

TEST(Endpoint, MadeInCode) {
  EXPECT_EQ(Endpoint{}.family(), AddressFamily::unspecified);
  EXPECT_EQ(Endpoint{}.to_string(), "unspecified");
  EXPECT_EQ(Endpoint::loopback(80).to_string(), "127.0.0.1:80");
  EXPECT_EQ(Endpoint::loopback_v6(80).to_string(), "[::1]:80");
  EXPECT_EQ(Endpoint::any(0).to_string(), "0.0.0.0:0");
  EXPECT_EQ(Endpoint::any_v6(65535).to_string(), "[::]:65535");
  EXPECT_EQ(Endpoint::unix_path("/run/a").value().to_string(), "unix:/run/a");
  EXPECT_EQ(Endpoint::unix_path("@a").value().to_string(), "unix:@a");
}

TEST(Endpoint, TextFormsRoundTrip) {
  for (const char* text :
       {"127.0.0.1:80", "255.255.255.255:65535", "[::1]:80", "[fe80::1%2]:80", "[2001:db8::7]:443",
        "[::ffff:1.2.3.4]:1", "unix:/path", "unix:relative/path", "unix:@name", "unix:@",
        "unix:@with:colon", "unix:\\x40file", "unix:/with\\x0anewline", "unix:@a\\x00b",
        "unix:/back\\x5cslash", "unix:/with\\x7fdelete", "unix:/\xc3\xa4"}) {
    EXPECT_EQ(parsed(text).to_string(), text);
  }
  EXPECT_EQ(parsed("*:80"), Endpoint::any_v6(80));
  EXPECT_EQ(parsed("127.0.0.1:0080"), Endpoint::loopback(80));
  EXPECT_EQ(parsed("[0:0::1]:1"), Endpoint::loopback_v6(1));
  EXPECT_EQ(parsed("[fe80::1%0]:1").to_string(), "[fe80::1]:1");
}

TEST(Endpoint, TextThatIsNoEndpointIsRefusedWithTheValidForms) {
  struct Bad {
    std::string text;
    const char* why;
  };
  const std::vector<Bad> all = {
      {"", "no port"},
      {"127.0.0.1", "no port"},
      {"127.0.0.1:", "0 to 65535"},
      {"127.0.0.1:65536", "0 to 65535"},
      {"127.0.0.1:-1", "0 to 65535"},
      {"127.0.0.1:http", "0 to 65535"},
      {"127.0.0.1:80 ", "0 to 65535"},
      {"localhost:80", "not an IPv4 address"},
      {"127.1:80", "not an IPv4 address"},
      {"256.0.0.1:80", "not an IPv4 address"},
      {":80", "not an IPv4 address"},
      {"::1:80", "brackets"},
      {"[::1:80", "brackets"},
      {"[]:80", "not an IPv6 address"},
      {"[1.2.3.4]:80", "not an IPv6 address"},
      {"[fe80::1%eth0]:80", "number of an interface"},
      {"[fe80::1%]:80", "number of an interface"},
      {"[fe80::1%4294967296]:80", "number of an interface"},
      {"[" + std::string(200, ':') + "]:80", "not an IPv6 address"},
      {"unix:", "empty"},
      {"unix:" + std::string(109, 'x'), "108 bytes"},
      {"unix:@" + std::string(108, 'x'), "108 bytes"},
      {"unix:/a\\x00b", "NUL"},
      {"unix:/a\\b", "backslash"},
      {"unix:/a\\x4", "backslash"},
      {"unix:/a\\x4g", "backslash"},
      {std::string("127.0.0.1\0:80", 13), "not an IPv4 address"},
  };
  for (const Bad& bad : all) {
    const Result<Endpoint, Failure> result = Endpoint::parse(bad.text);
    ASSERT_FALSE(result.has_value()) << bad.text;
    const Failure failure = result.error();
    EXPECT_NE(failure.reason.find(bad.why), std::string::npos) << failure.reason;
    EXPECT_NE(failure.reason.find("[fe80::1%2]:80"), std::string::npos) << failure.reason;
    EXPECT_EQ(failure.code, std::errc::invalid_argument);
    EXPECT_LT(failure.reason.size(), 400U);
  }
}

TEST(Endpoint, AnEscapeEndsWithTheText) {
  const std::string_view longer = "unix:/a\\x41";
  EXPECT_TRUE(Endpoint::parse(longer).has_value());
  EXPECT_FALSE(Endpoint::parse(longer.substr(0, longer.size() - 1)).has_value());
}

TEST(Endpoint, UnixPathsHaveALimit) {
  EXPECT_TRUE(Endpoint::unix_path(std::string(108, 'x')).has_value());
  EXPECT_FALSE(Endpoint::unix_path(std::string(109, 'x')).has_value());
  EXPECT_TRUE(Endpoint::unix_path("@" + std::string(107, 'x')).has_value());
  EXPECT_FALSE(Endpoint::unix_path("@" + std::string(108, 'x')).has_value());
  EXPECT_FALSE(Endpoint::unix_path("").has_value());
  EXPECT_FALSE(Endpoint::unix_path(std::string_view("/a\0b", 4)).has_value());
  EXPECT_TRUE(Endpoint::unix_path(std::string_view("@a\0b", 4)).has_value());
}

TEST(Endpoint, ThePortCanBeChanged) {
  Endpoint v4 = Endpoint::loopback(1);
  v4.set_port(7007);
  EXPECT_EQ(v4, Endpoint::loopback(7007));
  Endpoint v6 = Endpoint::loopback_v6(1);
  v6.set_port(7007);
  EXPECT_EQ(v6.port(), 7007);
  Endpoint path = parsed("unix:/a");
  path.set_port(5);
  EXPECT_EQ(path, parsed("unix:/a"));
  EXPECT_EQ(path.port(), 0);
}

TEST(Endpoint, Equality) {
  EXPECT_EQ(Endpoint{}, Endpoint{});
  EXPECT_NE(Endpoint::loopback(1), Endpoint::loopback(2));
  EXPECT_NE(Endpoint::loopback(1), Endpoint::any(1));
  EXPECT_NE(Endpoint::loopback(1), Endpoint::loopback_v6(1));
  EXPECT_NE(parsed("[fe80::1%1]:5"), parsed("[fe80::1%2]:5"));
  EXPECT_NE(parsed("unix:/a"), parsed("unix:/ab"));
  EXPECT_NE(parsed("unix:@a"), parsed("unix:\\x40a"));
}

/// The kernel's name of a socket that was bound to `wanted`.
Endpoint name_after_bind(const Endpoint& wanted) {
  const auto* address = static_cast<const sockaddr*>(wanted.data());
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(::bind(fd, address, wanted.size()), 0) << wanted.to_string();
  Endpoint found;
  found.set_size(Endpoint::capacity);
  EXPECT_EQ(::getsockname(fd, static_cast<sockaddr*>(found.data()), found.size_pointer()), 0);
  ::close(fd);
  return found;
}

// Found by fuzzing: a peer may have a name of all the bytes that there are, and what was printed
// of it could not be read.
TEST(Endpoint, TheLongestNamesOfTheKernelArePrintedAndReadBack) {
  // From 107 bytes on the kernel's length is beyond the structure, at 108 no NUL is in it.
  for (const std::size_t size : {std::size_t{107}, std::size_t{108}}) {
    const std::string deep =
        testing::TempDir() + std::string(size - testing::TempDir().size(), 'b');
    const Endpoint path = name_after_bind(parsed("unix:" + deep));
    EXPECT_EQ(path.to_string(), "unix:" + deep);
    EXPECT_EQ(parsed(path.to_string()), path);
    ::unlink(deep.c_str());
  }
  std::string unique = "unix:@baton-endpoint-test-" + std::to_string(::getpid());
  unique.resize(6 + 107, 'x');
  const Endpoint name = name_after_bind(parsed(unique));
  EXPECT_EQ(name.to_string(), unique);
  EXPECT_EQ(parsed(name.to_string()), name);
}

TEST(Endpoint, AddressesFromTheKernelAreRead) {
  const Endpoint v4 = name_after_bind(Endpoint::loopback(0));
  EXPECT_EQ(v4.family(), AddressFamily::ipv4);
  EXPECT_NE(v4.port(), 0);
  const std::string unique = "unix:@baton-endpoint-test-" + std::to_string(::getpid());
  EXPECT_EQ(name_after_bind(parsed(unique)).to_string(), unique);
  const std::string path = testing::TempDir() + "baton-endpoint-" + std::to_string(::getpid());
  EXPECT_EQ(name_after_bind(parsed("unix:" + path)).to_string(), "unix:" + path);
  ::unlink(path.c_str());

  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  Endpoint unnamed;
  unnamed.set_size(Endpoint::capacity);
  EXPECT_EQ(::getpeername(pair[0], static_cast<sockaddr*>(unnamed.data()), unnamed.size_pointer()),
            0);
  EXPECT_EQ(unnamed.family(), AddressFamily::unix_domain);
  EXPECT_EQ(unnamed.to_string(), "unix:");
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST(Endpoint, StrangeSizesDoNoHarm) {
  Endpoint endpoint = parsed("unix:/abc");
  for (std::uint32_t size = 0; size < 200; ++size) {
    endpoint.set_size(size);
    (void)endpoint.to_string();
    (void)endpoint.family();
    EXPECT_EQ(endpoint, endpoint);
  }
}

TEST(Endpoint, RandomTextIsRefusedOrRoundTrips) {
  const std::vector<std::string> seeds = {"127.0.0.1:80",  "[fe80::1%2]:80", "*:80",
                                          "unix:/a\\x0ab", "unix:@name",     "[::ffff:1.2.3.4]:9"};
  constexpr std::string_view letters = "0123456789abcdef:.[]%*@/\\xunix";
  int accepted = 0;
  for (std::uint64_t seed = 1; seed <= 50'000; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&random](std::size_t end) {
      return std::uniform_int_distribution<std::size_t>{0, end - 1}(random);
    };
    std::string text = seeds[below(seeds.size())];
    for (std::size_t i = 1 + below(4); i > 0; --i) {
      const std::size_t at = below(text.size() + 1);
      const bool any_byte = below(8) == 0;
      const char byte = any_byte ? static_cast<char>(below(256)) : letters[below(letters.size())];
      if (below(3) == 0 || at == text.size()) {
        text.insert(at, 1, byte);
      } else if (below(2) == 0) {
        text[at] = byte;
      } else {
        text.erase(at, 1 + below(3));
      }
    }
    const Result<Endpoint, Failure> result = Endpoint::parse(text);
    if (!result) continue;
    ++accepted;
    const std::string printed = result->to_string();
    const Result<Endpoint, Failure> again = Endpoint::parse(printed);
    ASSERT_TRUE(again.has_value()) << "seed " << seed << ": " << text << " -> " << printed;
    ASSERT_EQ(*again, *result) << "seed " << seed << ": " << text << " -> " << printed;
    ASSERT_EQ(again->to_string(), printed) << "seed " << seed;
  }
  EXPECT_GT(accepted, 1'000);
}

}  // namespace
}  // namespace baton
