#!/usr/bin/env python3
"""Runs the examples under every mode, with one lane, with two and with five (X-12). They have one
thread in run(), so most lanes have none of their own: all connections are served all the same.

usage: modes.py BATON FOLDER_OF_EXAMPLES

BATON: the command, for the configuration that `baton doctor --write` makes.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import smoke

CONNECTIONS = 12  # more than lanes
MODES = ["mode=shared", "mode=dedicated",
         *(f"mode=per_thread,threads={lanes}" for lanes in (1, 2, 5))]


def engines(command):
    listed = subprocess.run([command, "engines", "--json"], check=True, capture_output=True).stdout
    return {row["engine"] for row in json.loads(listed) if row["available"]} & {"emulated",
                                                                                "io_uring"}


def many(program):
    """All connections are open at the same time, so each lane has some."""
    process, port = smoke.start_server(program)
    connections = [smoke.connect(port) for _ in range(CONNECTIONS)]
    for turn in range(3):
        for number, (connection, _) in enumerate(connections):
            connection.sendall(b"%d of turn %d\n" % (number, turn))
        for number, (_, stream) in enumerate(connections):
            smoke.check(stream.readline() == b"%d of turn %d\n" % (number, turn),
                        f"connection {number} is served")
    smoke.stop_server(process)


CHECKS = {"01_echo_callback": many, "02_echo_coroutine": many, "07_c_api": many,
          "03_udp": smoke.udp, "04_copy_file": smoke.copy}
# It takes seconds: where most lanes have no thread.
SLOW_CHECKS = {"06_chat": smoke.chat}


def run_all(folder, how):
    checks = CHECKS | SLOW_CHECKS if how.endswith("=5") else CHECKS
    for name, check in checks.items():
        try:
            check(str(folder / name))
        except SystemExit as why:
            raise SystemExit(f"{name}, {how}: {why}") from why
    print(f"{how}: all well", flush=True)


def main(command, folder):
    found = engines(command)
    smoke.check("emulated" in found, f"`baton engines` lists emulated")
    for engine in sorted(found):
        for mode in MODES:
            os.environ["BATON"] = f"engine={engine},{mode}"
            run_all(Path(folder), os.environ["BATON"])
    del os.environ["BATON"]
    with tempfile.TemporaryDirectory() as place:
        file = place + "/baton.xml"
        subprocess.run([command, "doctor", "--seconds", "0.1", "--write", file], check=True,
                       capture_output=True)
        os.environ["BATON_CONFIG"] = file
        run_all(Path(folder), "the doctor's file")


if __name__ == "__main__":
    main(*sys.argv[1:])
