#!/usr/bin/env python3
"""Adds up the JUnit files of several ctest runs and ends with `N passed, N failed, N skipped`.

usage: sum_results.py FOLDER [FAILED_STAGE...]

A stage that failed although none of its tests did (a build, the format check, ctest itself) counts
as one failed. Exit status 0 only if something passed and nothing failed.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

# What ctest writes for a test that skipped itself. Everything else that did not run - the program
# is missing, a fixture failed - has failed.
SKIPPED_BY_ITSELF = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE", "Disabled")


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


def count(folder):
    """Returns ({verdict: number}, {run: [names of failed tests]})."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failures = {}
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        failures[path.stem] = []
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            result = verdict(case)
            totals[result] += 1
            if result == "failed":
                failures[path.stem].append(case.get("name"))
    return totals, failures


def main(folder, failed_stages):
    totals, failures = count(folder)
    for run, names in failures.items():
        for name in names:
            print(f"failed: {run}: {name}")
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
