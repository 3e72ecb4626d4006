#!/usr/bin/env python3
"""The command uaio: what it answers to good and to bad command lines.

usage: command_test.py COMMAND PRELOAD_LIBRARY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND, LIBRARY = sys.argv[1:3]


def run(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60)


class Command(unittest.TestCase):
    def test_library(self):
        result = run("library")
        self.assertTrue(os.path.samefile(result.stdout.strip(), LIBRARY), result)

    def test_help(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("uaio run [", result.stdout)

    def test_manual_has_the_options_of_help(self):
        page = Path(__file__).resolve().parents[2] / "uaio/man/uaio.1"
        synopsis = page.read_text().split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
        options = {"-" + option for option in re.findall(r"Fl (-[a-z-]+)", synopsis)}
        self.assertEqual(options, set(re.findall(r"--[a-z-]+", run("--help").stdout)))

    def test_run(self):
        result = run("run", "--options", "mode=auto", "--", "sh", "-c", "echo $UAIO; exit 7")
        self.assertEqual((result.returncode, result.stdout), (7, "mode=auto\n"))

    def test_options_out_of_range_are_left_out(self):
        program = (sys.executable, "-ESc", "import ctypes; ctypes.CDLL(None).aio_init(None)")
        good = "threads=64,depth=1,inline_read=0,interval_us=100,signal=1"
        result = run("run", "--options", good, "--", *program)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for bad in ("threads=0", "depth=65537", "inline_read=-1", "interval_us=99", "signal=0",
                    "signal=9", "signal=33", "direct=2", "threads=2x", "threads"):
            result = run("run", "--options", bad, "--", *program)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"UAIO: not understood, and left out: {bad}\n", result.stderr)

    def test_bad_command_lines(self):
        for arguments, reason in (((), "run or library is missing"),
                                  (("runn", "true"), "'runn' is neither run nor library"),
                                  (("library", "extra"), "there is 'extra'"),
                                  (("run",), "run needs a program"),
                                  (("run", "--"), "run needs a program"),
                                  (("run", "--options"), "--options needs"),
                                  (("run", "--statistics", "true"), "'--statistics'")):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            first, _, rest = result.stderr.partition("\n")
            self.assertIn(reason, first)
            self.assertIn("uaio run [", rest)

    def test_output_that_cannot_be_written(self):
        for words in ("--help", "library"):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([COMMAND, words], stdout=full, stderr=subprocess.PIPE,
                                        text=True, check=False)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "uaio: standard output cannot be written\n"))

    def test_a_folder_whose_name_cannot_be_preloaded(self):
        for name in ("a b", "a:b"):
            with tempfile.TemporaryDirectory() as parent:
                folder = Path(parent) / name
                (folder / "bin").mkdir(parents=True)
                (folder / "lib").mkdir()
                command = shutil.copy(COMMAND, folder / "bin")
                (folder / "lib/libuaio-preload.so").symlink_to(Path(LIBRARY).resolve())
                result = subprocess.run([command, "run", "true"], capture_output=True, text=True,
                                        check=False)
                self.assertEqual(result.returncode, 1)
                self.assertIn("cannot be preloaded", result.stderr)

    def test_a_program_that_is_missing(self):
        result = run("run", "no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertIn("no program 'no-such-program'", result.stderr)

    def test_a_program_whose_name_begins_with_dashes(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "--program"
            program.write_text("#!/bin/sh\necho ran\n")
            program.chmod(0o755)
            path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            result = subprocess.run([COMMAND, "run", "--", "--program"], env=path,
                                    capture_output=True, text=True, check=False)
        self.assertEqual((result.stdout, result.stderr), ("ran\n", ""))
        result = run("run", "--", "--no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_file_that_is_no_program(self):
        for name in ("/etc/passwd", "/"):
            result = run("run", name)
            self.assertEqual(result.returncode, 126)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn(f"'{name}' is no program", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
