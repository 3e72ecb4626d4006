#!/usr/bin/env python3
"""Adds up the JUnit files of several ctest runs and ends with `N passed, N failed, N skipped`.

usage: sum_results.py FOLDER [FAILED_STAGE...]

RUN.xml is what a run wrote. A ctest entry that is a whole GoogleTest program, or a part of one,
counts as the tests that it executed, and so does one that names folders with Surefire's files
(scripts/java: `surefire: WHERE FOLDER`). A skip that tests/skips.declared does not declare has
failed (declared_skips.py), and so has a stage none of whose tests failed (a build, the format
check, ctest itself). Failed tests are shown with the end of their output, reasons of skips are
counted. Exit status 0 only if something passed and nothing failed.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

import declared_skips
import gtest_output

# The text that ctest writes for a test that skipped itself. Everything else that did not run - the
# program is missing, a fixture failed - has failed.
SKIPPED_BY_ITSELF = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE", "Disabled")

# Lines of a failed test's output.
SHOWN = 60
# Of those, the ones beside its name at the end of everything, each cut to a line of a terminal.
TOLD = 3
# The reason of a failed test: the line after GoogleTest's "Failure", or a line like these.
TELLING = re.compile(r"\bline \d+: |^(?:FAILED|ERROR|error|SUMMARY|Assertion|\w*Error): |TOO MANY"
                     r"|\bhangs\b|\bcrashes\b|\bexits with \d|\bTimeout\b")
# A sanitizer's report at the end of a program belongs to none of its tests.
WHOLE = "ends_by_itself"
OF_GTEST = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
OF_JUNIT = {"failure": "failed", "error": "failed", "skipped": "skipped"}


# Output of a GoogleTest program whose filter fits no test.
EMPTY = re.compile(r"^\[==========\] 0 tests from", re.MULTILINE)
# The text of Python's unittest about tests that it left out, inside one entry of ctest.
UNITTEST_SKIPS = re.compile(r"^OK \(skipped=(\d+)\)$", re.MULTILINE)

# The folder that scripts/java names for the results of a Java machine.
SUREFIRE = re.compile(r"^surefire: (\S+) (.+)$", re.MULTILINE)
# And what failed there beside tests.
BESIDE_TESTS = re.compile(r"^FAILED: ", re.MULTILINE)


class Case:
    """One execution of a test: verdict is passed, failed or skipped; reason: the line that says
    why it failed, if that is known."""

    def __init__(self, name, verdict, output, reason=None):
        self.name, self.verdict, self.output, self.reason = name, verdict, output, reason

    def told(self):
        return [self.reason[:160]] if self.reason else telling_lines(self.output)

    def body(self):
        """The test without its instantiation and its parameter: program/Suite.test."""
        parts = self.name.split("/")
        suite = next((i for i, part in enumerate(parts[1:], 1) if "." in part), len(parts) - 1)
        return f"{parts[0]}/{parts[suite]}"


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


def surefire_cases(name, output):
    """The JUnit tests whose results an entry of ctest names."""
    cases = []
    for where, folder in SUREFIRE.findall(output):
        for path in sorted(pathlib.Path(folder).glob("TEST-*.xml")):
            for test in ElementTree.parse(path).getroot().iter("testcase"):
                said = next((part for part in test if part.tag in OF_JUNIT), None)
                text = "" if said is None else f"{said.get('message', '')}\n{said.text or ''}"
                text = text.strip()
                cases.append(Case(f"{name}/{where}/{test.get('classname')}.{test.get('name')}",
                                  "passed" if said is None else OF_JUNIT[said.tag], text,
                                  text.split("\n")[0]))
    return cases


def parts_of(case):
    """The tests of one entry of ctest, of GoogleTest or JUnit; itself if it is none of those."""
    output = (case.findtext("system-out") or "").rstrip()
    name, result = case.get("name"), verdict(case)
    if SUREFIRE.search(output):
        parts = surefire_cases(name, output)
        failed = any(part.verdict == "failed" for part in parts)
        if not parts or result == "failed" and not (failed and not BESIDE_TESTS.search(output)):
            parts.append(Case(f"{name}/{WHOLE}", "failed", output))
        return parts
    tests = gtest_output.tests_of(output.split("\n"), name.split("/")[0])
    if not tests and EMPTY.search(output):
        return [Case(name, "failed", output)]
    if not tests:
        left_out = UNITTEST_SKIPS.search(output) if result == "passed" else None
        return [Case(name, result, output)] + [
            Case(f"{name}/skipped_{i}", "skipped", output)
            for i in range(int(left_out[1]) if left_out else 0)]
    parts = [Case(t.name, OF_GTEST[t.result], "\n".join(t.output)) for t in tests]
    came_to_its_end = result != "failed" and gtest_output.END.search(output) is not None
    if not came_to_its_end and all(part.verdict != "failed" for part in parts):
        parts.append(Case(f"{name}/{WHOLE}", "failed", output))
    return parts


class Sums:
    """What all runs of a folder amount to."""

    def __init__(self, folder, declared):
        self.totals = {"passed": 0, "failed": 0, "skipped": 0}
        self.failures, self.undeclared = {}, {}
        self.reasons = collections.Counter()
        self.bodies, self.entries = set(), 0
        for path in sorted(pathlib.Path(folder).glob("*.xml")):
            self.add(path, declared)

    def add(self, path, declared):
        run = path.stem
        self.failures[run], self.undeclared[run] = [], []
        for entry in ElementTree.parse(path).getroot().iter("testcase"):
            self.entries += 1
            for case in parts_of(entry):
                result = case.verdict
                self.bodies.add(case.body())
                if result == "failed":
                    self.failures[run].append(case)
                elif result == "skipped" and not declared.allows(run, case.name, case.output):
                    self.undeclared[run].append(case)
                    result = "failed"
                elif result == "skipped":
                    self.reasons[reason_of(case.output)] += 1
                self.totals[result] += 1


def reason_of(output):
    """The line that says what is not there, or the last one, that a skipped test printed; without
    what differs from test to test."""
    said = [line for line in output.split("\n") if line.strip() and not line.startswith("[")]
    for line in said:
        if (at := line.find("is not available: ")) >= 0:
            said = [line[at:]]
    return re.sub(r"\S*/\S*|\b\d+\b", "*", said[-1].strip()) if said else "says nothing"


def telling_lines(output):
    """The few lines that say why a test failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = []
    for line, following in zip(lines, lines[1:] + [""]):
        if line.endswith(": Failure"):
            told.append(f"{pathlib.PurePath(line.removesuffix(': Failure')).name}: {following}")
        elif TELLING.search(line):
            told.append(line)
    return [line[:160] for line in told[-TOLD:]]


def show(what, runs):
    """What these tests printed last, and then all their names with the lines that say why, the
    last thing that a log cut to its end still has."""
    for run, cases in runs.items():
        for case in cases:
            print(f"== {what}: {run}: {case.name}", *case.output.splitlines()[-SHOWN:], sep="\n")
    for run, cases in runs.items():
        for case in cases:
            print(f"{what}: {run}: {case.name}")
            for line in case.told():
                print(f"    {line}")


def main(folder, failed_stages, declared=None):
    sums = Sums(folder, declared or declared_skips.Declared())
    totals = sums.totals
    for reason, number in sums.reasons.most_common():
        print(f"skipped: {number}: {reason}")
    show("skipped without a line in tests/skips.declared", sums.undeclared)
    show("failed", sums.failures)
    for stage in failed_stages:
        run = stage.removesuffix(".tests")
        if stage == run or not sums.failures.get(run):
            totals["failed"] += 1
            print(f"failed: {stage}")
    if sum(totals.values()) == 0:
        totals["failed"] = 1
        print("failed: nothing ran")
    print(f"{len(sums.bodies)} test bodies, {sum(totals.values())} executions in "
          f"{sums.entries} ctest entries")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals))
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
