#!/usr/bin/env python3
"""check.py COMPILER INCLUDE FILE: the file compiles; with BATON_TEST_MISUSE it is refused.

The first line of the file says by which words: `// refused: WORDS`.
"""

import os
import subprocess
import sys


def compile_it(compiler, include, file, *options):
    """The exit status and what the compiler says."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I",
               include, *options, file]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"}, check=False)
    return done.returncode, done.stdout


def main():
    compiler, include, file = sys.argv[1:]
    with open(file, encoding="utf-8") as source:
        mark, _, words = source.readline().strip().partition("refused: ")
    if mark != "// " or not words:
        sys.exit(f"{file}: the first line has to be '// refused: WORDS'")
    status, text = compile_it(compiler, include, file)
    if status != 0:
        sys.exit(f"{file} does not compile without the misuse:\n{text}")
    status, text = compile_it(compiler, include, file, "-DBATON_TEST_MISUSE")
    if status == 0:
        sys.exit(f"{file}: the misuse compiles")
    if words not in text:
        sys.exit(f"{file}: refused without the words '{words}':\n{text}")


if __name__ == "__main__":
    main()
