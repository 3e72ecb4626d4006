#include "machine.hpp"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace baton::machine {
namespace {

// The reason why it is impossible; empty if it worked. Once for the process, before it has other
// threads.
std::string enter_namespaces() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
    return std::string{"namespaces may not be made (run as root): "} + std::strerror(errno);
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", "/mnt", "tmpfs", 0, nullptr) != 0) {
    return std::string{"nothing may be mounted: "} + std::strerror(errno);
  }
  const conformance::Fd any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0) {
    return std::string{"the loopback cannot be switched on: "} + std::strerror(errno);
  }
  return {};
}

}  // namespace

void Machine::SetUp() {
  static const std::string reason = enter_namespaces();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Operations::SetUp();
}

std::string Machine::folder() {
  std::string path = "/mnt/XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  return path;
}

void Machine::mount_small(const std::string& folder, std::size_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  ASSERT_EQ(::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()), 0) << std::strerror(errno);
}

int Machine::shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

}  // namespace baton::machine
