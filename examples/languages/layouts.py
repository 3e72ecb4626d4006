#!/usr/bin/env python3
"""Compares the structs of programs in other languages with those of baton.h.

usage: layouts.py LAYOUTS HEADER PROGRAM...

LAYOUTS is the program that has the header, and it must know every struct and member of HEADER. Each
PROGRAM prints those that it uses, given --layouts, completely.
"""

import re
import subprocess
import sys
from pathlib import Path


def lines_of(*command):
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in output.splitlines())


def fails_unwritten(*command):
    """It ends with a failure if its lines cannot be written."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    return done.returncode != 0 and b"No space left" in done.stderr


def in_header(path):
    """Names of the structs and of their members."""
    text = re.sub(r"/\*.*?\*/", "", Path(path).read_text(), flags=re.S)
    names = set()
    for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
        names.add(struct)
        names |= {f"{struct}.{member}" for member in re.findall(r"(\w+)(?:\[\d+\])?;", body)}
    return names


def main():
    layouts, header, *programs = sys.argv[1:]
    known, failed = lines_of(layouts), False
    if set(known) != in_header(header):
        print(f"{layouts} and {header} differ in {sorted(set(known) ^ in_header(header))}")
        failed = True
    for command in ([layouts], *([program, "--layouts"] for program in programs)):
        if not fails_unwritten(*command):
            print(f"{command}: does not fail if its output cannot be written")
            failed = True
    for program in programs:
        found = lines_of(program, "--layouts")
        structs = {name for name in found if "." not in name}
        wanted = {name: size for name, size in known.items() if name.split(".")[0] in structs}
        for name in sorted(set(found) | set(wanted)):
            if found.get(name) != wanted.get(name):
                print(f"{program}: {name}: {found.get(name)}, and in C {wanted.get(name)}")
                failed = True
    return 1 if failed or not known else 0


if __name__ == "__main__":
    sys.exit(main())
