#!/usr/bin/env python3
"""Runs the tests of the ACE bridge on ACE's own proactor and on Baton's, and prints the table.

table.py ACE_TEST [--jobs N] [--document FILE] [--check FILE] [TEST...]

On ACE's own each test is a process of its own, with a time limit, because some never end there.
On Baton all run for each engine and mode. --document writes the table between its marks in a page;
--check runs nothing, and fails when the tests of that page are not those of the program.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MARKS = ("<!-- ace tests: begin -->", "<!-- ace tests: end -->")
# A test that passes there needs less than two.
SECONDS_ON_STOCK = 20
# Said by AceTest (support.cpp). A test without these words is about Baton's proactor alone.
ON_STOCK = "on ACE's own proactor"
ONLY_BATON = "only Baton's proactor has this"
ENGINES = ("engine=emulated,wait=epoll", "engine=emulated,wait=poll", "engine=io_uring")
MODES = ("mode=shared", "mode=dedicated", "mode=per_thread,threads=1",
         "mode=per_thread,threads=2")
# With one lane there is one thread.
NEEDS_TWO = "Driving.PostedResultsReach*:Native.ItsOwnLoopLeaves*"


def tests_of(program):
    """Their full names, in the program's order."""
    found, suite = [], ""
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True,
                            text=True).stdout
    for line in listed.splitlines():
        name = line.partition("#")[0].strip()
        if line.startswith(" "):
            found.append(suite + name)
        elif name.endswith("."):
            suite = name
    return found


def on_stock(program, test):
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [program, f"--gtest_filter={test}"], cwd=folder, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "BATON_TEST_ACE": "stock"})
        try:
            said, _ = process.communicate(timeout=SECONDS_ON_STOCK)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return "hangs" if ON_STOCK in said else "-"
    if ON_STOCK not in said or ONLY_BATON in said:
        return "-"
    if process.returncode < 0:
        return f"killed by signal {-process.returncode}"
    return "passes" if process.returncode == 0 else "fails"


def on_baton(program, tests):
    """Test -> (combinations in which it passed, combinations in which it ran)."""
    counts = {test: [0, 0] for test in tests}
    for engine in ENGINES:
        for mode in MODES:
            names = ":".join(tests)
            if mode.endswith("threads=1"):
                names += "-" + NEEDS_TWO
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "results.json"
                subprocess.run([program, f"--gtest_filter={names}", f"--gtest_output=json:{out}"],
                               cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               check=False, env={**os.environ, "BATON": f"{engine},{mode}"})
                suites = json.loads(out.read_text())["testsuites"]
            for suite in suites:
                for test in suite["testsuite"]:
                    if test["result"] != "COMPLETED":
                        continue
                    count = counts[f"{suite['name']}.{test['name']}"]
                    count[0] += "failures" not in test
                    count[1] += 1
    return counts


def sentence(test):
    """Suites/Driving.ManyPostedComplete/0 -> Driving: many posted complete (0)"""
    suite, _, name = test.partition(".")
    name, _, parameter = name.partition("/")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()
    return f"{suite.rpartition('/')[2]}: {words}" + (f" ({parameter})" if parameter else "")


def table(tests, stock, baton):
    rows = ["| test | ACE's own | Baton |", "|---|---|---|"]
    for test in tests:
        passed, ran = baton[test]
        rows.append(f"| {sentence(test)} | {stock[test]} | {passed} of {ran} |")
    answers = list(stock.values())
    asked = len(answers) - answers.count("-")
    return "\n".join([f"Of {asked} tests, {answers.count('passes')} pass on ACE's own proactor, "
                      f"and {answers.count('hangs')} hang.", "", *rows])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--document", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    program = str(arguments.program.resolve())
    tests = arguments.tests or tests_of(program)

    if arguments.check:
        _, _, rest = arguments.check.read_text().partition(MARKS[0])
        written = set(re.findall(r"^\| (\w+: [^|]*?) \|", rest.partition(MARKS[1])[0], re.M))
        difference = written ^ {sentence(test) for test in tests}
        if difference:
            sys.exit(f"{arguments.check} and the program differ in {sorted(difference)}; write the "
                     "table with --document")
        return

    with ThreadPoolExecutor(arguments.jobs) as pool:
        stock = dict(zip(tests, pool.map(lambda test: on_stock(program, test), tests)))
    baton = on_baton(program, tests)
    print(table(tests, stock, baton))
    if arguments.document:
        page = arguments.document.read_text()
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        arguments.document.write_text(f"{before}{MARKS[0]}\n{table(tests, stock, baton)}\n"
                                      f"{MARKS[1]}{after}")
    failed = [test for test, (passed, ran) in baton.items() if passed < ran]
    if failed:
        sys.exit(f"failed on Baton: {', '.join(failed)}")


if __name__ == "__main__":
    main()
