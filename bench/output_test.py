#!/usr/bin/env python3
"""Every program of this folder fails if its standard output cannot be written, buffered or not."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parent
PROGRAMS = sorted(path for path in BENCH.glob("*.py") if not path.name.endswith("_test.py")
                  and "__main__" in path.read_text())


def run(*command, unbuffered="", **options):
    return subprocess.run([sys.executable, "-B", *map(str, command)], stderr=subprocess.PIPE,
                          text=True, timeout=60, cwd=BENCH,
                          env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, **options)


class OutputTest(unittest.TestCase):
    def failed(self, done, program, why):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr, f"{program}: standard output cannot be written: {why}\n")

    def test_a_help_text(self):
        self.assertIn("compare.py", [path.name for path in PROGRAMS])
        with open("/dev/full", "wb") as full:
            for path in PROGRAMS:
                with self.subTest(program=path.name):
                    for unbuffered in ("", "1"):
                        done = run(path, "--help", unbuffered=unbuffered, stdout=full)
                        self.failed(done, path.name, "No space left on device")
                    done = run(path, "--help", preexec_fn=lambda: os.close(1))
                    self.failed(done, path.name, "Bad file descriptor")

    def test_a_long_word_is_quoted_in_part(self):
        done = run(BENCH / "rows.py", "--rounds", 70_000 * "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rounds: invalid int value: 'xxx", done.stderr)
        self.assertLess(len(done.stderr), 2_500)

    def test_a_table(self):
        # The status does not depend on what main answers.
        table = ("import sys, output\n"
                 "sys.argv[0] = 'table.py'\n"
                 "sys.exit(output.status_of(lambda: print('row ' * {}) or 0))")
        reader, writer = os.pipe()
        os.close(reader)
        with open("/dev/full", "wb") as full, open(writer, "wb") as broken:
            for words in (1, 100_000):
                for unbuffered in ("", "1"):
                    for channel, why in ((full, "No space left on device"),
                                         (broken, "Broken pipe")):
                        with self.subTest(words=words, unbuffered=unbuffered, why=why):
                            done = run("-c", table.format(words), unbuffered=unbuffered,
                                       stdout=channel)
                            self.failed(done, "table.py", why)

    def test_other_ends_stay(self):
        for end, status in (("lambda: 0", 0), ("lambda: 2", 2), ("lambda: sys.exit(2)", 2),
                            ("lambda: open('/nowhere')", 1)):
            with self.subTest(end=end):
                done = run("-c", f"import sys, output\nsys.exit(output.status_of({end}))",
                           stdout=subprocess.PIPE)
                self.assertEqual(done.returncode, status, done)
                self.assertNotIn("cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
