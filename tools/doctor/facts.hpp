// Facts that can be read about the machine: kernel, cores, quotas, sysctls, limits. The list of
// known troubles (known_bad.txt) refers to a fact by its name, so a new trouble needs no code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::doctor {

struct Fact {
  std::string name;
  std::string text;              // as shown
  std::optional<double> number;  // for comparisons; infinite: no limit
};

// Every possible fact; not all of them are known on every machine.
inline constexpr std::string_view fact_names[] = {
    "kernel",
    "kernel.release",
    "glibc",
    "machine.arch",
    "machine.wsl",
    "machine.cores",
    "machine.memory_mib",
    "machine.load",
    "cgroup.version",
    "cgroup.cpus",
    "cgroup.memory_mib",
    "kernel.io_uring_disabled",
    "kernel.threads-max",
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.aio-free",
    "fs.file-max",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "rlimit.nofile",
    "rlimit.nofile_hard",
    "rlimit.memlock_kib",
    "rlimit.sigpending",
    "rlimit.nproc",
    "seccomp.mode",
    "seccomp.filters",
    "no_new_privs",
};

class Facts {
 public:
  void add(std::string name, std::string text);
  void add(std::string name, double number);
  // "unlimited" for infinity.
  void add_limit(std::string name, double number);

  const Fact* find(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  // Empty when it is not known.
  std::string text(std::string_view name) const;
  const std::vector<Fact>& all() const { return facts_; }

 private:
  std::vector<Fact> facts_;
};

// The folders of the system's files; tests have folders of their own.
struct FactSources {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Never fails: a fact that cannot be read is left out.
Facts collect_facts(const FactSources& sources = {});

// The upstream version of a kernel. Distributions have "5.10.0-28-amd64" as the release and the
// upstream version elsewhere: Debian in `version` ("#1 SMP Debian 5.10.209-2 (...)"), Ubuntu in
// /proc/version_signature ("Ubuntu 5.15.0-97.107-generic 5.15.136").
std::string kernel_version(std::string_view release, std::string_view version,
                           std::string_view signature);

// The first line of a file, without the newline; empty if it cannot be read.
std::optional<std::string> first_line(const std::string& path);
std::optional<std::string> whole_file(const std::string& path);

}  // namespace baton::doctor
