#!/usr/bin/env python3
"""What the last line of scripts/test says, and when it is an error."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import sum_results

CASES = {
    "passed": '<testcase name="a" status="run"/>',
    "failed": '<testcase name="b" status="fail"><failure message=""/></testcase>',
    "passed alone": '<testcase name="b" status="run"/>',
    "skipped": '<testcase name="c" status="notrun">'
               '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>',
    "disabled": '<testcase name="d" status="disabled"/>',
    "program": '<testcase name="p/x" status="fail"><failure message=""/><system-out>'
               "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n[ RUN      ] A.b\nwhy\n"
               "[  SKIPPED ] A.b (1 ms)\n[ RUN      ] A.c\n[  FAILED  ] A.c (1 ms)\n"
               "</system-out></testcase>",
    "part alone": '<testcase name="p/A.c" status="run"><system-out>'
                  "[ RUN      ] A.c\n[       OK ] A.c (1 ms)\n"
                  "[==========] 1 test from 1 test suite ran. (1 ms total)\n"
                  "</system-out></testcase>",
    "exits": '<testcase name="p/z" status="run"><system-out>'
             "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n</system-out></testcase>",
    "leaks": '<testcase name="p/y" status="fail"><failure message=""/><system-out>'
             "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\nleaked</system-out></testcase>",
    "missing": '<testcase name="e" status="notrun">'
               '<skipped message="Unable to find executable: e"/></testcase>',
}


class SumResults(unittest.TestCase):

    def run_with(self, runs, *stages):
        with tempfile.TemporaryDirectory() as folder:
            for name, cases in runs.items():
                body = "".join(CASES[c] for c in cases)
                pathlib.Path(folder, name + ".xml").write_text(f"<testsuite>{body}</testsuite>")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                status = sum_results.main(folder, stages)
        return status, output.getvalue().strip().split("\n")[-1]

    def test_sums_runs(self):
        self.assertEqual(
            self.run_with({"release": ["passed", "passed", "skipped"],
                           "asan": ["passed", "disabled"]}),
            (0, "3 passed, 0 failed, 2 skipped"))

    def test_failures(self):
        self.assertEqual(self.run_with({"a": ["passed", "failed"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_with({"a": ["passed", "missing"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_stage_outside_the_tests(self):
        self.assertEqual(self.run_with({"a": ["passed"]}, "format", "b.build", "b.tests"),
                         (1, "1 passed, 3 failed, 0 skipped"))

    def test_ctest_itself_failed(self):
        self.assertEqual(self.run_with({"a": ["passed"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_second_run(self):
        self.assertEqual(self.run_with({"a": ["passed", "failed"], "a.again": ["failed"]}),
                         (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_with({"a": ["passed", "failed"], "a.again": ["passed alone"]}),
                         (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_with({"a": ["passed", "failed"], "b.again": ["passed alone"]}),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_program_counts_as_its_tests(self):
        self.assertEqual(self.run_with({"a": ["program", "passed"]}, "a.tests"),
                         (1, "2 passed, 1 failed, 1 skipped"))
        self.assertEqual(self.run_with({"a": ["program"], "a.again": ["part alone"]}),
                         (0, "2 passed, 0 failed, 1 skipped"))

    def test_a_program_that_fails_after_its_tests(self):
        self.assertEqual(self.run_with({"a": ["leaks"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_program_that_leaves_before_its_end(self):
        self.assertEqual(self.run_with({"a": ["exits"]}), (1, "1 passed, 1 failed, 0 skipped"))

    def test_nothing_ran(self):
        self.assertEqual(self.run_with({}), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_with({"a": ["skipped"]}), (1, "0 passed, 0 failed, 1 skipped"))


if __name__ == "__main__":
    unittest.main()
