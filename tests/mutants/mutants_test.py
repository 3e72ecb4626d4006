#!/usr/bin/env python3
"""scripts/mutants itself: which patches it accepts, which it chooses, what it reads from a run."""

import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "mutants"
LOADER = importlib.machinery.SourceFileLoader("mutants", str(SCRIPT))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", LOADER))
LOADER.exec_module(mutants)

LINES = [f"line {number}\n" for number in range(1, 21)]
PATCH = """The tenth line is another one.

Tests: io_uring --gtest_filter=Interrupts.*
Tests: sim --reactor

--- a/file
+++ b/file
@@ -7,7 +7,7 @@
 line 7
 line 8
 line 9
-line 10
+line ten
 line 11
 line 12
 line 13
"""


class Patches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.patch = self.root / "one.patch"
        self.patch.write_text(PATCH)

    def tearDown(self):
        self.folder.cleanup()

    def apply(self, lines):
        (self.root / "file").write_text("".join(lines))
        why = mutants.apply(self.patch, self.root)
        return why, (self.root / "file").read_text()

    def test_one_that_applies_exactly_is_planted(self):
        why, text = self.apply(LINES)
        self.assertIsNone(why)
        self.assertIn("line ten\n", text)

    def test_one_whose_lines_have_moved_is_planted_where_they_are(self):
        why, text = self.apply(["new\n", *LINES])
        self.assertIsNone(why)
        self.assertIn("line 9\nline ten\nline 11\n", text)

    def test_one_that_could_belong_to_two_places_is_refused(self):
        why, text = self.apply(["new\n", *LINES, *LINES])
        self.assertIn("offset", why)
        self.assertNotIn("line ten\n", text)

    def test_one_of_two_places_is_known_by_its_line(self):
        why, text = self.apply([*LINES, *LINES])
        self.assertIsNone(why)
        self.assertEqual(text.index("line ten\n"), text.index("line 9\n") + len("line 9\n"))

    def test_each_hunk_of_each_file_has_to_have_its_place(self):
        second = PATCH[PATCH.index("--- a/"):].replace("file", "second")
        self.patch.write_text(PATCH + second)
        (self.root / "second").write_text("".join(["new\n", *LINES, *LINES]))
        why, text = self.apply(LINES)
        self.assertIn("offset", why)
        self.assertNotIn("line ten\n", text)

    def test_one_that_applies_with_fuzz_is_refused(self):
        why, text = self.apply([*LINES[:6], "changed\n", *LINES[7:]])
        self.assertIsNotNone(why)
        self.assertNotIn("line ten\n", text)

    def test_header(self):
        mutant = mutants.read_mutant(self.patch)
        self.assertEqual(mutant.name, "one")
        self.assertEqual(mutant.what, "The tenth line is another one.")
        self.assertEqual(mutant.files, ["file"])
        self.assertEqual(mutant.tests, [["io_uring", "--gtest_filter=Interrupts.*"],
                                        ["sim", "--reactor"]])

    def test_second_program_in_a_line_is_refused(self):
        programs = {"io_uring", "sim"}
        mutant = mutants.read_mutant(self.patch)
        for line in ("io_uring sim --reactor", "A=1 io_uring --gtest_filter=A.* sim",
                     "io_uring --quick sim"):
            mutant.tests = [["sim"], line.split()]
            self.assertEqual(mutants.what_is_wrong(mutant, programs),
                             "sim needs a line of its own (Tests: sim ...)\n")

    def test_arguments_of_one_program_are_no_second(self):
        programs = {"baton_soak", "uaio_host_linked", "io_uring"}
        for line in ("UAIO=mode=single uaio_host_linked a_case", "baton_soak --engine io_uring"):
            self.assertIsNone(mutants.second_program(line.split(), programs))


class Runs(unittest.TestCase):
    def test_program_comes_behind_its_environment(self):
        self.assertEqual(mutants.program_of(["A=1", "B=2", "io_uring", "--x=y"]), "io_uring")

    def test_failed_test_is_named(self):
        output = "[ RUN      ] A.b\n[  FAILED  ] A.b, where GetParam() = 1 (2 ms)\n"
        self.assertEqual(mutants.which_failed(1, output), "A.b")

    def test_test_that_ended_the_program_is_named(self):
        output = "[ RUN      ] A.a\n[       OK ] A.a\n[ RUN      ] A.b\n"
        self.assertEqual(mutants.which_failed(-6, output), "A.b (ends with -6)")
        self.assertEqual(mutants.which_failed(None, output), "A.b (does not end)")

    def test_seed_and_words_of_the_simulation(self):
        output = "violation: seed 41: a timer is early (x)"
        verdict = mutants.seen_in_simulation(1, output, 1, 500, 20)
        self.assertEqual((verdict.seed, verdict.by), ("41", "baton sim: a timer is early"))
        verdict = mutants.seen_in_simulation(None, "", 1, 500, 20)
        self.assertEqual(verdict.seed, "1..500")


if __name__ == "__main__":
    unittest.main()
