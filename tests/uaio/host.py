#!/usr/bin/env python3
"""Runs the host suite, case by case, on the system's AIO and on ours, and prints the table.

host.py PROGRAM PRELOAD [--uaio OPTIONS] [--environment NAME=VALUE]... [--no-system]
        [--spare POINT]... [--jobs N] [--document FILE] [--check FILE] [CASE...]

N cases run at a time, each in a process and a folder of its own: a case mostly waits. Fails when a
case fails on ours; the last lines name each such case and its answer. --document writes the table
between its marks in a page; --check fails when the cases of that page are not those of the program.
In the nightly tier (BATON_TEST_NIGHTLY) the rounds are long, and the cases of the points that are
spared run, too.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import answers_shown

MARKS = ("<!-- host suite: begin -->", "<!-- host suite: end -->")
# Some cases never end on the system's library. Ours is waited for as events are in other tests
# (tests/support/patience.h).
NIGHTLY = "BATON_TEST_NIGHTLY" in os.environ
SECONDS = {"system": 5, "uaio": 60 * float(os.environ.get("BATON_TEST_PATIENCE", 1))}


def threads(process):
    """The threads of a hanging process: name, state, processor time, where it waits in the
    kernel."""
    said = []
    for task in sorted(Path(f"/proc/{process}/task").iterdir()):
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(") ")
            fields = rest.split()
            where = (task / "wchan").read_text().strip("0")
        except OSError:  # it has ended meanwhile
            continue
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        said.append(f"{name} {fields[0]} {seconds:.1f} s {where}".rstrip())
    return ", ".join(said)


class Programs:
    """The programs that run, each with a process group: a case may have children of its own."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = set()
        self._over = False

    def start(self, command, environment):
        with self._lock:
            if self._over:
                raise RuntimeError("this run was ended from outside")
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True,
                                       start_new_session=True)
            self._running.add(process)
            return process

    def forget(self, process):
        with self._lock:
            self._running.remove(process)

    def end(self, number, _frame):
        """The handler of signals that end this run: leaves no program behind."""
        with self._lock:
            self._over = True
            for each in self._running:
                if each.returncode is None:
                    os.killpg(each.pid, signal.SIGKILL)
        sys.exit(128 + number)


PROGRAMS = Programs()


def run(program, case, folder, preload, options, extra):
    seconds = SECONDS["uaio" if preload else "system"]
    # One event within a case gets half of that time, so that the case can name the event before it
    # is killed.
    environment = dict(os.environ, UAIO_TEST_FOLDER=folder,
                       UAIO_TEST_SECONDS=str(max(1, int(seconds / 2))))
    environment.pop("UAIO", None)
    environment.update(pair.split("=", 1) for pair in extra)
    if NIGHTLY:
        environment["UAIO_HOST_LONG"] = "1"
    if preload:
        environment["LD_PRELOAD"] = preload
    if options:
        environment["UAIO"] = options
    process = PROGRAMS.start([program, case], environment)
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        where = threads(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"hangs after {seconds:g} s: {where}"
    finally:
        PROGRAMS.forget(process)
    if process.returncode < 0:
        return f"ends by signal {-process.returncode}"
    lines = output.strip().splitlines()
    return lines[-1] if lines else f"status {process.returncode}"


def run_on_both(case, arguments):
    """(the seconds it took, the system's answer or None, ours)."""
    begin = time.monotonic()
    system = None
    with tempfile.TemporaryDirectory(prefix="uaio-host-") as folder:
        if not arguments.no_system:
            system = run(arguments.program, case, folder, None, None, [])
            # A second run, because rare faults of the system's library do not belong here.
            if short(system) not in ("ok", "hangs"):
                system = run(arguments.program, case, folder, None, None, [])
        ours = run(arguments.program, case, folder, arguments.preload, arguments.uaio,
                   arguments.environment)
    return time.monotonic() - begin, system, ours


def short(answer):
    if answer.startswith("hangs"):
        return "hangs"
    if answer == "ok" or answer.startswith(("ends by", "skipped")):
        return answer.split(":")[0]
    return "fails"


def table(cases, answers):
    lines = ["| what must not change | case | system | uaio |", "|---|---|---|---|"]
    for name, point in cases.items():
        lines.append(f"| {point} | {name} | {short(answers['system'][name])} "
                     f"| {short(answers['uaio'][name])} |")
    passed = {side: sum(short(each) == "ok" for each in column.values())
              for side, column in answers.items()}
    lines.append(f"| | **{len(cases)} cases pass** | **{passed['system']}** "
                 f"| **{passed['uaio']}** |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("preload", help="the library, with others before it if need be")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--uaio", help="options for our library")
    parser.add_argument("--environment", action="append", default=[])
    parser.add_argument("--without", action="append", default=[], metavar="CASE=REASON")
    parser.add_argument("--spare", action="append", default=[], metavar="POINT")
    parser.add_argument("--no-system", action="store_true", help="leave the system's column out")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--document", type=Path)
    parser.add_argument("--check", type=Path)
    arguments = parser.parse_args()
    listed = subprocess.run([arguments.program, "--list"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    cases = dict(sorted((line.split("|") for line in listed.splitlines()),
                        key=lambda pair: (pair[1], pair[0])))
    if arguments.check:
        page = arguments.check.read_text()
        rows = page.split(MARKS[0])[1].split(MARKS[1])[0].split("|---")[-1]
        written = set(re.findall(r"^\| [^|]+ \| (\w+) \|", rows, re.MULTILINE))
        if written != set(cases):
            sys.exit(f"{arguments.check}: the table lacks, or has too many: "
                     f"{sorted(written ^ set(cases))}; write it with --document")
    if not NIGHTLY:
        cases = {name: point for name, point in cases.items() if point not in arguments.spare}
    if arguments.cases:
        cases = {name: cases[name] for name in arguments.cases}
    for left_out in arguments.without:
        case, reason = left_out.split("=", 1)
        if cases.pop(case, None):
            print(f"skipped: {case}: {reason}")
    answers = {"system": {}, "uaio": {}}
    failures = []
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, PROGRAMS.end)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = pool.map(lambda case: run_on_both(case, arguments), cases)
        for case, (seconds, system, ours) in zip(cases, runs):
            answers["system"][case], answers["uaio"][case] = system, ours
            row = answers_shown.row([system or "-", ours], 52)
            print(f"{seconds:5.1f} s {case:42}{row}", flush=True)
            if ours != "ok" and not ours.startswith("skipped"):
                failures.append(answers_shown.failure(case, ours))
    if arguments.document:
        page = arguments.document.read_text()
        before, rest = page.split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        arguments.document.write_text(before + MARKS[0] + "\n" + table(cases, answers) + "\n"
                                      + MARKS[1] + after)
    print(f"{len(cases)} cases, {len(failures)} fail on ours", *failures, sep="\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
