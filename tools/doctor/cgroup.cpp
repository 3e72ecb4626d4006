#include "cgroup.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "facts.hpp"

namespace baton::doctor {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

template <class Number>
void take_least(std::optional<Number>& least, const std::optional<Number>& one) {
  if (one && (!least || *one < *least)) least = one;
}

// From the group itself up to the mount point. In a container the path may be one of the host, and
// then only its visible part is read.
void visit_upwards(const std::string& root, std::string path,
                   const std::function<void(const std::string&)>& visit) {
  for (;;) {
    visit(root + path);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const auto comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

CgroupLimits read_second(const std::string& root, const std::string& path) {
  CgroupLimits limits;
  limits.version = 2;
  visit_upwards(root, path, [&](const std::string& folder) {
    take_least(limits.cpus, parse_cpu_max(first_line(folder + "/cpu.max").value_or("")));
    take_least(limits.memory_bytes,
               parse_memory_max(first_line(folder + "/memory.max").value_or("")));
  });
  return limits;
}

CgroupLimits read_first(const std::string& root, const CgroupPaths& paths) {
  CgroupLimits limits;
  limits.version = 1;
  const std::string cpu = exists(root + "/cpu") ? root + "/cpu" : root + "/cpu,cpuacct";
  visit_upwards(cpu, paths.cpu, [&](const std::string& folder) {
    take_least(limits.cpus,
               parse_cpu_quota(first_line(folder + "/cpu.cfs_quota_us").value_or(""),
                               first_line(folder + "/cpu.cfs_period_us").value_or("")));
  });
  visit_upwards(root + "/memory", paths.memory, [&](const std::string& folder) {
    take_least(limits.memory_bytes,
               parse_memory_max(first_line(folder + "/memory.limit_in_bytes").value_or("")));
  });
  return limits;
}

}  // namespace

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto first = line.find(':');
    const auto second = line.find(':', first == line.npos ? first : first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (controllers.empty()) paths.unified = path;
    if (lists(controllers, "cpu")) paths.cpu = path;
    if (lists(controllers, "memory")) paths.memory = path;
  }
  return paths;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto blank = text.find(' ');
  if (blank == text.npos) return std::nullopt;
  return parse_cpu_quota(text.substr(0, blank), text.substr(blank + 1));
}

std::optional<double> parse_cpu_quota(std::string_view quota, std::string_view period) {
  const auto a = parse<double>(quota);
  const auto b = parse<double>(period);
  if (!a || !b || *a <= 0 || *b <= 0) return std::nullopt;
  return *a / *b;
}

std::optional<std::uint64_t> parse_memory_max(std::string_view text) {
  const auto bytes = parse<std::uint64_t>(text);
  // Version 1 writes the greatest number of whole pages for "no limit".
  constexpr std::uint64_t never_meant = std::uint64_t{1} << 60;
  if (!bytes || *bytes >= never_meant) return std::nullopt;
  return bytes;
}

CgroupLimits read_cgroup(const std::string& proc, const std::string& root) {
  const CgroupPaths paths = parse_cgroup_paths(whole_file(proc + "/self/cgroup").value_or(""));
  if (exists(root + "/cgroup.controllers")) return read_second(root, paths.unified);
  if (exists(root + "/memory") || exists(root + "/cpu") || exists(root + "/cpu,cpuacct")) {
    return read_first(root, paths);
  }
  return {};
}

}  // namespace baton::doctor
