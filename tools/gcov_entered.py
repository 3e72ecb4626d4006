#!/usr/bin/env python3
"""gcov, without the branches that leave a block which was never entered, on lines that were run.

gcovr calls this in place of gcov (--gcov-executable). Such a block lies on the way of an exception,
where the compiler cleans temporaries up by flags of its own and no source has a branch; or else the
branch that leads into it was not taken, and that one stays in the count. The branches of lines that
were never run stay, too.
"""

import pathlib
import re
import subprocess
import sys

# count:line:text; the count of a line that did not run is ##### or =====, of no code -.
SOURCE_LINE = re.compile(r"\s*([^\s:]+):\s*\d+:")
CREATED = re.compile(r"^Creating '(.*)'$", re.MULTILINE)


def entered(lines):
    run = False
    for line in lines:
        source = SOURCE_LINE.match(line)
        if source:
            run = source[1][0].isdigit()
        elif run and line.startswith("branch ") and line.rstrip().endswith("never executed"):
            continue
        yield line


def main():
    done = subprocess.run(["gcov", *sys.argv[1:]], stdout=subprocess.PIPE, check=False)
    for name in CREATED.findall(done.stdout.decode(errors="replace")):
        path = pathlib.Path(name)
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        path.write_text("".join(entered(text.splitlines(keepends=True))), encoding="utf-8",
                        errors="surrogateescape")
    sys.stdout.buffer.write(done.stdout)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
