#!/usr/bin/env python3
"""Runs the conformance kit over engines - one that keeps the contract, one that takes no files, one
that takes nothing else, one that breaks rule 4, one that ends the process, one that does not exist
-, over a wait strategy and over an interrupt strategy, and compares the tables.

usage: check_kit.py PROGRAM
"""

import re
import subprocess
import sys

ROW = re.compile(r"^(\S+) .*?(\d+) +(\d+) +(\d+)  (passed|FAILED|skipped|not run to the end)$",
                 re.MULTILINE)
PASSED, FAILED, UNUSABLE = 0, 1, 2
TIMEOUT_S = 500
RULES = [str(number) for number in range(1, 13)]


def run(program, *arguments):
    """The exit code, the rows of the table by rule, and all that was printed."""
    try:
        ended = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True,
                               check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:  # its text does not have the output
        output = (late.output or b"").decode(errors="replace")
        sys.exit(f"FAILED: {' '.join(arguments)}: not over after {TIMEOUT_S} s\n{output}")
    rows = {match[1]: (int(match[2]), int(match[3]), int(match[4]), match[5])
            for match in ROW.finditer(ended.stdout)}
    return ended.returncode, rows, ended.stdout


def expect(condition, what, output):
    if not condition:
        sys.exit(f"FAILED: {what}\n{output}")
    print(f"ok: {what}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]

    code, rows, output = run(program, "wrapping", "pairwise", *RULES, "idle")
    expect(code == PASSED, "an engine that keeps the contract passes", output)
    expect(set(rows) == {*RULES, "idle", "all"}, "every rule has its row", output)
    expect(all(passed > 0 and failed == 0 and word == "passed"
               for passed, failed, _, word in rows.values()), "something of every rule passed",
           output)

    expect(re.search(r"conformance: \d+ tests\n(.*\n)*conformance: \d+ of \d+ tests\n(.*\n)*rule ",
                     output), "the way is told before the table", output)

    code, rows, output = run(program, "sockets", "pairwise", "7", "8", "10", "11", "threads")
    expect(code == PASSED and all(passed > 0 and failed == 0
                                  for passed, failed, _, _ in rows.values()),
           "so does one that leaves the files to another", output)

    code, rows, output = run(program, "file_threads", "pairwise", "1", "3", "4", "5", "8", "10")
    expect(code == PASSED and all(passed > 0 and failed == 0
                                  for passed, failed, _, _ in rows.values()),
           "and one that takes nothing but files", output)

    for part, row in (("oneshot_epoll", "wait_strategy"), ("wake_pipe", "interrupt_strategy")):
        code, rows, output = run(program, part, "pairwise", "wait_strategy", "interrupt_strategy",
                                 "4", "5")
        expect(code == PASSED and rows[row][0] > 0 and rows["interrupt_strategy"][0] > 0 and
               rows["4"][0] > 0, f"so does {part}", output)

    code, rows, output = run(program, "broken", "pairwise", "4", "8")
    expect(code == FAILED, "an engine that breaks a rule fails", output)
    expect(rows["4"][1] > 0 and rows["4"][3] == "FAILED", "the broken rule is named", output)
    expect(rows["8"][1] == 0 and rows["8"][3] == "passed", "another one is not", output)
    expect("FAILED, rule 4: Stream." in output, "the failed tests are listed", output)
    expect(set(rows) == {"4", "8", "all"}, "only the rules that were wanted ran", output)

    code, rows, output = run(program, "dying", "pairwise", "3")
    expect(code == FAILED, "an engine that ends the process fails", output)
    expect(rows["3"][1] > 0 and "the process " in output, "the death is reported", output)
    expect(rows["3"][0] > 0 and "given up" not in output, "the other tests ran all the same",
           output)

    code, rows, output = run(program, "no_such_engine")
    expect(code == UNUSABLE and not rows, "an engine that does not exist is no success", output)
    code, rows, output = run(program, "wrapping", "13")
    expect(code == UNUSABLE and not rows, "neither is a rule that does not exist", output)


if __name__ == "__main__":
    main()
