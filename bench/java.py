#!/usr/bin/env python3
"""Echo servers in Java beside C and C++: Baton's three, the JDK's, Netty's.

    bench/java.py                     1, 10, 40, 100 and 1,000 connections of 512 B; 1 and 40 with
                                      three threads: 1 to 2 hours
    bench/java.py --quick             40 and 1,000, one thread, three short rounds: up to half an
                                      hour, rough
    bench/java.py --row 40/           rows whose name has this in it
    bench/java.py --only Netty        servers whose name has this in it, and the raw loop
    bench/java.py --streams           instead, NIO.2 in groups of three threads: small writes, and
                                      reads of 8 KiB, one after the other; operations a second

Where a server has three threads, the system places them. In each round every server runs once, in
an order that turns. Each is warmed up before it is measured, because a JVM compiles while it
serves: by loads of one second, until it has answered so many messages and its compilers rest, for a
minute at most. The results tell the CPU time of the compilers in the measured part (compiler_us).
Ratios are those of single rounds, against the raw C loop over epoll, and the verdict comes from the
interval of their median. The goals hold Baton against the loop over a Selector, Netty and the JDK's
NIO.2, too.

Everything goes to bench/results/<date>-java.json; bench/report.py draws the article's figures 1 and
2 from it. `scripts/java --bench` builds the servers in Java. What cannot run here is left out, and
said.
"""

import json
import subprocess
import sys

import compare
import java_servers
import output
import rows
from option_parser import OptionParser

ROWS = [*(rows.Row(sessions, 1, 512) for sessions in (1, 10, 40, 100, 1000)),
        *(rows.Row(sessions, 3, 512, free=True) for sessions in (1, 40))]
QUICK = (40, 1000)
BASE = "raw epoll"
BATON = ("baton epoll per_thread", "baton io_uring per_thread")
# Server, rival, measure, relation, bound; for rows of one thread with so many sessions.
GOALS = [
    ("Java baton nio", BASE, "rate", ">=", 0.90, (40, 1000)),
    ("Java baton nio", "Java selector loop", "rate", ">=", 0.97, (40, 1000)),
    ("Java baton native io_uring", BASE, "rate", ">=", 0.97, (40, 1000)),
    *(("Java baton native io_uring", f"Netty {transport}", "rate", ">=", 1.0, (40, 1000))
      for transport in ("NIO", "epoll", "io_uring")),
    ("Java baton nio2 on native", "Java NIO.2", "rate", ">=", 1.3, (40,)),
    ("Java baton nio2 on native", "Java NIO.2", "cpu_us", "<=", 0.75, (40,)),
    ("Java baton nio2 on native", "Java NIO.2", "rate", ">=", 1.15, (1000,)),
    ("Java baton nio2 on native", "Java NIO.2", "cpu_us", "<=", 0.8, (1000,)),
]


def servers(options, row):
    found = {BASE: [str(options.build / "bench" / "raw_epoll"), *rows.options_of(row)],
             **{name: rows.baton_echo(options.build, name, rows.options_of(row))
                for name in BATON},
             **java_servers.commands(row)}
    return {name: command for name, command in found.items()
            if name == BASE or options.only in name}


def measure_row(options, row, clock):
    sides = servers(options, row)
    taken, troubles = {name: [] for name in sides}, {}
    for number in range(options.rounds):
        turn = number % len(sides)
        for name in [*list(sides)[turn:], *list(sides)[:turn]]:
            clock.step(f"{rows.name_of(row)}  {name}")
            if name in troubles:
                continue
            try:
                side = (name, sides[name], rows.load_of(row))
                # With 1,000 sessions the JDK's NIO.2 now and then has accepted only some of them
                # when the time is over; one such round must not cost it the row.
                taken[name].append(compare.once_more(
                    lambda seconds, side=side: compare.measure_server(
                        options.build, side, not (options.free or row.free), seconds,
                        options.warm_up, options.warm_up_messages),
                    options.seconds))
            except compare.CannotMeasure as why:
                troubles[name] = str(why)
    result = rows.judge_row(row, taken, troubles)
    result["goals"] = goals(row, result["rounds"])
    return result


def goals(row, rounds):
    """Server -> its goals in this row."""
    found = {}
    for name, other, measure, relation, bound, sessions in GOALS:
        if row.threads == 1 and row.sessions in sessions and name in rounds:
            judged = {measure: compare.judge(measure, [r[measure] for r in rounds[name]],
                                             [r[measure] for r in rounds[other]])
                      if other in rounds else None}
            goal = compare.check_goal((measure, "ratio", relation, bound), judged, {})
            found.setdefault(f"{name}, against {other}", []).append(goal)
    return found


def measure_streams(rounds):
    """Both providers in turn, and the ratios of single rounds."""
    sides = java_servers.streams()
    taken = {name: [] for name in sides}
    for number in range(rounds):
        turn = number % len(sides)
        for name in [*list(sides)[turn:], *list(sides)[:turn]]:
            compare.progress(f"{name}, round {number + 1} of {rounds}")
            output_of = subprocess.run(sides[name], capture_output=True, text=True, check=True)
            taken[name].append(json.loads(output_of.stdout))
    compare.progress("")
    base = taken[java_servers.JDK]
    for measure in ("writes", "reads"):
        for name, found in taken.items():
            judged = compare.judge("rate", [one[measure] for one in found],
                                   [one[measure] for one in base])
            print(f"{measure:7} {name:27} {compare.number(found[-1][measure]):>10} a second, "
                  f"{judged['ratio']:5.2f} x ({judged['low']:.2f} to {judged['high']:.2f})")


def main():
    parser = OptionParser(__doc__, "row", "only", "free", "no-save", rounds=7, seconds=1.0,
                          quick=(3, 0.5))
    parser.add_argument("--streams", action="store_true", help="NIO.2 in one direction only")
    parser.add_argument("--warm-up", type=float, default=3.0, metavar="SECONDS",
                        help="before each round, at least")
    parser.add_argument("--warm-up-messages", type=int, default=300_000, metavar="NUMBER",
                        help="so many at least: slow servers are warmed up for longer")
    options = parser.parse_args()
    if options.quick:
        options.warm_up, options.warm_up_messages = 2.0, 200_000
    wanted = [row for row in ROWS if options.row in rows.name_of(row) and
              (not options.quick or row.threads == 1 and row.sessions in QUICK)]
    if not wanted:
        parser.error("no such row")
    if why := java_servers.missing():
        print(f"cannot measure: {why}", file=sys.stderr)
        return 2
    if options.streams:
        measure_streams(options.rounds)
        return 0
    clock = rows.Clock(sum(len(servers(options, row)) for row in wanted) * options.rounds)
    results = []
    for row in wanted:
        results.append(measure_row(options, row, clock))
        compare.progress("")
        rows.print_row(results[-1])
        if not options.no_save:  # after each, so that what is measured is not lost
            path = compare.keep("java", results)
    if not options.no_save:
        print(f"\n{compare.shown(path)}")
    return 0 if any(result["medians"] for result in results) else 2


if __name__ == "__main__":
    sys.exit(output.status_of(main))
