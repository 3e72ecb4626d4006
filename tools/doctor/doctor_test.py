#!/usr/bin/env python3
"""`baton doctor` from outside: its output, its file, its behaviour under faults.

Run: doctor_test.py PATH_OF_BATON

No number that is measured is judged here, only that there is one.
"""

import contextlib
import ctypes
import json
import os
import platform
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import command_test  # noqa: E402  the helpers of the other commands' tests

BATON = ""
TIMEOUT_S = 100
SHORT = ("--seconds", "0.5")
LOOK = ("--no-calibration",)


def run(*arguments, env=None, before=None, folder=None):
    """`baton` without BATON* variables; `before` runs in the child."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BATON")}
    return subprocess.run([BATON, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**clean, **(env or {})}, preexec_fn=before, cwd=folder)


def examine(*arguments, **more):
    done = run("doctor", "--json", *arguments, **more)
    return done, json.loads(done.stdout)


# --- system-call filters --------------------------------------------------------------------------

# The same on all architectures, and by architecture.
NUMBERS = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
NUMBERS.update({
    "x86_64": {"io_setup": 206, "eventfd2": 290, "epoll_create1": 291},
    "aarch64": {"io_setup": 0, "eventfd2": 19, "epoll_create1": 20},
}.get(platform.machine(), {}))
ERRNO, KILL = 0x00050000, 0x80000000
EPERM = 1


def denying(calls, answer=ERRNO | EPERM):
    """For `before`: from now on these calls are answered so, in this process and its children."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    # Load the call's number; for each that is meant, go on to the answer; else allow.
    code = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    for call in calls:
        code += [struct.pack("HBBI", 0x15, 0, 1, NUMBERS[call]),
                 struct.pack("HBBI", 0x06, 0, 0, answer)]
    code.append(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
    text = ctypes.create_string_buffer(b"".join(code))
    program = Program(len(code), ctypes.addressof(text))
    program.text = text  # which lives as long as what points to it
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
        if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:  # PR_SET_SECCOMP, a filter
            raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")

    return install


def filters_work():
    with contextlib.suppress(subprocess.SubprocessError, KeyError):
        return run("--help", before=denying(["io_uring_setup"])).returncode == 0
    return False


def descriptors(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


# --- tests ----------------------------------------------------------------------------------------

class LookTest(unittest.TestCase):
    def test_json_has_all_parts(self):
        done, report = examine(*LOOK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(report), {
            "version", "seconds", "facts", "forbid", "calls", "file_system", "known_bad",
            "findings", "table", "interrupts", "sockets", "files", "recommendation"})
        facts = {fact["name"]: fact["text"] for fact in report["facts"]}
        self.assertRegex(facts["kernel"], r"^\d+\.\d+")
        self.assertEqual(facts["machine.cores"], str(len(os.sched_getaffinity(0))))
        for name in ("rlimit.nofile", "rlimit.memlock_kib", "rlimit.sigpending", "fs.aio-max-nr",
                     "net.core.somaxconn", "seccomp.mode"):
            self.assertIn(name, facts)
        self.assertEqual(report["sockets"]["series"], [])

    def test_table_is_that_of_the_registry(self):
        _, report = examine(*LOOK)
        listed = json.loads(run("engines", "--json").stdout)
        table = report["table"]
        self.assertEqual({(row["engine"], row["wait"]) for row in listed},
                         {(row["engine"], row["wait"]) for row in table})
        for row in table:
            self.assertEqual(set(row), {
                "engine", "wait", "variant", "settings", "available", "reason", "code", "avoided",
                "leader_rule", "interrupt", "sockets", "files", "operations", "modes", "notes"})
            self.assertEqual(row["code"] == "", row["available"])
            self.assertEqual(set(row["modes"]), {"shared", "dedicated", "per_thread"})
            self.assertEqual(row["available"],
                             any(mode["works"] for mode in row["modes"].values()))
            for answer in row["operations"].values():
                self.assertIn(answer, ("native", "assisted", "unavailable"))
            if not row["available"]:
                self.assertEqual(set(row["operations"].values()), {"unavailable"})

    def test_file_system_is_told(self):
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            _, report = examine(*LOOK, "--directory", folder)
            self.assertEqual(report["file_system"]["directory"], folder)
            self.assertEqual(set(report["file_system"]["direct"]), {"there", "text"})
            self.assertEqual(os.listdir(folder), [])

    def test_named_folder_that_is_not_there_is_an_error(self):
        done = run("doctor", *LOOK, "--directory", "/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_usual_folder_that_is_not_there_is_a_finding(self):
        done, report = examine(*LOOK, env={"TMPDIR": "/nonexistent"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(report["file_system"])
        self.assertIn("--directory", report["findings"][0])

    def test_text_names_every_combination(self):
        _, report = examine(*LOOK)
        done = run("doctor", *LOOK)
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in report["table"]:
            name = row["engine"] + ("/" + row["wait"] if row["wait"] else "")
            self.assertIn(name, done.stdout)
        self.assertIn("recommendation", done.stdout)
        self.assertIn("<processor", done.stdout)

    def test_wrong_use_is_told(self):
        for arguments in (["--seconds", "0"], ["--force"], ["--seconds", "1", *LOOK], ["x"]):
            with self.subTest(arguments=arguments):
                done = run("doctor", *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertNotEqual(done.stderr, "")


class KnownBadTest(unittest.TestCase):
    def test_rows_known_to_be_bad_are_not_recommended(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("when: kernel > 1\nabout: wait epoll\nlevel: avoid\nwhat: bad here\n"
                       "so: it hangs\ndo: take another\nsource: a test\n")
            file.flush()
            done, report = examine(*LOOK, "--known-bad", file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one["what"] for one in report["known_bad"]], ["bad here"])
        self.assertIn("emulated/epoll works and is left out: bad here.",
                      report["recommendation"]["sentences"])
        for row in report["table"]:
            self.assertEqual(row["avoided"], "bad here" if row["wait"] == "epoll" else "")
        self.assertNotIn("wait=epoll", report["recommendation"]["sockets"]["settings"])

    def test_faults_in_the_list_are_told_with_their_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("when: kernel > 1\nabout: everything\n")
            file.flush()
            done = run("doctor", *LOOK, "--known-bad", file.name)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r":3: about: valid: system")
        self.assertIn("--known-bad", run("doctor", "--known-bad", "/nonexistent").stderr)


class CalibrationTest(unittest.TestCase):
    def test_measures_and_recommends(self):
        done, report = examine(*SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("sockets", "files"):
            measurement = report[part]
            measured = [one for one in measurement["series"] if one["rounds"]]
            self.assertTrue(measured, measurement)
            for one in measured:
                for numbers in one["rounds"]:
                    self.assertEqual(len(numbers), len(measurement["measures"]))
                    self.assertTrue(all(number > 0 for number in numbers))
            chosen = report["recommendation"][part]
            self.assertTrue(chosen["measured"])
            self.assertIn((chosen["settings"], chosen["mode"]),
                          [(one["settings"], one["mode"]) for one in measured])
        root = xml.etree.ElementTree.fromstring(report["recommendation"]["xml"])
        self.assertEqual(len(root), report["recommendation"]["processors"])
        self.assertIn(len(root), (1, 2))


class WriteTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "baton.xml"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, *more):
        return run("doctor", *LOOK, "--write", str(self.file), *more)

    def test_echo_starts_with_what_was_written(self):
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [self.file.name])
        text = self.file.read_text()
        self.assertRegex(text, r"(?s)^<!--.*for sockets.*-->\s*<baton")
        _, report = examine(*LOOK)
        with command_test.Echo("--explain", "--config", str(self.file)) as echo:
            self.assertEqual(echo.end(), 0, echo.errors)
        engine = re.search("engine=([a-z_]+)",
                           report["recommendation"]["sockets"]["settings"]).group(1)
        self.assertIn(f"processor 0: engine={engine}", echo.errors)

    def test_file_that_exists_is_kept_unless_forced(self):
        self.file.write_text("mine")
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertIn("--force", done.stderr)
        self.assertEqual(self.file.read_text(), "mine")
        done = self.write("--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<baton", self.file.read_text())
        self.assertEqual(os.listdir(self.folder.name), [self.file.name])

    def test_folder_that_cannot_be_written_is_told_at_once(self):
        self.file = Path(self.folder.name) / "missing" / "baton.xml"
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")  # before anything is looked at
        self.assertRegex(done.stderr, r"cannot write .*baton\.xml: .*; name a file in a folder")


@unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "numbers of calls unknown")
class FilterTest(unittest.TestCase):
    RING = ("io_uring_setup", "io_uring_enter", "io_uring_register")

    def setUp(self):
        if not filters_work():
            self.skipTest("no filters can be installed here")

    def check_ring_is_gone(self, report, code):
        rings = [row for row in report["table"] if row["engine"] == "io_uring"]
        for row in rings:
            self.assertFalse(row["available"])
            self.assertEqual(row["code"], code)
            self.assertNotEqual(row["reason"], "")
        self.assertNotIn("io_uring", report["recommendation"]["xml"])
        self.assertTrue(report["recommendation"]["complete"])

    def test_ring_denied(self):
        done, report = examine(*SHORT, before=denying(self.RING))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_ring_is_gone(report, "denied_seccomp")
        answers = {call["call"]: call["answer"] for call in report["calls"]}
        for call in self.RING:
            self.assertEqual(answers[call], "denied")
        self.assertEqual(answers["epoll_create1"], "allowed")
        facts = {fact["name"]: fact["text"] for fact in report["facts"]}
        self.assertEqual(facts["seccomp.mode"], "2")
        self.assertTrue(report["recommendation"]["sockets"]["measured"])

    def test_ring_ends_the_process(self):
        done, report = examine(*LOOK, before=denying(self.RING, KILL))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_ring_is_gone(report, "denied_seccomp")
        answers = {call["call"]: call["answer"] for call in report["calls"]}
        self.assertEqual(answers["io_uring_setup"], "fatal")

    def test_everything_but_the_oldest_denied(self):
        calls = ("io_setup", "eventfd2", "epoll_create1", *self.RING)
        done, report = examine(*SHORT, before=denying(calls))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_ring_is_gone(report, "denied_seccomp")
        for row in report["table"]:
            if row["wait"] == "epoll":
                self.assertFalse(row["available"])
            if row["wait"] == "poll":
                self.assertTrue(row["available"])
        interrupts = {row["interrupt"]: row["available"] for row in report["interrupts"]}
        self.assertFalse(interrupts["eventfd"])
        self.assertTrue(interrupts["pipe"])
        self.assertIn("wait=poll", report["recommendation"]["sockets"]["settings"])
        # The load needs a denied call: that is a finding, and the choice is made without numbers.
        self.assertFalse(report["recommendation"]["sockets"]["measured"])
        self.assertIn("epoll_create1", json.dumps(report["sockets"]["findings"]))


class LimitTest(unittest.TestCase):
    def test_64_descriptors(self):
        done, report = examine(*SHORT, before=descriptors(64))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [measure["name"] for measure in report["sockets"]["measures"]]
        self.assertIn("CPU, 24 sessions", names)
        self.assertIn("64 descriptors", report["sockets"]["findings"][0])
        self.assertIn("this process may have few descriptors",
                      [one["what"] for one in report["known_bad"]])
        self.assertTrue(report["recommendation"]["sockets"]["measured"])

    def test_hardly_any_descriptors(self):
        for count in (4, 6, 8, 12, 20):
            with self.subTest(count=count):
                done = run("doctor", *SHORT, before=descriptors(count))
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertIn("recommendation", done.stdout)


class PolicyTest(unittest.TestCase):
    def test_no_call_of_a_forbidden_engine_is_made(self):
        control = command_test.traced("doctor", *LOOK)
        if control is None:
            self.skipTest("strace cannot be used here")
        self.assertNotEqual(control[1], [], "the trace does not see what it should")
        done, calls = command_test.traced("doctor", "--json", *SHORT,
                                          env={"BATON_FORBID": "io_uring"})
        self.assertEqual(calls, [])
        report = json.loads(done.stdout)
        rows = [row for row in report["table"] if row["engine"] == "io_uring"]
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual((row["available"], row["code"]), (False, "forbidden"))
        self.assertEqual(report["forbid"], ["io_uring"])
        self.assertIn('forbid="io_uring"', report["recommendation"]["xml"])

    def test_required_engine_is_recommended(self):
        _, report = examine(*LOOK)
        for engine in {row["engine"] for row in report["table"] if row["sockets"]}:
            with self.subTest(engine=engine):
                _, other = examine(*LOOK, env={"BATON_REQUIRE": engine})
                self.assertIn(f"engine={engine}", other["recommendation"]["sockets"]["settings"])

    def test_malformed_policy_is_told(self):
        done = run("doctor", *LOOK, env={"BATON_FORBID": "io_urin"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("valid: ", done.stderr)


if __name__ == "__main__":
    BATON = os.path.abspath(sys.argv.pop(1))
    command_test.BATON = BATON
    unittest.main()
