#include "build_facts.hpp"

#include <fmt/format.h>

#include <vector>

#include "baton/registry.hpp"
#include "baton/version.hpp"
#include "build_options.hpp"

#if __has_include(<linux/version.h>)
#include <linux/version.h>
#endif

namespace baton::tools {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

std::string standard_library() {
#if defined(_LIBCPP_VERSION)
  return fmt::format("libc++ {}", _LIBCPP_VERSION);
#elif defined(_GLIBCXX_RELEASE)
  return fmt::format("libstdc++ {}", _GLIBCXX_RELEASE);
#else
  return "unknown";
#endif
}

std::string kernel_headers() {
#if defined(LINUX_VERSION_CODE)
  constexpr unsigned code = LINUX_VERSION_CODE;
  return fmt::format("Linux {}.{}.{}", code >> 16U, code >> 8U & 0xffU, code & 0xffU);
#else
  return "none of Linux";
#endif
}

// The engines' names in a configuration; `baton engines` says which of them work on this machine.
std::string engines() {
  std::string waits;
  for (const auto& one : registry().wait_strategies()) {
    waits += (waits.empty() ? "" : ", ") + one.name;
  }
  std::string text;
  for (const auto& one : registry().engines()) {
    if (one.only_by_name) continue;
    text += (text.empty() ? "" : ", ") + one.name;
    if (one.waits_by_strategy) text += fmt::format(" ({})", waits);
  }
  return text;
}

}  // namespace

std::string version_text() {
  std::string text = fmt::format("baton {}\n", version());
  const auto add = [&text](const char* name, const std::string& fact) {
    if (!fact.empty()) text += fmt::format("{:<15}{}\n", name, fact);
  };
  add("source", build_source);
  add("compiler",
      fmt::format("{}, {}, C++{}", compiler(), standard_library(), __cplusplus / 100 % 100));
  add("options", build_options);
  add("engines", engines());
  add("kernel headers", kernel_headers());
  text.pop_back();  // CLI11 ends the line
  return text;
}

}  // namespace baton::tools
