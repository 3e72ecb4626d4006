#!/usr/bin/env python3
"""The forms in which the three tools report, and what an exclusion accepts."""

import pathlib
import unittest

import findings

ROOT = pathlib.Path("/tree")
OUTPUT = """/tree/src/a.cpp:10:5: warning: a pointer is stored [bugprone-some-check]
   10 |   code
/tree/src/a.cpp:10:9: warning: a pointer is stored [bugprone-some-check]
/usr/include/stdio.h:3:1: warning: not ours [bugprone-some-check]
src/b.cpp:7:1: performance: passed by value [passedByValue]
/tree/src/c.cpp:8:2: warning: leak of 'p' [CWE-401] [-Wanalyzer-malloc-leak]
/tree/src/d.cpp:9:2: error: unknown type name 'x'
/tree/src/d.cpp:9:3: note: here
"""


class Findings(unittest.TestCase):

    def found(self):
        return findings.read_findings(OUTPUT, ROOT)

    def test_every_tool_is_understood_and_each_place_counts_once(self):
        self.assertEqual([(path, line, check) for path, line, check, _ in self.found()],
                         [("src/a.cpp", 10, "bugprone-some-check"),
                          ("src/b.cpp", 7, "passedByValue"),
                          ("src/c.cpp", 8, "-Wanalyzer-malloc-leak"),
                          ("src/d.cpp", 9, "error")])

    def test_an_exclusion_accepts_its_check_in_its_files(self):
        accepted = findings.read_exclusions(
            "# said why\n\nbugprone-some-check | src/*.cpp | pointer is | it is meant\n"
            "passedByValue | src/a.cpp | * | another file\n")
        self.assertEqual(len(findings.left_over(self.found(), accepted)), 3)
        self.assertEqual([one.used for one in accepted], [True, False])

    def test_an_exclusion_without_a_reason_is_refused(self):
        with self.assertRaises(SystemExit):
            findings.read_exclusions("check | src/* | * |\n")


if __name__ == "__main__":
    unittest.main()
