#!/usr/bin/env python3
"""The tests of a GoogleTest program, read from its output.

A test that began and did not end has failed.
"""

import re

BEGIN = re.compile(r"^\[ RUN      \] (\S+)")
# Output of a test without a line's end stands before it.
RESULT = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \(\d+ ms\)$")
# A program prints this last. A program that ended before may have left out tests without saying so.
END = re.compile(r"^\[==========\] \d+ tests? from \d+ test suites? ran\.", re.MULTILINE)


class Test:
    """result: OK, FAILED or SKIPPED; ended: the test came to its end; output: lines of its own."""

    def __init__(self, name):
        self.name = name
        self.result = "FAILED"  # until it has ended
        self.ended = False
        self.output = []


def tests_of(lines, prefix):
    """[Test], each named prefix/Suite.Test."""
    tests, current = [], None
    for line in lines:
        if begun := BEGIN.match(line):
            current = Test(f"{prefix}/{begun[1]}")
            tests.append(current)
        elif current is None:
            continue
        elif (found := RESULT.search(line)) and current.name == f"{prefix}/{found[2]}":
            if before := line[:found.start()]:
                current.output.append(before)
            current.result, current.ended = found[1], True
            current = None
        else:
            current.output.append(line)
    return tests
