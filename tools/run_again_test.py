#!/usr/bin/env python3
"""Only a test that ended by itself, with an expectation not met, is run a second time."""

import pathlib
import re
import tempfile
import unittest

import run_again

END = "\n 1 FAILED TEST\n"


def failed(name, *tests, end=END):
    """A ctest test of one program: (test, what it printed, whether it ended)..."""
    said = ""
    for test, output, ended in tests:
        said += f"[ RUN      ] {test}\n{output}\n"
        if ended:
            said += f"[  FAILED  ] {test} (3 ms)\n"
    return (f'<testcase name="{name}" status="fail"><failure message=""/>'
            f"<system-out>{said}{end}</system-out></testcase>")


PASSED = '<testcase name="a.b/c" status="run"/>'


class RunAgain(unittest.TestCase):

    def expression(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "results.xml")
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            return run_again.expression(path)

    def test_an_expectation_not_met(self):
        found = self.expression(PASSED, failed("x/y", ("A.b/z", "Failure", True),
                                               ("A.v", "Failure", True)))
        self.assertTrue(re.search(found, "x/A.b/z"))
        self.assertTrue(re.search(found, "x/A.v"))
        self.assertFalse(re.search(found, "x/Aab/z"))
        self.assertFalse(re.search(found, "a.b/c"))

    def test_never_a_crash_or_a_hang(self):
        self.assertIsNone(self.expression(failed("x/y", ("A.b", "", False))))
        self.assertIsNone(self.expression(failed("x/y", ("A.b", "", True), ("A.c", "", False))))
        self.assertIsNone(self.expression(failed("x/y", ("A.b", "", True), end="")))
        self.assertIsNone(self.expression(failed("x/y", ("A.b", "nothing came in time", True))))

    def test_never_another_program(self):
        self.assertIsNone(self.expression(failed("model.seat")))

    def test_never_what_a_sanitizer_or_an_assertion_reports(self):
        for report in ("WARNING: ThreadSanitizer: data race", "ERROR: LeakSanitizer: leaks",
                       "a.cpp:1: runtime error: overflow", "baton: assertion failed"):
            self.assertIsNone(self.expression(failed("x/y", ("A.b", report, True))))

    def test_not_many(self):
        def tests(number):
            return [(f"A.b{i}", "", True) for i in range(number)]
        self.assertIsNotNone(self.expression(failed("x/y", *tests(3))))
        self.assertIsNone(self.expression(failed("x/y", *tests(4))))

    def test_nothing_failed(self):
        self.assertIsNone(self.expression(PASSED))


if __name__ == "__main__":
    unittest.main()
