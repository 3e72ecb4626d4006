#!/usr/bin/env python3
"""Every part of parts.required is registered, and available where the machine must have all.

usage: parts_test.py BATON

The suites visit the registered parts and skip those that are not available. A missing part would
silently remove its tests.
"""

import os
import pathlib
import subprocess
import sys

ANSWERS = ("yes", "no")


def required():
    text = pathlib.Path(__file__).with_name("parts.required").read_text()
    return [tuple(line.split()) for line in text.splitlines() if line and not line.startswith("#")]


def offered(command):
    """{names of a part: available}, from the first words of each line of both tables."""
    listing = subprocess.run([command, "engines"], check=True, stdout=subprocess.PIPE, text=True)
    parts = {}
    for words in map(str.split, listing.stdout.splitlines()):
        at = next((i for i, word in enumerate(words[:3]) if word in ANSWERS), None)
        if at:
            parts[tuple(words[:at])] = words[at] == "yes"
    return parts


def main(command):
    parts, wrong = offered(command), []
    for part in required():
        if part not in parts:
            wrong.append(f"{' '.join(part)} is not registered")
        elif not parts[part] and os.environ.get("BATON_TEST_MACHINE") == "ci":
            wrong.append(f"{' '.join(part)} is not available; `baton engines` says why")
    print(*wrong or [f"{len(required())} parts are there"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
