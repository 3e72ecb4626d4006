#!/usr/bin/env python3
"""Checks which parts of the library call which, by the symbols of its object files.

usage: check_symbols.py OBJECT...

OBJECT: the object files of src/ in a build, each of one source file.

check_layers.py looks at includes. A public header hides who is behind it: a file that includes only
contracts may still call a class that another group implements. Here each undefined symbol of an
object file leads to the file that defines it, and arrows point down there, too:

    base < os < values < sim, demux, core < engines < config < proactor < coro < io < capi
    demux, core < reactor; sim < testing

What is inline belongs to no group. The tag of the ABI, to which every file refers, does not count.
"""

import re
import subprocess
import sys

from check_layers import ENGINE_SHARED, group_of, is_registry

LOW = {"base", "os", "values"}

# Groups that a group may call, beside itself.
CALLS = {
    "base": set(),
    "os": {"base"},
    "values": {"base", "os"},
    "sim": LOW,
    "demux": LOW,
    "engines": LOW,
    ENGINE_SHARED: LOW,
    "config": LOW,
    "core": LOW,
    "reactor": LOW | {"demux", "core"},
    "proactor": LOW | {"config", "demux", "engines", ENGINE_SHARED, "core"},
    "coro": LOW | {"core", "proactor"},
    "io": LOW | {"core", "proactor", "coro"},
    "capi": LOW | {"config", "core", "proactor"},
    "testing": LOW | {"sim"},
}
# What the lists of siblings may call besides.
REGISTRIES = {
    "engines": re.compile("engines/"),
    "config": re.compile("(engines|demux)$"),
}
ENGINE_CALLS = {
    # The engine inside is any that is registered, a program's own as well.
    "engines/chaos": {"config"},
    "engines/emulated": {"demux"},
    "engines/simulated": {"sim"},
}

# T, D, B, R: functions and data that one file defines. Weak ones may be in any object file.
OWN = "TDBRGS"
ABI_TAG = re.compile(r"baton_abi_")
# CMake's list of the objects has "./" before the path.
OBJECT = re.compile(r"/baton_objects\.dir/(?:\./)?(src/.*\.cpp)\.o$")


def calls_of(group):
    """The groups that `group` may call; None if it has no place."""
    if group in CALLS:
        return CALLS[group]
    if group.startswith("engines/"):
        return LOW | {"engines", ENGINE_SHARED} | ENGINE_CALLS.get(group, set())
    return None


def symbols_of(file):
    """(names that the object file defines alone, names that it needs)"""
    defined, needed = set(), set()
    listing = subprocess.run(["nm", file], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        *_, kind, name = line.split()
        if kind == "U":
            needed.add(name)
        elif kind in OWN:
            defined.add(name)
    return defined, needed


def readable(name):
    shown = subprocess.run(["c++filt", name], check=False, capture_output=True, text=True)
    return shown.stdout.strip() or name


def violations(files):
    """files: {path of a source: (defined, needed)}. Returns printable lines."""
    home = {name: path for path, (defined, _) in files.items() for name in defined}
    found = []
    for path, (_, needed) in sorted(files.items()):
        group = group_of(path)
        reach = calls_of(group)
        if reach is None:
            found.append(f"{path}: the folder {group} has no place in tools/check_symbols.py")
            continue
        for name in sorted(needed):
            target = home.get(name)
            if target is None or ABI_TAG.match(name):
                continue
            callee = group_of(target)
            lists = group in REGISTRIES and is_registry(path) and REGISTRIES[group].match(callee)
            if callee != group and callee not in reach and not lists:
                found.append(f"{path} calls {readable(name)}\n    in {target}: "
                             f"{group} does not call {callee}")
    return found


def main(objects):
    sources = {match.group(1): match.string for match in map(OBJECT.search, objects) if match}
    missing = set(CALLS) - {group_of(path) for path in sources}
    if missing:
        print(f"no object file of src/{min(missing)}: each source has to have one of its own")
        return 2
    files = {path: symbols_of(file) for path, file in sources.items()}
    found = violations(files)
    print(*found, f"{len(files)} object files, {len(found)} calls that point up", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
