#!/usr/bin/env python3
"""Which failed tests may be run a second time, alone: prints a regular expression for `ctest -R`
with BATON_TEST_ALONE=1.

usage: run_again.py RESULTS.xml

Reads the JUnit file of a ctest run. A test may be run again when its program came to its own end
and said which expectation was not met. Not when it crashed, hung or was reported by a sanitizer:
one of these is an error however seldom it happens (docs/decisions/0002-a-second-run.md). Exit
status 1, and nothing printed, when a failed test may not be run again, when more than `MOST`
failed, or when none did.
"""

import re
import sys

import sum_results

# More than these are no accident.
MOST = 3

ENDED_BY_ITSELF = re.compile(r"^ *\d+ FAILED TESTS?$", re.MULTILINE)
# "nothing came": the suites' own time limit.
REPORTED = re.compile(r"Sanitizer|runtime error:|assertion|nothing came", re.IGNORECASE)


def may_run_again(case):
    return (case.ended and ENDED_BY_ITSELF.search(case.whole) is not None
            and REPORTED.search(case.whole) is None)


def expression(path):
    """The regular expression, or None."""
    failed = [case for case in sum_results.cases_of(path) if case.verdict == "failed"]
    if not 0 < len(failed) <= MOST or not all(may_run_again(case) for case in failed):
        return None
    names = (re.sub(r"([][.+*?()|^$\\])", r"\\\1", case.name) for case in failed)
    return f"^({'|'.join(names)})$"


def main(path):
    again = expression(path)
    if again is None:
        return 1
    print(again)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
