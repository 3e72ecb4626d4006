#!/usr/bin/env python3
"""`baton sim` and `baton sim-merge` from outside.

Run: command_test.py PATH_OF_BATON
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BATON = ""
LAST = re.compile(r"seeds (\d+) operations (\d+) violations (\d+) history ([0-9a-f]{16})")


def run(*arguments):
    return subprocess.run([BATON, *arguments], capture_output=True, text=True, timeout=250)


def last_line(result):
    return result.stdout.splitlines()[-1]


class Sim(unittest.TestCase):
    def test_the_last_line_says_all(self):
        result = run("sim", "--seeds", "5", "--operations", "300")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = LAST.fullmatch(last_line(result))
        self.assertIsNotNone(found, result.stdout)
        self.assertEqual(found.group(1, 2, 3), ("5", "300", "0"))
        self.assertEqual(result.stderr, "")

    def test_two_processes_have_the_same_history(self):
        for engine in ("simulated", "emulated", "any"):
            arguments = ("sim", "--seeds", "20", "--operations", "300", "--engine", engine)
            self.assertEqual(run(*arguments).stdout, run(*arguments).stdout)

    def test_programs_of_the_reactor(self):
        arguments = ("sim", "--reactor", "--seeds", "20", "--operations", "300")
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = LAST.fullmatch(last_line(result))
        self.assertIsNotNone(found, result.stdout)
        self.assertEqual(found.group(1, 2, 3), ("20", "300", "0"))
        self.assertIn("range 1..20 reactor threads drawn", result.stdout)
        self.assertEqual(run(*arguments).stdout, result.stdout)
        other = run("sim", "--seeds", "20", "--operations", "300")
        self.assertNotEqual(LAST.fullmatch(last_line(other)).group(4), found.group(4))

    def test_another_seed_is_another_history(self):
        one = run("sim", "--seed", "1", "--operations", "300")
        two = run("sim", "--seed", "2", "--operations", "300")
        self.assertNotEqual(LAST.fullmatch(last_line(one)).group(4),
                            LAST.fullmatch(last_line(two)).group(4))

    def test_the_number_of_threads_can_be_given(self):
        result = run("sim", "--seeds", "5", "--operations", "300", "--threads", "3")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_verbose_tells_every_event(self):
        result = run("sim", "--seed", "1", "--operations", "50", "--verbose")
        self.assertIn("thread starts", result.stderr)
        self.assertGreater(len(result.stderr.splitlines()), 100)

    def test_ranges_add_up(self):
        whole = run("sim", "--seed-range", "1..12", "--operations", "300")
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for part in ("1..4", "5..5", "6..12"):
                file = pathlib.Path(folder) / part
                file.write_text(
                    run("sim", "--seed-range", part, "--operations", "300").stdout, "utf-8")
                files.append(str(file))
            merged = run("sim-merge", *files)
            self.assertEqual(merged.stdout, whole.stdout)
            self.assertEqual(merged.returncode, 0)

            gap = run("sim-merge", files[0], files[2])
            self.assertEqual(gap.returncode, 2)
            self.assertIn("in order", gap.stderr)

            other = pathlib.Path(folder) / "other"
            other.write_text(
                run("sim", "--seed-range", "13..14", "--operations", "200").stdout, "utf-8")
            mixed = run("sim-merge", files[2], str(other))
            self.assertEqual(mixed.returncode, 2)
            self.assertIn("different options", mixed.stderr)

            no_result = pathlib.Path(folder) / "no_result"
            no_result.write_text("nothing\n", "utf-8")
            self.assertEqual(run("sim-merge", str(no_result)).returncode, 2)

    def test_files_that_contradict_themselves_are_refused(self):
        result = "seeds 4 operations 300 violations 0 history 00000000000000ab\n"
        span = "range 1..4 engine any threads drawn\n"
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "part"
            file.write_text(span + result, "utf-8")
            self.assertEqual(run("sim-merge", str(file)).stdout, span + result)
            for text, word in (
                (result, "range of seeds"),
                (result + result, "range of seeds"),
                (span + result + span, "last line"),
                (span + result + span.replace("1..4", "5..8") + result, "a file for each"),
                (span.replace("1..4", "1..5") + result, "contradict"),
                (span.replace("1..4", "4..1") + result, "contradict"),
                (span.replace("1..4", "01..4") + result, "contradict"),
                (span + result.replace("violations 0", "violations 5"), "contradict"),
                (span + result.replace("seeds 4", "seeds -4"), "last line"),
                (span + result.replace("00ab", "00abx"), "last line"),
                (span + result.replace("ab", "ab and more"), "last line"),
            ):
                file.write_text(text, "utf-8")
                merged = run("sim-merge", str(file))
                self.assertEqual(merged.returncode, 2, text)
                self.assertIn(word, merged.stderr, text)
                self.assertEqual(merged.stdout, "", text)

    def test_seed_0_can_be_replayed(self):
        one = run("sim", "--seed", "0", "--operations", "50")
        self.assertEqual(one.returncode, 0, one.stderr)
        same = run("sim", "--seed-range", "0..0", "--operations", "50")
        self.assertEqual(one.stdout, same.stdout)

    def test_wrong_use_names_what_would_be_right(self):
        for arguments, word in (
            (("--seed-range", "5..1"), "A..B"),
            (("--seed-range", "x"), "A..B"),
            (("--seed-range", "1..2", "--seeds", "3"), "leave out"),
            (("--seeds", "0"), "--seeds"),
            (("--threads", "99"), "--threads"),
            (("--operations", "0"), "--operations"),
            (("--engine", "steam"), "simulated"),
            (("--reactor", "--engine", "any"), "--engine"),
        ):
            result = run("sim", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(word, result.stderr, arguments)


if __name__ == "__main__":
    BATON = sys.argv.pop(1)
    unittest.main()
