// The limits that control groups set for this process, in both versions of their files. A container
// with half a core sees all cores of the machine; only these files have its limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::doctor {

struct CgroupLimits {
  int version = 0;             // 0: none
  std::optional<double> cpus;  // the quota in cores; empty: no limit
  std::optional<std::uint64_t> memory_bytes;
};

// The paths of the process's groups below the mount points; empty: in none.
struct CgroupPaths {
  std::string unified;
  std::string cpu;
  std::string memory;
};

// /proc/self/cgroup: lines of "number:controllers:path", version 2 having no controllers.
CgroupPaths parse_cgroup_paths(std::string_view text);
// cpu.max: "max 100000", or "50000 100000" for half a core.
std::optional<double> parse_cpu_max(std::string_view text);
// cpu.cfs_quota_us and cpu.cfs_period_us; -1 means no quota.
std::optional<double> parse_cpu_quota(std::string_view quota, std::string_view period);
// memory.max, memory.limit_in_bytes: no limit is "max", or in version 1 a huge number.
std::optional<std::uint64_t> parse_memory_max(std::string_view text);

// The smallest limit of the group and all groups above it.
CgroupLimits read_cgroup(const std::string& proc, const std::string& root);

}  // namespace baton::doctor
