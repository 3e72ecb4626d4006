#!/usr/bin/env python3
"""Looks whether the hardening of release builds (cmake/BatonOptions.cmake) is in the built files:
in shared libraries and programs what the linker and the run-time checks leave, in each object of an
archive the mark of control-flow protection, and - where a flag leaves no mark - in the compiler's
command lines.

usage: check_hardening.py [--compile-commands FILE --sources FOLDER] [--installed]
                          [--unless REASON] FILE...

  --compile-commands  CMake's compile_commands.json; every file below FOLDER must have every flag
  --installed         the files are as users get them: no search path may be built in
  --unless REASON     do not look: say so, with the reason, and end with 77 (for builds without
                      hardening)
"""

import argparse
import json
import pathlib
import platform
import re
import subprocess
import sys

SKIPPED = 77
X86 = platform.machine() in ("x86_64", "AMD64")

FLAGS = ["-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong",
         "-fstack-clash-protection", "-ftrivial-auto-var-init=zero", "-O2"]
if X86:
    FLAGS.append("-fcf-protection=full")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def check_linked(path, installed):
    """The faults of a shared library or a program, as a list of sentences."""
    text = run("readelf", "-hldW", "--dyn-syms", path)
    wrong = []

    def expect(condition, sentence):
        if not condition:
            wrong.append(f"{path}: {sentence}")

    expect("GNU_RELRO" in text, "no RELRO segment (-z relro)")
    expect(re.search(r"\(FLAGS_1\).*\bNOW\b", text), "not bound at load time (-z now)")
    stack = re.search(r"GNU_STACK.*\s(RWE|RW )\s", text)
    expect(stack and stack[1] == "RW ", "the stack is executable (-z noexecstack)")
    expect("(TEXTREL)" not in text, "text relocations: not position independent")
    expect(re.search(r"Type:\s+DYN", text), "not position independent (-pie)")
    if "(SONAME)" not in text:
        expect(re.search(r"\(FLAGS_1\).*\bPIE\b", text), "a program without -pie")
    expect("__stack_chk_fail" in text, "nothing is guarded by -fstack-protector-strong")
    expect(re.search(r"__(?!stack_chk)\w+_chk\b", text), "nothing is checked by _FORTIFY_SOURCE")
    expect("__glibcxx_assert_fail" in text, "nothing is checked by _GLIBCXX_ASSERTIONS")
    if installed:
        expect(not re.search(r"\((RPATH|RUNPATH)\)", text), "a search path is built in")
    return wrong


def check_archive(path):
    """The linker keeps the mark of control-flow protection only if the C run-time's start files
    have it, too, which Debian's do not; so the objects are asked."""
    if not X86:
        return []
    members = len(run("ar", "t", path).split())
    marked = len(re.findall(r"x86 feature:.*\bIBT, SHSTK\b", run("readelf", "-nW", path)))
    if marked != members:
        return [f"{path}: {marked} of {members} objects have control-flow protection"]
    return []


def check_commands(commands, sources):
    """Flags that leave no mark."""
    wrong = []
    count = 0
    for entry in json.loads(pathlib.Path(commands).read_text(encoding="utf-8")):
        if not pathlib.Path(entry["file"]).is_relative_to(sources):
            continue
        count += 1
        words = entry["command"].split()
        missing = [flag for flag in FLAGS if flag not in words]
        if missing:
            wrong.append(f"{entry['file']}: compiled without {' '.join(missing)}")
    if count == 0:
        wrong.append(f"{commands}: nothing is compiled from {sources}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile-commands")
    parser.add_argument("--sources")
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--unless")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    if arguments.unless:
        print(f"skipped: {arguments.unless}")
        sys.exit(SKIPPED)
    wrong = []
    for path in arguments.files:
        if path.endswith(".a"):
            wrong += check_archive(path)
        else:
            wrong += check_linked(path, arguments.installed)
    if arguments.compile_commands:
        wrong += check_commands(arguments.compile_commands, arguments.sources)
    print("\n".join(wrong) if wrong else f"{len(arguments.files)} files are hardened")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
