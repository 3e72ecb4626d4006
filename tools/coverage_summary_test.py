#!/usr/bin/env python3
"""Reached lines, the effect of exclusions, and complaints."""

import pathlib
import tempfile
import unittest

import coverage_summary

SOURCE = """int run(int a) {
  if (a < 0 || a > 9) {
    tell();
    for (int i = 0; i < a; ++i)
      tell();
  }
  return a;
}
"""


def line(number, count, *branches):
    return {"line_number": number, "count": count, "branches": [{"count": n} for n in branches]}


class Summary(unittest.TestCase):

    def report(self, exclusions, lines, path="src/core/lane_x.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(SOURCE, encoding="utf-8")
            report = coverage_summary.Report(coverage_summary.read_exclusions(exclusions), root)
            report.add({"file": path, "lines": lines})
        return report

    def test_unreached_lines_are_listed(self):
        report = self.report("", [line(2, 5, 5, 0, 3, 2), line(3, 0), line(7, 5)])
        self.assertEqual(report.rest, ["src/core/lane_x.cpp:2: 1 of 4  if (a < 0 || a > 9) {",
                                       "src/core/lane_x.cpp:3: line    tell();"])
        count = report.parts["src/ (all)"]
        self.assertEqual((count.lines, count.lines_hit), (3, 2))
        self.assertEqual((count.branches, count.branches_hit), (4, 3))

    def test_an_exclusion_excuses_its_line_and_what_never_ran_below(self):
        lines = [line(2, 5, 5, 0), line(3, 0), line(4, 0, 0, 0), line(5, 0), line(7, 0)]
        report = self.report("src/core/lane_x.cpp | a < 0 || a > 9 | cannot be\n", lines)
        self.assertEqual(report.rest, ["src/core/lane_x.cpp:7: line    return a;"])
        self.assertEqual(len(report.excused["cannot be"]), 4)
        self.assertEqual(report.parts["src/ (all)"].branches_excused, 3)

    def test_below_it_only_what_never_ran_is_excused(self):
        report = self.report("src/core/lane_x.cpp | a < 0 | cannot be\n",
                             [line(2, 5, 5, 0), line(4, 3, 3, 0)])
        self.assertEqual(len(report.rest), 1)

    def test_an_exclusion_holds_in_its_file_only(self):
        report = self.report("src/core/lane_y.cpp | a < 0 | cannot be\n", [line(2, 5, 5, 0)])
        self.assertEqual(len(report.rest), 1)
        self.assertIn("excuses nothing any more: line 1: src/core/lane_y.cpp | a < 0",
                      list(report.complaints()))

    def test_a_race_may_be_won(self):
        report = self.report("src/core/lane_x.cpp | a < 0 | race: now and then\n",
                             [line(2, 5, 5, 1)])
        self.assertEqual(list(report.complaints()), [])

    def test_goals_are_judged(self):
        lines = [line(number, 1) for number in range(1, 8)] + [line(8, 0)]
        complaints = list(self.report("", lines).complaints())
        self.assertEqual(complaints, ["the goal is missed: src/ (all): 95 % of the lines"])

    def test_excused_branches_count_only_where_the_goal_says_so(self):
        complaints = list(self.report("src/core/lane_x.cpp | a < 0 | cannot be\n",
                                      [line(2, 5, 5, 0)]).complaints())
        self.assertEqual(complaints, ["the goal is missed: src/ (all): 90 % of the branches"])

    def test_the_code_may_have_bars(self):
        one, = coverage_summary.read_exclusions("# why\n\nsrc/a.cpp | x | y || z | why | not\n")
        self.assertEqual((one.path, one.code, one.reason), ("src/a.cpp", "x | y || z | why", "not"))

    def test_a_switch_that_names_every_value_has_a_branch_too_many(self):
        text = ["  switch (a) {", "    case 1:", "      break;", "  }", "  default:"]
        self.assertEqual(coverage_summary.branches_of(line(1, 5, 5, 0), text), [5])
        self.assertEqual(coverage_summary.branches_of(line(1, 5, 5, 0, 0), text), [5, 0])
        self.assertEqual(coverage_summary.branches_of(line(2, 5, 5, 0), text), [5, 0])
        text.insert(3, "    default:")
        self.assertEqual(coverage_summary.branches_of(line(1, 5, 5, 0), text), [5, 0])

    def test_a_static_object_is_no_decision(self):
        text = ["  static const Table table = make_table();",
                "  static bool f(int a) { return a ? 1", "  const Table table = make_table();"]
        self.assertEqual(coverage_summary.branches_of(line(1, 5, 5, 0), text), [5])
        self.assertEqual(coverage_summary.branches_of(line(2, 5, 5, 0), text), [5, 0])
        self.assertEqual(coverage_summary.branches_of(line(3, 5, 5, 0), text), [5, 0])

    def test_an_exclusion_without_a_reason_is_refused(self):
        with self.assertRaises(SystemExit):
            coverage_summary.read_exclusions("src/a.cpp | x |\n")


if __name__ == "__main__":
    unittest.main()
