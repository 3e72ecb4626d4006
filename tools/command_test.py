#!/usr/bin/env python3
"""The `baton` command from outside: what scripts and people rely on.

Run: command_test.py PATH_OF_BATON
"""

import contextlib
import fcntl
import itertools
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

BATON = ""
TIMEOUT_S = 60


def run(*arguments, env=None):
    return subprocess.run([BATON, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**os.environ, **(env or {})})


def available():
    return [row for row in json.loads(run("engines", "--json").stdout) if row["available"]]


def serving():
    """The engines that do sockets."""
    return [row for row in available() if row["operations"] == "all"]


def chosen(row):
    """The options that choose a row of `baton engines`."""
    return ["--engine", row["engine"]] + (["--wait", row["wait"]] if row["wait"] else [])


class Echo:
    """`baton echo` for the time of a with block; ended by SIGTERM unless it has ended itself."""

    def __init__(self, *arguments, env=None):
        self.process = subprocess.Popen([BATON, "echo", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening (\d+)\n", line)
        if not found:
            raise AssertionError(f"first line {line!r}: {self.process.communicate()[1]}")
        self.port = int(found.group(1))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def threads(self):
        """Threads of the program; ThreadSanitizer's own one, if it has one, does not count."""
        process = Path(f"/proc/{self.process.pid}")
        threads = len(os.listdir(process / "task"))
        own = 1 if "libtsan" in (process / "maps").read_text() else 0
        return max(threads - own, 1)

    def cpu_ticks(self):
        """In user space and in the kernel, of all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def wait(self):
        self.output, self.errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def statistics(self):
        return {name: int(value) for name, value in
                (line.split() for line in self.output.splitlines() if len(line.split()) == 2)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def stopped(process):
    """Signals that are sent meanwhile reach it together."""
    process.send_signal(signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.001)
    yield
    process.send_signal(signal.SIGCONT)


def echo_back(connection, data):
    connection.sendall(data)
    received = b""
    while len(received) < len(data):
        part = connection.recv(65536)
        if not part:
            break
        received += part
    return received


class EchoTest(unittest.TestCase):
    def load(self, echo, *options):
        """Messages that a short load got back, none of them wrong. Not `passed`: on a busy machine
        the few milliseconds that are measured may hold no message of some session."""
        done = run("load", "--port", str(echo.port), "--seconds", "0.05", "--json", *options)
        report = json.loads(done.stdout)
        self.assertEqual((report["errors"], report["wrong"]), (0, 0), done.stdout + done.stderr)
        return report["messages_total"]

    def test_every_engine_style_and_mode_echoes(self):
        for row in serving():
            for mode in ("shared", "dedicated", "per_thread"):
                if row["leader_rule"] != "any" and mode == "shared":
                    continue
                for style in (["--style", "callback"], ["--style", "coroutine"],
                              ["--style", "callback", "--pooled"],
                              ["--style", "coroutine", "--pooled"]):
                    options = [*chosen(row), "--mode", mode, "--threads", "2", *style]
                    with self.subTest(options=options), Echo(*options) as echo:
                        sent = self.load(echo, "--sessions", "20", "--window", "4096") * 512
                        self.assertEqual(echo.end(), 0, echo.errors)
                        numbers = echo.statistics()
                        self.assertEqual(numbers["accepted"], 20)
                        self.assertEqual(numbers["bytes"], sent)

    def test_every_engine_style_and_mode_echoes_datagrams(self):
        for row in serving():
            for mode in ("shared", "per_thread"):
                if row["leader_rule"] != "any" and mode == "shared":
                    continue
                for style in ("callback", "coroutine"):
                    options = [*chosen(row), "--mode", mode, "--threads", "2", "--style", style]
                    with self.subTest(options=options), Echo("--protocol", "udp", *options) as echo:
                        done = run("load", "--protocol", "udp", "--port", str(echo.port),
                                   "--sessions", "3", "--block", "64", "--window", "192",
                                   "--seconds", "0.05", "--json")
                        report = json.loads(done.stdout)
                        self.assertEqual((report["errors"], report["wrong"]), (0, 0), done.stdout)
                        counts = report["datagrams"]
                        self.assertEqual(counts["sent"], report["messages_total"] +
                                         counts["lost"] + counts["late"])
                        self.assertEqual(echo.end(), 0, echo.errors)
                        # The server has seen all that were not lost on their way to it.
                        messages = echo.statistics()["messages"]
                        self.assertLessEqual(messages, counts["sent"])
                        self.assertGreaterEqual(messages, counts["sent"] - counts["lost"])

    def test_load_says_that_no_datagram_came_back(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            done = run("load", "--protocol", "udp", "--port", str(silent.getsockname()[1]),
                       "--seconds", "0.1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^baton load: none of [1-9]\d* datagrams came back; .*\n$")

    def test_stop_ends_the_wait_for_messages_in_flight(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            load = subprocess.Popen([BATON, "load", "--port", str(silent.getsockname()[1]),
                                     "--sessions", "1", "--seconds", "0.05"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                time.sleep(2)  # the measured part is over
                load.send_signal(signal.SIGTERM)
                _, errors = load.communicate(timeout=TIMEOUT_S)
        self.assertEqual(load.returncode, 1)
        self.assertIn("512 bytes had not come back when it was stopped", errors)

    def test_load_counts_one_session_and_several(self):
        with Echo() as echo:
            for count, words in (("1", "load: 1 session, "), ("2", "load: 2 sessions, ")):
                done = run("load", "--port", str(echo.port), "--sessions", count,
                           "--seconds", "0.05")
                self.assertEqual(done.stdout[:len(words)], words, done.stderr)
            self.assertEqual(echo.end(), 0, echo.errors)

    def test_handlers_that_are_kept_busy_still_echo(self):
        for work in ("--delay-us", "--random-us", "--slow-us"):
            for style in (["--style", "callback"], ["--style", "coroutine"],
                          ["--protocol", "udp", "--block", "64"]):
                with self.subTest(work=work, style=style), Echo(work, "20", *style) as echo:
                    protocol = style if "udp" in style else []
                    self.assertGreater(self.load(echo, "--sessions", "3", *protocol), 0)
                    self.assertEqual(echo.end(), 0, echo.errors)

    def test_only_the_first_connection_is_slow(self):
        with Echo("--slow-us", "300000") as echo:
            spent = []
            for _ in range(2):  # it was accepted if it got an answer
                before = echo.cpu_ticks()
                with echo.connect() as connection:
                    self.assertEqual(echo_back(connection, b"here"), b"here")
                spent.append(echo.cpu_ticks() - before)
            self.assertGreater(spent[0], 5 * spent[1], spent)
            self.assertEqual(echo.end(), 0, echo.errors)

    def test_until_empty_ends_with_the_last_connection(self):
        with Echo("--until-empty") as echo:
            first, second = echo.connect(), echo.connect()
            self.assertEqual(echo_back(first, b"one"), b"one")
            self.assertEqual(echo_back(second, b"two"), b"two")
            first.close()
            self.assertEqual(echo_back(second, b"still there"), b"still there")
            second.close()
            self.assertEqual(echo.wait(), 0, echo.errors)
            self.assertEqual(echo.statistics()["accepted"], 2)

    def test_drain_lets_an_open_connection_finish(self):
        with Echo("--drain-seconds", "30") as echo, echo.connect() as connection:
            self.assertEqual(echo_back(connection, b"before"), b"before")
            echo.process.send_signal(signal.SIGTERM)
            # No new connections as soon as the drain has begun; the open one continues.
            with self.assertRaises(OSError):
                while True:
                    with echo.connect() as late:
                        late.settimeout(TIMEOUT_S)
                        if echo_back(late, b"x") != b"x":
                            raise ConnectionError
            self.assertEqual(echo_back(connection, b"after"), b"after")
            connection.close()
            self.assertEqual(echo.wait(), 0, echo.errors)

    def test_drain_ends_at_its_deadline(self):
        with Echo("--drain-seconds", "0.1") as echo, echo.connect() as connection:
            self.assertEqual(echo_back(connection, b"here"), b"here")
            self.assertEqual(echo.end(), 0, echo.errors)
            self.assertEqual(connection.recv(1), b"")

    def test_second_signal_ends_at_once(self):
        with Echo("--drain-seconds", "600") as echo, echo.connect() as connection:
            self.assertEqual(echo_back(connection, b"here"), b"here")
            echo.process.send_signal(signal.SIGTERM)
            with self.assertRaises(OSError):
                while True:
                    with echo.connect() as late:
                        late.settimeout(TIMEOUT_S)
                        if echo_back(late, b"x") != b"x":
                            raise ConnectionError
            echo.process.send_signal(signal.SIGINT)
            self.assertEqual(echo.wait(), 0, echo.errors)

    def test_signals_that_come_together_leave_nothing_behind(self):
        """The second comes while the accepts end, and there is no session."""
        styles = [], ["--style", "coroutine"], ["--protocol", "udp"]
        modes = [], ["--mode", "dedicated"]
        for row, style, mode in itertools.product(serving(), styles, modes):
            options = [*chosen(row), *style, *mode]
            with self.subTest(options=options), Echo(*options) as echo:
                with stopped(echo.process):
                    echo.process.send_signal(signal.SIGTERM)
                    echo.process.send_signal(signal.SIGINT)
                self.assertEqual(echo.wait(), 0, echo.errors)
                counts = echo.statistics()
                self.assertEqual(counts["completed"] - counts["posted"], counts["started"])

    def test_one_thread_means_one_thread(self):
        for row in serving():
            options = [*chosen(row), "--mode", "per_thread", "--threads", "1"]
            with self.subTest(options=options), Echo(*options) as echo, \
                    echo.connect() as connection:
                self.assertEqual(echo_back(connection, b"here"), b"here")
                self.assertEqual(echo.threads(), 1)
                connection.close()
                self.assertEqual(echo.end(), 0, echo.errors)

    def test_peer_that_resets_is_survived(self):
        with Echo() as echo:
            for _ in range(20):
                connection = echo.connect()
                connection.sendall(b"lost")
                # A reset in place of an orderly end.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()
            with echo.connect() as connection:
                self.assertEqual(echo_back(connection, b"fine"), b"fine")
            self.assertEqual(echo.end(), 0, echo.errors)

    def test_ipv6(self):
        with Echo("--host", "::1") as echo:
            self.assertGreater(self.load(echo, "--host", "::1"), 0)
            self.assertEqual(echo.end(), 0, echo.errors)


class Terminal:
    """The screen of a terminal that wraps lines anew when it is resized, as most do. Knows the few
    codes that the command may use."""

    CODES = re.compile(r"\r|\n|\x1b\[K|\x1b\[J|[^\x1b\r\n]+")

    def __init__(self, master, columns):
        self.master = master
        self.text = ""  # one line, however many rows it takes; of the codes only \n ends it
        self.cursor = 0
        self.updates = 0
        self.set_size(columns)

    def set_size(self, columns):
        self.columns = columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def resize(self, columns):
        self.read_rest()  # written for the width of before
        self.set_size(columns)

    def rows(self):
        return [row for at in range(0, len(self.text), self.columns)
                if (row := self.text[at:at + self.columns].rstrip())]

    def feed(self, shown):
        for code in self.CODES.findall(shown.decode()):
            if code == "\r":
                self.cursor -= self.cursor % self.columns
            elif code == "\n":
                raise AssertionError(f"a second line: {shown!r}")
            elif code == "\x1b[J":
                self.text = self.text[:self.cursor]
            elif code == "\x1b[K":
                end = self.cursor - self.cursor % self.columns + self.columns
                self.text = self.text[:self.cursor].ljust(end) + self.text[end:]
            else:
                self.updates += 1
                end = self.cursor + len(code)
                self.text = self.text[:self.cursor] + code + self.text[end:]
                self.cursor = end

    def read_lines(self, count):
        """Until so many more lines were shown."""
        until = self.updates + count
        while self.updates < until:
            self.feed(os.read(self.master, 4096))

    def read_rest(self):
        """Whatever was written before."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.feed(os.read(self.master, 4096))
            except OSError:  # the other side is closed
                return


class WatchTest(unittest.TestCase):
    LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ([\d,]+) msg/s, ([\d,]+) B/s, "
                      r"(\d+) connections \| leader changes [\d,]+/s, deferred [\d,]+/s, "
                      r"wakes [\d,]+/s \(saved [\d,]+/s\) \| oldest (.*)\n")

    def test_lines_come_into_a_pipe_only_when_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            metrics = Path(folder) / "baton.prom"
            with Echo("--watch", "--metrics", str(metrics)) as echo:
                while not metrics.exists():  # a second has passed
                    time.sleep(0.05)
                self.assertEqual(echo.end(), 0)
                self.assertEqual(echo.errors, "")

    def test_lines_tell_of_traffic_and_of_what_waits(self):
        for style in ("callback", "coroutine"):
            with self.subTest(style=style), \
                    Echo("--watch", "always", "--style", style) as echo, \
                    echo.connect() as connection:
                messages = 0
                while messages == 0:  # until a line has seen one of these
                    self.assertEqual(echo_back(connection, b"x" * 100), b"x" * 100)
                    line = echo.process.stderr.readline()
                    found = self.LINE.fullmatch(line)
                    self.assertTrue(found, line)
                    messages = int(found.group(1).replace(",", ""))
                self.assertEqual(found.group(3), "1")
                self.assertIn("read_stream", found.group(4))
                connection.close()
                self.assertEqual(echo.end(), 0)

    def test_oldest_is_of_a_session_and_never_the_servers_own(self):
        for style in ("callback", "coroutine"):
            with self.subTest(style=style), Echo("--watch", "always", "--style", style) as echo:
                self.assertEqual(self.oldest(echo), "-")
                with echo.connect() as connection:
                    self.assertEqual(echo_back(connection, b"x"), b"x")
                    while (found := self.oldest(echo)) == "-":
                        pass
                    self.assertRegex(found, r"^read_stream [\d.]+ s$")
                while self.oldest(echo) != "-":  # until the server has seen the end
                    pass
                self.assertEqual(echo.end(), 0)

    def oldest(self, echo):
        """The values of the next line."""
        line = echo.process.stderr.readline()
        found = self.LINE.fullmatch(line)
        self.assertTrue(found, line)
        return found.group(4)

    @contextlib.contextmanager
    def on_terminal(self, columns):
        """A watched server whose standard error is a terminal of that width."""
        master, slave = os.openpty()
        terminal = Terminal(master, columns)
        process = subprocess.Popen([BATON, "echo", "--watch"], stdout=subprocess.PIPE,
                                   stderr=slave, text=True)
        os.close(slave)
        try:
            self.assertIn("listening", process.stdout.readline())
            yield terminal, process
        finally:
            process.kill()
            process.communicate()
            os.close(master)

    def test_line_keeps_to_the_width_of_the_terminal(self):
        for columns in (120, 40, 23):
            with self.subTest(columns=columns), self.on_terminal(columns) as (terminal, process):
                terminal.read_lines(2)
                rows = terminal.rows()
                self.assertEqual(len(rows), 1, rows)
                self.assertIn(" msg/s, ", rows[0])
                self.assertLess(len(rows[0]), columns)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(TIMEOUT_S), 0)
                terminal.read_rest()
                self.assertEqual(terminal.rows(), [])  # the line is taken away

    def test_line_fits_again_when_the_terminal_is_resized(self):
        with self.on_terminal(120) as (terminal, process):
            for columns in (40, 10, 80):
                terminal.read_lines(1)
                terminal.resize(columns)
                terminal.read_lines(1)
                rows = terminal.rows()
                self.assertEqual(len(rows), 1, rows)
                self.assertLess(len(rows[0]), columns)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(TIMEOUT_S), 0)
            terminal.read_rest()
            self.assertEqual(terminal.rows(), [])

    def test_metrics_are_what_prometheus_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            metrics = Path(folder) / "baton.prom"
            with Echo("--metrics", str(metrics)) as echo, echo.connect() as connection:
                self.assertEqual(echo_back(connection, b"here"), b"here")
                connection.close()
                self.assertEqual(echo.end(), 0)
                self.assertEqual(echo.errors, "")
            lines = metrics.read_text().splitlines()
            samples = [line for line in lines if not line.startswith("#")]
            self.assertEqual(len(lines), 3 * len(samples))
            for line in samples:
                self.assertRegex(line, r'^baton_[a-z_]+\{program="baton echo"\} [\d.]+$')
            started = [line for line in samples if line.startswith("baton_operations_started")]
            self.assertGreater(int(started[0].split()[-1]), 2)
            self.assertEqual(os.listdir(folder), ["baton.prom"])


class ConfigurationTest(unittest.TestCase):
    def test_options_rise_above_environment_and_environment_above_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write('<baton><processor mode="dedicated"/></baton>')
            file.flush()
            for options, env, mode in (
                    (["--config", file.name], {}, "dedicated"),
                    (["--config", file.name], {"BATON": "mode=per_thread"}, "per_thread"),
                    (["--config", file.name, "--mode", "shared"], {"BATON": "mode=per_thread"},
                     "shared")):
                with self.subTest(mode=mode), Echo("--explain", *options, env=env) as echo:
                    self.assertEqual(echo.end(), 0)
                    self.assertIn(f"mode={mode}", echo.errors.splitlines()[0])

    def test_wrong_names_are_answered_with_the_right_ones(self):
        done = run("echo", "--engine", "nope")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        for row in available():
            self.assertIn(row["engine"], done.stderr)
        self.assertIn("per_thread", run("echo", "--mode", "nope").stderr)
        self.assertIn("signal, ring", run("echo", "--help").stdout)  # what the error offers, too
        self.assertIn(": '--port' is one argument too many", run("echo", "--", "--port").stderr)

    def test_wrong_use_exits_with_2(self):
        for arguments in ([], ["nope"], ["echo", "--block", "x"], ["load"],
                          ["load", "--port", "1", "--file", "f"],
                          ["load", "--file", __file__, "--size", "1m"],
                          ["echo", "--protocol", "sctp"],
                          ["echo", "--protocol", "udp", "--pooled"],
                          ["echo", "--random-us", "-1"],
                          ["load", "--port", "1", "--protocol", "udp", "--block", "15"],
                          ["load", "--port", "1", "--protocol", "udp", "--block", "64k"],
                          ["load", "--port", "1", "--protocol", "udp", "--idle", "1"],
                          ["load", "--port", "1", "--sessions", "2", "--apart", "2"],
                          ["bench", "fairness", "--wait", "nope", "--seconds", "0.1"],
                          ["bench", "fairness", "--only", "nope", "--seconds", "0.1"]):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertNotEqual(done.stderr, "")

    def test_occupied_port_is_a_clear_error(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = run("echo", "--port", str(taken.getsockname()[1]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot listen on 127.0.0.1", done.stderr)
        self.assertIn("choose another --port", done.stderr)

    def test_foreign_address_is_a_clear_error(self):
        done = run("echo", "--host", "192.0.2.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("choose a --host of this machine", done.stderr)

    def test_team_without_sockets_is_told_what_a_server_needs(self):
        for operations, options, needed in (("file", [], "stream+accept"),
                                            ("stream", [], "stream+accept"),
                                            ("stream+accept", ["--protocol", "udp"],
                                             "stream+datagram")):
            with self.subTest(operations=operations):
                done = run("echo", *options, env={"BATON": f"operations={operations}"})
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"operations={needed}:", done.stderr)

    def test_server_that_cannot_wait_for_signals_ends(self):
        echo = Echo(env={"BATON": "engine=chaos,chaos_error=100"})
        self.assertEqual(echo.wait(), 1)
        self.assertIn("the server has ended", echo.errors)

    def test_only_output_of_sim_is_merged(self):
        for name in ("/dev/null", os.getcwd()):
            done = run("sim-merge", name)
            self.assertEqual(done.returncode, 2)
            self.assertIn("neither a file nor a pipe", done.stderr)

    def test_output_beyond_the_limit_of_files_is_an_error(self):
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$0" engines', BATON],
                                  stdout=output, stderr=subprocess.PIPE, text=True,
                                  timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output cannot be written", done.stderr)


class VersionTest(unittest.TestCase):
    def told(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        first, *facts = done.stdout.splitlines()
        self.assertRegex(first, r"\Abaton \d+\.\d+\.\d+\Z")
        return {fact[:15].rstrip(): fact[15:] for fact in facts}

    def test_tells_how_it_was_built(self):
        facts = self.told()
        self.assertRegex(facts["compiler"],
                         r"^(gcc|clang) \d+\.\d+\.\d+, lib(std)?c\+\+ \d+, C\+\+\d\d$")
        self.assertRegex(facts["options"], r"^(Release|Debug)")
        self.assertRegex(facts["kernel headers"], r"^Linux \d+\.\d+\.\d+$")
        for row in json.loads(run("engines", "--json").stdout):
            self.assertIn(row["engine"], facts["engines"])
            self.assertIn(row["wait"], facts["engines"])

    def test_names_the_commit_and_no_folder(self):
        facts = self.told()
        tree = Path(__file__).resolve().parent.parent
        for fact in facts.values():
            self.assertNotIn("/", fact)
        commit = subprocess.run(["git", "-C", str(tree), "rev-parse", "--short=7", "HEAD"],
                                capture_output=True, text=True, check=False)
        if commit.returncode == 0 and (tree / ".git").exists():
            self.assertRegex(facts["source"], r"[0-9a-f]{7}|^v\d")
        else:
            self.assertNotIn("source", facts)


class NearestWordTest(unittest.TestCase):
    def test_unknown_words_are_answered_with_the_nearest_known_one(self):
        for words, meant in ((("ech",), "'echo'"), (("dcotor",), "'doctor'"),
                             (("eng",), "'engines'"),
                             (("echo", "--engin", "io_uring"), "'--engine'"),
                             (("echo", "--wiat=epoll"), "'--wait'"),
                             (("echo", "port"), "'--port'"), (("--versoin",), "'--version'"),
                             (("bench", "fairnes"), "'fairness'"),
                             (("load", "--sesions", "5"), "'--sessions'")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"(did you mean {meant}?)", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_words_far_from_all_are_answered_with_all(self):
        for words in (("frobnicate",), ()):
            told = run(*words).stderr
            for name in ("echo", "load", "engines", "doctor", "sim", "bench"):
                self.assertIn(name, told)
            self.assertNotIn("did you mean", told)
        self.assertIn("'--xyzzy' is not an option; see", run("echo", "--xyzzy=3").stderr)

    def test_number_out_of_range_is_told_the_range(self):
        told = run("echo", "--port", "99999").stderr
        self.assertIn("--port: '99999' is not a whole number from 0 to 65535", told)


class LongInputTest(unittest.TestCase):
    def test_messages_quote_only_a_part_of_it(self):
        rubbish = 70_000 * "x"
        words = ([rubbish], ["load", rubbish], ["echo", "--" + rubbish],
                 ["sim", "--seeds", rubbish], ["bench", rubbish], ["completion", rubbish],
                 ["echo", "--engine", rubbish], ["echo", "--config", rubbish],
                 ["load", "--host", rubbish],
                 ["doctor", "--no-calibration", "--known-bad", rubbish])
        variables = ({"BATON_CONFIG": rubbish}, {"BATON": rubbish}, {"BATON_FORBID": rubbish})
        for arguments, env in [(w, None) for w in words] + [(["echo"], v) for v in variables] + [
                (["bench", "rows"], {"BATON_BENCH": rubbish}),
                (["bench", "rows"], {"BATON_BENCH": "/" + rubbish})]:
            done = run(*arguments, env=env)
            with self.subTest(arguments=[a[:20] for a in arguments], env=list(env or ())):
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("baton", done.stderr)
                self.assertLess(len(done.stderr), 2_500)


class EnginesTest(unittest.TestCase):
    def test_json_has_the_promised_fields(self):
        rows = json.loads(run("engines", "--json").stdout)
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual(set(row), {"engine", "wait", "variant", "available", "code",
                                        "reason", "leader_rule", "operations"})
            self.assertEqual(row["code"] == "", row["available"])
            rules = ("any", "steady", "pinned") if row["available"] else ("",)
            self.assertIn(row["leader_rule"], rules)
            self.assertNotEqual(row["reason"], "")

    def test_table_has_the_same_rows(self):
        rows = json.loads(run("engines", "--json").stdout)
        engines, interrupts = run("engines").stdout.split("\n\n")
        self.assertEqual(re.findall(r"^\w+", engines, re.MULTILINE)[1:],
                         [row["engine"] for row in rows])
        self.assertEqual(re.findall(r"^\w+", interrupts, re.MULTILINE)[1:],
                         ["eventfd", "pipe", "signal"])

    def test_table_fits_a_terminal(self):
        for line in run("engines").stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)


def traced(*arguments, env=None):
    """(what `baton` did, its calls of io_uring_*), by strace; None where strace cannot be used."""
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as log:
        # A sanitizer's search for leaks does not work under a tracer.
        quiet = {name: os.environ.get(name, "") + ":detect_leaks=0"
                 for name in ("ASAN_OPTIONS", "LSAN_OPTIONS")}
        try:
            done = subprocess.run(
                ["strace", "-f", "-qq", "-o", log.name,
                 "-e", "trace=io_uring_setup,io_uring_enter,io_uring_register", BATON, *arguments],
                capture_output=True, text=True, timeout=TIMEOUT_S,
                env={**os.environ, **quiet, **(env or {})})
        except FileNotFoundError:
            return None
        if "PTRACE" in done.stderr or "ptrace" in done.stderr:
            return None
        return done, [line for line in log.read().splitlines() if "io_uring_" in line]


class PolicyTest(unittest.TestCase):
    FORBID = {"BATON_FORBID": "io_uring"}

    def setUp(self):
        if not any(row["engine"] == "io_uring" for row in json.loads(
                run("engines", "--json").stdout)):
            self.skipTest("this build has no io_uring")

    def uses(self):
        """Short programs, each of which opens proactors or looks at engines."""
        yield ["engines"]
        for row in available():
            if row["engine"] != "io_uring":
                yield ["echo", "--explain", "--host", "nowhere", *chosen(row)]
        yield ["echo", "--explain", "--host", "nowhere"]  # opened; then the address is wrong
        yield ["echo", "--engine", "io_uring"]
        yield ["load", "--file", "/nonexistent/file"]

    def test_no_call_of_a_forbidden_engine_is_made(self):
        control = traced("engines")
        if control is None:
            self.skipTest("strace cannot be used here")
        self.assertNotEqual(control[1], [], "the trace does not see what it should")
        for arguments in self.uses():
            with self.subTest(arguments=arguments):
                self.assertEqual(traced(*arguments, env=self.FORBID)[1], [])

    def test_forbidden_engine_is_listed_with_its_code(self):
        rows = json.loads(run("engines", "--json", env=self.FORBID).stdout)
        for row in rows:
            if row["engine"] == "io_uring":
                self.assertFalse(row["available"])
                self.assertEqual(row["code"], "forbidden")
        self.assertIn("[forbidden]", run("engines", env=self.FORBID).stdout)

    def test_contradictions_and_unknown_names_are_told(self):
        both = run("echo", env={**self.FORBID, "BATON_REQUIRE": "io_uring"})
        self.assertEqual(both.returncode, 1)
        self.assertIn("[contradiction]", both.stderr)
        unknown = run("engines", env={"BATON_PREFER": "io_urin"})
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("valid: ", unknown.stderr)
        self.assertIn("io_uring", unknown.stderr)
        self.assertIn("[unknown_name]", unknown.stderr)

    def test_required_engine_is_chosen_where_it_is_left_open(self):
        for row in serving():
            if row["leader_rule"] == "pinned":
                continue
            with self.subTest(row=row), \
                    Echo("--explain", env={"BATON_REQUIRE": row["engine"]}) as echo:
                self.assertEqual(echo.end(), 0)
                self.assertIn(f"processor 0: engine={row['engine']} ", echo.errors)

    def test_preferred_engine_is_tried_first(self):
        for row in serving():
            if row["leader_rule"] == "pinned":
                continue
            with self.subTest(row=row), \
                    Echo("--explain", env={"BATON_PREFER": row["engine"]}) as echo:
                self.assertEqual(echo.end(), 0)
                self.assertIn(f"processor 0: engine={row['engine']} ", echo.errors)


class FileLoadTest(unittest.TestCase):
    def setUp(self):
        # Not in /tmp, which may be a tmpfs without direct I/O.
        self.folder = tempfile.TemporaryDirectory(dir=os.getcwd())
        self.file = str(Path(self.folder.name) / "load")

    def tearDown(self):
        self.folder.cleanup()

    def load(self, *options):
        done = run("load", "--file", self.file, "--seconds", "0.05", "--json", *options)
        report = json.loads(done.stdout) if done.stdout else {}
        return done.returncode, report, done.stderr

    def test_written_blocks_are_read_back(self):
        for row in available():
            with self.subTest(row=row):
                options = [*chosen(row), "--size", "4m"]
                status, report, errors = self.load("--write", "--depth", "8", *options)
                self.assertEqual((status, self.unexpected(errors, row)), (0, []), report)
                self.assertGreater(report["bytes_compared"], 0)
                status, report, errors = self.load(*chosen(row))
                self.assertEqual((status, self.unexpected(errors, row)), (0, []), report)

    def unexpected(self, errors, row):
        """Real-time signals need a mode that this command does not ask for: it says so."""
        replaced = "baton load: warning: --" if row["wait"] == "rt_signals" else None
        return [line for line in errors.splitlines()
                if not replaced or not line.startswith(replaced)]

    def test_direct(self):
        status, report, errors = self.load("--write", "--direct", "--block", "64k", "--size", "4m")
        if "no direct I/O" in errors:
            self.skipTest(errors)
        self.assertEqual(status, 0, report)

    def test_damaged_byte_is_found(self):
        self.load("--write", "--size", "1m")
        # In the first block, which is there and is read however slow the machine is.
        with open(self.file, "r+b") as file:
            file.seek(500)
            byte = file.read(1)
            file.seek(500)
            file.write(bytes([byte[0] ^ 1]))
        status, report, _ = self.load()
        self.assertEqual(status, 1)
        self.assertIn("wrong byte at offset 500", report["error_texts"][0])

    def test_missing_file_names_the_fix(self):
        status, _, errors = self.load()
        self.assertEqual(status, 1)
        self.assertIn("make it with --write first", errors)


if __name__ == "__main__":
    BATON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
