#!/usr/bin/env python3
"""The reading of a machine's serial line, and failures that it must show."""

import pathlib
import tempfile
import unittest

import report

LOG = """== kernel 6.1.0-50\r
== begin ops\r
[ RUN      ] proactor/A.works/emulated_epoll_shared\r
[       OK ] proactor/A.works/emulated_epoll_shared (3 ms)\r
[ RUN      ] proactor/A.skips/io_uring_any_shared\r
io_uring_any_shared is not available: the kernel is too old\r
[  SKIPPED ] proactor/A.skips/io_uring_any_shared (0 ms)\r
[ RUN      ] proactor/A.fails/io_uring_any_shared\r
an expectation\r
[  FAILED  ] proactor/A.fails/io_uring_any_shared, where GetParam() = x (3 ms)\r
"""


class Report(unittest.TestCase):

    def results(self, log):
        release, tests = report.read_log(log)
        return release, {test.name: test.result for test in tests}

    def test_each_result(self):
        release, found = self.results(LOG + "== end ops 1\r\n")
        self.assertEqual(release, "6.1.0-50")
        self.assertEqual(list(found.values()), ["OK", "SKIPPED", "FAILED", "OK"])

    def test_a_crash(self):
        _, found = self.results(LOG + "[ RUN      ] a.b\r\n== end ops 141\r\n")
        self.assertEqual(found["ops/a.b"], "FAILED")
        self.assertEqual(found["ops/ends_by_itself"], "FAILED")

    def test_a_machine_that_hangs(self):
        _, found = self.results(LOG)
        self.assertEqual(found["ops/ends_by_itself"], "FAILED")

    def test_a_machine_that_does_not_start(self):
        self.assertEqual(self.results("panic"), (None, {"none/ends_by_itself": "FAILED"}))

    def test_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write(folder, "6.1", *report.read_log(LOG + "== end ops 1\n"))
            report.main(["missing", "6.12", "gone", folder])
            page = pathlib.Path(folder, "page.md")
            page.write_text(f"before\n{report.BEGIN_MARK}\nold\n{report.END_MARK}\nafter\n")
            report.document(page, folder)
            text = page.read_text()
        self.assertIn("| 6.1.0-50 | `io_uring` | 0 | 1 | 1 | the kernel is too old |", text)
        self.assertNotIn("old\n<", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))


if __name__ == "__main__":
    unittest.main()
