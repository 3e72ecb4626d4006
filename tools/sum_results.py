#!/usr/bin/env python3
"""Adds up the JUnit files of several ctest runs and ends with `N passed, N failed, N skipped`.

usage: sum_results.py FOLDER [FAILED_STAGE...]

RUN.xml is what a run wrote, RUN.again.xml what the second run of its failed tests wrote, alone
(run_again.py). Those that passed there are named as unsteady and count as passed. What failed is
shown with the end of its output. A stage that failed although none of its tests did (a build, the
format check, ctest itself) counts as one failed. Exit status 0 only if something passed and nothing
failed.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

# What ctest writes for a test that skipped itself. Everything else that did not run - the program
# is missing, a fixture failed - has failed.
SKIPPED_BY_ITSELF = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE", "Disabled")

AGAIN = ".again"
# Lines of a failed test's output.
SHOWN = 40


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


def cases_of(path):
    return ElementTree.parse(path).getroot().iter("testcase")


def count(folder):
    """Returns ({verdict: number}, {run: [failed tests]}, {run: [unsteady tests]})."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failures, unsteady = {}, {}
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        if path.stem.endswith(AGAIN):
            continue
        failures[path.stem], unsteady[path.stem] = [], []
        second = path.with_name(path.stem + AGAIN + ".xml")
        passed_alone = set()
        if second.exists():
            passed_alone = {c.get("name") for c in cases_of(second) if verdict(c) == "passed"}
        for case in cases_of(path):
            result = verdict(case)
            if result == "failed" and case.get("name") in passed_alone:
                result = "passed"
                unsteady[path.stem].append(case)
            elif result == "failed":
                failures[path.stem].append(case)
            totals[result] += 1
    return totals, failures, unsteady


def show(what, runs):
    """What these tests printed last, and then all their names, the last thing that a log cut to
    its end still has."""
    for run, cases in runs.items():
        for case in cases:
            output = (case.findtext("system-out") or "").rstrip().splitlines()
            print(f"== {what}: {run}: {case.get('name')}", *output[-SHOWN:], sep="\n")
    for run, cases in runs.items():
        for case in cases:
            print(f"{what}: {run}: {case.get('name')}")


def main(folder, failed_stages):
    totals, failures, unsteady = count(folder)
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
