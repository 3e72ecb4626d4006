#!/usr/bin/env python3
"""The programs to build and the tests to run for a local change.

usage: changed.py [--base COMMIT] [--build FOLDER] --report|--targets|--tests|--sources|
                  --tsan-targets|--tsan-tests

The change is everything between COMMIT and the working tree, untracked files included. Without
--base it is what is not committed, or the last commit where nothing is uncommitted.

git names the changed files. ninja's record of the last build (`ninja -t deps`) names the objects
that were compiled from them; the folder of an object names its target. A test program with such an
object of its own is run whole. Nearly every program links the library, so a change of the library
runs the unit tests of the part it is in, the conformance suites, and 2,000 seeds of the simulation;
--report says which programs were left out. ThreadSanitizer is added where the change speaks of
threads. --sources lists the changed files that mutants may touch.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET_OF_OBJECT = re.compile(r"CMakeFiles/([^/]+)\.dir/")
PROGRAM = re.compile(r"^tests/([^/:]+): C(?:XX)?_EXECUTABLE_LINKER")
UNIT = re.compile(r"^tests/unit/([^/]+)/CMakeFiles/([^/]+)\.dir/")
THREADS = re.compile(r"\b(?:thread|atomic|[mM]utex|parking|Parking|futex|memory_order|Mailbox)\b")
# The suites that every change of the library has to pass, and the programs of the sanitizer.
SUITES = ("conformance_operations", "conformance_threads")
# The programs that a change of a public header concerns.
INTERFACE = ("core_test", "coro_test", "io_test", "values_test")
SIMULATION = "sim.seeds"
REACTOR = ("reactor", "demux")
# Folders whose tests have their own names in ctest.
OTHERS = {"docs/": r"^(docs$|example/)", "uaio/": "^uaio/", "tests/uaio/": "^uaio/",
          "java/": "^java", "ace/": "^ace", "tests/ace/": "^ace",
          "tools/": r"^(tools\.|repository|.*\.self$)",
          "examples/": "^examples?/", "tests/model/": r"^model\.", "src/capi/": "_test$|capi",
          "include/baton.h": "_test$|capi", "tests/mutants/": r"^mutants\."}
ALWAYS = r"^(layers|tidy)$"


def run(*words, cwd=ROOT):
    return subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def changed_files(base):
    def since(commit):
        return run("git", "diff", "--name-only", commit).split()
    new = run("git", "ls-files", "--others", "--exclude-standard").split()
    files = since(base or "HEAD") + new
    return sorted(set(files or since("HEAD~1")))


def dependencies(build):
    """{source or header below the root: {object}}"""
    users, current = {}, None
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            path = pathlib.Path(build, line.strip()).resolve()
            if path.is_relative_to(ROOT):
                users.setdefault(str(path.relative_to(ROOT)), set()).add(current)
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
    return users


class Change:
    """The affected targets, from the files, the record of dependencies and ninja's targets."""

    def __init__(self, files, users, targets):
        self.files = files
        self.programs = sorted(m[1] for m in map(PROGRAM.match, targets) if m)
        self.library = [f for f in files if f.startswith(("src/", "include/"))]
        self.own = self.own_programs(users)
        self.units = self.unit_programs(users)

    def own_programs(self, users):
        """Programs whose own files changed, or those of their object library."""
        objects = set().union(*(users.get(f, ()) for f in self.files if f.startswith("tests/")))
        names = {m[1] for m in map(TARGET_OF_OBJECT.search, objects) if m}
        return sorted(p for p in self.programs if {p, f"{p}_objects"} & names)

    def unit_programs(self, users):
        """Unit programs of the parts of the library that changed."""
        words = {word for file in self.library for word in re.split(r"[/.]", file)}
        found = set()
        for objects in users.values():
            for match in filter(None, map(UNIT.match, objects)):
                if match[1] in words and match[2] in self.programs:
                    found.add(match[2])
        if any(file.startswith("include/") for file in self.library):
            found.update(p for p in INTERFACE if p in self.programs)
        return sorted(found)

    def test_programs(self):
        chosen = {*self.own, *self.units}
        if self.library:
            chosen.update(p for p in SUITES if p in self.programs)
            if any(word in file for file in self.library for word in REACTOR):
                chosen.update(p for p in ("conformance_reactor",) if p in self.programs)
        return sorted(chosen)

    def tests(self):
        """A regular expression for `ctest -R`."""
        parts = [ALWAYS] + [f"^{program}/" for program in self.test_programs()]
        if self.library:
            # The models look themselves whether they have changed.
            parts += [f"^{re.escape(SIMULATION)}$", r"^model\.relacy$"]
            if any(word in file for file in self.library for word in REACTOR):
                parts.append(r"^sim\.reactor$")
        parts += [tests for folder, tests in OTHERS.items()
                  if any(file.startswith(folder) for file in self.files)]
        return "|".join(dict.fromkeys(parts))

    def targets(self):
        """Programs to build; everything where files outside the library's tests changed."""
        if any(file.startswith(tuple(OTHERS)) for file in self.files):
            return ["all"]
        return self.test_programs() + (["baton_command"] if self.library else [])

    def left_out(self):
        return [p for p in self.programs if p not in self.test_programs()] if self.library else []


def speaks_of_threads(files, base):
    text = run("git", "diff", base or "HEAD", "--", *files) if files else ""
    return THREADS.search(text) is not None


def main():
    parser = argparse.ArgumentParser(description="What a local change touches.")
    parser.add_argument("--base")
    parser.add_argument("--build", default=str(ROOT / "build"))
    wanted = parser.add_mutually_exclusive_group(required=True)
    for name in ("report", "targets", "tests", "sources", "tsan-targets", "tsan-tests"):
        wanted.add_argument(f"--{name}", dest="wanted", action="store_const", const=name)
    options = parser.parse_args()

    files = changed_files(options.base)
    targets = run("ninja", "-C", options.build, "-t", "targets", "all").splitlines()
    change = Change(files, dependencies(options.build), targets)
    threads = change.test_programs() if speaks_of_threads(
        change.library + [f for f in files if f.startswith("tests/")], options.base) else []
    if options.wanted == "targets":
        print(*change.targets())
    elif options.wanted == "tests":
        print(change.tests())
    elif options.wanted == "sources":
        print(*(f for f in files if f.startswith(("src/", "uaio/src/", "ace/src/"))))
    elif options.wanted == "tsan-targets":
        print(*threads)
    elif options.wanted == "tsan-tests":
        print("|".join(f"^{program}/" for program in threads))
    else:
        print(f"changed: {len(files)} files: {' '.join(files) or 'none'}")
        print(f"runs: {change.tests()}")
        print(f"ThreadSanitizer: {' '.join(threads) or 'the change does not speak of threads'}")
        print(f"left out: {' '.join(change.left_out()) or 'no program'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
