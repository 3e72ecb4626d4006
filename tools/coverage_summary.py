#!/usr/bin/env python3
"""Tells from gcovr's JSON how many lines and branches the tests have reached, in all, by folder,
and of the parts that have to be complete; and lists what they have not.

usage: coverage_summary.py COVERAGE.json FOLDER     writes summary.txt and rest.txt into FOLDER
"""

import collections
import json
import pathlib
import re
import sys

# What a part is made of. The dispatcher and the state machine are to be complete.
PARTS = {
    "src/ (all)": r"src/",
    "dispatcher": r"src/core/(dispatcher|lane|runner|taken_batch|merged_wait|sleep_word|mailbox)",
    "state machine": r"src/core/(access|ledger)\.|include/baton/operation\.hpp",
}


class Count:

    def __init__(self):
        self.lines = self.lines_hit = self.branches = self.branches_hit = 0

    def add(self, line):
        if line.get("gcovr/noncode") or line.get("gcovr/excluded"):
            return
        self.lines += 1
        self.lines_hit += line["count"] > 0
        for branch in line.get("branches", []):
            self.branches += 1
            self.branches_hit += branch["count"] > 0

    def row(self, name):
        return (f"{name:32} {percent(self.lines_hit, self.lines):>7} of {self.lines:6} lines   "
                f"{percent(self.branches_hit, self.branches):>7} of {self.branches:6} branches")


def percent(part, whole):
    # Never 100.0 for what is not complete.
    if whole == 0:
        return "-"
    return f"{int(1000 * part / whole) / 10:.1f} %"


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:3] if parts[:2] == ["src", "engines"] and len(parts) > 3 else parts[:2])


def not_reached(files, root):
    """Lines never run, and lines of which a branch was never taken, with their text."""
    for file in files:
        name = file["file"]
        if not name.startswith("src/"):
            continue
        text = (root / name).read_text(encoding="utf-8").splitlines()
        for line in file["lines"]:
            if line.get("gcovr/noncode"):
                continue
            number = line["line_number"]
            missed = [b for b in line.get("branches", []) if b["count"] == 0]
            what = "line  " if line["count"] == 0 else "branch" if missed else ""
            if what:
                yield f"{name}:{number}: {what} {text[number - 1].strip()}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    folder = pathlib.Path(sys.argv[2])
    parts = {part: Count() for part in PARTS}
    folders = collections.defaultdict(Count)
    for file in files:
        for line in file["lines"]:
            if file["file"].startswith("src/"):
                folders[folder_of(file["file"])].add(line)
            for part, pattern in PARTS.items():
                if re.match(pattern, file["file"]):
                    parts[part].add(line)
    rows = [count.row(name) for name, count in parts.items()]
    rows += [""] + [count.row(name) for name, count in sorted(folders.items())]
    root = pathlib.Path(__file__).resolve().parent.parent
    rest = list(not_reached(files, root))
    (folder / "summary.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "rest.txt").write_text("\n".join(rest) + "\n", encoding="utf-8")
    print("\n".join(rows))
    print(f"\n{len(rest)} places were not reached: {folder / 'rest.txt'}")


if __name__ == "__main__":
    main()
