#!/usr/bin/env python3
"""`baton completion`: what each shell offers.

Run: completion_test.py PATH_OF_BATON
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from command_table_test import OPTIONS

BATON = ""
TIMEOUT_S = 60


def script(shell):
    return subprocess.run([BATON, "completion", shell], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=True).stdout


def by_bash(*words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("baton", *words))
    ask = (f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _baton; "
           "printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = subprocess.run(["bash", "--norc", "-c", script("bash") + ask], capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=True)
    return done.stdout.split()


def by_fish(line):
    """What fish offers for a line."""
    with tempfile.TemporaryDirectory() as home:
        ask = f"{script('fish')}\ncomplete -C'{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=True,
                              env={**os.environ, "HOME": home})
    return [row.split("\t")[0] for row in done.stdout.splitlines()]


class CompletionTest(unittest.TestCase):
    def test_bash_offers_every_command_and_option(self):
        offered = by_bash("")
        for command, (_, options) in OPTIONS.items():
            self.assertIn(command[0], offered)
            self.assertEqual(set(by_bash(*command, "--")) - {"--help"}, set(options), command)

    def test_bash_offers_the_words_of_an_option(self):
        self.assertEqual(by_bash("echo", "--protocol", ""), ["tcp", "udp"])
        self.assertEqual(by_bash("echo", "--port", "1", "--engine", "emu"), ["emulated"])
        self.assertEqual(by_bash("load", "--mode", "per"), ["per_thread"])
        self.assertEqual(by_bash("echo", "--config", ""), [])  # bash then offers files

    def test_bash_offers_the_words_behind_an_equals_sign(self):
        self.assertEqual(by_bash("echo", "--protocol", "="), ["tcp", "udp"])
        self.assertEqual(by_bash("echo", "--port", "=", "1", "--engine", "=", "emu"), ["emulated"])

    def test_bash_offers_the_words_of_an_argument_without_a_name(self):
        self.assertEqual(by_bash("completion", ""), ["bash", "zsh", "fish", "--help"])

    def test_bash_knows_commands_of_commands(self):
        self.assertIn("fairness", by_bash("bench", ""))
        self.assertEqual(by_bash("bench", "fairness", "--alo"), ["--alone"])

    def test_every_script_has_every_option(self):
        for shell, form in (("zsh", "'{}:"), ("fish", "-l {} ")):
            text = script(shell)
            for _, options in OPTIONS.values():
                for option in options:
                    name = option if shell == "zsh" else option.removeprefix("--")
                    self.assertIn(form.format(name), text)

    def test_scripts_are_read_by_their_shells(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script(shell), capture_output=True,
                                      text=True, timeout=TIMEOUT_S, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_fish_offers_the_same_as_bash(self):
        if shutil.which("fish"):
            for words in ("", "echo --", "echo --protocol ", "bench ", "completion "):
                offered = [word for word in by_bash(*re.split(" +", words))
                           if word != "--help" and (words.endswith("--") or word[0] != "-")]
                self.assertEqual(set(by_fish("baton " + words)) - {"--help"}, set(offered), words)

    def test_installed_files_are_those_of_the_command(self):
        folder = Path(BATON).parents[1] / "tools" / "completions"
        if folder.exists():  # a sanitized build installs no command
            for shell, name in (("bash", "baton"), ("zsh", "_baton"), ("fish", "baton.fish")):
                self.assertEqual((folder / name).read_text(), script(shell))

    def test_unknown_shell(self):
        done = subprocess.run([BATON, "completion", "csh"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("one of bash, zsh, fish", done.stderr)


if __name__ == "__main__":
    BATON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
