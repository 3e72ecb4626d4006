#!/usr/bin/env python3
"""Echo and files under load on every engine, wait strategy and mode of this machine, in one table.

Each row is a fresh server, or a fresh file written and read back, checked byte for byte by `baton
load`. Exit status: 0 when every row passed. scripts/demo builds first and then runs this.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import compare

MODES = ["shared", "dedicated", "per_thread"]
SESSIONS = [1, 100, 1000]
BLOCK = 512
FILE_BLOCK = 65536


def combinations(build):
    """(engine, wait, mode) of all that serve sockets, the engines that do files, and what is not
    available, with the reason."""
    command = [str(build / "bin" / "baton"), "engines", "--json"]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    available = [row for row in rows if row["available"]]
    servers = [(row["engine"], row["wait"], mode) for row in available
               if row["operations"] == "all" for mode in MODES
               # One and the same thread must wait: there is no leader to change.
               if row["leader_rule"] == "any" or mode != "shared"]
    files = sorted({row["engine"] for row in available if row["operations"] in ("all", "file")})
    missing = [(row["engine"], row["wait"], row["reason"]) for row in rows if not row["available"]]
    return servers, files, missing


def measure_file(build, engine, seconds):
    """Blocks written, and read back: (operations/s, p99 in us)."""
    with tempfile.TemporaryDirectory(dir=build) as folder:
        done = subprocess.run(
            [str(build / "bin" / "baton"), "load", "--file", folder + "/demo.data", "--write",
             "--size", "16m", "--block", str(FILE_BLOCK), "--seconds", str(seconds), "--engine",
             engine, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise compare.CannotMeasure(done.stderr.strip() or done.stdout.strip())
    report = json.loads(done.stdout)
    return report["operations_per_second"], report["latency_us"]["p99"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, default=compare.REPOSITORY / "build")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a row")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    options.build = options.build.resolve()

    servers, files, missing = combinations(options.build)
    print(f"echo, {BLOCK} bytes half duplex, {options.threads} threads, every byte checked\n")
    print(f"{'engine':10} {'wait':10} {'mode':10} {'sessions':>8} {'messages/s':>11} "
          f"{'p99 us':>9} {'CPU us/msg':>10}  result")
    failed = 0
    for engine, wait, mode in servers:
        for sessions in SESSIONS:
            load = {"sessions": sessions, "block": BLOCK, "window": 0}
            side = ("", compare.echo(engine, wait, mode, options.threads, BLOCK), load)
            row = f"{engine:10} {wait or '-':10} {mode:10} {sessions:8}"
            try:
                got = compare.measure_server(options.build, side, False, options.seconds)
                print(f"{row} {got['rate']:11,.0f} {got['p99_us']:9,.0f} {got['cpu_us']:10.1f}  "
                      "passed", flush=True)
            except compare.CannotMeasure as why:
                failed += 1
                print(f"{row} {'-':>11} {'-':>9} {'-':>10}  FAILED: {why}", flush=True)
    print(f"\nfiles, blocks of {FILE_BLOCK} bytes written and read back, every byte checked\n")
    print(f"{'engine':10} {'writes/s':>11} {'p99 us':>9}  result")
    for engine in files:
        try:
            rate, p99 = measure_file(options.build, engine, options.seconds)
            print(f"{engine:10} {rate:11,.0f} {p99:9,.0f}  passed", flush=True)
        except compare.CannotMeasure as why:
            failed += 1
            print(f"{engine:10} {'-':>11} {'-':>9}  FAILED: {why}", flush=True)
    for engine, wait, reason in missing:
        print(f"{engine:10} {wait or '-':10} not available: {reason}")
    total = len(servers) * len(SESSIONS) + len(files)
    print(f"\n{total - failed} of {total} rows passed" if total else "\nno engine is available")
    return 0 if total and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
