#!/usr/bin/env python3
"""The packages that scripts/lib.sh installs, with an apt-get that only records its arguments."""

import contextlib
import os
import pathlib
import pty
import shlex
import subprocess
import tempfile
import unittest

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "lib.sh"

# A machine as two lists: installed packages, and pairs of packages that exclude each other. An
# install without --no-remove takes away what stands in its way, as apt-get does.
APT_GET = r"""#!/usr/bin/env python3
import os, sys
state = os.environ["STATE"]
options = [word for word in sys.argv[1:] if word.startswith("-")]
words = [word for word in sys.argv[1:] if not word.startswith("-")]
open(state + "/calls", "a").write(" ".join(sys.argv[1:]) + "\n")
if words[0] != "install":
    sys.exit(0)
there = set(open(state + "/installed").read().split())
wanted = {"libboost1.74-dev" if word == "libboost-dev" else word for word in words[1:]}
pairs = [line.split() for line in open(state + "/excludes")]
gone = {b for a, b in pairs if a in wanted and b in there}
if gone and "--no-remove" in options:
    sys.exit("E: Packages need to be removed but remove is disabled.")
if "-s" in options:
    for word in sorted(gone):
        print("Remv", word)
    for word in sorted(wanted):
        print("Inst", word, "(1.0)")
else:
    open(state + "/installed", "w").write(" ".join((there - gone) | wanted))
"""
DPKG_QUERY = r"""#!/usr/bin/env bash
grep -qw -- "${@: -1}" "$STATE/installed" && echo installed
"""


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name)
        for name, text in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY),
                           ("id", "#!/bin/sh\necho 0\n")):
            (self.state / name).write_text(text)
            (self.state / name).chmod(0o755)
        self.has("g++")
        (self.state / "excludes").write_text("libboost1.81-dev libboost1.74-dev\n"
                                             "libboost1.74-dev libboost1.81-dev\n")

    def has(self, *packages):
        (self.state / "installed").write_text(" ".join(packages))

    def has_boost(self):
        header = self.state / "include/boost/beast/http/basic_parser.hpp"
        header.parent.mkdir(parents=True)
        header.touch()

    def run_line(self, line):
        return subprocess.run(
            ["bash", "-c", f'source "{LIBRARY}"; {line}'], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, env=self.environment())

    def environment(self):
        return {**os.environ, "STATE": str(self.state),
                "PATH": f"{self.state}:{os.environ['PATH']}",
                "BATON_INCLUDE_FOLDERS": str(self.state / "include")}

    def installed(self):
        return set((self.state / "installed").read_text().split())

    def test_missing_packages_are_named_and_installed(self):
        done = self.run_line("install_packages g++ cmake ninja-build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "== installing: cmake ninja-build\n")
        self.assertEqual(self.installed(), {"g++", "cmake", "ninja-build"})

    def test_nothing_is_asked_for_where_nothing_is_missing(self):
        done = self.run_line("install_packages g++")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertFalse((self.state / "calls").exists())

    def test_packages_of_the_user_are_never_removed(self):
        self.has("g++", "libboost1.74-dev")
        done = self.run_line("install_packages libboost1.81-dev")
        self.assertEqual(done.returncode, 1)
        self.assertIn("would remove libboost1.74-dev. Nothing was changed", done.stderr)
        self.assertEqual(self.installed(), {"g++", "libboost1.74-dev"})

    def test_every_install_is_told_to_remove_nothing(self):
        self.run_line("install_packages cmake; install_boost")
        calls = (self.state / "calls").read_text().splitlines()
        installs = [call for call in calls if "install " in call and " -s " not in call]
        self.assertEqual(len(installs), 2, calls)
        for call in installs:
            self.assertIn("--no-remove", call)

    def test_either_boost_will_do(self):
        self.has_boost()
        done = self.run_line("install_boost")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertFalse((self.state / "calls").exists())

    def test_without_boost_the_newer_one_comes(self):
        done = self.run_line("install_boost")
        self.assertEqual((done.returncode, done.stdout), (0, "== installing: libboost1.81-dev\n"))

    def test_boost_that_cannot_come_is_one_line_and_no_failure(self):
        self.has("g++", "libboost1.74-dev")
        done = self.run_line("install_boost; echo went on")
        self.assertEqual(done.returncode, 0)
        self.assertIn("examples/httpd is left out\nwent on\n", done.stdout)
        self.assertEqual(self.installed(), {"g++", "libboost1.74-dev"})

    def test_step_in_one_line_tells_its_time_and_hides_its_words(self):
        done = self.run_line("in_one_line packages install_packages g++ cmake")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A== packages: \d+ s\n\Z")
        self.assertEqual(self.installed(), {"g++", "cmake"})

    def test_step_in_one_line_fits_a_terminal_that_becomes_narrower(self):
        process, terminal = pty.fork()
        if process == 0:
            os.execvp("bash", ["bash", "-c", f"""
                stty cols 80
                source {shlex.quote(str(LIBRARY))}
                step() {{ printf '%0200d\\n' 1; stty cols 40 </dev/tty; printf '%0200d\\n' 2; }}
                in_one_line long step"""])
        shown = b""
        with contextlib.suppress(OSError):  # its end
            while data := os.read(terminal, 4096):
                shown += data
        os.close(terminal)
        self.assertEqual(os.waitpid(process, 0)[1], 0)
        *_, first, second, end = shown.decode().split("\r\033[J")
        self.assertTrue(first.endswith("\r"))  # the cursor rests at the beginning
        self.assertRegex(second, r"\Along, \d+ s: 0+\r\Z")
        self.assertEqual(len(second), 39 + 1)
        self.assertRegex(end, r"\A== long: \d+ s\r\n\Z")

    def test_step_in_one_line_that_fails_tells_all_and_ends_the_script(self):
        self.has("g++", "libboost1.74-dev")
        done = self.run_line("in_one_line packages install_packages libboost1.81-dev; echo on")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("would remove libboost1.74-dev. Nothing was changed", done.stderr)

    def test_help_is_the_head_comment_of_a_script(self):
        for script in sorted(LIBRARY.parent.iterdir()):
            if script.is_file() and "/lib.sh\"" in script.read_text():
                done = subprocess.run([script, "--help"], stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), script.name)
                self.assertIn(script.read_text().split("\n")[1].removeprefix("# "), done.stdout)

    def test_wrong_option_is_refused_before_anything_is_done(self):
        for script in sorted(LIBRARY.parent.iterdir()):
            if not script.is_file() or "/lib.sh\"" not in script.read_text():
                continue
            with self.subTest(script=script.name):
                done = subprocess.run([script, "--nonsense"], stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=60, check=False,
                                      env=self.environment())
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(f"usage: scripts/{script.name}", done.stderr)
                self.assertFalse((self.state / "calls").exists())

    def test_no_script_installs_by_itself(self):
        for script in sorted(LIBRARY.parent.iterdir()):
            if script != LIBRARY and script.is_file():
                self.assertNotRegex(script.read_text(), r"apt(-get)? (-\S+ )*install",
                                    script.name)


if __name__ == "__main__":
    unittest.main()
