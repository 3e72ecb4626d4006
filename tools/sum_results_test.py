#!/usr/bin/env python3
"""The last line of scripts/test, and when it is an error."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import declared_skips
import sum_results

DECLARED = declared_skips.Declared("every | (c|d|p/A.b|f/skipped_.)$ | .*", machine="ci")

CASES = {
    "passed": '<testcase name="a" status="run"/>',
    "failed": '<testcase name="b" status="fail"><failure message=""/></testcase>',
    "skipped": '<testcase name="c" status="notrun">'
               '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>',
    "disabled": '<testcase name="d" status="disabled"/>',
    "program": '<testcase name="p/x" status="fail"><failure message=""/><system-out>'
               "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n[ RUN      ] A.b\nwhy\n"
               "[  SKIPPED ] A.b (1 ms)\n[ RUN      ] A.c\n[  FAILED  ] A.c (1 ms)\n"
               "</system-out></testcase>",
    "exits": '<testcase name="p/z" status="run"><system-out>'
             "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n</system-out></testcase>",
    "nothing": '<testcase name="p/w" status="run"><system-out>'
               "[==========] 0 tests from 0 test suites ran. (0 ms total)\n"
               "</system-out></testcase>",
    "unittest": '<testcase name="f" status="run"><system-out>Ran 9 tests in 1 s\n\n'
                "OK (skipped=2)\n</system-out></testcase>",
    "row": '<testcase name="p/y" status="run"><system-out>'
           "[ RUN      ] row/A.a/x\n[       OK ] row/A.a/x (1 ms)\n"
           "[ RUN      ] row/A.a/y\n[       OK ] row/A.a/y (1 ms)\n"
           "[==========] 2 tests from 1 test suite ran. (2 ms total)\n</system-out></testcase>",
    "leaks": '<testcase name="p/y" status="fail"><failure message=""/><system-out>'
             "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\nleaked</system-out></testcase>",
    "told": '<testcase name="t" status="fail"><failure message=""/><system-out>'
            "/a/b_test.cpp:7: Failure\nExpected: x\nSuccess\nok line\ncase  line 9: x == 1\n"
            "</system-out></testcase>",
    "missing": '<testcase name="e" status="notrun">'
               '<skipped message="Unable to find executable: e"/></testcase>',
}


class SumResults(unittest.TestCase):

    def run_with(self, runs, *stages, declared=DECLARED, lines=1):
        with tempfile.TemporaryDirectory() as folder:
            for name, cases in runs.items():
                body = "".join(CASES[c] for c in cases)
                pathlib.Path(folder, name + ".xml").write_text(f"<testsuite>{body}</testsuite>")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                status = sum_results.main(folder, stages, declared)
        said = output.getvalue().strip().split("\n")[-lines:]
        return status, said[-1] if lines == 1 else said

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

    def test_the_reason_stands_beside_the_name(self):
        self.assertEqual(
            self.run_with({"a": ["told"]}, "a.tests", lines=5)[1][:3],
            ["failed: a: t", "    b_test.cpp:7: Expected: x", "    case  line 9: x == 1"])

    def test_a_stage_outside_the_tests(self):
        self.assertEqual(self.run_with({"a": ["passed"]}, "format", "b.build", "b.tests"),
                         (1, "1 passed, 3 failed, 0 skipped"))

    def test_ctest_itself_failed(self):
        self.assertEqual(self.run_with({"a": ["passed"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_program_counts_as_its_tests(self):
        self.assertEqual(self.run_with({"a": ["program", "passed"]}, "a.tests"),
                         (1, "2 passed, 1 failed, 1 skipped"))

    def test_a_program_that_fails_after_its_tests(self):
        self.assertEqual(self.run_with({"a": ["leaks"]}, "a.tests"),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_program_that_leaves_before_its_end(self):
        self.assertEqual(self.run_with({"a": ["exits"]}), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_skip_must_be_declared(self):
        nothing = declared_skips.Declared("", machine="ci")
        self.assertEqual(self.run_with({"a": ["passed", "skipped"]}, declared=nothing),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_skips_inside_a_program_count(self):
        self.assertEqual(self.run_with({"a": ["unittest"]}), (0, "1 passed, 0 failed, 2 skipped"))

    def test_a_filter_that_fits_nothing_has_failed(self):
        self.assertEqual(self.run_with({"a": ["passed", "nothing"]}),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_bodies_executions_and_entries(self):
        self.assertEqual(self.run_with({"a": ["row", "passed"], "b": ["row"]}, lines=2),
                         (0, ["2 test bodies, 5 executions in 3 ctest entries",
                              "5 passed, 0 failed, 0 skipped"]))

    def test_nothing_ran(self):
        self.assertEqual(self.run_with({}), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_with({"a": ["skipped"]}), (1, "0 passed, 0 failed, 1 skipped"))

    def surefire(self, tests, status="run", end="", lines=2):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "TEST-x.T.xml").write_text(
                "<testsuite>" + "".join(
                    f'<testcase classname="x.T" name="{name}">{inside}</testcase>'
                    for name, inside in tests.items()) + "</testsuite>")
            CASES["java"] = (f'<testcase name="java" status="{status}"><system-out>'
                             f"surefire: 17 {folder}\nsurefire: 25 {folder}\n{end}"
                             "</system-out></testcase>")
            declared = declared_skips.Declared("every | x.T.c$ | too few", machine="ci")
            return self.run_with({"a": ["java"]}, declared=declared, lines=lines)

    def test_counts_what_surefire_wrote(self):
        self.assertEqual(
            self.surefire({"a": "", "b": "", "c": '<skipped message="too few"/>'}),
            (0, ["3 test bodies, 6 executions in 1 ctest entries",
                 "4 passed, 0 failed, 2 skipped"]))
        self.assertEqual(
            self.surefire({"a": "", "b": '<failure message="m">stack</failure>',
                           "c": "<error/>"}, "fail")[1][-1],
            "2 passed, 4 failed, 0 skipped")
        # An undeclared skip, a build that failed after good tests, and nothing at all.
        self.assertEqual(self.surefire({"b": '<skipped message="too few"/>'})[1][-1],
                         "0 passed, 2 failed, 0 skipped")
        self.assertEqual(self.surefire({"a": ""}, "fail")[1][-1], "2 passed, 1 failed, 0 skipped")
        self.assertEqual(self.surefire({})[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_tells_why_a_test_of_java_failed_and_what_failed_beside_tests(self):
        test = {"b": '<failure message="expected: 1&#10;more">at T.java:7</failure>'}
        self.assertEqual(self.surefire(test, "fail", lines=6)[1][:4],
                         ["failed: a: java/17/x.T.b", "    expected: 1",
                          "failed: a: java/25/x.T.b", "    expected: 1"])
        for tests, failures in (({"a": ""}, 1), (test, 3)):
            said = self.surefire(tests, "fail", "FAILED: the format\n", lines=4)[1]
            self.assertEqual(said[:2], ["failed: a: java/ends_by_itself", "    FAILED: the format"])
            self.assertIn(f"{failures} failed", said[-1])


if __name__ == "__main__":
    unittest.main()
