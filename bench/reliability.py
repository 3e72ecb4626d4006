#!/usr/bin/env python3
"""Measures what Baton is held to beside speed, and prints it ready for docs/reliability.md.

    bench/reliability.py                    all of it; about half an hour
    bench/reliability.py --small            a hundredth of everything, to see that it works
    bench/reliability.py --only idle        one of churn, idle, timers, stop; may be given again
    bench/reliability.py --engine epoll     one of io_uring, epoll, select; may be given again

churn   10^6 connections that connect, send, read the echo and close (bench/scenarios/churn.cpp)
idle    19,500 idle connections in one process: memory of each, and how memory grows over ten
        waves of them (`baton echo --pooled`)
timers  10^6 pending: what one more costs, against none pending; whether one is early
        (bench/scenarios/timers.cpp)
stop    stop() with 10^3, 10^4 and 10^5 operations pending (bench/scenarios/stop.cpp)

The table goes to standard output. Measure on a machine that is quiet.
Exit status: 0 all goals met, 1 one was missed, 2 something could not be measured.
"""

import contextlib
import json
import os
import resource
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import compare
import output
from compare import CannotMeasure, progress
from option_parser import OptionParser

ENGINES = {
    "io_uring": {"engine": "io_uring"},
    "epoll": {"engine": "emulated", "wait": "epoll"},
    "select": {"engine": "emulated", "wait": "select"},
}
WAVES = 10
WAVES_GROWTH_MAX = 0.01  # of the memory after the first wave
IDLE_BYTES_MAX = 512
TIMER_RATIO_MAX = 3.0
# From 10,000 to 100,000 operations: what one costs may not grow by more.
STOP_RATIO_MAX = 3.0
SELECT_DESCRIPTORS_MAX = 1000
SOCKET_TIMEOUT_S = 60


class Table:
    """Rows of the document; a row without a goal is only shown."""

    def __init__(self):
        self.rows = []
        self.missed = False

    def add(self, what, engine, value, goal="", met=True):
        self.rows.append((what, engine, value, goal + ("" if met else " **missed**")))
        self.missed |= not met

    def print(self):
        facts = compare.surroundings()
        print(f"\n{facts['machine']}, {facts['cores']} cores, Linux {facts['kernel']}, "
              f"{facts['compiler']}, commit {facts['commit'][:10]}"
              f"{' (modified)' if facts['modified'] else ''}, {facts['date']}, "
              f"load average {facts['load_average']:.2f}:\n`{facts['command']}`\n")
        print("| what | engine | measured | goal |\n|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


# --- programs -----------------------------------------------------------------------------------

def environment(engine):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BATON")}
    return {**clean, "BATON": ",".join(f"{name}={value}"
                                       for name, value in ENGINES[engine].items())}


def run(options, engine, program, *arguments):
    """The one line of JSON that the program prints; a violation is its exit status 1."""
    command = [str(options.build / "bench" / program), *map(str, arguments)]
    progress(f"{engine}: {shlex.join([program, *map(str, arguments)])}")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(engine))
    if not done.stdout.startswith("{"):
        raise CannotMeasure(done.stderr.strip() or f"{program} ended with {done.returncode}")
    return json.loads(done.stdout), done.returncode == 0


def churn(options, engine, table):
    connections = 1_000_000 // options.scale
    result, good = run(options, engine, "churn", "--connections", connections)
    table.add(f"{connections:,} connect-echo-close", engine,
              f"{result['seconds']:.0f} s, {result['per_second']:,} a second, "
              f"{result['wrong']} wrong, {result['failed']} failed, "
              f"{result['descriptors_left']} descriptors left", "none wrong, none left", good)


def timers(options, engine, table):
    pending = 1_000_000 // options.scale
    result, good = run(options, engine, "timers", "--pending", pending)
    table.add(f"insert and cancel one timer more with {pending:,} pending", engine,
              f"{result['pair_among_ns']} ns, {result['pair_alone_ns']} ns with none: "
              f"{result['ratio']} x", f"<= {TIMER_RATIO_MAX:g} x",
              result["ratio"] <= TIMER_RATIO_MAX)
    table.add(f"{result['expired']:,} timers expire", engine,
              f"{result['early']} early; late by {result['late_median_us'] / 1000:.2f} ms in the "
              f"median, 99 % by less than {result['late_99_us'] / 1000:.2f} ms", "none early", good)


def stop(options, engine, table):
    costs = {}
    for pending in (1_000, 10_000, 100_000):
        result, good = run(options, engine, "stop", "--pending", pending,
                           "--rounds", 3 if options.scale > 1 else 7)
        costs[pending] = result["us_per_operation"]
        table.add(f"stop with {pending:,} operations pending", engine,
                  f"run() returns after {result['run_ms']:.2f} ms, all is gone "
                  f"{result['destroy_ms']:.2f} ms later; {result['us_per_operation']:.2f} us for "
                  f"each, {result['wrong']} callbacks late, missing or twice",
                  "no callback late", good)
    growth = costs[100_000] / costs[10_000]
    table.add("stop: cost of each of 100,000 against each of 10,000", engine, f"{growth:.2f} x",
              f"<= {STOP_RATIO_MAX:g} x", growth <= STOP_RATIO_MAX)


# --- idle connections ---------------------------------------------------------------------------

def resident_bytes(server):
    fields = Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def until(condition, what):
    end = time.monotonic() + SOCKET_TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise CannotMeasure(what)
        time.sleep(0.001)


def echo_on(connection):
    connection.sendall(b"x")
    if connection.recv(1) != b"x":
        raise CannotMeasure("an idle connection did not answer")


def warm_up(server):
    """One connection, so that what every server needs once is there already: a spare descriptor,
    say, which is opened by the first accept and stays."""
    with socket.create_connection(("127.0.0.1", server.port), SOCKET_TIMEOUT_S) as connection:
        echo_on(connection)
        opened = server.descriptor_count()
    until(lambda: server.descriptor_count() == opened - 1, "the server did not close")


def wave(server, count, measure):
    """Opens `count` connections, asks the last one, measures, and closes them all."""
    descriptors = server.descriptor_count()
    with contextlib.ExitStack() as connections:
        opened = [connections.enter_context(
            socket.create_connection(("127.0.0.1", server.port), SOCKET_TIMEOUT_S))
            for _ in range(count)]
        until(lambda: server.descriptor_count() >= descriptors + count,
              f"the server did not accept {count} connections")
        # They have a read pending when the last of them is answered; and each still works.
        for connection in (opened[-1], opened[0], opened[count // 2]):
            echo_on(connection)
        measured = measure()
    until(lambda: server.descriptor_count() <= descriptors,
          "the server did not close what its clients have closed")
    return measured


def idle(options, engine, table):
    count = 19_500 // options.scale
    if engine == "select":
        count = min(count, SELECT_DESCRIPTORS_MAX - 50)
    progress(f"{engine}: {WAVES} waves of {count} idle connections")
    facts = ENGINES[engine]
    command = compare.command_line(
        compare.echo(facts["engine"], facts.get("wait"), more=["--pooled"]), options.build)
    with compare.serving(command, set(os.sched_getaffinity(0))) as server:
        warm_up(server)
        before = server.anonymous_bytes()
        each = (wave(server, count, server.anonymous_bytes) - before) / count
        after = [resident_bytes(server)]
        for _ in range(WAVES - 1):
            wave(server, count, lambda: None)
            after.append(resident_bytes(server))
    limited = engine == "select"  # its tables are small: a few pages count
    table.add(f"{count:,} idle connections in one process", engine,
              f"{each:.0f} bytes of user memory each", f"<= {IDLE_BYTES_MAX}",
              limited or options.scale > 1 or each <= IDLE_BYTES_MAX)
    growth = after[-1] / after[0] - 1
    table.add(f"{WAVES} waves of {count:,} connections", engine,
              f"resident {after[0] / 1e6:.2f} MB after the first, {after[-1] / 1e6:.2f} MB after "
              f"the last: {growth:+.2%}", f"within {WAVES_GROWTH_MAX:.0%}",
              growth <= WAVES_GROWTH_MAX)


MEASURES = {"churn": churn, "idle": idle, "timers": timers, "stop": stop}


# --- command line ---------------------------------------------------------------------------------

def arguments():
    parser = OptionParser(__doc__)
    parser.add_argument("--only", action="append", choices=MEASURES)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--small", dest="scale", action="store_const", const=100, default=1)
    return parser.parse_args()


def main():
    options = arguments()
    # The other ends of the idle connections are this process's own.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    table = Table()
    status = 0
    for name in options.only or MEASURES:
        for engine in options.engine or ENGINES:
            try:
                MEASURES[name](options, engine, table)
            except (CannotMeasure, OSError) as failure:
                print(f"{name} on {engine} was not measured: {failure}", file=sys.stderr)
                status = 2
    table.print()
    return status or (1 if table.missed else 0)


if __name__ == "__main__":
    sys.exit(output.status_of(main))
