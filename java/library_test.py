#!/usr/bin/env python3
"""What libbaton-java.so promises to the process that loads it, read from its file.

usage: library_test.py LIBBATON-JAVA LIBBATON

The other library keeps none of this but that it is never unloaded, and shows that the checks see.
"""

import re
import subprocess
import sys
from pathlib import Path

# The system's, which every process with a JVM has.
ITS_OWN = re.compile(r"lib(c|m|pthread)\.so\.\d+|ld-linux.*\.so\.\d+")
# Counted in the 1,664 bytes that glibc keeps for all libraries that are loaded late.
THREAD_LOCALS_MAX = 128
HEADER = Path(__file__).resolve().parent.parent / "include" / "baton.h"


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def foreign_libraries(library):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", library))
    return [name for name in needed if not ITS_OWN.fullmatch(name)]


def thread_locals(library):
    """Bytes of each thread."""
    headers = output_of("readelf", "-lW", library)
    found = re.search(r"^\s*TLS\s+(?:0x\w+\s+){4}0x(\w+)", headers, re.M)
    return int(found.group(1), 16) if found else 0


def exported(library):
    lines = output_of("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def declared():
    """The functions of the header."""
    return set(re.findall(r"^BATON_API [^;(]*?(baton_\w+)\(", HEADER.read_text(), re.M))


def is_kept(library):
    return "NODELETE" in output_of("readelf", "-dW", library)


def complaints(library):
    """Promise -> what breaks it."""
    needed, names = foreign_libraries(library), exported(library)
    strangers = sorted(name for name in names if not name.startswith("baton_"))
    missing = sorted(declared() - names)
    found = {
        "self-contained": f"it needs {', '.join(needed)}" if needed else "",
        "thread-locals": "" if thread_locals(library) <= THREAD_LOCALS_MAX else
                         f"{thread_locals(library)} bytes for each thread, more than "
                         f"{THREAD_LOCALS_MAX}",
        "exports": f"strangers {strangers[:5]}, missing {missing[:5]}"
                   if strangers or missing else "",
        "never unloaded": "" if is_kept(library) else "it has no -z nodelete",
    }
    return {promise: why for promise, why in found.items() if why}


def main():
    library, other = sys.argv[1:]
    found = complaints(library)
    for promise, why in found.items():
        print(f"{library}: {promise}: {why}")
    print(f"{thread_locals(library)} bytes for each thread, {len(exported(library))} functions")
    seen = set(complaints(other))
    if seen != {"self-contained", "thread-locals", "exports"}:
        print(f"{other} should break all promises but one, and is said to break {sorted(seen)}")
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
