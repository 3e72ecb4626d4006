// The XML form, from memory and from a file that arrives in pieces, as from a pipe. The file is
// simulated by a system-call table.
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "os/system.hpp"
#include "sound.hpp"

namespace baton::fuzz {
namespace {

// The file; there is one thread.
std::string_view left;

constexpr int descriptor = 1'000;
constexpr std::size_t piece = 7;

const os::System& one_file() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.open = [](const char*, int, mode_t) { return descriptor; };
    made.close = [](int) { return 0; };
    made.fstat = [](int, struct stat* out) {
      *out = {};
      out->st_mode = S_IFREG;
      return 0;
    };
    made.read = [](int, void* buffer, size_t size) -> ssize_t {
      const std::size_t count = std::min({size, piece, left.size()});
      std::memcpy(buffer, left.data(), count);
      left.remove_prefix(count);
      return static_cast<ssize_t>(count);
    };
    return made;
  }();
  return system;
}

Parsed load(std::string_view document) {
  left = document;
  Config base;
  base.system = &one_file();
  return Config::load_xml("file.xml", base);
}

void check(std::string_view document) {
  const Parsed parsed = Config::parse_xml(document, {});
  expect_sound(parsed);
  expect_sound(Config::parse_xml(document, program_config()));
  const Parsed loaded = load(document);
  expect(loaded.has_value() == parsed.has_value(), "a file is read as memory is");
  if (!parsed) return expect_sound(loaded);
  expect(same(*loaded, *parsed), "a file is read as memory is");
  const Parsed again = Config::parse_xml(document, *parsed);
  expect(again.has_value() && same(*again, *parsed), "said twice is as said once");
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
