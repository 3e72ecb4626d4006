#!/usr/bin/env python3
"""Of a run of the host suite that fails, tools/sum_results.py quotes the failures on ours, and
nothing that is expected to fail on the system's library."""

import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

import answers_shown
import host

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import sum_results  # noqa: E402  # pylint: disable=wrong-import-position

SYSTEM = ["hangs after 5 s: p S 0.0 s futex_wait", "line 7: x == 1 (errno 0)", "ends by signal 6",
          "status 3", "crashes with signal 11", "exits with 4", "ok"]


def suite(ours):
    """What host.py prints about these cases; the system's library fails in the first six."""
    listed = mock.Mock(stdout="".join(f"case_{i}|point\n" for i in range(len(SYSTEM))))

    def answer(_program, case, _folder, preload, _options, _extra):
        return ours.get(case, "ok") if preload else SYSTEM[int(case[-1])]

    output = io.StringIO()
    with mock.patch.object(host, "run", answer), \
            mock.patch.object(host.subprocess, "run", return_value=listed), \
            mock.patch.object(sys, "argv", ["host.py", "program", "preload"]), \
            contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        host.main()
    return output.getvalue()


class AnswersShown(unittest.TestCase):

    def test_the_systems_failures_do_not_tell(self):
        self.assertEqual(sum_results.telling_lines(suite({})), [])

    def test_each_failure_on_ours_tells_once(self):
        for answer in SYSTEM[:-1]:
            self.assertEqual(sum_results.telling_lines(suite({"case_1": answer})),
                             [f"FAILED: case_1: {answer}"])

    def test_all_failures_on_ours_are_named(self):
        output = suite({"case_0": "hangs after 60 s: ", "case_5": "ends by signal 11"})
        self.assertEqual(output.splitlines()[-3:],
                         ["7 cases, 2 fail on ours", "FAILED: case_0: hangs after 60 s: ",
                          "FAILED: case_5: ends by signal 11"])

    def test_rows_of_both_programs_show_answers_without_telling(self):
        for answer in SYSTEM:
            self.assertEqual(sum_results.telling_lines(answers_shown.row([answer, answer], 60)), [])


if __name__ == "__main__":
    unittest.main()
