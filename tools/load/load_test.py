#!/usr/bin/env python3
"""Shows that `baton load` detects a broken echo server.

A load generator that always says "passed" is worse than none, so each server here is wrong in one
way, and the test says what the generator must find. Run: load_test.py PATH_OF_BATON
"""

import json
import os
import socket
import subprocess
import sys
import threading
import unittest

BATON = ""


class DatagramServer:
    """An echo over UDP in one thread; `answers` makes the replies to a datagram."""

    def __init__(self, answers):
        self.answers = answers
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.seen = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            data, peer = self.socket.recvfrom(65536)
            if not data:  # sent by __exit__ only
                return
            self.seen += 1
            for answer in self.answers(self.seen, data):
                self.socket.sendto(answer, peer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.sendto(b"", ("127.0.0.1", self.port))
        self.thread.join()
        self.socket.close()


class Server:
    """An echo server, one thread per connection; `spoil` sees and may change what goes back."""

    def __init__(self, spoil):
        self.spoil = spoil
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.number = 0
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.number += 1
            threading.Thread(target=self._serve, args=(peer, self.number), daemon=True).start()

    def _serve(self, peer, number):
        state = {"number": number, "count": 0, "peer": peer}
        with peer:
            try:
                while data := peer.recv(65536):
                    state["count"] += 1
                    answer = self.spoil(state, data)
                    if answer is None:
                        return
                    peer.sendall(answer)
            except OSError:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def load(port, *options, seconds="0.3"):
    command = [BATON, "load", "--port", str(port), "--seconds", seconds, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    report = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return done.returncode, report, done.stderr


def from_third(change):
    """Applies `change` to the third answer of a connection, leaves the others alone."""
    return lambda state, data: change(state, data) if state["count"] == 3 else data


def flip(_, data):
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


class DatagramTest(unittest.TestCase):
    """Each datagram is accounted for: returned, lost, or late."""

    def load(self, answers, *options, seconds="0.3"):
        with DatagramServer(answers) as server:
            status, report, errors = load(server.port, "--protocol", "udp", *options,
                                          seconds=seconds)
        self.assertEqual(errors, "")
        counts = report["datagrams"]
        if report["passed"]:
            self.assertEqual(status, 0)
            self.assertEqual(counts["sent"], server.seen)
            self.assertEqual(counts["sent"],
                             report["messages_total"] + counts["lost"] + counts["late"])
        return report

    def test_good_server_passes(self):
        for options in ([], ["--window", "3584"], ["--sessions", "5", "--threads", "2"],
                        ["--block", "16"], ["--block", "65507"]):
            with self.subTest(options=options):
                report = self.load(lambda _, data: [data], *options)
                self.assertTrue(report["passed"], report)
                self.assertGreater(report["messages"], 0)

    def test_lost_ones_are_counted_and_not_waited_for(self):
        # With one on the way, each that is lost stands for the whole session until it is given up.
        for options in ([], ["--window", "3584"]):
            with self.subTest(options=options):
                report = self.load(lambda number, data: [] if number in (2, 5) else [data],
                                   *options, seconds="1")
                self.assertTrue(report["passed"], report)
                self.assertGreaterEqual(report["datagrams"]["lost"], 2)
                self.assertGreater(report["messages"], 5)

    def test_late_ones_are_not_lost(self):
        held = []

        def keep_first(number, data):
            if number == 1:
                held.append(data)
                return []
            # Nothing was sent in its place before it was given up.
            return [data, held.pop()] if held else [data]

        report = self.load(keep_first, seconds="1")
        self.assertTrue(report["passed"], report)
        self.assertGreaterEqual(report["datagrams"]["late"], 1)

    def test_order_does_not_matter(self):
        held = []

        def swap(number, data):
            held.append(data)
            if number % 2 == 1:
                return []
            pair, held[:] = held[::-1], []
            return pair

        report = self.load(swap, "--window", "512")
        self.assertTrue(report["passed"], report)
        self.assertGreater(report["messages"], 1)

    def test_wrong_datagrams_are_found(self):
        for answers, text in (
                (lambda n, data: [flip(n, data)] if n == 3 else [data], "wrong byte at 100"),
                (lambda n, data: [data, data] if n == 3 else [data], "came back twice"),
                (lambda n, data: [data[:-1]] if n == 3 else [data], "a datagram of 511 bytes")):
            with self.subTest(text=text):
                report = self.load(answers)
                self.assertFalse(report["passed"])
                self.assertEqual(report["wrong"], 1)
                self.assertIn(text, report["error_texts"][0])

    def test_server_that_answers_nothing_is_an_error(self):
        report = self.load(lambda *_: [])
        self.assertFalse(report["passed"])
        self.assertEqual(report["fairness"]["silent"], 1)
        self.assertGreater(report["datagrams"]["lost"], 0)

    def test_no_server_names_the_fix(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        status, _, errors = load(port, "--protocol", "udp")
        self.assertNotEqual(status, 0)
        self.assertIn("start the server first", errors)


class LoadTest(unittest.TestCase):
    def check(self, spoil, text, *options, wrong=1):
        with Server(spoil) as server:
            status, report, _ = load(server.port, *options)
        self.assertNotEqual(status, 0)
        self.assertFalse(report["passed"])
        self.assertEqual(report["wrong"], wrong)
        self.assertIn(text, " ".join(report["error_texts"]))
        return report

    def test_good_server_passes(self):
        for options in ([], ["--window", "2048"], ["--sessions", "7", "--threads", "2"],
                        ["--block", "1"], ["--block", "300000"], ["--idle", "5"]):
            with self.subTest(options=options), Server(lambda _, data: data) as server:
                status, report, errors = load(server.port, *options)
                self.assertEqual((status, errors), (0, ""))
                self.assertTrue(report["passed"])
                self.assertGreater(report["messages"], 0)

    def test_damaged_byte_is_found(self):
        report = self.check(from_third(flip), "damaged byte")
        self.assertIn("offset 1124", report["error_texts"][0])

    def test_missing_bytes_are_found(self):
        self.check(from_third(lambda _, data: data[16:]), "16 bytes of this stream are missing",
                   "--window", "4096")

    def test_repeated_bytes_are_found(self):
        self.check(from_third(lambda _, data: data[:64] + data[:64] + data[64:]),
                   "64 bytes of this stream are repeated", "--window", "4096")

    def test_swapped_sessions_are_found(self):
        held = {}
        lock = threading.Lock()

        def swap(state, data):
            with lock:
                held[state["number"]] = data
                other = held.get(3 - state["number"], data)
            return other[:len(data)].ljust(len(data), b"x")

        with Server(swap) as server:
            status, report, _ = load(server.port, "--sessions", "2")
        self.assertNotEqual(status, 0)
        self.assertGreaterEqual(report["wrong"], 1)

    def test_bytes_from_nowhere_are_found(self):
        self.check(from_third(lambda _, data: data + b"more"), "came back when only")

    def test_closed_connection_is_an_error(self):
        self.check(from_third(lambda _, data: None), "the server closed the connection", wrong=0)

    def test_silent_session_is_an_error(self):
        # One of the three never gets an answer, and no error of any system call says so.
        wait = threading.Event()

        def starve(state, data):
            if state["number"] == 2:
                wait.wait(30)
            return data

        with Server(starve) as server:
            killed_early = threading.Timer(1, wait.set)
            killed_early.start()
            status, report, _ = load(server.port, "--sessions", "3")
            killed_early.cancel()
        self.assertNotEqual(status, 0)
        self.assertEqual(report["fairness"]["silent"], 1)

    def test_slow_session_is_told_apart(self):
        # The second of the three takes long for each answer, the others wait for nothing.
        wait = threading.Event()

        def delay(state, data):
            if state["number"] == 2:
                wait.wait(0.02)
            return data

        with Server(delay) as server:
            status, report, errors = load(server.port, "--sessions", "3", "--apart", "1")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(report["apart"]["sessions"], 1)
        self.assertEqual(report["apart"]["messages"], report["fairness"]["min"])
        self.assertGreaterEqual(report["apart"]["round_trip_us"]["p50"], 20_000)

    def test_dropped_idle_connection_is_an_error(self):
        # The first connections are the idle ones; unsolicited data is an error as well.
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            idle, _ = listener.accept()
            active, _ = listener.accept()
            with active:
                active.sendall(active.recv(512))
                idle.close()
                while data := active.recv(512):
                    active.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        status, report, _ = load(listener.getsockname()[1], "--idle", "1")
        thread.join()
        listener.close()
        self.assertNotEqual(status, 0)
        self.assertIn("idle connection 0: was closed by the server", report["error_texts"])

    def test_no_server_names_the_fix(self):
        free = socket.create_server(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        status, _, errors = load(port)
        self.assertNotEqual(status, 0)
        self.assertIn("start the server first", errors)

    def test_too_few_descriptors_names_the_fix(self):
        command = f"ulimit -n 64; exec '{BATON}' load --port 9 --sessions 100"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ulimit -n", done.stderr)

    def test_interrupt_still_reports(self):
        going = threading.Event()

        def echo(state, data):
            if state["count"] == 10:
                going.set()
            return data

        with Server(echo) as server:
            process = subprocess.Popen(
                [BATON, "load", "--port", str(server.port), "--seconds", "60", "--json"],
                stdout=subprocess.PIPE, text=True)
            self.assertTrue(going.wait(30))
            process.terminate()
            output, _ = process.communicate(timeout=30)
        self.assertTrue(json.loads(output)["passed"])
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    BATON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
