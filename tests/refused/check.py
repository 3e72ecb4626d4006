#!/usr/bin/env python3
"""check.py COMPILER INCLUDE HEADER FILE: the file compiles; with BATON_TEST_MISUSE it is refused.
check.py COMPILER INCLUDE HEADER: makes HEADER.gch, which spares the others most of their time.

The first line of the file says by which words: `// refused: WORDS`.
"""

import os
import subprocess
import sys


def compile_it(compiler, include, *options):
    """The exit status and the compiler's output."""
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I", include, *options]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"}, check=False)
    return done.returncode, done.stdout


def prepare(compiler, include, header):
    """Another compiler than gcc reads the header itself."""
    with open(header, "w", encoding="utf-8") as text:
        text.write("#include <baton/baton.hpp>\n")
    status, text = compile_it(compiler, include, "-x", "c++-header", header, "-o", f"{header}.gch")
    sys.exit(text if status != 0 else 0)


def main():
    compiler, include, header = sys.argv[1:4]
    if len(sys.argv) == 4:
        prepare(compiler, include, header)
    file = sys.argv[4]
    options = ["-fsyntax-only", "-include", header, file]
    with open(file, encoding="utf-8") as source:
        mark, _, words = source.readline().strip().partition("refused: ")
    if mark != "// " or not words:
        sys.exit(f"{file}: the first line has to be '// refused: WORDS'")
    status, text = compile_it(compiler, include, *options)
    if status != 0:
        sys.exit(f"{file} does not compile without the misuse:\n{text}")
    status, text = compile_it(compiler, include, "-DBATON_TEST_MISUSE", *options)
    if status == 0:
        sys.exit(f"{file}: the misuse compiles")
    if words not in text:
        sys.exit(f"{file}: refused without the words '{words}':\n{text}")


if __name__ == "__main__":
    main()
