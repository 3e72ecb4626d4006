#!/usr/bin/env python3
"""Runs the AIO programs of a checkout of the Open POSIX Test Suite on the system's AIO and on ours:

    tests/uaio/ltp.py ltp/testcases/open_posix_testsuite build/lib/libuaio-preload.so

The suite is Linux Test Project's, or the older posixtestsuite. A row is printed for each program
whose answer is not the same everywhere. Exit 1: one that passes with the system's fails in some
mode of ours. `unresolved` is no failure: the program found its request complete when it wanted one
that is still pending.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FUNCTIONS = ["aio_cancel", "aio_error", "aio_fsync", "aio_read", "aio_return", "aio_suspend",
             "aio_write", "lio_listio"]
MODES = ["", "mode=helper", "mode=single", "threads=2", "engine=emulated",
         "inline_read=0,inline_write=0", "direct=0"]
ANSWERS = {0: "pass", 1: "FAIL", 2: "unresolved", 4: "unsupported", 5: "untested"}
PATIENCE = 60


def compiled(source, suite, folder):
    """The program, or None. The suite's main() calls test_main() in newer versions."""
    program = folder / f"{source.parent.name}-{source.stem}"
    done = subprocess.run(["cc", "-w", "-std=gnu99", "-D_GNU_SOURCE", "-Dtest_main=main",
                           f"-I{suite / 'include'}", "-include", "fcntl.h", "-include", "signal.h",
                           "-include", "sys/resource.h", "-o", program, source, "-lrt",
                           "-lpthread"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return program if done.returncode == 0 else None


def answer(program, preload, options, folder):
    environment = dict(os.environ, TMPDIR=str(folder))
    if preload is not None:
        environment.update(LD_PRELOAD=preload, UAIO=options)
    try:
        status = subprocess.run([program], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                timeout=PATIENCE, check=False).returncode
    except subprocess.TimeoutExpired:
        return "hangs"
    return ANSWERS.get(status, f"ends with {status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("preload")
    arguments = parser.parse_args()
    preload = str(Path(arguments.preload).resolve())
    folders = [arguments.suite / "conformance/interfaces" / name for name in FUNCTIONS]
    sources = [source for folder in folders for source in sorted(folder.glob("*.c"))]
    if not sources:
        sys.exit(f"{arguments.suite}: no programs in conformance/interfaces/aio_*")
    worse = 0
    counts = {"pass on both": 0, "not built": 0}
    with tempfile.TemporaryDirectory(prefix="uaio-ltp-") as name, ThreadPoolExecutor(4) as pool:
        folder = Path(name)
        for source in sources:
            program = compiled(source, arguments.suite, folder)
            if program is None:
                counts["not built"] += 1
                continue
            system = answer(program, None, "", folder)
            ours = list(pool.map(lambda mode: answer(program, preload, mode, folder), MODES))
            if {system, *ours} == {"pass"}:
                counts["pass on both"] += 1
            elif {*ours} != {system}:
                print(f"{program.name}: system {system}; ours "
                      + ", ".join(f"{mode or 'default'} {each}" for mode, each in zip(MODES, ours)))
            worse += system == "pass" and not {*ours} <= {"pass", "unresolved"}
    print(f"{len(sources)} programs, {counts['pass on both']} pass on both, "
          f"{counts['not built']} cannot be built, {worse} fail on ours alone")
    sys.exit(1 if worse else 0)


main()
