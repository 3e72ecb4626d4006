#!/usr/bin/env python3
"""Adds up the JUnit files of several ctest runs and ends with `N passed, N failed, N skipped`.

usage: sum_results.py FOLDER [FAILED_STAGE...]

RUN.xml is what a run wrote, RUN.again.xml what the second run of its failed tests wrote, alone
(run_again.py). Those that passed there are named as unsteady and count as passed. A ctest test that
is a whole GoogleTest program, or a part of one, counts as the tests that it ran. What failed is
shown with the end of its output, and why tests were skipped is counted. A stage that failed
although none of its tests did (a build, the format check, ctest itself) counts as one failed. Exit
status 0 only if something passed and nothing failed.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

import gtest_output

# What ctest writes for a test that skipped itself. Everything else that did not run - the program
# is missing, a fixture failed - has failed.
SKIPPED_BY_ITSELF = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE", "Disabled")

AGAIN = ".again"
# Lines of a failed test's output.
SHOWN = 60
# What a sanitizer says at the end of a program belongs to none of its tests.
WHOLE = "ends_by_itself"
OF_GTEST = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


class Case:
    """A test: verdict is passed, failed or skipped; ended: one of GoogleTest's that came to its
    end; whole: what all tests of its process printed."""

    def __init__(self, name, verdict, output, ended, whole):
        self.name, self.verdict, self.output = name, verdict, output
        self.ended, self.whole = ended, whole


def verdict(case):
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    reason = case.find("skipped")
    if status == "notrun" and reason is not None:
        if reason.get("message", "").startswith(SKIPPED_BY_ITSELF):
            return "skipped"
    return "failed"


def parts_of(case):
    """The GoogleTest tests of one test of ctest; itself if it is none."""
    output = (case.findtext("system-out") or "").rstrip()
    result = verdict(case)
    program = case.get("name").split("/")[0]
    tests = gtest_output.tests_of(output.split("\n"), program)
    if not tests:
        return [Case(case.get("name"), result, output, False, output)]
    parts = [Case(t.name, OF_GTEST[t.result], "\n".join(t.output), t.ended, output) for t in tests]
    came_to_its_end = result != "failed" and gtest_output.END.search(output) is not None
    if not came_to_its_end and all(part.verdict != "failed" for part in parts):
        parts.append(Case(f"{case.get('name')}/{WHOLE}", "failed", output, False, output))
    return parts


def cases_of(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        yield from parts_of(case)


def count(folder):
    """Returns ({verdict: number}, {run: [failed]}, {run: [unsteady]}, {reason to skip: number})."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failures, unsteady, reasons = {}, {}, collections.Counter()
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        if path.stem.endswith(AGAIN):
            continue
        failures[path.stem], unsteady[path.stem] = [], []
        second = path.with_name(path.stem + AGAIN + ".xml")
        passed_alone = set()
        if second.exists():
            passed_alone = {case.name for case in cases_of(second) if case.verdict == "passed"}
        for case in cases_of(path):
            result = case.verdict
            if result == "failed" and case.name in passed_alone:
                result = "passed"
                unsteady[path.stem].append(case)
            elif result == "failed":
                failures[path.stem].append(case)
            elif result == "skipped":
                reasons[reason_of(case.output)] += 1
            totals[result] += 1
    return totals, failures, unsteady, reasons


def reason_of(output):
    """The line that says what is not there, or the last one, that a skipped test printed; without
    what differs from test to test."""
    said = [line for line in output.split("\n") if line.strip() and not line.startswith("[")]
    for line in said:
        if (at := line.find("is not available: ")) >= 0:
            said = [line[at:]]
    return re.sub(r"\S*/\S*|\b\d+\b", "*", said[-1].strip()) if said else "says nothing"


def show(what, runs):
    """What these tests printed last, and then all their names, the last thing that a log cut to
    its end still has."""
    for run, cases in runs.items():
        for case in cases:
            print(f"== {what}: {run}: {case.name}", *case.output.splitlines()[-SHOWN:], sep="\n")
    for run, cases in runs.items():
        for case in cases:
            print(f"{what}: {run}: {case.name}")


def main(folder, failed_stages):
    totals, failures, unsteady, reasons = count(folder)
    for reason, number in reasons.most_common():
        print(f"skipped: {number}: {reason}")
    show("unsteady, passed alone", unsteady)
    show("failed", failures)
    for stage in failed_stages:
        run = stage.removesuffix(".tests")
        if stage == run or not failures.get(run):
            totals["failed"] += 1
            print(f"failed: {stage}")
    if sum(totals.values()) == 0:
        totals["failed"] = 1
        print("failed: nothing ran")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals))
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
