#!/usr/bin/env python3
"""Only a test that ended by itself, with an expectation not met, is run a second time."""

import pathlib
import re
import tempfile
import unittest

import run_again

END = "\n 1 FAILED TEST\n"


def failed(name, output):
    return (f'<testcase name="{name}" status="fail"><failure message=""/>'
            f"<system-out>{output}</system-out></testcase>")


PASSED = '<testcase name="a.b/c" status="run"/>'


class RunAgain(unittest.TestCase):

    def expression(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "results.xml")
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            return run_again.expression(path)

    def test_an_expectation_not_met(self):
        found = self.expression(PASSED, failed("x.y/z", "Failure" + END), failed("v", END))
        self.assertTrue(re.search(found, "x.y/z"))
        self.assertTrue(re.search(found, "v"))
        self.assertFalse(re.search(found, "xay/z"))
        self.assertFalse(re.search(found, "a.b/c"))

    def test_never_a_crash_or_a_hang(self):
        self.assertIsNone(self.expression(failed("x", "[ RUN      ] x")))
        self.assertIsNone(self.expression(failed("x", END), failed("y", "")))
        self.assertIsNone(self.expression(failed("x", "nothing came within a minute" + END)))

    def test_never_what_a_sanitizer_or_an_assertion_reports(self):
        for report in ("WARNING: ThreadSanitizer: data race", "ERROR: LeakSanitizer: leaks",
                       "a.cpp:1: runtime error: overflow", "baton: assertion failed"):
            self.assertIsNone(self.expression(failed("x", report + END)))

    def test_not_many(self):
        self.assertIsNotNone(self.expression(*(failed(f"x{i}", END) for i in range(3))))
        self.assertIsNone(self.expression(*(failed(f"x{i}", END) for i in range(4))))

    def test_nothing_failed(self):
        self.assertIsNone(self.expression(PASSED))


if __name__ == "__main__":
    unittest.main()
