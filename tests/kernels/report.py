#!/usr/bin/env python3
"""What the virtual machines of scripts/test-kernels said.

usage: report.py junit KERNEL LOG FOLDER       the log of one machine as FOLDER/kernel-KERNEL.xml
       report.py missing KERNEL REASON FOLDER  one skipped test
       report.py document FILE FOLDER          the table between the marks of FILE, from the files

A test that began and did not end has failed, and so has a program that did not end by itself. Exit
status 0 also when tests failed: who counts them is tools/sum_results.py.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \(\d+ ms\)$")
BEGIN_MARK = "<!-- made by scripts/test-kernels --document -->"
END_MARK = "<!-- end -->"


class Test:
    def __init__(self, name):
        self.name = name
        self.result = "FAILED"  # until it has ended
        self.output = []


def read_log(text):
    """Returns (release of the kernel or None, [Test])."""
    release, program, tests, current, ended = None, "none", [], None, True
    for line in text.replace("\r", "").split("\n"):
        words = line.split()
        if line.startswith("== kernel "):
            release = words[2]
        elif line.startswith("== begin "):
            program, ended, current = words[2], False, None
        elif line.startswith("== end "):
            whole = Test(f"{words[2]}/ends_by_itself")
            whole.output = [] if current is None else current.output[-20:]
            # GoogleTest's own: 0 all passed, 1 some failed, and those speak for themselves.
            whole.result = "OK" if words[3] in ("0", "1") else "FAILED"
            whole.output.append(f"exit status {words[3]}")
            tests.append(whole)
            ended = True
        elif line.startswith("[ RUN      ] "):
            current = Test(f"{program}/{words[3]}")
            tests.append(current)
        elif current is not None and (found := RESULT.match(line)):
            current.result = found[1]
            current = None
        elif current is not None:
            current.output.append(line)
    if not ended or not tests:
        whole = Test(f"{program}/ends_by_itself")
        whole.output = text.split("\n")[-20:]
        tests.append(whole)
    return release, tests


def write(folder, kernel, release, tests):
    suite = ElementTree.Element("testsuite", name=f"kernel {kernel}", release=release or "none")
    for test in tests:
        case = ElementTree.SubElement(suite, "testcase", name=test.name)
        case.set("status", {"OK": "run", "FAILED": "fail", "SKIPPED": "notrun"}[test.result])
        if test.result == "SKIPPED":
            ElementTree.SubElement(case, "skipped", message="SKIP_REGULAR_EXPRESSION_MATCHED")
        if test.result == "FAILED":
            ElementTree.SubElement(case, "failure", message="")
        # Not every byte of a serial line is a character of XML.
        text = re.sub(r"[^\t\n\x20-\x7e]", "?", "\n".join(test.output))
        ElementTree.SubElement(case, "system-out").text = text
    path = pathlib.Path(folder, f"kernel-{kernel}.xml")
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def engine_of(name):
    """The engine of a test that is one of a matrix: the first word of its parameter."""
    parameter = name.rsplit("/", 1)[-1]
    for engine in ("emulated", "io_uring", "linux_aio", "posix_aio"):
        if parameter.startswith(engine):
            return engine
    return None


def rows(folder):
    """[(release, engine, counts, reasons)] of all kernels that ran."""
    table = []
    for path in sorted(pathlib.Path(folder).glob("kernel-*.xml")):
        suite = ElementTree.parse(path).getroot()
        if suite.get("release") == "none":
            continue
        counts = collections.defaultdict(collections.Counter)
        reasons = collections.defaultdict(set)
        for case in suite.iter("testcase"):
            engine = engine_of(case.get("name"))
            if engine is None:
                continue
            counts[engine][case.get("status")] += 1
            said = re.search(r"is not available: (.*)", case.findtext("system-out") or "")
            if said:
                reasons[engine].add(said[1].strip())
        for engine in sorted(counts):
            table.append((suite.get("release"), engine, counts[engine], sorted(reasons[engine])))
    return table


def version_of(release):
    return [int(number) for number in re.findall(r"\d+", release)[:3]]


def document(path, folder):
    lines = [BEGIN_MARK, "", "| kernel | engine | passed | failed | skipped | not there |",
             "|---|---|---|---|---|---|"]
    for release, engine, count, reasons in sorted(rows(folder), key=lambda r: version_of(r[0])):
        lines.append(f"| {release} | `{engine}` | {count['run']} | {count['fail']} | "
                     f"{count['notrun']} | {'; '.join(reasons).replace('|', '/') or '-'} |")
    file = pathlib.Path(path)
    before, rest = file.read_text().split(BEGIN_MARK)
    after = rest.split(END_MARK)[1]
    file.write_text(before + "\n".join(lines) + "\n\n" + END_MARK + after)


def main(arguments):
    what, *rest = arguments
    if what == "junit":
        kernel, log, folder = rest
        write(folder, kernel, *read_log(pathlib.Path(log).read_text(errors="replace")))
    elif what == "missing":
        kernel, reason, folder = rest
        test = Test(f"kernel_{kernel}")
        test.result, test.output = "SKIPPED", [reason]
        print(f"skipped: kernel {kernel}: {reason}")
        write(folder, kernel, None, [test])
    elif what == "document":
        document(*rest)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
