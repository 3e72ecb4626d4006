#!/usr/bin/env python3
"""Every function of baton.h has its manual page, and every page its function.

usage: manual_test.py ROOT

A page names the function, declares it with the parameters of the header, and passes mandoc's lint
where mandoc is installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

DECLARATION = re.compile(r"^BATON_API\s+([\w\s*]*?)\b(baton_\w+)\(([^)]*)\);", re.M)


def declarations(header):
    """{name: (result type, [parameters])}"""
    found = {}
    for result, name, parameters in DECLARATION.findall(header):
        listed = [normal(p) for p in parameters.split(",")]
        found[name] = (normal(result), listed)
    return found


def normal(text):
    """One spelling of blanks and stars."""
    return re.sub(r"\s*\*\s*", " *", " ".join(text.split())).strip()


def page_declaration(page):
    result = re.search(r"^\.Ft (.*)$", page, re.M)
    name = re.search(r"^\.Fo (\w+)$", page, re.M)
    parameters = re.search(r"^\.Fo \w+\n((?:\.Fa .*\n)*)\.Fc$", page, re.M)
    if not (result and name and parameters):
        return None
    listed = [normal(p) for p in re.findall(r'^\.Fa "(.*)"$', parameters.group(1), re.M)]
    return name.group(1), normal(result.group(1)), listed


def main(argv):
    root = pathlib.Path(argv[1])
    functions = declarations((root / "include/baton.h").read_text())
    pages = {p.stem: p for p in (root / "docs/man").glob("baton_*.3")}
    wrong = []
    if len(functions) < 20:
        wrong.append(f"only {len(functions)} functions found in baton.h: is the pattern right?")
    for name in sorted(functions.keys() - pages.keys()):
        wrong.append(f"{name} has no page docs/man/{name}.3")
    for name in sorted(pages.keys() - functions.keys()):
        wrong.append(f"docs/man/{name}.3 is about no function of baton.h")
    for name in sorted(functions.keys() & pages.keys()):
        text = pages[name].read_text()
        if f"\n.Nm {name}\n" not in text:
            wrong.append(f"{name}.3 does not name it")
        if page_declaration(text) != (name, *functions[name]):
            wrong.append(f"{name}.3 declares {page_declaration(text)},\n"
                         f"    baton.h {(name, *functions[name])}")
        for reference in re.findall(r"^\.Xr (baton_\w+) 3", text, re.M):
            if reference not in pages:
                wrong.append(f"{name}.3 refers to {reference}, which has no page")
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-T", "lint", *map(str, pages.values())],
                              capture_output=True, text=True, check=False)
        # Whether pages are installed already is no fault of theirs.
        wrong += [line for line in lint.stdout.splitlines()
                  if "referenced manual not found" not in line]
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
