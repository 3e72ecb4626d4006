#!/usr/bin/env python3
"""The probes of src/base/probes.hpp: in the library if it was built with them, else not a trace.

usage: probes_test.py LIBRARY 0|1 GUIDE

The probes that the guide lists are those that readelf finds, no more and no fewer.
"""

import re
import subprocess
import sys


def main(argv):
    library, built_in, guide = argv[1], argv[2] == "1", argv[3]
    notes = subprocess.run(["readelf", "-n", "--wide", library], capture_output=True, text=True,
                           check=True).stdout
    found = set(re.findall(r"Provider: baton\s+Name: (\w+)", notes))
    with open(guide, encoding="utf-8") as file:
        listed = set(re.findall(r"^\| `baton:(\w+)`", file.read(), re.M))
    expected = listed if built_in else set()
    if len(listed) < 7:
        print(f"the guide lists only {sorted(listed)}: is the pattern right?")
        return 1
    if found != expected:
        print(f"missing: {sorted(expected - found)}; not in the guide: {sorted(found - expected)}")
        return 1
    print(f"{len(found)} probes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
