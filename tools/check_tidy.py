#!/usr/bin/env python3
"""Checks the small rules that no compiler checks. Prints every offending line.

usage: check_tidy.py [ROOT]

- code and scripts: at most 100 columns, no tabs, no blanks at the end of a line
- nothing is left "to do" in a comment: it is an issue, or it is done
- every source and header below src/ and include/ begins with a comment that says what it is for
- public headers do not look at NDEBUG: a program and the library may differ in it (version.hpp)
- links between documents lead somewhere, headings included
- every requirement that is named anywhere has its row in docs/requirements.md, and every path that
  such a row names exists, unless the row says "planned" or "not built yet"
"""

import pathlib
import re
import sys

COLUMNS_MAX = 100
CODE = {".hpp", ".cpp", ".h", ".c", ".py", ".sh", ".cmake", ".pml"}
TEXT = CODE | {".md", ".txt", ".in", ".json", ".xml"}
SKIPPED_FOLDERS = re.compile(r"^(build.*|target|\.git|__pycache__|\.cache)$")
# Spelt in two parts, for this file is checked too.
LEFT_TO_DO = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
REQUIREMENT = re.compile(r"\b([PJUDBX]-\d\d)\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ROW = re.compile(r"^\|\s*([PJUDBX]-\d\d)\s*\|")
PATH = re.compile(r"`((?:src|include|tests|tools|docs|scripts|examples|bench|cmake)/[^`*\s]*)`")
REQUIREMENTS = "docs/requirements.md"


def files(root):
    for path in sorted(root.iterdir()):
        if path.is_dir():
            if not SKIPPED_FOLDERS.match(path.name) and not path.is_symlink():
                yield from files(path)
        elif path.suffix in TEXT or path.parent.name in ("scripts", ".ci"):
            yield path


def slug(heading):
    """The anchor that a heading gets on the usual forges."""
    heading = re.sub(r"[`*_]|\[|\]\([^)]*\)", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def without_code(text):
    """Markdown with its code blocks blanked, line numbers kept."""
    return re.sub(r"^```.*?^```", lambda m: "\n" * m.group().count("\n"), text, flags=re.S | re.M)


def anchors(text):
    lines = without_code(text).split("\n")
    return {slug(line.lstrip("#")) for line in lines if line.startswith("#")}


class Checker:

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.found = []
        self.rows = set()
        table = self.root / REQUIREMENTS
        if table.exists():
            self.rows = {m.group(1) for m in map(ROW.match, table.read_text().split("\n")) if m}

    def say(self, path, number, what):
        self.found.append(f"{path.relative_to(self.root)}:{number}: {what}")

    def check(self):
        for path in files(self.root):
            text = path.read_text(encoding="utf-8")
            if path.suffix in CODE or path.suffix in ("", ".txt"):
                self.check_code(path, text)
            if path.suffix == ".md":
                self.check_links(path, text)
            self.check_words(path, text)
        table = self.root / REQUIREMENTS
        if table.exists():
            self.check_rows(table, table.read_text())
        return self.found

    def check_code(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                self.say(path, number, f"{len(line)} columns, {COLUMNS_MAX} at most")
            if "\t" in line:
                self.say(path, number, "a tab")
            if line != line.rstrip():
                self.say(path, number, "blanks at the end of the line")
        place = path.relative_to(self.root).parts[0]
        if place in ("src", "include") and path.suffix in (".hpp", ".cpp", ".h", ".c"):
            if not text.startswith(("//", "/*")):
                self.say(path, 1, "begins without a comment that says what the file is for")
            if place == "include":
                for number, line in enumerate(text.split("\n"), 1):
                    if re.match(r"\s*#.*\bNDEBUG\b", line):
                        self.say(path, number, "a public header looks at NDEBUG")

    def check_words(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            if LEFT_TO_DO.search(line):
                self.say(path, number, "left to do: make it an issue, or do it")
            for name in REQUIREMENT.findall(line):
                if self.rows and name not in self.rows:
                    self.say(path, number, f"{name} has no row in {REQUIREMENTS}")

    def check_links(self, path, text):
        for number, line in enumerate(without_code(text).split("\n"), 1):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                file = (path.parent / name).resolve() if name else path
                if not file.exists():
                    self.say(path, number, f"link to {target}: no such file")
                elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                    self.say(path, number, f"link to {target}: no such heading")

    def check_rows(self, path, text):
        seen = set()
        for number, line in enumerate(text.split("\n"), 1):
            match = ROW.match(line)
            if not match:
                continue
            if match.group(1) in seen:
                self.say(path, number, f"{match.group(1)} has two rows")
            seen.add(match.group(1))
            if "planned" in line or "not built yet" in line:
                continue
            for name in PATH.findall(line):
                if not (self.root / name).exists():
                    self.say(path, number, f"{name} does not exist")


def main(argv):
    root = argv[1] if len(argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = Checker(root).check()
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} untidy lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
