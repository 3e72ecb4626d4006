"""The servers of bench/rows.py that are of a kind of their own, each once, for a moment: none is
asked how fast it is, only whether all comes back, or what does not is counted.

Run as a test: rows_test.py BUILD_FOLDER
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
import rows  # noqa: E402

BUILD = Path()


def exchange(command, load):
    """The report of a short load. A session may have got nothing in a moment."""
    cores, _ = compare.cores_for(False)
    with compare.serving(compare.command_line(command, BUILD), cores) as server:
        more = [word for option, value in load.items() for word in (f"--{option}", str(value))]
        done = subprocess.run(
            [str(BUILD / "bin" / "baton"), "load", "--json", "--port", str(server.port),
             "--seconds", "0.1", *more], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout)


def missing_here(name):
    """Why this system cannot run it; empty: it can."""
    if "io_uring" not in name:
        return ""
    done = subprocess.run([str(BUILD / "bin" / "baton"), "engines", "--json"],
                          stdout=subprocess.PIPE, check=True)
    ring = [row for row in json.loads(done.stdout) if row["engine"] == "io_uring"]
    if not ring or not ring[0]["available"]:
        return ring[0]["reason"] if ring else "this build has no io_uring"
    version = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return "the raw loop needs Linux 6.1" if name.startswith("raw") and version < (6, 1) else ""


def of_kind(kind):
    found = [row for row in rows.rows() if row.kind == kind]
    assert found, kind
    return found


class RowsTest(unittest.TestCase):
    def test_names_tell_rows_apart(self):
        names = [rows.name_of(row) for row in rows.rows()]
        self.assertEqual(len(set(names)), len(names), names)

    def test_datagrams_are_accounted_for_by_every_server(self):
        for row in of_kind("udp"):
            sides = rows.servers(BUILD, row)
            self.assertGreaterEqual(set(sides), {*rows.UDP_BATON, "raw epoll", "raw io_uring"})
            for name, command in sides.items():
                with self.subTest(row=rows.name_of(row), name=name):
                    if why := missing_here(name):
                        self.skipTest(why)
                    report = exchange(command, rows.load_of(row))
                    counts = report["datagrams"]
                    self.assertEqual((report["errors"], report["wrong"]), (0, 0), report)
                    self.assertGreater(report["messages_total"], 0)
                    self.assertEqual(counts["sent"], report["messages_total"] + counts["lost"] +
                                     counts["late"])

    def test_every_pool_is_held_against_itself_alone(self):
        for row in of_kind("pool"):
            sides = rows.servers(BUILD, row)
            pools = [name for name in sides if not name.endswith(rows.ALONE)]
            self.assertGreaterEqual(set(pools), {"baton epoll shared", "baton io_uring shared"})
            for name in pools:
                with self.subTest(row=rows.name_of(row), name=name):
                    both, alone = sides[name], sides[name + rows.ALONE]
                    differ = [(a, b) for a, b in zip(both, alone, strict=True) if a != b]
                    self.assertEqual(differ, [(str(row.threads), "1")])

    def test_servers_know_the_options_of_their_rows(self):
        for kind in ("pool", "uneven"):
            row = of_kind(kind)[0]._replace(block=64, delay=20, random=5, slow=50)
            for name, command in rows.servers(BUILD, row).items():
                with self.subTest(kind=kind, name=name):
                    if why := missing_here(name):
                        self.skipTest(why)
                    report = exchange(command, {"sessions": 1, "block": 64})
                    self.assertEqual((report["errors"], report["wrong"]), (0, 0), report)
                    self.assertGreater(report["messages_total"], 0)

    def test_patterns_have_no_datagrams(self):
        options = type("Options", (), {"build": BUILD, "only": "", "without": [],
                                       "patterns": True, "java": False, "against": None})()
        for row in rows.rows():
            if row.kind != "udp":
                names = rows.wanted_servers(options, row)
                self.assertTrue(all(rows.in_patterns(name) for name in names), names)

    def test_servers_are_chosen_by_name(self):
        options = type("Options", (), {"build": BUILD, "only": "baton", "without": ["poll", "udp"],
                                       "patterns": False, "java": False, "against": None})()
        names = set(rows.wanted_servers(options, rows.PAPER[0]))
        self.assertEqual({name.split()[1] for name in names}, {"select", "rt_signals", "io_uring"})

    def test_each_of_our_servers_stands_beside_the_one_of_the_older_build(self):
        options = type("Options", (), {"build": BUILD, "only": "", "without": [],
                                       "patterns": False, "java": False,
                                       "against": Path("/older")})()
        sides = rows.wanted_servers(options, rows.PAPER[0])
        ours = [name for name in sides if not name.endswith(rows.OLDER)]
        self.assertTrue(ours)
        self.assertEqual(len(sides), 2 * len(ours))
        for name in ours:
            self.assertTrue(name.startswith("baton ") or name in rows.REACTOR, name)
            self.assertEqual(sides[name + rows.OLDER][1:], sides[name][1:])
            self.assertTrue(sides[name + rows.OLDER][0].startswith("/older/"), name)


class OutputTest(unittest.TestCase):
    def test_programs_fail_if_what_they_measured_cannot_be_written(self):
        # Those of bench/instructions.py print nothing.
        programs = [path for path in sorted((BUILD / "bench").iterdir()) if path.is_file()
                    and os.access(path, os.X_OK) and not path.name.endswith(("lock_step", ".so"))]
        self.assertGreater({path.name for path in programs}, {"post", "raw_epoll", "timers"})
        short = ["--rounds", "1", "--seconds", "0.1", "--connections", "2", "--clients", "2",
                 "--pending", "10", "--port", "0"]
        for path in programs:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder, \
                    open("/dev/full", "wb") as full:
                options = ["write", folder + "/file", "1"] if path.name == "uaio_thesis" else short
                if missing_here(path.name.replace("raw_uring", "raw io_uring")):
                    continue
                done = subprocess.run([str(path), *options], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
