#include "facts.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>

#include "cgroup.hpp"
#include "os/system.hpp"
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

namespace baton::doctor {
namespace {

constexpr double mib = 1024.0 * 1024.0;

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string shown(double number) {
  if (number == static_cast<double>(static_cast<long long>(number))) {
    return fmt::format("{}", static_cast<long long>(number));
  }
  return fmt::format("{:.2f}", number);
}

void add_kernel(Facts& facts, const FactSources& sources) {
  utsname name{};
  ::uname(&name);
  const std::string signature = first_line(sources.proc + "/version_signature").value_or("");
  facts.add("kernel", kernel_version(name.release, name.version, signature));
  facts.add("kernel.release", name.release);
  facts.add("machine.arch", name.machine);
#ifdef __GLIBC__
  facts.add("glibc", ::gnu_get_libc_version());
#endif
  const std::string release = name.release;
  const bool wsl = release.find("icrosoft") != std::string::npos;
  facts.add("machine.wsl", wsl ? 1.0 : 0.0);
}

void add_size(Facts& facts, const FactSources& sources) {
  facts.add("machine.cores", os::real_system().usable_cores());
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    const double bytes = static_cast<double>(pages) * static_cast<double>(page);
    facts.add("machine.memory_mib", static_cast<double>(static_cast<long long>(bytes / mib)));
  }
  double load = 0;
  if (::getloadavg(&load, 1) == 1) facts.add("machine.load", load);
  const CgroupLimits limits = read_cgroup(sources.proc, sources.cgroup);
  if (limits.version == 0) return;
  facts.add("cgroup.version", limits.version);
  facts.add_limit("cgroup.cpus", limits.cpus.value_or(std::numeric_limits<double>::infinity()));
  const double memory = limits.memory_bytes ? static_cast<double>(*limits.memory_bytes) / mib
                                            : std::numeric_limits<double>::infinity();
  facts.add_limit("cgroup.memory_mib", memory);
}

// "fs.aio-max-nr" is in /proc/sys/fs/aio-max-nr.
void add_sysctls(Facts& facts, const FactSources& sources) {
  for (const char* name :
       {"kernel.io_uring_disabled", "fs.aio-max-nr", "fs.aio-nr", "fs.file-max",
        "net.core.somaxconn", "net.ipv4.ip_local_port_range", "kernel.threads-max"}) {
    std::string path = name;
    for (char& c : path) {
      if (c == '.') c = '/';
    }
    auto text = first_line(sources.proc + "/sys/" + path);
    if (!text) continue;
    if (const auto number = number_of(*text)) {
      facts.add(name, *number);
    } else {
      std::replace(text->begin(), text->end(), '\t', ' ');
      facts.add(name, *text);
    }
  }
  const auto most = facts.number("fs.aio-max-nr");
  const auto used = facts.number("fs.aio-nr");
  if (most && used) facts.add("fs.aio-free", *most - *used);
}

void add_limits(Facts& facts) {
  const auto value = [](rlim_t limit) {
    return limit == RLIM_INFINITY ? std::numeric_limits<double>::infinity()
                                  : static_cast<double>(limit);
  };
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.add_limit("rlimit.nofile", value(limit.rlim_cur));
    facts.add_limit("rlimit.nofile_hard", value(limit.rlim_max));
  }
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    facts.add_limit("rlimit.memlock_kib", value(limit.rlim_cur) / 1024);
  }
  if (::getrlimit(RLIMIT_SIGPENDING, &limit) == 0) {
    facts.add_limit("rlimit.sigpending", value(limit.rlim_cur));
  }
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) {
    facts.add_limit("rlimit.nproc", value(limit.rlim_cur));
  }
}

void add_status(Facts& facts, const FactSources& sources) {
  const std::string status = whole_file(sources.proc + "/self/status").value_or("");
  const auto add = [&](std::string_view line, const char* name) {
    const auto at = status.find(line);
    if (at == std::string::npos) return;
    const auto first = status.find_first_not_of(" \t", at + line.size());
    const auto end = status.find('\n', at + line.size());
    if (first == std::string::npos || end == std::string::npos || first > end) return;
    if (const auto number = number_of(std::string_view(status).substr(first, end - first))) {
      facts.add(name, *number);
    }
  };
  add("\nSeccomp:", "seccomp.mode");
  add("\nSeccomp_filters:", "seccomp.filters");
  add("\nNoNewPrivs:", "no_new_privs");
}

}  // namespace

void Facts::add(std::string name, std::string text) {
  facts_.push_back({std::move(name), std::move(text), std::nullopt});
}
void Facts::add(std::string name, double number) {
  facts_.push_back({std::move(name), shown(number), number});
}
void Facts::add_limit(std::string name, double number) {
  const bool none = number == std::numeric_limits<double>::infinity();
  facts_.push_back({std::move(name), none ? "unlimited" : shown(number), number});
}

const Fact* Facts::find(std::string_view name) const {
  for (const Fact& fact : facts_) {
    if (fact.name == name) return &fact;
  }
  return nullptr;
}
std::optional<double> Facts::number(std::string_view name) const {
  const Fact* fact = find(name);
  return fact != nullptr ? fact->number : std::nullopt;
}
std::string Facts::text(std::string_view name) const {
  const Fact* fact = find(name);
  return fact != nullptr ? fact->text : std::string();
}

Facts collect_facts(const FactSources& sources) {
  Facts facts;
  add_kernel(facts, sources);
  add_size(facts, sources);
  add_sysctls(facts, sources);
  add_limits(facts);
  add_status(facts, sources);
  return facts;
}

std::string kernel_version(std::string_view release, std::string_view version,
                           std::string_view signature) {
  const auto number_at = [](std::string_view text) {
    return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
  };
  constexpr std::string_view debian = "Debian ";
  if (const auto at = version.find(debian); at != std::string_view::npos) {
    const std::string found = number_at(version.substr(at + debian.size()));
    if (found.find('.') != std::string::npos) return found;
  }
  if (const auto at = signature.rfind(' '); at != std::string_view::npos) {
    const std::string found = number_at(signature.substr(at + 1));
    if (found.find('.') != std::string::npos) return found;
  }
  return number_at(release);
}

std::optional<std::string> whole_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::string text;
  char part[4096];
  // System files are short, so a longer file is no system file.
  constexpr std::size_t size_max = std::size_t{1} << 20;
  for (std::size_t count = sizeof part; count == sizeof part && text.size() < size_max;) {
    count = std::fread(part, 1, sizeof part, file);
    text.append(part, count);
  }
  const bool good = std::ferror(file) == 0;
  std::fclose(file);
  return good ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<std::string> first_line(const std::string& path) {
  auto text = whole_file(path);
  if (text) text->resize(std::min(text->size(), text->find('\n')));
  return text;
}

}  // namespace baton::doctor
