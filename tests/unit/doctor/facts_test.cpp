// Facts about the machine: kernels of distributions, control groups of both versions.
#include "doctor/facts.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "doctor/cgroup.hpp"

namespace baton::doctor {
namespace {

/// A folder of files that a test makes, gone with it.
class Tree {
 public:
  Tree() {
    std::string path = testing::TempDir() + "doctorXXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  void put(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string path(const std::string& name) const { return root_ + "/" + name; }

 private:
  std::string root_;
};

TEST(KernelVersion, IsTheReleaseWithoutTheDistributionsSuffix) {
  EXPECT_EQ(kernel_version("6.18.44-fc-v595", "#1 SMP", ""), "6.18.44");
  EXPECT_EQ(kernel_version("6.8", "#1", ""), "6.8");
}

TEST(KernelVersion, IsTheOneThatDebianFollows) {
  EXPECT_EQ(kernel_version("5.10.0-28-amd64", "#1 SMP Debian 5.10.209-2 (2024-01-31)", ""),
            "5.10.209");
}

TEST(KernelVersion, IsTheOneThatUbuntuFollows) {
  EXPECT_EQ(kernel_version("5.15.0-97-generic", "#107-Ubuntu SMP Wed Feb 7 2024",
                           "Ubuntu 5.15.0-97.107-generic 5.15.136"),
            "5.15.136");
}

TEST(Cgroup, PathsOfBothVersions) {
  const CgroupPaths second = parse_cgroup_paths("0::/system.slice/server.service\n");
  EXPECT_EQ(second.unified, "/system.slice/server.service");
  const CgroupPaths first =
      parse_cgroup_paths("5:memory:/docker/ab\n4:cpu,cpuacct:/docker/cd\n1:name=systemd:/x\n");
  EXPECT_EQ(first.memory, "/docker/ab");
  EXPECT_EQ(first.cpu, "/docker/cd");
  EXPECT_EQ(first.unified, "");
  EXPECT_EQ(parse_cgroup_paths("0::/\n").unified, "");
  EXPECT_EQ(parse_cgroup_paths("nonsense\n\n::").cpu, "");
}

TEST(Cgroup, CpuMax) {
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("50000 100000"), 0.5);
  EXPECT_EQ(parse_cpu_max("250000 100000"), 2.5);
  for (const char* wrong : {"", "50000", "a b", "50000 0", "-1 100000"}) {
    EXPECT_EQ(parse_cpu_max(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(parse_cpu_quota("-1", "100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_quota("150000", "100000"), 1.5);
}

TEST(Cgroup, MemoryMax) {
  EXPECT_EQ(parse_memory_max("max"), std::nullopt);
  EXPECT_EQ(parse_memory_max("1073741824"), 1073741824U);
  EXPECT_EQ(parse_memory_max("9223372036854771712"), std::nullopt);  // version 1: none
  EXPECT_EQ(parse_memory_max(""), std::nullopt);
}

TEST(Cgroup, SecondVersionTakesTheLeastOnTheWayUp) {
  const Tree tree;
  tree.put("proc/self/cgroup", "0::/a/b\n");
  tree.put("cg/cgroup.controllers", "cpu memory\n");
  tree.put("cg/a/cpu.max", "100000 100000\n");
  tree.put("cg/a/b/cpu.max", "200000 100000\n");
  tree.put("cg/cpu.max", "max 100000\n");
  tree.put("cg/memory.max", "max\n");
  tree.put("cg/a/memory.max", "8192\n");
  tree.put("cg/a/b/memory.max", "4096\n");
  const CgroupLimits limits = read_cgroup(tree.path("proc"), tree.path("cg"));
  EXPECT_EQ(limits.version, 2);
  EXPECT_EQ(limits.cpus, 1.0);
  EXPECT_EQ(limits.memory_bytes, 4096U);
}

TEST(Cgroup, FirstVersion) {
  const Tree tree;
  tree.put("proc/self/cgroup", "3:cpu,cpuacct:/box\n2:memory:/box\n");
  tree.put("cg/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
  tree.put("cg/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  tree.put("cg/memory/box/memory.limit_in_bytes", "8192\n");
  const CgroupLimits limits = read_cgroup(tree.path("proc"), tree.path("cg"));
  EXPECT_EQ(limits.version, 1);
  EXPECT_EQ(limits.cpus, 0.5);
  EXPECT_EQ(limits.memory_bytes, 8192U);
}

TEST(Cgroup, PathOfTheMachineOutsideIsNotThereAndTheMountPointCounts) {
  const Tree tree;
  tree.put("proc/self/cgroup", "0::/outside/of/the/container\n");
  tree.put("cg/cgroup.controllers", "cpu\n");
  tree.put("cg/cpu.max", "200000 100000\n");
  EXPECT_EQ(read_cgroup(tree.path("proc"), tree.path("cg")).cpus, 2.0);
}

TEST(Cgroup, NoneIsNone) {
  const Tree tree;
  const CgroupLimits limits = read_cgroup(tree.path("proc"), tree.path("cg"));
  EXPECT_EQ(limits.version, 0);
  EXPECT_EQ(limits.cpus, std::nullopt);
}

TEST(Facts, AreReadFromTheFilesOfTheSystem) {
  const Tree tree;
  tree.put("proc/version_signature", "Ubuntu 6.5.0-9.9-generic 6.5.3\n");
  tree.put("proc/sys/fs/aio-max-nr", "65536\n");
  tree.put("proc/sys/fs/aio-nr", "65000\n");
  tree.put("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  tree.put("proc/self/status", "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n");
  const Facts facts = collect_facts({tree.path("proc"), tree.path("cg")});
  EXPECT_EQ(facts.number("fs.aio-free"), 536);
  EXPECT_EQ(facts.number("seccomp.mode"), 2);
  EXPECT_EQ(facts.number("seccomp.filters"), 3);
  EXPECT_EQ(facts.number("no_new_privs"), 1);
  EXPECT_EQ(facts.text("net.ipv4.ip_local_port_range"), "32768 60999");
  EXPECT_EQ(facts.find("cgroup.cpus"), nullptr);
  EXPECT_GE(facts.number("machine.cores").value_or(0), 1);
}

TEST(Facts, NoLimitIsInfinite) {
  Facts facts;
  facts.add_limit("a", INFINITY);
  facts.add_limit("b", 7);
  EXPECT_EQ(facts.text("a"), "unlimited");
  EXPECT_TRUE(std::isinf(facts.number("a").value_or(0)));
  EXPECT_EQ(facts.text("b"), "7");
}

TEST(Facts, AllHaveAKnownName) {
  const Facts facts = collect_facts();
  for (const Fact& fact : facts.all()) {
    EXPECT_NE(std::find(std::begin(fact_names), std::end(fact_names), fact.name),
              std::end(fact_names))
        << fact.name;
  }
}

}  // namespace
}  // namespace baton::doctor
