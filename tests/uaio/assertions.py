#!/usr/bin/env python3
"""POSIX's assertions about asynchronous I/O, and the cases that test them: assertions.py BEHAVIOUR
OWN SOURCES

The numbers are those of the Open POSIX Test Suite. Prints a table, and fails when an assertion has
no case, a case names what there is not, or tests no requirement.
"""

import pathlib
import re
import subprocess
import sys

# How many there are of each function.
ASSERTIONS = {"aio_read": 15, "aio_write": 13, "aio_error": 3, "aio_return": 4, "aio_suspend": 10,
              "aio_cancel": 10, "aio_fsync": 14, "lio_listio": 25}
REQUIREMENTS = 11


def main():
    covered = {(name, number): [] for name, count in ASSERTIONS.items()
               for number in range(1, count + 1)}
    required = {f"U-{number:02}": [] for number in range(1, REQUIREMENTS + 1)}
    wrong = []
    lines = {line for program in sys.argv[1:3]
             for line in subprocess.run([program, "--covers"], stdout=subprocess.PIPE, text=True,
                                        check=True).stdout.splitlines()}
    for line in sorted(lines):
        case, *words = line.split()
        function = None
        requirements = 0
        for word in words:
            if word in required:
                required[word].append(case)
                requirements += 1
            elif word in ASSERTIONS:
                function = word
            elif word.isdigit() and (function, int(word)) in covered:
                covered[function, int(word)].append(case)
            else:
                wrong.append(f"{case}: there is no {function} {word}")
        if requirements == 0:
            wrong.append(f"{case} tests no requirement")
    # aio_suspend 5: the time is measured by CLOCK_MONOTONIC, which no test can set.
    for source in sorted(pathlib.Path(sys.argv[3]).glob("*.?pp")):
        if re.search(r"CLOCK_REALTIME|CLOCK_TAI", source.read_text()):
            wrong.append(f"{source.name} knows another clock than the monotonic one")
    for name in ASSERTIONS:
        for number in range(1, ASSERTIONS[name] + 1):
            print(f"{name:12}{number:3}  {', '.join(covered[name, number]) or 'OPEN'}")
    for number, cases in required.items():
        print(f"{number:15}  {', '.join(cases) or 'OPEN'}")
    wrong += [f"{name} {number} is tested by nothing" for (name, number), cases in covered.items()
              if not cases]
    wrong += [f"{number} is tested by nothing" for number, cases in required.items() if not cases]
    print("\n".join(f"FAILED: {each}" for each in wrong))
    sys.exit(1 if wrong else 0)


main()
