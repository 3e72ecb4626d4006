"""Which tests may skip themselves: tests/skips.declared.

A line is `MACHINE | TEST | REASON`. TEST and REASON are regular expressions that are searched in
`RUN: NAME` and in what the test said. MACHINE is a word:

  every    what is tested does not exist there, whatever the machine: a declared fact of an engine
           or a strategy, a limit of a sanitizer, a kernel that is too old
  bare     a tool or a permission is missing that a developer's machine may lack

BATON_TEST_MACHINE=ci, which .ci/run sets, allows the lines of `every` alone: there every engine,
strategy and tool must be present. Elsewhere both kinds are allowed.
"""

import os
import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "skips.declared"
MACHINES = ("every", "bare")


def rules_of(text):
    """[(machine, test, reason)]; ValueError names the line that is none."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(" | ")]
        if len(fields) != 3 or fields[0] not in MACHINES:
            raise ValueError(f"line {number}: expected `MACHINE | TEST | REASON` with MACHINE one "
                             f"of {', '.join(MACHINES)}: {line}")
        rules.append((fields[0], re.compile(fields[1]), re.compile(fields[2])))
    return rules


class Declared:
    """Answers whether a skip is declared, and remembers which lines were needed."""

    def __init__(self, text=None, machine=None):
        self.rules = rules_of(FILE.read_text() if text is None else text)
        machine = os.environ.get("BATON_TEST_MACHINE") if machine is None else machine
        self.allowed = ("every",) if machine == "ci" else MACHINES

    def allows(self, run, name, output):
        return any(machine in self.allowed and test.search(f"{run}: {name}") and
                   reason.search(output) for machine, test, reason in self.rules)
