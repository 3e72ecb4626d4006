#!/usr/bin/env python3
"""A run of the host suite that is ended from outside leaves no program behind."""

import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HOST = pathlib.Path(__file__).with_name("host.py")
# A suite whose cases hang, each with a child that hangs, too.
SUITE = """#!/bin/sh
if [ "$1" = --list ]; then
  printf 'one|point\\ntwo|point\\nthree|point\\n'
  exit
fi
sleep 600 &
echo $$ $! > "$0.$1.new"
mv "$0.$1.new" "$0.$1.numbers"
wait
"""


def runs(number):
    try:
        status = pathlib.Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(") ")[2][0] != "Z"


class EndedFromOutside(unittest.TestCase):

    def test_no_program_is_left(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                suite = pathlib.Path(folder) / "suite"
                suite.write_text(SUITE)
                suite.chmod(0o755)
                # With a library to preload a case has a minute, without one five seconds.
                command = [sys.executable, "-B", HOST, suite, "libc.so.6", "--no-system",
                           "--jobs", "2"]
                with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL) as process:
                    while len(found := list(pathlib.Path(folder).glob("*.numbers"))) < 2:
                        self.assertIsNone(process.poll())
                        time.sleep(0.01)
                    process.send_signal(number)
                    self.assertEqual(process.wait(60), 128 + number)
                numbers = [int(word) for each in found for word in each.read_text().split()]
                self.assertEqual(len(numbers), 4)
                while any(map(runs, numbers)):
                    time.sleep(0.01)
                # The third case was not started any more.
                self.assertEqual(len(list(pathlib.Path(folder).glob("*.numbers"))), 2)


if __name__ == "__main__":
    unittest.main()
