#!/usr/bin/env python3
"""libuaio-preload.so has the system's names of AIO, and those by which a program changes its
limits, in the versions of the system's libraries, and no others; libuaio.so has uaio_ and ulio_
only; a setting that does not exist is told in one line: names.py PRELOAD LIBUAIO"""

import os
import platform
import re
import subprocess
import sys

CALLS = ["aio_read", "aio_write", "aio_error", "aio_return", "aio_suspend", "aio_cancel",
         "aio_fsync", "lio_listio"]
NAMES = CALLS + [f"{name}64" for name in CALLS] + ["aio_init"]
NAMES += ["setrlimit", "setrlimit64", "prlimit", "prlimit64", "ulimit", "vlimit"]


def exported(library):
    """{(name, version)} of the functions it defines."""
    output = subprocess.run(["objdump", "-T", library], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    found = set()
    for line in output.splitlines():
        match = re.search(r"\bg\s+D?[FOi ]+ +(\.text|\*ABS\*)\s+\S+\s+\(?(\S+?)\)?\s+(\S+)$", line)
        if match and match.group(1) == ".text":
            found.add((match.group(3), match.group(2)))
    return found


def system_versions():
    """What libc has; the versions of librt in time before, on this architecture, are in it, too."""
    libraries = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
    path = re.search(r"libc\.so\.6 \(libc6,x86-64.*=> (\S+)", libraries).group(1)
    return {pair for pair in exported(path) if pair[0] in NAMES}


def told(preload, setting):
    """The output of a program that does not use it, with UAIO=setting."""
    return subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": preload, "UAIO": setting},
                          stderr=subprocess.PIPE, text=True, check=True).stderr


def main():
    preload, own = sys.argv[1:3]
    names = exported(preload)
    wrong = []
    if {name for name, _ in names} != set(NAMES):
        wrong.append(f"other names than the system's: {sorted(names)}")
    if platform.machine() == "x86_64":
        missing = system_versions() - names
        if missing:
            wrong.append(f"versions of the system's that are missing: {sorted(missing)}")
    strange = {name for name, _ in exported(own) if not re.match(r"uaio_|ulio_listio$", name)}
    if strange:
        wrong.append(f"libuaio exports {sorted(strange)}")
    for setting, shown in (("stats=0,thread=2", "thread=2"), ("wait=never", "wait=never"),
                           ("x" * 70_000, "x" * 60 + "...")):
        found = told(preload, setting)
        if found != f"uaio: UAIO: not understood, and left out: {shown}\n":
            wrong.append(f"UAIO={setting[:60]}: {found[:600]!r}")
    print("\n".join(wrong) if wrong else f"{len(names)} names and versions")
    sys.exit(1 if wrong else 0)


main()
