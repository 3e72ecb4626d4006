#!/usr/bin/env python3
"""Tests httpd as its clients see it, on one configuration of engines and modes.

usage: httpd_test.py PROGRAM [OPTION...]     the options go to every server

Exit status: 0 all is well, 1 something failed, 77 the engine that is named is not available here.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import conversations
import endings
from support import check, equal, serving

SKIPPED = 77
LARGE = 20_000_003


def make_root(folder):
    root = folder / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "list").mkdir()
    (root / ".git").mkdir()
    (root / "small.html").write_bytes(bytes(range(256)) * 4)
    (root / "empty.txt").write_bytes(b"")
    (root / "with blank & <tag>.txt").write_bytes(b"odd name\n")
    (root / "large.bin").write_bytes(os.urandom(LARGE))
    (root / "index.html").write_bytes(b"root index\n")
    (root / "sub" / "index.html").write_bytes(b"sub index\n")
    (root / "list" / "a<b>&\"c\".txt").write_bytes(b"x")
    (root / ".git" / "config").write_bytes(b"secret\n")
    (folder / "secret.txt").write_bytes(b"secret\n")
    (root / "link_in").symlink_to("sub/index.html")
    (root / "link_out").symlink_to("../secret.txt")
    (root / "link_absolute").symlink_to(folder / "secret.txt")
    (root / "link_folder").symlink_to("..")
    os.mkfifo(root / "fifo")
    if os.geteuid() != 0:
        (root / "unreadable.txt").write_bytes(b"secret\n")
        (root / "unreadable.txt").chmod(0)
    return root


def curl(server, target, *options):
    """The body, and what -w says: status, connections made."""
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--path-as-is", "--max-time", "20", "--write-out",
         "\n%{http_code} %{num_connects}", *options, server.url(target)],
        stdout=subprocess.PIPE, check=True)
    body, _, words = done.stdout.rpartition(b"\n")
    return (body, *map(int, words.split()))


def with_curl(program, root, options):
    """What curl makes of it: an independent client."""
    with serving(program, root, *options) as server:
        large = (root / "large.bin").read_bytes()
        # Out of the page cache, where that is possible: then a worker has to fetch it.
        with open(root / "large.bin", "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        body, status, _ = curl(server, "/large.bin")
        equal((status, hashlib.sha256(body).digest()), (200, hashlib.sha256(large).digest()),
              "a large file")
        body, status, _ = curl(server, "/large.bin", "--range", "19999990-")
        equal((status, body), (206, large[19_999_990:]), "the end of a large file")
        body, status, _ = curl(server, "/large.bin", "--range", "70000-170000")
        equal((status, body), (206, large[70_000:170_001]), "the middle of a large file")
        _, status, _ = curl(server, "/nothing")
        equal(status, 404, "a name that is not there")
        body, status, _ = curl(server, "/../secret.txt")
        check(status == 400 and b"secret" not in body, "a way up")
        _, status, _ = curl(server, "/small.html", "--time-cond", str(root / "small.html"))
        equal(status, 304, "a copy that is still good")
        _, status, _ = curl(server, "/small.html", "--data", "x=1")
        equal(status, 405, "POST")
        # The same connection for all three.
        done = subprocess.run(
            ["curl", "--silent", "--write-out", "%{num_connects} ", "--output", "/dev/null",
             server.url("/small.html"), "--next", "--silent", "--write-out", "%{num_connects} ",
             "--head", "--output", "/dev/null", server.url("/small.html"), "--next", "--silent",
             "--write-out", "%{num_connects} ", "--output", "/dev/null", server.url("/nothing")],
            stdout=subprocess.PIPE, text=True, check=True)
        equal(done.stdout.split(), ["1", "0", "0"], "connections of three requests")


def with_wrk(program, root, options):
    """Many connections at once, and not one fault."""
    if not shutil.which("wrk"):
        print("   wrk is not installed: left out")
        return
    with serving(program, root, *options) as server:
        done = subprocess.run(["wrk", "-t1", "-c50", "-d1", server.url("/small.html")],
                              stdout=subprocess.PIPE, text=True, check=True)
        for fault in ("Non-2xx", "Socket errors"):
            check(fault not in done.stdout, done.stdout)
        check(" 0 requests in" not in done.stdout, done.stdout)
        counts = server.stop()
        equal(counts["errors"], 0, "errors that the server counted")


def processors(server):
    """The lines of --explain that tell what was chosen."""
    return [line for line in server.errors.splitlines() if line.startswith("processor ")]


def configured(program, root, options):
    """By file and by environment: where the options have not the last word."""
    if options:
        return
    (root.parent / "one.xml").write_text('<baton><processor engine="emulated"/></baton>\n')
    for more, environment, count in (
            (["--config", str(root.parent / "one.xml")], {}, 1),
            ([], {"BATON": "engine=emulated,wait=poll"}, 2),
            ([], {"BATON_FORBID": "io_uring"}, 2)):
        with serving(program, root, "--explain", *more, environment=environment) as server:
            _, status, _ = curl(server, "/small.html")
            equal(status, 200, f"{more} {environment}")
            server.stop()
            lines = processors(server)
            check(len(lines) == count and all("engine=emulated" in line for line in lines), lines)


TESTS = [with_curl, configured, *conversations.TESTS, *endings.TESTS, with_wrk]


def engine_is_missing(program, root, options):
    """A configuration that names an engine is meant to be tested on that engine."""
    wanted = {options[i + 1] for i, word in enumerate(options) if word.endswith("engine")}
    with serving(program, root, "--explain", *options) as server:
        server.stop()
    return [name for name in wanted if f"engine={name} " not in " ".join(processors(server))]


def main():
    program, options = sys.argv[1], sys.argv[2:]
    failed = []
    with tempfile.TemporaryDirectory(prefix="baton-httpd-") as folder:
        root = make_root(Path(folder))
        if missing := engine_is_missing(program, root, options):
            print(f"skipped: {missing[0]} is not available here (see 'baton engines')")
            return SKIPPED
        for test in TESTS:
            print(f"-- {test.__name__}", flush=True)
            try:
                test(program, root, options)
            except Exception:  # every failure is shown, and the rest goes on
                traceback.print_exc()
                failed.append(test.__name__)
    print(f"failed: {' '.join(failed)}" if failed else f"{len(TESTS)} tests passed")
    return 1 if failed else 0


if __name__ == "__main__":
    # A test program that is stopped stops its servers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
