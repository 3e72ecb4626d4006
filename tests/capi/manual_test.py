#!/usr/bin/env python3
"""Every function of baton.h has its manual page, and every page its function.

usage: manual_test.py ROOT [HEADER PAGES MACRO NAMES]

Those are include/baton.h, docs/man, BATON_API and baton_ (a pattern) unless given.

A page names the function, declares it with the parameters of the header, and passes mandoc's lint
where mandoc is installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

def declarations(header, macro, names):
    """{name: (result type, [parameters])}"""
    pattern = re.compile(rf"^{macro}\s+([\w\s*]*?)\b((?:{names})\w+)\(([^)]*)\);", re.M)
    found = {}
    for result, name, parameters in pattern.findall(header):
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
    defaults = ["include/baton.h", "docs/man", "BATON_API", "baton_"]
    header, folder, macro, names = argv[2:6] if len(argv) > 2 else defaults
    functions = declarations((root / header).read_text(), macro, names)
    pages = {p.stem: p for p in (root / folder).glob("*.3") if re.match(names, p.stem)}
    wrong = []
    if len(functions) < 10:
        wrong.append(f"only {len(functions)} functions found in {header}: is the pattern right?")
    for name in sorted(functions.keys() - pages.keys()):
        wrong.append(f"{name} has no page {folder}/{name}.3")
    for name in sorted(pages.keys() - functions.keys()):
        wrong.append(f"{folder}/{name}.3 is about no function of {header}")
    for name in sorted(functions.keys() & pages.keys()):
        text = pages[name].read_text()
        if f"\n.Nm {name}\n" not in text:
            wrong.append(f"{name}.3 does not name it")
        if page_declaration(text) != (name, *functions[name]):
            wrong.append(f"{name}.3 declares {page_declaration(text)},\n"
                         f"    {header} {(name, *functions[name])}")
        for reference in re.findall(rf"^\.Xr ((?:{names})\w+) 3", text, re.M):
            if reference not in pages:
                wrong.append(f"{name}.3 refers to {reference}, which has no page")
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-T", "lint", *map(str, pages.values())],
                              capture_output=True, text=True, check=False)
        # Pages that are not installed yet are no error.
        wrong += [line for line in lint.stdout.splitlines()
                  if "referenced manual not found" not in line]
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
