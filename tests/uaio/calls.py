#!/usr/bin/env python3
"""Counts the system calls of a request and compares them with their bounds.

calls.py PROGRAM PRELOAD

Two runs of different lengths are counted by strace, and the difference is divided, so that what is
done once does not count. A busy disk refuses a direct transfer now and then, which only adds
calls, so the least of ten counts judges. Exit 77: there is no strace, or it may not trace.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# kind: (the shorter run, the longer, the most calls for each more). docs/decisions/0009.
BOUNDS = {
    "cached_read": (500, 4500, 1.01),
    "direct_read_1": (200, 700, 2.5),
    "direct_read_32": (320, 1920, 1.2),
    # The limit of file sizes is asked for each 10 ms, and strace makes a request many times longer.
    "buffered_write": (500, 4500, 1.03),
    "direct_write": (200, 700, 2.1),
    # The kernel refuses the first try. strace before 6.5 does not count cachestat.
    "direct_write_cached": (200, 700, 6.1),
    "list": (5, 25, 4),
    "list_zeroed": (5, 25, 4),
    "list_of_writes": (5, 25, 4),
    # In milliseconds, both beyond the second after which idle threads end. One call more or less in
    # a run is chance; a call that the library makes each second would be 0.001.
    "idle_pipe": (1500, 3500, 0.0006),
}
# Before Linux 6.14 the kernel cannot be told to refuse streams, so a write asks by fcntl and fstat.
if tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (6, 14):
    BOUNDS["direct_write"] = (200, 700, 4.1)
    BOUNDS["list_of_writes"] = (5, 25, 6)
    del BOUNDS["direct_write_cached"]


def count(program, preload, kind, length, folder):
    table = os.path.join(folder, "table")
    command = ["strace", "-f", "-c", "-U", "calls,name", "-o", table,
               "-E", f"LD_PRELOAD={preload}", "-E", f"UAIO_TEST_FOLDER={folder}", program, kind,
               str(length)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        print(f"skipped: strace cannot trace {kind}: {done.stderr.strip()[-200:]}")
        sys.exit(77)
    with open(table, encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    return sum(int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit()
               and row[1] != "total")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("preload")
    arguments = parser.parse_args()
    if shutil.which("strace") is None:
        print("skipped: there is no strace")
        sys.exit(77)
    over = 0
    with tempfile.TemporaryDirectory(prefix="uaio-calls-") as folder:
        for kind, (short, long, most) in BOUNDS.items():
            counts = []
            each = most + 1
            while each > most and len(counts) < 10:
                counts.append([count(arguments.program, arguments.preload, kind, length, folder)
                               for length in (short, long)])
                if None in counts[-1]:
                    break
                each = (min(high for _, high in counts) - min(low for low, _ in counts)) / (
                    long - short)
            if None in counts[-1]:
                print(f"{kind:16} cannot be counted on this file system")
                continue
            verdict = "ok" if each <= most else "TOO MANY"
            over += each > most
            print(f"{kind:16} {each:8.4f} system calls each, at most {most:6} {verdict}",
                  flush=True)
    sys.exit(1 if over else 0)


main()
