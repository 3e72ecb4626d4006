#!/usr/bin/env python3
"""The whole `baton` command as two tables: every option with every kind of wrong value, and every
sub-command with every kind of output and of end.

Run: command_table_test.py PATH_OF_BATON
"""

import contextlib
import os
import re
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BATON = ""
TIMEOUT_S = 60

NOT_UTF8 = b"\xff\xfe"
HUGE = "9" * 30

# For each kind of value: those that are refused at once, with status 2.
WRONG = {
    "whole": ["", HUGE, "-1", "nan", NOT_UTF8, "5s", "1e3", " 5", "0x10", "1.5"],
    "seconds": ["", "1e300", "-1", "nan", "inf", NOT_UTF8, "5s", " 5"],
    "size": ["", HUGE, "-1", "nan", NOT_UTF8, "5q", "5kx", "1.5m", "16777216t"],
    "word": ["", "x" * 2000, "-1", "nan", NOT_UTF8],
    "text": [""],
}
# Errors that appear when the configuration is made, with status 1.
WRONG_NAMES = ["x" * 2000, "-1", "nan", NOT_UTF8, "epoll;mode=dedicated", "a,b", "a=b"]

CONFIGURATION = {"--config": "text", "--engine": "name", "--wait": "name", "--interrupt": "name",
                 "--mode": "name"}
FILE = ["--file", "missing"]
# Sub-command: its other arguments, and the kind of each option. A flag has no value.
OPTIONS = {
    ("echo",): ([], {
        **CONFIGURATION, "--threads": "whole", "--port": "whole", "--host": "text",
        "--protocol": "word", "--block": "size", "--style": "word", "--pooled": "flag",
        "--until-empty": "flag", "--delay-us": "whole", "--random-us": "whole",
        "--slow-us": "whole", "--drain-seconds": "seconds", "--explain": "flag",
        "--watch": "optional", "--metrics": "text"}),
    ("load",): ([], {
        **CONFIGURATION, "--block": "size", "--seconds": "seconds", "--json": "flag",
        "--port": "whole", "--host": "text", "--protocol": "word", "--sessions": "whole",
        "--window": "size", "--idle": "whole", "--threads": "whole", "--apart": "whole",
        "--hold": "flag", "--file": "text", "--write": "flag", "--force": "flag",
        "--random": "flag", "--no-compare": "flag", "--direct": "flag", "--depth": "whole",
        "--size": "size"}),
    ("engines",): ([], {"--json": "flag"}),
    ("completion",): ([], {}),
    ("doctor",): ([], {
        "--directory": "text", "--seconds": "seconds", "--no-calibration": "flag",
        "--json": "flag", "--write": "text", "--force": "flag", "--known-bad": "text"}),
    ("sim",): ([], {
        "--seeds": "whole", "--operations": "whole", "--seed": "whole", "--seed-range": "text",
        "--threads": "whole", "--engine": "word", "--reactor": "flag",
        "--violations-max": "whole", "--verbose": "flag"}),
    ("sim-merge",): ([], {}),
    ("bench", "fairness"): ([], {
        "--connections": "whole", "--threads": "whole", "--seconds": "seconds",
        "--chunk": "whole", "--rounds": "whole", "--wait": "list", "--variant": "list",
        "--rivals": "list", "--only": "list", "--alone": "flag", "--json": "flag"}),
}


def run(*arguments, folder=None, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
               "cwd": folder, **options}
    return subprocess.run([BATON, *arguments], timeout=TIMEOUT_S, check=False, **options)


PAGE = Path(__file__).resolve().parent.parent / "docs/man/baton.1"
# The valid words of these depend on the build: `baton engines` lists them.
NAMES = {"--engine", "--wait", "--interrupt"}


def in_command():
    """Sub-command -> option -> its description, and the words that it takes: the table from which
    --help is printed."""
    found = {}
    for line in run("completion", "fish").stdout.decode().splitlines():
        if not line.startswith("complete -c baton -n "):
            continue
        words = shlex.split(line)
        at = tuple(words[words.index("-n") + 1].removeprefix("__baton_at ").strip('"').split())
        options = found.setdefault(at, {})
        if "-a" in words and "-l" not in words:
            found.setdefault((*at, words[words.index("-a") + 1]), {})
        if "-l" in words:
            valid = words[words.index("-a") + 1].split() if "-a" in words else []
            options["--" + words[words.index("-l") + 1]] = (
                words[words.index("-d") + 1].replace("'", ""), valid)
    return found


def defaults_in_help(command):
    """Option -> its default value, as --help shows it."""
    found = {}
    for line in run(*command, "--help").stdout.decode().splitlines():
        head = re.split(r"\s{2,}", line.strip())[0]
        if value := re.match(r"(--[a-z-]+) [A-Z]+(?::[^=]*)?=(.*)$", head):
            default = re.sub(r" (Excludes|Needs): .*| \.\.\.$", "", value.group(2))
            found[value.group(1)] = default.strip("[]")
    return found


def plain(lines):
    """The text of lines of a manual page."""
    words = []
    for line in lines:
        if not line.startswith("."):
            words += line.split()
            continue
        rest = line[1:].split()
        bracketed = rest[0] == "Pq"
        end = rest.pop() if bracketed and rest[-1] in (".", ",", ";") else ""
        prefix = ""
        if bracketed:
            words.append("(")
            rest = rest[1:]
        for word in rest:
            if word in ("Fl", "Ev", "Nm"):
                prefix = {"Fl": "-", "Ev": "$", "Nm": "baton "}[word]
            elif word not in ("Ar", "Cm", "It", "No", "Op", "Pa", "Pp", "Ql"):
                words.append(prefix + word)
                prefix = ""
        if bracketed:
            words.append(")" + end)
    return re.sub(r" (?!\.\.\.)([.,:;)]+)(?= |$)", r"\1", " ".join(words)).replace("( ", "(")


def section(name):
    return PAGE.read_text().split(f".Sh {name}\n")[1].split("\n.Sh ")[0].splitlines()


def in_manual():
    """Sub-command -> option -> the text on it in the manual page, its values first."""
    found, commands, option = {}, [], None
    for line in section("OPTIONS"):
        if named := re.match(r"\.Nm Cm ([a-z -]+?)(?: :)?$", line):
            if option is None:
                commands.append(tuple(named.group(1).split()))
        if line.startswith(".Bl "):
            listed, commands = commands, []
        elif line.startswith(".El"):
            option = None
        elif item := re.match(r"\.It Fl (-[a-z-]+)(.*)$", line):
            option = "-" + item.group(1)
            for command in listed:
                found.setdefault(command, {})[option] = [item.group(2), []]
        elif option is not None:
            for command in listed:
                found[command][option][1].append(line)
    return {command: {option: (values, plain(lines).replace("'", ""))
                      for option, (values, lines) in options.items()}
            for command, options in found.items()}


class ManualTest(unittest.TestCase):
    """The manual page and --help say the same: every sub-command and option, the description, the
    default and the valid words. The page may say more."""

    @classmethod
    def setUpClass(cls):
        cls.command = in_command()

    def same(self, option, told, values, text, default):
        description, valid = told
        self.assertEqual(text[:len(description)], description)
        self.assertIn(text[len(description)], ".;")
        if default is None:
            self.assertNotIn("default:", text)
        else:
            self.assertRegex(text, f"default: {re.escape(default)}[.;]")
        for word in valid if option not in NAMES else []:
            self.assertRegex(values + " " + text, rf"\b{word}\b")

    def test_says_of_each_option_what_help_says(self):
        manual = in_manual()
        self.assertLessEqual(set(manual), set(self.command))
        self.assertEqual(set(self.command[()]), {"--help", "--version"})  # in DESCRIPTION
        for command in set(self.command) - {()}:
            shown = {option: told for option, told in self.command[command].items()
                     if option != "--help"}
            self.assertEqual(set(manual.get(command, {})), set(shown), command)
            defaults = defaults_in_help(command) if shown else {}
            for option, told in shown.items():
                optional = OPTIONS[command][1][option] == "optional"  # its value if it stands alone
                with self.subTest(command=command, option=option):
                    self.same(option, told, *manual[command][option],
                              None if optional else defaults.get(option))

    def test_names_every_subcommand(self):
        words = set()
        for line in section("SYNOPSIS") + section("DESCRIPTION"):
            if named := re.match(r"\.(?:Nm )?Cm (.*)", line):
                words |= set(re.findall(r"[a-z-]+", named.group(1)))
        for command, options in self.command.items():
            with self.subTest(command=command):
                if options and command not in ((), ("bench",)):
                    self.assertIn(command, OPTIONS)  # without options: a program, or a word
                self.assertLessEqual(set(command), words)

    def test_synopsis_has_no_other_options(self):
        for form in "\n".join(section("SYNOPSIS")).split(".Nm\n")[1:]:
            command = tuple(re.findall(r"^\.Cm ([a-z-]+)$", form, re.MULTILINE))
            named = {"-" + option for option in re.findall(r"Fl (-[a-z-]+)", form)}
            known = set(self.command[command]) - {"--help"}
            with self.subTest(command=command):
                self.assertLessEqual(named, known)
                if "Ar options" not in form:
                    self.assertEqual(named, known)


class OptionsTest(unittest.TestCase):
    def refused(self, status, option, *arguments):
        with self.subTest(arguments=arguments):
            done = run(*arguments)
            told = done.stderr.decode()  # UTF-8, whatever the value was
            self.assertEqual((done.returncode, done.stdout), (status, b""), told)
            self.assertEqual(told.count("\n"), 1, told)
            self.assertIn(option, told)
            return told

    def test_table_is_complete(self):
        for command, (_, options) in OPTIONS.items():
            with self.subTest(command=command):
                text = run(*command, "--help").stdout.decode()
                found = set(re.findall(r"^  (?:-h,)?(--[a-z-]+)", text, re.MULTILINE)) - {"--help"}
                self.assertEqual(found, set(options))
                self.assertNotIn("{", text)  # of CLI11: the value that a flag stores

    def test_wrong_values_are_refused_in_one_sentence(self):
        for command, (beside, options) in OPTIONS.items():
            for option, kind in options.items():
                for value in WRONG.get(kind, []):
                    told = self.refused(2, option, *command, *beside, option, value)
                    if kind in ("whole", "seconds", "size"):
                        self.assertRegex(told, r"from \d", option)
                    if kind == "word":
                        self.assertIn("one of ", told)
                if kind == "name":
                    self.refused(2, option, *command, *beside, option, "")

    def test_wrong_names_are_answered_with_the_valid_ones(self):
        for option in ("--engine", "--wait", "--interrupt", "--mode"):
            for value in WRONG_NAMES:
                told = self.refused(1, option, "echo", option, value)
                self.assertIn("valid: ", told)

    def test_values_that_are_missing_or_given_twice(self):
        for command, (beside, options) in OPTIONS.items():
            for option, kind in options.items():
                if kind in ("flag", "optional"):
                    continue
                self.refused(2, option, *command, *beside, option)
                if kind != "list":
                    self.refused(2, option, *command, *beside, option, "1", option, "1")

    def test_options_of_the_other_half_of_load(self):
        for option, value in (("--engine", "emulated"), ("--mode", "shared"), ("--depth", "1"),
                              ("--size", "1m"), ("--direct", None), ("--random", None)):
            self.refused(2, option, "load", "--port", "1", option, *([value] if value else []))
        for option, value in (("--sessions", "1"), ("--window", "1"), ("--protocol", "tcp"),
                              ("--threads", "1"), ("--hold", None)):
            self.refused(2, option, "load", *FILE, option, *([value] if value else []))


@contextlib.contextmanager
def scratch():
    """A folder in which nothing may be left behind."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


class EndingsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.inputs = Path(folder.name)
        part = run("sim", "--seed-range", "1..1", "--operations", "10").stdout
        (self.inputs / "part").write_bytes(part)
        run("load", "--file", str(self.inputs / "load"), "--write", "--size", "64k", "--seconds",
            "0.01")

    def short(self):
        """A short run of everything."""
        yield ["--help"]
        yield ["--version"]
        yield ["echo", "--help"]
        yield ["engines"]
        yield ["engines", "--json"]
        yield ["completion", "bash"]
        yield ["doctor", "--no-calibration"]
        yield ["doctor", "--no-calibration", "--json"]
        yield ["sim", "--seeds", "1", "--operations", "10"]
        yield ["sim-merge", str(self.inputs / "part")]
        yield ["load", "--file", str(self.inputs / "load"), "--seconds", "0.01"]
        yield ["bench", "fairness", "--alone", "--connections", "2", "--seconds", "0.1"]

    def ended(self, arguments, statuses, **options):
        with self.subTest(arguments=arguments), scratch() as folder:
            done = run(*arguments, folder=folder,
                       env={**os.environ, "TMPDIR": str(folder)}, **options)
            self.assertIn(done.returncode, statuses, done.stderr)
            self.assertEqual(os.listdir(folder), [])
            return done

    def test_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            for arguments in [*self.short(), ["echo"]]:
                done = self.ended(arguments, (1,), stdout=full)
                if done:
                    self.assertIn(b"standard output cannot be written: No space left", done.stderr)

    def test_output_that_is_closed(self):
        for arguments in [*self.short(), ["echo"]]:
            done = self.ended(arguments, (1,), stdout=None, preexec_fn=lambda: os.close(1))
            if done:
                self.assertIn(b"standard output cannot be written: Bad file", done.stderr)

    def test_nothing_is_written_into_a_foreign_descriptor(self):
        with scratch() as folder:
            file = folder / "metrics"
            for closed in ((1,), (2,), (0, 1, 2)):
                run("echo", "--metrics", str(file), "--explain", stdout=None, stderr=None,
                    preexec_fn=lambda: [os.close(number) for number in closed],
                    env={**os.environ, "BATON": "mode=nonsense"} if 1 not in closed else None)
                self.assertLessEqual(set(os.listdir(folder)), {"metrics"})

    def test_notes_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            for arguments in self.short():
                self.ended(arguments, (0,), stderr=full)
            self.ended(["echo", "--port", "x"], (2,), stderr=full)

    def test_eight_descriptors(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
        for arguments in self.short():
            done = self.ended(arguments, (0, 1), preexec_fn=few)
            if done:
                self.assertNotIn(b"terminate", done.stderr)

    def test_little_memory(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        for arguments in (["echo", "--threads", "200"], ["echo", "--pooled", "--block", "600m"],
                          ["echo", "--threads", "200", "--mode", "per_thread"],
                          ["load", "--port", "1", "--threads", "200", "--sessions", "200"],
                          ["load", *FILE, "--write", "--block", "600m", "--size", "1g"],
                          ["bench", "fairness", "--alone", "--threads", "200"]):
            done = self.ended(arguments, (1,), preexec_fn=little)
            if done:
                self.assertRegex(done.stderr, rb"memory|threads could be started|unavailable")
                self.assertNotIn(b"terminate", done.stderr)

    def test_a_server_outlives_a_lack_of_memory(self):
        for options in ([], ["--threads", "4"], ["--style", "coroutine", "--threads", "2"],
                        ["--pooled"]):
            with self.subTest(options=options):
                process = subprocess.Popen([BATON, "echo", *options], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                port = int(process.stdout.readline().split()[1])
                # Its threads have begun, with memory of their own to serve from.
                for _ in range(20):
                    self.assertTrue(self.is_echoed(port))
                unlimited = resource.RLIM_INFINITY
                resource.prlimit(process.pid, resource.RLIMIT_AS, (0, unlimited))
                crowd = []
                for _ in range(500):
                    crowd.append(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
                    with contextlib.suppress(ConnectionError):
                        crowd[-1].sendall(b"x")
                self.assertTrue(select.select(crowd, [], [], TIMEOUT_S)[0])
                self.assertIsNone(process.poll())
                resource.prlimit(process.pid, resource.RLIMIT_AS, (unlimited, unlimited))
                for one in crowd:
                    one.close()
                end = time.monotonic() + TIMEOUT_S
                while not self.is_echoed(port):
                    self.assertIsNone(process.poll())
                    self.assertLess(time.monotonic(), end)
                process.send_signal(signal.SIGTERM)
                stderr = process.communicate(timeout=TIMEOUT_S)[1]
                self.assertEqual(process.returncode, 0, stderr)

    @staticmethod
    def is_echoed(port):
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as one:
                one.sendall(b"again")
                return one.recv(5, socket.MSG_WAITALL) == b"again"
        return False

    def test_signal_that_ends(self):
        for arguments, statuses in ((["echo"], (0,)),
                                    (["sim", "--seeds", "1000000"], (-signal.SIGTERM,)),
                                    (["doctor", "--write", "new.xml"], (-signal.SIGTERM,)),
                                    (["load", "--file", "new", "--write", "--size", "64k",
                                      "--seconds", "1000"], (-signal.SIGTERM,))):
            with self.subTest(arguments=arguments), scratch() as folder:
                process = subprocess.Popen([BATON, *arguments], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, cwd=folder,
                                           env={**os.environ, "TMPDIR": str(folder)})
                self.addCleanup(process.kill)
                if arguments[0] == "echo":
                    self.assertIn(b"listening", process.stdout.readline())
                else:
                    while not self.works(process):
                        pass
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=TIMEOUT_S)
                self.assertIn(process.returncode, statuses)
                self.assertLessEqual(set(os.listdir(folder)), {"new"})

    @staticmethod
    def works(process):
        """It has computed for a while, so it is past its beginning."""
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]) > 2


class WatchedTest(unittest.TestCase):
    def serve(self, *options, **channels):
        process = subprocess.Popen([BATON, "echo", *options], stdout=subprocess.PIPE, **channels)
        self.addCleanup(process.kill)
        port = int(process.stdout.readline().split()[1])
        return process, port

    def echoes(self, port):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
            connection.sendall(b"here")
            return connection.recv(4) == b"here"

    def wait_for_look(self, file):
        """Until the watching thread has looked once more."""
        before = file.stat().st_ino
        while file.stat().st_ino == before:
            pass

    def test_notes_that_cannot_be_written_end_no_server(self):
        with scratch() as folder, open("/dev/full", "wb") as full:
            reader, writer = os.pipe()
            os.close(reader)
            for channel in (full, writer):
                metrics = folder / "metrics"
                process, port = self.serve("--watch", "always", "--metrics", str(metrics),
                                           stderr=channel)
                while not metrics.exists():
                    pass
                self.wait_for_look(metrics)
                self.assertTrue(self.echoes(port))
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, 0)
            os.close(writer)

    def test_metrics_go_into_nothing_but_a_regular_file(self):
        with scratch() as folder:
            (folder / "target").write_text("mine")
            (folder / "link").symlink_to("target")
            os.mkfifo(folder / "fifo")
            for name in ("link", "fifo", "missing/file", "."):
                done = run("echo", "--metrics", str(folder / name))
                self.assertEqual(done.returncode, 1, name)
                self.assertIn(b"--metrics", done.stderr)
            self.assertEqual((folder / "target").read_text(), "mine")

    def test_foreseen_name_beside_the_metrics_is_not_followed(self):
        with scratch() as folder:
            (folder / "target").write_text("mine")
            (folder / "metrics.new").symlink_to("target")
            process, _ = self.serve("--metrics", str(folder / "metrics"))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)
            self.assertEqual((folder / "target").read_text(), "mine")
            self.assertIn(b"baton_operations", (folder / "metrics").read_bytes())

    def test_metrics_that_fail_later_are_told_of_once(self):
        with scratch() as folder:
            inner = folder / "inner"
            inner.mkdir()
            process, port = self.serve("--metrics", str(inner / "metrics"), stderr=subprocess.PIPE)
            while not (inner / "metrics").exists():
                pass
            inner.rename(folder / "moved")
            last = (folder / "moved" / "metrics").read_bytes()
            self.assertIn(b"--metrics", process.stderr.readline())
            self.assertTrue(self.echoes(port))
            process.send_signal(signal.SIGTERM)
            _, more = process.communicate(timeout=TIMEOUT_S)
            self.assertEqual((process.returncode, more), (0, b""))
            self.assertEqual((folder / "moved" / "metrics").read_bytes(), last)


class FilesTest(unittest.TestCase):
    def test_write_spares_what_it_has_not_made(self):
        with scratch() as folder:
            file = folder / "letter"
            for contents in (b"dear reader", b"\0" * 100_000):
                file.write_bytes(contents)
                done = run("load", "--file", str(file), "--write", "--size", "64k")
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"--force", done.stderr)
                self.assertEqual(file.read_bytes(), contents)
            for options in (["--force"], []):  # forced once, it is its own
                done = run("load", "--file", str(file), "--write", "--size", "64k", "--seconds",
                           "0.01", *options)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_fifo_is_no_file(self):
        with scratch() as folder:
            os.mkfifo(folder / "fifo")
            fifo = str(folder / "fifo")
            for arguments in (["echo", "--config", fifo], ["load", "--file", fifo],
                              ["load", "--file", fifo, "--write", "--force"]):
                with self.subTest(arguments=arguments):
                    done = run(*arguments)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(b"file", done.stderr)

    def test_load_ends_with_its_server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            load = subprocess.Popen([BATON, "load", "--port", str(listener.getsockname()[1]),
                                     "--seconds", "1000"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            self.addCleanup(load.kill)
            listener.accept()[0].close()
            load.communicate(timeout=TIMEOUT_S)
            self.assertEqual(load.returncode, 1)

    def test_hold_says_connected_only_when_it_is(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        done = run("load", "--port", str(port), "--hold")
        self.assertEqual((done.returncode, done.stdout), (1, b""))


class ThreadsTest(unittest.TestCase):
    def explained(self, *options, **variables):
        done = run("echo", "--explain", "--host", "nowhere", *options,
                   env={**os.environ, **variables})
        return done.stderr.decode()

    def test_number_of_threads_is_what_was_said_last(self):
        for options, variables, threads in (
                ((), {"BATON": "mode=per_thread,threads=3"}, 3),
                (("--threads", "2"), {"BATON": "mode=per_thread,threads=3"}, 2),
                (("--mode", "per_thread"), {}, 1)):
            self.assertIn(f" threads={threads} ", self.explained(*options, **variables))

    def test_no_note_tells_of_what_was_not_said(self):
        self.assertNotIn("note: threads", self.explained("--mode", "shared"))

    def test_wish_that_is_not_granted_is_told(self):
        told = self.explained("--engine", "emulated", "--wait", "rt_signals", "--mode", "shared")
        self.assertIn("--wait rt_signals", told)


if __name__ == "__main__":
    BATON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
