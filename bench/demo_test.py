"""The demo without a server: its words, colours and page, the second try of a slow row, and the
number of files that it compiles.

Run as a test: demo_test.py.
"""

import contextlib
import fcntl
import io
import os
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
import demo  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = mock.Mock(build=Path("/nowhere"), seconds=0.3, threads=2)
GOOD = {"rate": 1234.0, "cpu_us": 5.5}
BETTER = {"rate": 9999.0, "cpu_us": 2.5}
MEASURED = {
    "echo": [(("emulated", "epoll", "shared"), [GOOD, GOOD, None]),
             (("io_uring", "", "shared"), [BETTER, BETTER, BETTER])],
    "files": [("emulated", (100.0, 20.0)), ("posix_aio", None)],
    "missing": [("linux_aio", "", "the system call is <forbidden>")], "total": 8,
    "troubles": ["emulated epoll shared, 1,000 connections: the load failed"],
    "default": {"engine": "emulated", "wait": "epoll", "mode": "shared"},
    "doctor": {"recommendation": {"sentences": ["Use io_uring for sockets."]}},
    "doctor_error": "",
}


def shown(on_terminal):
    """All that is printed at the end."""
    out = io.StringIO()
    out.isatty = lambda: on_terminal
    with contextlib.redirect_stdout(out), mock.patch.dict("os.environ", {"TERM": "xterm"}):
        terminal = demo.Terminal()
        for one in demo.tables(MEASURED):
            terminal.table(*one)
        for heading, sentences in demo.sections(OPTIONS, MEASURED):
            terminal.section(heading, sentences)
    return out.getvalue()


class WordsTest(unittest.TestCase):
    def test_pipe_gets_no_colour_and_terminal_does(self):
        self.assertNotIn("\033", shown(False))
        self.assertIn("\033[1;31m", shown(True))  # the failed row
        self.assertIn("\033[1;32m", shown(True))  # the best numbers
        with mock.patch.dict("os.environ", {"NO_COLOR": "1"}):
            self.assertNotIn("\033", shown(True))

    def test_says_what_is_there_what_was_chosen_and_how_to_go_on(self):
        text = " ".join(shown(False).split())
        for words in ("2 ways to serve sockets work", "7 of 8 rows passed", "Not available: "
                      "linux_aio", "FAILED: emulated epoll shared, 1,000 connections",
                      "Without a configuration a program gets the engine emulated, which waits by "
                      "epoll, in shared mode", "Use io_uring for sockets.", "How to go on",
                      "baton doctor --write baton.xml"):
            self.assertIn(words, text)

    def test_page_says_the_same(self):
        page = demo.page(OPTIONS, MEASURED)
        for words in ("Use io_uring for sockets.", "&lt;forbidden&gt;", 'class="failed">failed',
                      'class="best">9,999', "prefers-color-scheme: dark"):
            self.assertIn(words, page)


class SecondTryTest(unittest.TestCase):
    def measured(self, *answers):
        seconds = []

        def measure_server(_build, _side, _pinned, length):
            seconds.append(length)
            answer = answers[len(seconds) - 1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        with mock.patch.object(compare, "measure_server", measure_server):
            try:
                got = demo.measure_echo(OPTIONS, ("emulated", "epoll", "shared"), 1000)
            except compare.CannotMeasure as why:
                got = why
        return got, seconds

    def test_row_for_which_the_machine_was_too_slow_is_measured_again(self):
        got, seconds = self.measured(compare.TooSlow("3 sessions got nothing"), GOOD)
        self.assertEqual((got, len(seconds)), (GOOD, 2))
        self.assertGreater(seconds[1], 2 * seconds[0])

    def test_row_that_is_too_slow_twice_has_failed(self):
        got, seconds = self.measured(compare.TooSlow("once"), compare.TooSlow("twice"))
        self.assertEqual((str(got), len(seconds)), ("twice", 2))

    def test_wrong_bytes_are_no_slowness(self):
        got, seconds = self.measured(compare.CannotMeasure("a wrong byte"), GOOD)
        self.assertEqual((str(got), len(seconds)), ("a wrong byte", 1))


class ProgressTest(unittest.TestCase):
    def test_line_is_cut_to_the_terminal_and_leaves_the_cursor_at_its_beginning(self):
        terminal, other = os.openpty()
        self.addCleanup(os.close, terminal)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("4H", 24, 20, 0, 0))
        with os.fdopen(other, "w") as stderr, mock.patch("sys.stderr", stderr):
            compare.progress("long " * 20)
            compare.progress("")
            shown = os.read(terminal, 4096).decode()
        self.assertEqual(shown, "\r\033[J" + ("long " * 20)[:19] + "\r" + "\r\033[J\r")


class CompileLinesTest(unittest.TestCase):
    # The whole tree, which the demo once compiled, had 289. Half of that is the most.
    MOST = 144

    def test_demo_compiles_few_files(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "--preset", "demo", "-B", folder], cwd=ROOT, check=True,
                           stdout=subprocess.PIPE)
            commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "baton_command"],
                                      check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = sum(" -c " in command for command in commands.splitlines())
        self.assertGreater(lines, 10)
        self.assertLessEqual(lines, self.MOST)


if __name__ == "__main__":
    unittest.main()
