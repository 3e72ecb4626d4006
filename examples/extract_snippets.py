#!/usr/bin/env python3
"""Makes source files of the C and C++ blocks of documents, so that the build compiles them.

usage: extract_snippets.py FOLDER DOCUMENT...

A block with its own includes becomes a file as it is; the others of a document become one file for
each language, in order. Prints the names of the files, one a line.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^( *)```(cpp|c)\n(.*?)^ *```", re.S | re.M)
HEADERS = {"c": """#include <baton.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

""", "cpp": """#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <baton/baton.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

"""}


def blocks(text):
    for indent, language, block in BLOCK.findall(text):
        lines = block.splitlines(keepends=True)
        yield language, "".join(line.removeprefix(indent) for line in lines)


def write(path, text):
    """Only what has changed, so that nothing else is compiled again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    print(path)


def main(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for document in documents:
        fragments = {}
        for number, (language, block) in enumerate(blocks(document.read_text(encoding="utf-8"))):
            if "#include" in block:
                write(folder / f"{document.stem}_{number}.{language}", block)
            else:
                fragments.setdefault(language, []).append(block)
        for language, parts in fragments.items():
            write(folder / f"{document.stem}_fragments.{language}",
                  HEADERS[language] + "\n".join(parts))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]])
