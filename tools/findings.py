#!/usr/bin/env python3
"""Reads the findings of clang-tidy, cppcheck and gcc -fanalyzer, leaves out what the list of
exclusions accepts, prints the rest.

usage: findings.py --exclusions FILE --root FOLDER [--partial] OUTPUT...

A finding is a line `path:line:column: severity: message [check]`; each place and check counts once,
however many files include it. An exclusion is a line of four fields,

    check | path | part of the message, or * | reason

where path is a pattern of the shell, relative to the root. An exclusion that accepts nothing any
more is an error, too, unless only a part of the tools has run (--partial). Exit 0: nothing is left.
"""

import argparse
import fnmatch
import pathlib
import re
import sys

FINDING = re.compile(r"^(?P<path>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): "
                     r"(?P<severity>warning|error|performance|portability|style|fatal error): "
                     r"(?P<message>.*?)(?: \[(?P<check>[\w.,+=-]+)\])?(?: \[-Werror[^\]]*\])?$")


class Exclusion:

    def __init__(self, line, number):
        fields = [field.strip() for field in line.split("|", 3)]
        if len(fields) != 4 or not all(fields):
            sys.exit(f"line {number} of the exclusions has not four fields: {line}")
        self.check, self.path, self.part, self.reason = fields
        self.number = number
        self.used = False

    def accepts(self, path, check, message):
        return (check == self.check and fnmatch.fnmatch(path, self.path) and
                (self.part == "*" or self.part in message))


def read_exclusions(text):
    return [Exclusion(line, number) for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")]


def read_findings(text, root):
    """Each finding once: (path below the root, line, check, message)."""
    found = {}
    for line in text.splitlines():
        match = FINDING.match(line)
        if not match:
            continue
        path = pathlib.Path(match["path"])
        path = path if path.is_absolute() else root / path
        if not path.resolve().is_relative_to(root):
            continue  # a header of the system's
        place = path.resolve().relative_to(root).as_posix()
        check = match["check"] or match["severity"]
        found[place, int(match["line"]), check] = match["message"]
    return [(*key, message) for key, message in sorted(found.items())]


def left_over(findings, exclusions):
    rest = []
    for path, line, check, message in findings:
        accepting = [one for one in exclusions if one.accepts(path, check, message)]
        for one in accepting:
            one.used = True
        if not accepting:
            rest.append(f"{path}:{line}: {message} [{check}]")
    return rest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exclusions", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--partial", action="store_true")
    parser.add_argument("outputs", nargs="+")
    arguments = parser.parse_args()
    exclusions = read_exclusions(pathlib.Path(arguments.exclusions).read_text(encoding="utf-8"))
    text = "\n".join(pathlib.Path(output).read_text(encoding="utf-8", errors="replace")
                     for output in arguments.outputs)
    findings = read_findings(text, pathlib.Path(arguments.root).resolve())
    rest = left_over(findings, exclusions)
    if not arguments.partial:
        rest += [f"{arguments.exclusions}:{one.number}: accepts nothing any more: {one.check} "
                 f"{one.path}" for one in exclusions if not one.used]
    for line in rest:
        print(line)
    print(f"{len(findings)} findings, {len(rest)} to look at")
    sys.exit(1 if rest else 0)


if __name__ == "__main__":
    main()
