# Shared by the commands in this folder; sourced, not run. Each of them installs what it needs.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${BATON_JOBS:-2}

packages_build="g++ cmake ninja-build ccache pkg-config libpugixml-dev libcli11-dev libfmt-dev
  libgtest-dev libboost1.81-dev python3"
packages_test="gcc spin strace binutils clang-19 llvm-19 libclang-rt-19-dev clang-format-19
  clang-tidy-19 valgrind jq util-linux systemtap-sdt-dev curl wrk relacy-dev
  libfuse3-dev fuse3 nftables iproute2 fio stress-ng mpich libmpich-dev libfftw3-dev
  chromium python3-plotly maven openjdk-17-jdk-headless libace-dev libace-ssl-dev"
packages_kernels="qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils"
packages_analyse="clang-tidy-19 cppcheck valgrind libc6-dbg"
packages_fuzz="clang-19 libclang-rt-19-dev"

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

installed() {
  # One line for each architecture.
  dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -x installed >/dev/null
}

# Installs the packages named that are missing, as root or through sudo, without questions.
install_packages() {
  local missing=() package sudo=()
  command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 ||
    die "this needs Debian's apt-get and dpkg, which are not here. Install by hand what Debian 12" \
      "calls: $*; then configure with cmake --preset release"
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
      die "missing packages: ${missing[*]}. Run as root, or install sudo, or install them by hand"
    sudo=(sudo)
    # Without a terminal nobody can type a password.
    [ -t 0 ] || sudo=(sudo -n)
  fi
  say "installing: ${missing[*]}"
  "${sudo[@]}" apt-get -qq update </dev/null || die "apt-get update failed (see above)"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends \
    "${missing[@]}" </dev/null || die "apt-get install failed (see above)"
}
