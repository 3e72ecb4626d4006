#!/usr/bin/env python3
"""Counts the user-space instructions of a message: Baton, the raw loops and the libraries.

    bench/instructions.py                  the table
    bench/instructions.py --only baton     programs whose name has this in it
    bench/instructions.py --profile NAME   where they go, function by function
    bench/instructions.py --save           and keep it in bench/results/
    bench/instructions.py --check          Baton's counts against bench/instructions.json: the gate
    bench/instructions.py --update         writes that file anew, and keeps the table as --save does

An echo, one process and one thread, in lock-step with its peers over socket pairs
(bench/lock_step.hpp), under callgrind. What is counted does not depend on the machine's load: the
difference of two runs, so that what happens once falls out, divided by the messages between them.

The gate detects changes in the cost of a message: a count may differ by 2 % from the kept one, in
either direction, because a lower count must be kept as well. Counts are a compiler's as much as
ours, and USDT probes add to them. So they are compared only with counts of the same compiler and
the same choice of probes. Otherwise, and where a mechanism is missing, the test is skipped and says
why.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
import output
from option_parser import OptionParser

REPOSITORY = compare.REPOSITORY
KEPT = REPOSITORY / "bench" / "instructions.json"
TOLERANCE = 0.02
# The C library chooses its copies by the processor: the same everywhere.
PLAIN_COPIES = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(
    f"-{name}" for name in ("AVX", "AVX2", "AVX512F", "AVX512VL", "ERMS", "FSRM",
                            "AVX_Fast_Unaligned_Load"))}
ROWS = {"1 x 64 B": (1, 64), "40 x 512 B": (40, 512)}
# Rounds of the two runs. Both are long enough for what grows (tables, buffers) to have grown.
ROUNDS = {1: (400, 1400), 40: (20, 70)}

BATON = {
    "baton epoll": ("engine=emulated,wait=epoll", []),
    "baton epoll, shared": ("engine=emulated,wait=epoll", ["--mode", "shared"]),
    "baton epoll, dedicated": ("engine=emulated,wait=epoll", ["--mode", "dedicated"]),
    "baton epoll, coroutines": ("engine=emulated,wait=epoll", ["--style", "coroutine"]),
    "baton epoll, datagrams": ("engine=emulated,wait=epoll", ["--datagrams", "1"]),
    "baton epoll, vectored": ("engine=emulated,wait=epoll", ["--style", "vectored"]),
    "baton epoll, until": ("engine=emulated,wait=epoll", ["--style", "until"]),
    "baton epoll, exactly": ("engine=emulated,wait=epoll", ["--style", "exactly"]),
    "baton epoll, pooled": ("engine=emulated,wait=epoll", ["--style", "pooled"]),
    "baton epoll, threads": ("engine=emulated,wait=epoll", ["--second-thread", "1"]),
    "baton epoll, attached": ("engine=emulated,wait=epoll", ["--drive", "attached"]),
    "baton io_uring": ("engine=io_uring", []),
    "baton io_uring, shared": ("engine=io_uring", ["--mode", "shared"]),
    "baton io_uring, coroutines": ("engine=io_uring", ["--style", "coroutine"]),
    "baton io_uring, datagrams": ("engine=io_uring", ["--datagrams", "1"]),
    "baton io_uring, vectored": ("engine=io_uring", ["--style", "vectored"]),
    "baton io_uring, until": ("engine=io_uring", ["--style", "until"]),
    "baton io_uring, pooled": ("engine=io_uring", ["--style", "pooled"]),
    "baton io_uring, attached": ("engine=io_uring", ["--drive", "attached"]),
}
# Its two threads meet differently from run to run.
UNSTEADY = {("baton epoll, dedicated", "1 x 64 B")}
# A program written for ACE's Proactor, on the bridge; attached in its event loop.
ACE = {
    "baton ace, epoll": "engine=emulated,wait=epoll,mode=per_thread,threads=1",
    "baton ace, epoll, shared": "engine=emulated,wait=epoll,mode=shared",
    "baton ace, io_uring": "engine=io_uring,mode=per_thread,threads=1",
}
# A program in C, by arrays; no thread leads its lane between two calls unless it is attached.
C = {
    "baton c, epoll": ("engine=emulated,wait=epoll,mode=per_thread,threads=1", []),
    "baton c, epoll, attached": ("engine=emulated,wait=epoll,mode=per_thread,threads=1",
                                 ["--attached", "1"]),
    "baton c, io_uring": ("engine=io_uring,mode=per_thread,threads=1", []),
    "baton c, io_uring, attached": ("engine=io_uring,mode=per_thread,threads=1",
                                    ["--attached", "1"]),
}
REACTOR = {
    "baton reactor, epoll": ["reactor_lock_step", "--wait", "epoll"],
}
RIVALS = {
    "raw epoll": ["raw_epoll"],
    "raw epoll, datagrams": ["raw_epoll", "--datagrams", "1"],
    "raw epoll, edge": ["raw_epoll", "--edge", "1"],
    "raw io_uring": ["raw_uring"],
    "Asio, epoll": ["asio_epoll"],
    "Asio, io_uring": ["asio_uring"],
    "libuv": ["libuv_echo"],
    "libevent": ["libevent_echo"],
}


class CannotCount(Exception):
    pass


def programs(build):
    """Name -> (command, environment)."""
    found = {}
    for name, (choice, options) in BATON.items():
        found[name] = ([str(build / "bench" / "lock_step"), *options], {"BATON": choice})
    for name, choice in ACE.items():
        found[name] = ([str(build / "bench" / "ace_lock_step")], {"BATON": choice})
    for name, (choice, options) in C.items():
        found[name] = ([str(build / "bench" / "capi_lock_step"), *options], {"BATON": choice})
    for name, command in {**REACTOR, **RIVALS}.items():
        found[name] = ([str(build / "bench" / command[0]), *command[1:]], {})
    return found


def total(command, environment, sessions, block, rounds, keep=None):
    """Instructions of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(keep) if keep else Path(folder) / "callgrind.out"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no",
             f"--callgrind-out-file={out}", *command, "--sessions", str(sessions),
             "--block", str(block), "--rounds", str(rounds)],
            env={**os.environ, **PLAIN_COPIES, **environment}, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False, timeout=300)
        if done.returncode != 0:
            words = [line for line in done.stderr.split("\n") if not line.startswith("==")]
            raise CannotCount("; ".join(words).strip() or f"ended with {done.returncode}")
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)
        return int(found.group(1))


def per_message(command, environment, sessions, block):
    short, long = ROUNDS[sessions]
    counts = [total(command, environment, sessions, block, rounds) for rounds in (short, long)]
    return (counts[1] - counts[0]) / ((long - short) * sessions)


def measure(build, only=""):
    """Name -> {row: instructions a message}; a program that cannot run has a reason instead."""
    table = {}
    for name, (command, environment) in programs(build).items():
        if only not in name:
            continue
        if not Path(command[0]).exists():
            table[name] = "not built (its library is not installed)"
            continue
        try:
            table[name] = {row: round(per_message(command, environment, *row_of), 1)
                           for row, row_of in ROWS.items() if (name, row) not in UNSTEADY}
        except CannotCount as reason:
            table[name] = str(reason)
    return table


def print_table(table):
    width = max(map(len, table))
    print(f"{'user instructions per message':{width}}  " + "  ".join(f"{r:>10}" for r in ROWS))
    for name, counts in table.items():
        cells = (counts if isinstance(counts, str)
                 else "  ".join(f"{counts[row]:10.0f}" if row in counts else f"{'-':>10}"
                                for row in ROWS))
        print(f"{name:{max(width, 29)}}  {cells}")


def profile(build, name):
    command, environment = programs(build)[name]
    for row, (sessions, block) in ROWS.items():
        with tempfile.NamedTemporaryFile() as file:
            rounds = ROUNDS[sessions][1]
            count = total(command, environment, sessions, block, rounds, keep=file.name)
            text = subprocess.run(["callgrind_annotate", "--auto=no", file.name], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        print(f"\n{name}, {row}: {count / rounds / sessions:.0f} a message")
        for line in text.split("\n"):
            found = re.match(r"\s*([\d,]+) \([^)]*\)\s+(?:\S*?:)?(.*)", line)
            if not found or "PROGRAM TOTALS" in line:
                continue
            each = int(found.group(1).replace(",", "")) / rounds / sessions
            if each >= 0.5:
                print(f"{each:8.1f}  {found.group(2)[:110]}")


def check(build, compiler):
    """0 all as kept, 1 something differs, 77 cannot be compared here."""
    kept = json.loads(KEPT.read_text())
    if compiler and compiler != kept["compiler"]:
        print(f"skipped: the counts are those of {kept['compiler']}, this is {compiler}")
        return 77
    found = measure(build, "baton")
    status = 0
    for name, rows in kept["instructions"].items():
        if isinstance(found[name], str):
            print(f"skipped: {name}: {found[name]}")
            status = status or 77
            continue
        for row, before in rows.items():
            change = found[name][row] / before - 1
            state = "ok" if abs(change) <= TOLERANCE else "DIFFERS"
            print(f"{name:28} {row:10} {before:8.1f} kept {found[name][row]:8.1f} now "
                  f"{change:+7.1%}  {state}")
            if state != "ok":
                status = 1
    if status == 1:
        print("Dearer: look with --profile where it went. Cheaper, or worth it: --update.")
    return status


def main():
    parser = OptionParser(__doc__, "only")
    parser.add_argument("--profile", metavar="NAME")
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results/")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--compiler", default="", help="as CMake names it: GNU 12.2.0, USDT probes")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        return 77 if options.check else 2
    if options.profile:
        profile(options.build, options.profile)
        return 0
    if options.check:
        return check(options.build, options.compiler)
    if options.update:
        table = measure(options.build)
        ours = {name: counts for name, counts in table.items() if name.startswith("baton")}
        KEPT.write_text(json.dumps({"compiler": options.compiler, "instructions": ours}, indent=2)
                        + "\n")
    else:
        table = measure(options.build, options.only)
    print_table(table)
    if options.save or options.update:
        compare.save("instructions", table)
    return 0


if __name__ == "__main__":
    sys.exit(output.status_of(main))
