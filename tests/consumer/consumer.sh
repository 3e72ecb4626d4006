#!/usr/bin/env bash
# consumer.sh STEP: one step of the consumer tests (see CMakeLists.txt beside this file).
# Environment: BUILD_DIR, BUILD_TYPE and HARDENING (the tree that is installed), WORK_DIR (ours,
# temporary), CMAKE, CC, CXX.
# Pipes end in `grep >/dev/null`, not `grep -q`, which would leave early and kill the writer.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$WORK_DIR/opt/baton
manifest=$BUILD_DIR/install_manifest.txt
kit_manifest=$BUILD_DIR/install_manifest_conformance.txt

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# The user may have installed from this build tree and want to uninstall later: their manifest is
# put aside and put back.
step_install() {
  rm -rf "$WORK_DIR"
  mkdir -p "$WORK_DIR"
  if [ -e "$manifest" ]; then mv "$manifest" "$WORK_DIR/users_manifest.txt"; fi
  "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix"
  cp "$manifest" "$WORK_DIR/manifest.txt"
  local soname
  soname=$(readelf -d "$prefix"/lib*/libbaton.so | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  [ "$soname" = libbaton.so.0 ] || fail "soname is '$soname', not libbaton.so.0"
}

step_uninstall() {
  cp "$WORK_DIR/manifest.txt" "$manifest"
  if [ -e "$kit_manifest" ]; then mv "$kit_manifest" "$WORK_DIR/users_kit_manifest.txt"; fi
  "$CMAKE" --build "$BUILD_DIR" --target uninstall
  local left
  left=$(find "$prefix" ! -type d)
  [ -z "$left" ] || fail "left behind: $left"
  left=$(find "$prefix" -mindepth 1 -type d -iname baton)
  [ -z "$left" ] || fail "left behind: $left"
  if [ -e "$WORK_DIR/users_manifest.txt" ]; then mv "$WORK_DIR/users_manifest.txt" "$manifest"; fi
  if [ -e "$WORK_DIR/users_kit_manifest.txt" ]; then
    mv "$WORK_DIR/users_kit_manifest.txt" "$kit_manifest"
  fi
  rm -rf "$WORK_DIR"
}

build_with_cmake() {  # library folder prefix
  "$CMAKE" -S "$here/program" -B "$2" -G Ninja -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$3" -DBATON_LIBRARY="$1"
  "$CMAKE" --build "$2"
  "$2/consumer"
}

step_cmake_shared() {
  build_with_cmake Baton::baton "$WORK_DIR/shared" "$prefix"
  ldd "$WORK_DIR/shared/consumer" | grep 'libbaton\.so\.0' >/dev/null ||
    fail "not linked to libbaton.so.0"
}

step_cmake_static() {
  build_with_cmake Baton::baton_static "$WORK_DIR/static" "$prefix"
  if ldd "$WORK_DIR/static/consumer" | grep libbaton >/dev/null; then
    fail "linked to libbaton.so"
  fi
}

package() {  # prefix, then arguments of pkg-config
  local at=$1
  shift
  PKG_CONFIG_PATH=$(dirname "$(find "$at" -name baton.pc)") pkg-config "$@" baton
}

build_with_pkg_config() {  # prefix output
  local lib
  lib=$(package "$1" --variable=libdir)
  # shellcheck disable=SC2046  # the flags are meant to be split
  "$CXX" -std=c++20 -Wall -Wextra -Werror $(package "$1" --cflags) "$here/program/main.cpp" \
    $(package "$1" --libs) -Wl,-rpath,"$lib" -o "$2"
  "$2"
}

step_pkg_config() {
  build_with_pkg_config "$prefix" "$WORK_DIR/by_pkg_config"
}

step_pkg_config_static() {
  local lib
  lib=$(package "$prefix" --variable=libdir)
  # Only Baton is linked statically: the archive takes the place of -lbaton.
  # shellcheck disable=SC2046
  "$CXX" -std=c++20 $(package "$prefix" --cflags) "$here/program/main.cpp" \
    $(package "$prefix" --static --libs | sed "s,-lbaton,$lib/libbaton.a,") \
    -o "$WORK_DIR/by_pkg_config_static"
  "$WORK_DIR/by_pkg_config_static"
}

# A program in C, by both kinds of package and with both libraries, from a prefix that was moved;
# and under valgrind where that is installed.
step_c() {
  local moved=$WORK_DIR/c/elsewhere lib program
  rm -rf "$WORK_DIR/c"
  mkdir -p "$WORK_DIR/c"
  cp -a "$prefix" "$moved"
  lib=$(package "$moved" --variable=libdir)
  local strict=(-std=c99 -pedantic -Wall -Wextra -Werror)
  # shellcheck disable=SC2046  # the flags are meant to be split
  "$CC" "${strict[@]}" $(package "$moved" --cflags) "$here/c/main.c" \
    $(package "$moved" --libs) -Wl,-rpath,"$lib" -o "$WORK_DIR/c/shared"
  # shellcheck disable=SC2046
  "$CC" "${strict[@]}" $(package "$moved" --cflags) "$here/c/main.c" \
    $(package "$moved" --static --libs | sed "s,-lbaton,$lib/libbaton.a,") -o "$WORK_DIR/c/static"
  for library in baton baton_static; do
    "$CMAKE" -S "$here/c" -B "$WORK_DIR/c/$library" -G Ninja -DCMAKE_C_COMPILER="$CC" \
      -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$moved" \
      -DBATON_LIBRARY="Baton::$library"
    "$CMAKE" --build "$WORK_DIR/c/$library"
  done
  for program in shared static baton/consumer baton_static/consumer; do
    "$WORK_DIR/c/$program"
    if command -v valgrind >/dev/null; then
      valgrind --quiet --error-exitcode=9 --leak-check=full \
        --errors-for-leak-kinds=definite,possible \
        "$WORK_DIR/c/$program" engine=emulated,mode=shared || fail "valgrind: $program"
    fi
  done
  for program in static baton_static/consumer; do
    if ldd "$WORK_DIR/c/$program" | grep libbaton >/dev/null; then
      fail "$program needs libbaton.so"
    fi
  done
  rm -rf "$WORK_DIR/c"
}

# A program that links the shared library does not need the library's own dependencies: here no
# package but ours can be found.
step_pkg_config_alone() {
  local here_only
  here_only=$(dirname "$(find "$prefix" -name baton.pc)")
  env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$here_only" pkg-config --cflags --libs baton
  if env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$here_only" pkg-config --libs baton |
    grep -E 'pugixml|stdc' >/dev/null; then
    fail "the shared library is linked with what it is made of"
  fi
}

# The POSIX AIO library: by both kinds of package, from a prefix that was moved; the command and the
# library to preload, with a program that uses neither; the manual pages.
step_uaio() {
  local moved=$WORK_DIR/uaio/elsewhere lib
  rm -rf "$WORK_DIR/uaio"
  mkdir -p "$WORK_DIR/uaio"
  cp -a "$prefix" "$moved"
  lib=$(PKG_CONFIG_PATH=$(dirname "$(find "$moved" -name uaio.pc)") \
    pkg-config --variable=libdir uaio)
  # shellcheck disable=SC2046  # the flags are meant to be split
  PKG_CONFIG_PATH=$lib/pkgconfig sh -c '"$@" $(pkg-config --cflags --libs uaio)' sh \
    "$CC" -Wall -Wextra -Werror "$here/uaio/main.c" -Wl,-rpath,"$lib" -o "$WORK_DIR/uaio/by_pkg"
  "$WORK_DIR/uaio/by_pkg"
  "$CMAKE" -S "$here/uaio" -B "$WORK_DIR/uaio/build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$moved"
  "$CMAKE" --build "$WORK_DIR/uaio/build"
  "$WORK_DIR/uaio/build/consumer"
  local program
  for program in "$WORK_DIR/uaio/by_pkg" "$WORK_DIR/uaio/build/consumer"; do
    ldd "$program" | grep 'libuaio\.so\.0' >/dev/null || fail "$program: no libuaio.so.0"
    if ldd "$program" | grep -E 'libbaton|libpugixml' >/dev/null; then
      fail "libuaio needs libraries of ours: $(ldd "$program")"
    fi
  done
  # The same names of POSIX's, which the preloaded library serves.
  sed -E -e 's/uaio_([a-z]+\()/aio_\1/g' -e 's/<uaio.h>/<aio.h>/' \
    "$here/uaio/main.c" >"$WORK_DIR/uaio/plain.c"
  "$CC" -Wall -Wextra -Werror "$WORK_DIR/uaio/plain.c" -o "$WORK_DIR/uaio/plain"
  "$moved/bin/uaio" run --stats "$WORK_DIR/uaio/plain" 2>&1 | tee "$WORK_DIR/uaio/stats.txt"
  grep -E '^at_once [1-9]' "$WORK_DIR/uaio/stats.txt" >/dev/null ||
    fail "the preloaded library was not used"
  if "$moved/bin/uaio" run no-such-program 2>"$WORK_DIR/uaio/told.txt"; then fail "it ran"; fi
  grep "no program 'no-such-program'" "$WORK_DIR/uaio/told.txt" || fail "it does not say what"
  local page
  for page in uaio.1 uaio_read.3 ulio_listio.3; do
    [ -n "$(find "$moved" -name "$page")" ] || fail "no manual page $page"
  done
  rm -rf "$WORK_DIR/uaio"
}

# Nothing in the installed files may remember where they were installed first.
step_moved_prefix() {
  local moved=$WORK_DIR/moved/elsewhere
  rm -rf "$moved"
  mkdir -p "$(dirname "$moved")"
  cp -a "$prefix" "$moved"
  if grep -rIl -- "$prefix" "$moved"; then fail "these files name the first prefix"; fi
  build_with_pkg_config "$moved" "$WORK_DIR/by_pkg_config_moved"
  build_with_cmake Baton::baton "$WORK_DIR/shared_moved" "$moved"
  rm -rf "$moved"
}

# Every public header can be included first and alone, under stricter warnings than most users'.
step_headers_alone() {
  local header count=0 flags
  flags=$(package "$prefix" --cflags)
  while IFS= read -r header; do
    case $header in
      *.h)
        # shellcheck disable=SC2086
        echo "#include <$header>" | "$CC" -x c -std=c11 -Wall -Wextra -Wpedantic -Werror $flags \
          -fsyntax-only - || fail "<$header> does not compile alone as C"
        ;;
    esac
    # shellcheck disable=SC2086
    echo "#include <$header>" | "$CXX" -x c++ -std=c++20 -Wall -Wextra -Wpedantic -Wconversion \
      -Wshadow -Werror $flags -fsyntax-only - || fail "<$header> does not compile alone"
    count=$((count + 1))
  done < <(cd "$prefix/include" && find . -name '*.h' -o -name '*.hpp' | sed 's,^\./,,' | sort)
  [ "$count" -gt 0 ] || fail "no headers installed"
  echo "$count headers"
}

# The headers and README's sample, with the C++ library of LLVM.
step_libcxx() {
  local compiler=(clang++-19 -x c++ -std=c++20 -stdlib=libc++) flags
  if ! "${compiler[@]}" -E - <<<'#include <version>' >/dev/null 2>&1; then
    echo "no libc++ (apt-get install clang-19 libc++-19-dev)"
    exit 77
  fi
  flags=$(package "$prefix" --cflags)
  {
    awk '/^```cpp/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$here/../../README.md"
    echo '#include <baton/testing/simulation.hpp>'
  } >"$WORK_DIR/libcxx.cpp"
  # shellcheck disable=SC2086
  "${compiler[@]}" -Wall -Wextra -Werror $flags -fsyntax-only "$WORK_DIR/libcxx.cpp"
}

# Links the program with the given flags against both libraries; the linker must name the tag.
must_not_link() {  # symbol include-dir flags...
  local symbol=$1 include=$2 lib library
  shift 2
  lib=$(package "$prefix" --variable=libdir)
  for library in "$lib/libbaton.so" "$lib/libbaton.a"; do
    if "$CXX" -std=c++20 "$@" -I"$include" "$here/program/main.cpp" "$library" -lpugixml -pthread \
      -o "$WORK_DIR/mismatch" 2>"$WORK_DIR/mismatch.txt"; then
      fail "linked to $library in spite of $*"
    fi
    grep -q "undefined reference to .$symbol'" "$WORK_DIR/mismatch.txt" || {
      cat "$WORK_DIR/mismatch.txt" >&2
      fail "the linker failed for another reason than $symbol"
    }
    echo "ok: $* does not link with $(basename "$library"): $symbol"
  done
}

step_abi_mismatch() {
  local include=$prefix/include lib
  lib=$(package "$prefix" --variable=libdir)
  # The control: the same command links when the settings agree.
  "$CXX" -std=c++20 -O2 -I"$include" "$here/program/main.cpp" "$lib/libbaton.a" -lpugixml \
    -pthread -o "$WORK_DIR/match"
  "$WORK_DIR/match"
  must_not_link baton_abi_v0_1_libstdcxx_cxx11_debug "$include" -D_GLIBCXX_DEBUG
  must_not_link baton_abi_v0_1_libstdcxx_oldabi "$include" -D_GLIBCXX_USE_CXX11_ABI=0
  # The reference survives the linker's garbage collection.
  must_not_link baton_abi_v0_1_libstdcxx_cxx11_debug "$include" -D_GLIBCXX_DEBUG -O2 \
    -ffunction-sections -fdata-sections -Wl,--gc-sections
  # Headers of another version.
  mkdir -p "$WORK_DIR/other"
  cp -r "$include/." "$WORK_DIR/other"
  sed -i 's/define BATON_VERSION_MINOR .*/define BATON_VERSION_MINOR 99/' \
    "$WORK_DIR/other/baton/version.hpp"
  must_not_link baton_abi_v0_99_libstdcxx_cxx11 "$WORK_DIR/other"
}

# The conformance kit, a component of its own, and a project that judges its engine by it. Into a
# copy of the prefix, because the uninstallation looks for what is left behind in the other one.
step_conformance_kit() {
  local with_kit=$WORK_DIR/with_kit
  rm -rf "$with_kit"
  cp -a "$prefix" "$with_kit"
  if "$CMAKE" -S "$here/own_engine" -B "$WORK_DIR/no_kit" -G Ninja -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_PREFIX_PATH="$with_kit" >"$WORK_DIR/no_kit.txt" 2>&1; then
    fail "found a kit that is not installed"
  fi
  grep 'conformance kit is not installed' "$WORK_DIR/no_kit.txt" >/dev/null ||
    fail "does not say that the kit is missing: $(cat "$WORK_DIR/no_kit.txt")"
  if [ -e "$kit_manifest" ]; then mv "$kit_manifest" "$WORK_DIR/users_kit_manifest.txt"; fi
  "$CMAKE" --install "$BUILD_DIR" --prefix "$with_kit" --component conformance
  rm "$kit_manifest"
  if [ -e "$WORK_DIR/users_kit_manifest.txt" ]; then
    mv "$WORK_DIR/users_kit_manifest.txt" "$kit_manifest"
  fi
  "$CMAKE" -S "$here/own_engine" -B "$WORK_DIR/own_engine" -G Ninja -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$with_kit"
  "$CMAKE" --build "$WORK_DIR/own_engine"
  python3 -B "$here/own_engine/check_kit.py" "$WORK_DIR/own_engine/own_engine_conformance"
}

# A project that uses ACE through Baton, by the component `ace` and by pkg-config; and the command.
step_ace() {
  if [ ! -e "$prefix/include/baton/ace/proactor.hpp" ]; then
    echo "built without ACE (apt-get install libace-dev)"
    exit 77
  fi
  "$CMAKE" -S "$here/ace" -B "$WORK_DIR/ace" -G Ninja -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$prefix"
  "$CMAKE" --build "$WORK_DIR/ace"
  "$WORK_DIR/ace/consumer"
  local lib
  lib=$(dirname "$(find "$prefix" -name libbaton-ace.so)")
  # shellcheck disable=SC2046
  "$CXX" -std=c++20 "$here/ace/main.cpp" -o "$WORK_DIR/ace_by_pkg_config" -Wl,-rpath,"$lib" \
    $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs baton-ace)
  "$WORK_DIR/ace_by_pkg_config"
  "$prefix/bin/baton-ace" --explain "$WORK_DIR/ace/consumer" stock 2>&1 |
    grep 'engine' >/dev/null || fail "baton-ace tells no engine"
}

# A build without pugixml: CMake says what to do, BATON_XML=OFF does it, and what that installs asks
# for pugixml nowhere. Nothing is built twice: its libraries are those of the tree that is tested,
# with no_xml.cpp in place of xml.cpp.
step_without_xml() {
  local off=$WORK_DIR/without_xml at=$WORK_DIR/without_xml/opt tree lib word library program
  tree=$(realpath "$here/../..")
  configure_without_pugixml() {  # folder, then arguments of cmake
    "$CMAKE" -S "$tree" -B "$1" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
      -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_DISABLE_FIND_PACKAGE_pugixml=ON \
      -DCMAKE_DISABLE_FIND_PACKAGE_ACE=ON -DBATON_BUILD_TOOLS=OFF -DBATON_BUILD_EXAMPLES=OFF \
      -DBATON_BUILD_BENCH=OFF "${@:2}"
  }
  must_not_configure() {  # words, then arguments of cmake
    rm -rf "$off/refused"
    if configure_without_pugixml "$off/refused" "${@:2}" >"$off/refused.txt" 2>&1; then
      fail "configured without pugixml: ${*:2}"
    fi
    for word in $1; do
      grep -F -e "$word" "$off/refused.txt" >/dev/null ||
        fail "CMake does not name $word: $(cat "$off/refused.txt")"
    done
  }
  rm -rf "$off"
  mkdir -p "$off"
  must_not_configure "pugixml libpugixml-dev -DBATON_XML=OFF"
  must_not_configure "-DBATON_BUILD_TESTS=OFF -DBATON_XML=ON" -DBATON_XML=OFF -DBATON_BUILD_TESTS=ON
  configure_without_pugixml "$off/build" -DBATON_XML=OFF
  if grep -E 'pugixml|/xml\.cpp' "$off/build/build.ninja"; then fail "it is built with pugixml"; fi
  grep 'src/config/no_xml\.cpp' "$off/build/build.ninja" >/dev/null || fail "no no_xml.cpp"
  cp -a "$BUILD_DIR/lib" "$off/build"
  lib=$off/build/lib
  "$CXX" -std=c++20 -fPIC -I"$tree/include" -c "$tree/src/config/no_xml.cpp" -o "$off/no_xml.cpp.o"
  ar d "$lib/libbaton.a" xml.cpp.o
  ar q "$lib/libbaton.a" "$off/no_xml.cpp.o"
  "$CXX" -shared -o "$(realpath "$lib/libbaton.so")" -Wl,-soname,libbaton.so.0 -Wl,--no-undefined \
    -Wl,--whole-archive "$lib/libbaton.a" -Wl,--no-whole-archive -pthread
  "$CMAKE" --install "$off/build" --prefix "$at" >/dev/null

  if grep -rE 'pugixml::|-lpugixml' "$at"; then fail "these files ask for pugixml"; fi
  lib=$(package "$at" --variable=libdir)
  for library in "$lib"/*.so; do
    if readelf -d "$library" | grep pugixml >/dev/null; then fail "$library needs pugixml"; fi
  done
  if nm -C "$lib/libbaton.a" | grep 'pugi::' >/dev/null; then fail "libbaton.a needs pugixml"; fi
  # shellcheck disable=SC2046  # the flags are meant to be split
  "$CC" -std=c99 $(package "$at" --cflags) "$here/c/main.c" \
    $(package "$at" --static --libs | sed "s,-lbaton,$lib/libbaton.a,") -o "$off/static"
  for library in baton baton_static; do
    "$CMAKE" -S "$here/c" -B "$off/$library" -G Ninja -DCMAKE_C_COMPILER="$CC" \
      -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_PREFIX_PATH="$at" \
      -DCMAKE_DISABLE_FIND_PACKAGE_pugixml=ON -DBATON_LIBRARY="Baton::$library"
    "$CMAKE" --build "$off/$library"
  done
  for program in static baton/consumer baton_static/consumer; do
    "$off/$program" engine=emulated
    if "$off/$program" '<baton/>' 2>"$off/told.txt"; then fail "$program has read XML"; fi
    grep 'reads no XML (BATON_XML=OFF)' "$off/told.txt" >/dev/null ||
      fail "$program does not say why: $(cat "$off/told.txt")"
  done
  rm -rf "$off"
}

# As in the build tree (test `hardening`), and that no search path is built in.
step_hardening() {
  local reason=()
  if [ "$HARDENING" != ON ]; then reason=(--unless "BATON_HARDENING is off"); fi
  if [ "$BUILD_TYPE" != Release ]; then reason=(--unless "a $BUILD_TYPE build"); fi
  python3 -B "$here/../../tools/check_hardening.py" "${reason[@]}" --installed \
    "$(find "$prefix" -name libbaton.so)" "$(find "$prefix" -name libbaton.a)"
}

# No installed file knows the folder of the build or of the sources. So everything runs from any
# folder when both are gone, and commands that need them say so.
step_build_tree_gone() {
  local tree known moved=$WORK_DIR/gone/elsewhere
  tree=$(realpath "$here/../..")
  known=$(grep -rlF -e "$tree/" -e "$(realpath "$BUILD_DIR")/" "$prefix" || true)
  # The C++ library, which libuaio has within itself, names its own sources.
  known+=$(grep -rlaP '\.\./src/(?!libstdc\+\+)' "$prefix" || true)
  [ -z "$known" ] || fail "these files name the tree that they were built from: $known"
  rm -rf "$WORK_DIR/gone"
  mkdir -p "$WORK_DIR/gone"
  cp -a "$prefix" "$moved"
  local baton=$moved/bin/baton status=0
  (
    cd /
    env -i "$baton" --help >/dev/null
    env -i "$baton" --version
    env -i "$baton" completion bash >/dev/null
    env -i "$baton" engines >/dev/null
    env -i "$baton" doctor --no-calibration >/dev/null
    env -i "$baton" sim --seeds 2 --operations 50
    env -i "$baton" bench fairness --alone --connections 2 --seconds 0.1 >/dev/null
    coproc echo_server { exec env -i "$baton" echo --until-empty; }
    read -r _ port <&"${echo_server[0]}"
    # For a second: within 0.1 s a busy machine may get no message through, which is a failure.
    env -i "$baton" load --port "$port" --seconds 1
    env -i "$baton" load --file "$WORK_DIR/gone/data" --write --size 64k --seconds 1
  )
  env -i "$baton" bench rows 2>"$WORK_DIR/gone/rows.txt" || status=$?
  [ "$status" -eq 2 ] || fail "bench rows ends with $status"
  grep BATON_BENCH "$WORK_DIR/gone/rows.txt" >/dev/null || fail "bench rows does not say why"
  rm -rf "$WORK_DIR/gone"
}

# Hidden visibility: the shared library exports names of Baton and none of its parts. Templates of
# the standard library, instantiated for us, are the one exception: the standard library itself
# declares them visible.
step_exported_names() {
  local library strange
  library=$(find "$prefix" -name libbaton.so)
  strange=$(nm -D --defined-only "$library" | cut -d' ' -f3 |
    grep -Ev '^baton_|5baton|^_ZZ?(T[ISV]|GV)?(N?K?S[tabsiod]|NK?9__gnu_cxx)' | c++filt || true)
  [ -z "$strange" ] || fail "exported without BATON_EXPORT: $strange"
  nm -D --defined-only "$library" | grep 5baton >/dev/null || fail "nothing of Baton is exported"
  if nm -DC --defined-only "$library" | grep 'pugi::'; then fail "pugixml is visible"; fi
  # Every exported C function has a declaration in the header and a manual page.
  local name count=0
  while IFS= read -r name; do
    grep -rw -- "$name" "$prefix/include/baton.h" >/dev/null || fail "$name is not in baton.h"
    [ -n "$(find "$prefix" -name "$name.3")" ] || fail "$name has no manual page"
    count=$((count + 1))
  done < <(nm -D --defined-only "$library" | cut -d' ' -f3 | grep '^baton_' | grep -v '^baton_abi_')
  [ "$count" -eq "$(find "$prefix" -name 'baton_*.3' | wc -l)" ] ||
    fail "$count functions and another number of manual pages"
}

"step_$1"
