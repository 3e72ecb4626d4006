#!/usr/bin/env python3
"""Counts from gcovr's JSON the lines and branches that the tests have reached, in all, by folder,
and of the parts that have to be complete; lists what they have not; and judges by the goals.

usage: coverage_summary.py COVERAGE.json EXCLUSIONS FOLDER

Into FOLDER go summary.txt, rest.txt (what was not reached and has no reason) and excused.txt (what
was not reached, by its reason). An exclusion is a line of three fields,

    path | part of the line's code | reason

that holds for every line of the file with that code, and for what is indented below such a line
as far as it was never run. An exclusion that excuses nothing any more is told, unless its reason
begins with "race:": then the place is reached now and then.

Exit 0: the goals are met, and every exclusion is needed.
"""

import collections
import json
import pathlib
import re
import sys

# The files of a part, and its goals, in per cent: lines and branches that were reached, and
# branches that were reached or are excused.
PARTS = {
    "src/ (all)": (r"src/", 95, 90, None),
    "dispatcher and lanes": (
        r"src/core/(dispatcher|starter|lane|kept_lane|runner|merged_wait|sleep_word|mailbox)",
        None, None, 100),
    "state machine": (r"src/core/(access|ledger)\.|include/baton/operation\.hpp", None, None, 100),
}


class Exclusion:

    def __init__(self, line, number):
        fields = [field.strip() for field in line.split(" | ")]
        # The code may have the bar in it.
        self.path, self.code, self.reason = fields[0], " | ".join(fields[1:-1]), fields[-1]
        if len(fields) < 3 or not (self.path and self.code and self.reason):
            sys.exit(f"line {number} of the exclusions has not three fields: {line}")
        self.number = number
        self.used = 0

    def __str__(self):
        return f"line {self.number}: {self.path} | {self.code}"

    def needed(self):
        return self.used > 0 or self.reason.startswith("race:")


def read_exclusions(text):
    return [Exclusion(line, number) for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")]


def indent(line):
    return len(line) - len(line.lstrip())


def heads(text, number):
    """The numbers (from 1) of the lines below which line `number` is indented, innermost first."""
    depth = indent(text[number - 1])
    for above in range(number - 1, 0, -1):
        line = text[above - 1]
        if line.strip() and indent(line) < depth:
            depth = indent(line)
            yield above


def names_every_value(text, number):
    """Is line `number` a switch without a default? Then every value has its case, as compilers
    check (-Wswitch), and one more branch is for values that do not exist."""
    head = text[number - 1]
    if not head.lstrip().startswith("switch ("):
        return False
    for line in text[number:]:
        if line.startswith(" " * indent(head) + "}"):
            return True
        if line.startswith(" " * indent(head) + "  default:"):
            return False
    return False


def made_once(text, number):
    """Is line `number` the declaration of a static object, and no more? Then its branches are the
    compiler's: whether it is made already, or is being made by another thread."""
    return "?" not in text[number - 1] and re.match(r"\s*static [^(]*[=;{]", text[number - 1])


def branches_of(line, text):
    """The counts of the line's branches, but of none that cannot be."""
    counts = [branch["count"] for branch in line.get("branches", [])]
    if 0 in counts and names_every_value(text, line["line_number"]):
        counts.remove(0)
    if made_once(text, line["line_number"]):
        counts = [count for count in counts if count > 0]
    return counts


class Excuses:
    """Which exclusion, if any, excuses a line."""

    def __init__(self, exclusions, path, text):
        self.text = text
        self.mine = [one for one in exclusions if one.path == path]

    def _that_names(self, number):
        code = self.text[number - 1]
        return next((one for one in self.mine if one.code in code), None)

    def reason(self, number, run):
        found = self._that_names(number)
        if found is None and not run and self.mine:
            named = (self._that_names(head) for head in heads(self.text, number))
            found = next(filter(None, named), None)
        return found


class Count:

    def __init__(self):
        self.lines = self.lines_hit = self.lines_excused = 0
        self.branches = self.branches_hit = self.branches_excused = 0

    def add(self, run, branches, excused):
        self.lines += 1
        self.lines_hit += run
        self.lines_excused += not run and excused
        self.branches += len(branches)
        self.branches_hit += sum(count > 0 for count in branches)
        self.branches_excused += branches.count(0) if excused else 0

    def row(self, name):
        return (f"{name:24} {percent(self.lines_hit, self.lines):>8} of {self.lines:6} lines   "
                f"{percent(self.branches_hit, self.branches):>8} of {self.branches:6} branches   "
                f"{percent(self.branches_hit + self.branches_excused, self.branches):>8} "
                "with the excused")

    def missed_goals(self, lines, branches, complete):
        given = ((lines, self.lines_hit, self.lines, "of the lines"),
                 (branches, self.branches_hit, self.branches, "of the branches"),
                 (complete, self.branches_hit + self.branches_excused, self.branches,
                  "of the branches, with the excused"))
        return [f"{goal} % {what}" for goal, part, whole, what in given
                if goal is not None and 100 * part < goal * whole]


def percent(part, whole):
    # Never 100.0 for an incomplete part.
    if whole == 0:
        return "-"
    return f"{int(1000 * part / whole) / 10:.1f} %"


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:3] if parts[:2] == ["src", "engines"] and len(parts) > 3 else parts[:2])


class Report:

    def __init__(self, exclusions, root):
        self.exclusions = exclusions
        self.root = root
        self.parts = {part: Count() for part in PARTS}
        self.folders = collections.defaultdict(Count)
        self.rest = []
        self.excused = collections.defaultdict(list)

    def add(self, file):
        name = file["file"]
        parts = [part for part, goals in PARTS.items() if re.match(goals[0], name)]
        if not parts:
            return
        text = (self.root / name).read_text(encoding="utf-8").splitlines()
        excuses = Excuses(self.exclusions, name, text)
        for line in file["lines"]:
            if line.get("gcovr/noncode") or line.get("gcovr/excluded"):
                continue
            number, run = line["line_number"], line["count"] > 0
            branches = branches_of(line, text)
            missed = branches.count(0)
            exclusion = None
            if missed or not run:
                exclusion = excuses.reason(number, run)
                self.note(exclusion, f"{name}:{number}: " +
                          (f"{missed} of {len(branches)}" if run else "line  ") +
                          f"  {text[number - 1].strip()}")
            counts = [self.parts[part] for part in parts]
            if name.startswith("src/"):
                counts.append(self.folders[folder_of(name)])
            for count in counts:
                count.add(run, branches, exclusion is not None)

    def note(self, exclusion, place):
        if exclusion is None:
            self.rest.append(place)
            return
        exclusion.used += 1
        self.excused[exclusion.reason].append(place)

    def rows(self):
        rows = [count.row(name) for name, count in self.parts.items()]
        return rows + [""] + [count.row(name) for name, count in sorted(self.folders.items())]

    def complaints(self):
        for part, (_, *goals) in PARTS.items():
            for goal in self.parts[part].missed_goals(*goals):
                yield f"the goal is missed: {part}: {goal}"
        for one in self.exclusions:
            if not one.needed():
                yield f"excuses nothing any more: {one}"


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    files = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    exclusions = read_exclusions(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    folder = pathlib.Path(sys.argv[3])
    report = Report(exclusions, pathlib.Path(__file__).resolve().parent.parent)
    for file in files:
        report.add(file)
    excused = []
    for reason, places in sorted(report.excused.items()):
        excused += [f"{reason}:", *(f"  {place}" for place in places), ""]
    for name, lines in (("summary", report.rows()), ("rest", report.rest), ("excused", excused)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(report.rows()))
    with_reason = sum(len(places) for places in report.excused.values())
    print(f"\n{len(report.rest)} places were not reached and have no reason: {folder}/rest.txt; "
          f"{with_reason} have one: {folder}/excused.txt")
    complaints = list(report.complaints())
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
