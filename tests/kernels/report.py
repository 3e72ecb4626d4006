#!/usr/bin/env python3
"""The results of the virtual machines of scripts/test-kernels.

usage: report.py junit KERNEL LOG FOLDER       the log of one machine as FOLDER/kernel-KERNEL.xml
       report.py missing KERNEL REASON FOLDER  one skipped test
       report.py document FILE FOLDER          the table between the marks of FILE, from the files

A test that began and did not end has failed, and so has a program that did not end by itself. Exit
status 0 also when tests failed: tools/sum_results.py counts them.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from gtest_output import Test, tests_of  # noqa: E402

BEGIN_MARK = "<!-- made by scripts/test-kernels --document -->"
END_MARK = "<!-- end -->"


def end_of(program, tests, status):
    """Whether this program came to its end, as a test of its own. GoogleTest's status: 0 all
    passed, 1 some failed, and those speak for themselves."""
    whole = Test(f"{program}/ends_by_itself")
    whole.output = tests[-1].output[-20:] if tests and not tests[-1].ended else []
    whole.output.append(f"exit status {status}")
    whole.result = "OK" if status in ("0", "1") else "FAILED"
    return whole


def read_log(text):
    """Returns (release of the kernel or None, [Test])."""
    release, program, tests, said = None, None, [], []
    for line in text.replace("\r", "").split("\n"):
        words = line.split()
        if line.startswith("== kernel "):
            release = words[2]
        elif line.startswith("== begin "):
            program, said = words[2], []
        elif line.startswith("== end "):
            ran = tests_of(said, program)
            tests += [*ran, end_of(program, ran, words[3])]
            program, said = None, []
        else:
            said.append(line)
    if program is not None or not tests:
        tests += tests_of(said, program)
        whole = Test(f"{program or 'none'}/ends_by_itself")
        whole.output = said[-20:]
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
