#!/usr/bin/env python3
"""The `baton` command of a build that reads no XML (BATON_XML=OFF): whatever names a configuration
file ends with the reason, and the rest works.

Run: without_xml_test.py PATH_OF_SUCH_A_BATON
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BATON = ""


class WithoutXmlTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "baton.xml")
        self.file.write_text("<baton/>")

    def run_it(self, *arguments, **env):
        return subprocess.run([BATON, *arguments], capture_output=True, text=True, timeout=60,
                              cwd=self.file.parent, env={**os.environ, **env})

    def refused(self, place, *arguments, **env):
        done = self.run_it(*arguments, **env)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"{place}: this build of Baton reads no XML (BATON_XML=OFF)", done.stderr)
        self.assertIn("BATON_XML=ON", done.stderr)
        self.assertIn("[not_built]", done.stderr)

    def test_a_file_of_the_command_line_and_of_the_environment(self):
        self.refused(self.file, "echo", "--config", str(self.file))
        self.refused(f"BATON_CONFIG: {self.file}", "echo", BATON_CONFIG=str(self.file))
        self.refused(f"BATON_CONFIG: {self.file}", "doctor", BATON_CONFIG=str(self.file))

    def test_the_doctor_writes_no_file_that_nothing_reads(self):
        self.refused("--write: XML", "doctor", "--no-calibration", "--write", "new.xml")
        self.assertEqual(os.listdir(self.file.parent), ["baton.xml"])

    def test_the_doctor_still_recommends(self):
        done = self.run_it("doctor", "--no-calibration")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("<baton>", done.stdout)

    def test_the_one_line_form_counts(self):
        done = self.run_it("engines", BATON="mode=shared")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    BATON = sys.argv.pop(1)
    unittest.main()
