# Shared by the commands in this folder; sourced, not run. Each of them installs the packages it
# needs.

set -euo pipefail

# SCRIPT --help: its head comment.
case ${1-} in
  -h | --help)
    sed -n '2,/^source/{/^source/d;s/^#\{0,1\} \{0,1\}//;p}' "${BASH_SOURCE[1]}"
    exit 0
    ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${BATON_JOBS:-2}

packages_build="g++ cmake make ninja-build ccache pkg-config libpugixml-dev libcli11-dev libfmt-dev
  libgtest-dev python3"
packages_demo="g++ cmake ninja-build libpugixml-dev libcli11-dev libfmt-dev python3"
packages_test="gcc spin strace binutils clang-19 llvm-19 libclang-rt-19-dev libc++-19-dev
  clang-format-19 clang-tidy-19 valgrind jq util-linux doxygen mandoc systemtap-sdt-dev curl wrk
  relacy-dev libfuse3-dev fuse3 nftables iproute2 fio stress-ng mpich libmpich-dev libfftw3-dev
  maven openjdk-17-jdk-headless libace-dev libace-ssl-dev fish zsh"
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

# An install that removes nothing: Debian's packages may exclude what a user has chosen, and that
# choice stays.
apt_install=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq -y install --no-remove
  --no-install-recommends)

# in_one_line WHAT COMMAND...: on a terminal the last line of the command's output, rewritten; at
# the end the time that it took. If it fails, all that it said, and the script ends.
in_one_line() {
  local what=$1 begin=$SECONDS log line columns
  shift
  log=$(mktemp)
  if "$@" 2>&1 | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    line="$what, $((SECONDS - begin)) s: ${line//[[:cntrl:]]/}"
    if [ -t 1 ]; then
      columns=$({ stty size </dev/tty || echo 24 80; } 2>/dev/null | cut -d' ' -f2)
      printf '\r\033[J%s\r' "${line:0:columns-1}"
    fi
  done; then
    if [ -t 1 ]; then printf '\r\033[J'; fi
    rm "$log"
    say "$what: $((SECONDS - begin)) s"
  else
    if [ -t 1 ]; then printf '\r\033[J'; fi
    cat "$log" >&2
    rm "$log"
    exit 1
  fi
}

# as_root COMMAND...: at once, or through sudo.
as_root() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo)
    # Without a terminal no password can be typed.
    [ -t 0 ] || sudo=(sudo -n)
  fi
  "${sudo[@]}" "$@" </dev/null
}

# told_by VERB COMMAND...: the packages that a simulated apt-get names with that verb.
told_by() {
  local verb=$1
  shift
  { "$@" </dev/null 2>/dev/null || true; } | awk -v verb="$verb" '$1 == verb { print $2 }' | xargs
}

# Installs the packages named that are missing, as root or through sudo, without questions. Names
# before all that come, with those that they need. Removes nothing: then it fails, and says why.
install_packages() {
  local missing=() package removed
  command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 ||
    die "this needs Debian's apt-get and dpkg, which are not here. Install by hand what Debian 12" \
      "calls: $*; then configure with cmake --preset release"
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 ||
    die "missing packages: ${missing[*]}. Run as root, or install sudo, or install them by hand"
  as_root apt-get -qq update || die "apt-get update failed (see above)"
  removed=$(told_by Remv env LC_ALL=C apt-get -qq -s install --no-install-recommends \
    "${missing[@]}")
  [ -z "$removed" ] ||
    die "missing packages: ${missing[*]}. They exclude what is installed here: apt-get would" \
      "remove $removed. Nothing was changed"
  say "installing: $(told_by Inst "${apt_install[@]}" -s "${missing[@]}")"
  as_root "${apt_install[@]}" "${missing[@]}" || die "apt-get install failed (see above)"
}

# Boost's headers, which examples/httpd alone needs. Debian 12 has two versions that exclude each
# other. Either will do: the one that is installed stays. If there is none, the newer one comes,
# whose Asio has io_uring. If it cannot, httpd is left out and the rest is built.
install_boost() {
  local folder
  for folder in ${BATON_INCLUDE_FOLDERS:-/usr/include /usr/local/include}; do
    [ ! -e "$folder/boost/beast/http/basic_parser.hpp" ] || return 0
  done
  (install_packages libboost1.81-dev) || say "no Boost (see above): examples/httpd is left out"
}

# Packages that a build needs, and optional ones.
install_build_packages() {
  # shellcheck disable=SC2086  # a list of words
  install_packages $packages_build "$@"
  install_boost
}
