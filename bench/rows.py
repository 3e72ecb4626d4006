#!/usr/bin/env python3
"""The paper's test program and ours: echo servers side by side, row by row.

    bench/rows.py                     every row: the paper's twelve, then ours; an hour
    bench/rows.py --quick             short rounds, few of them: about ten minutes, and rough
    bench/rows.py --row 40/5          rows whose name has this in it
    bench/rows.py --only io_uring     servers whose name has this in it

A row is sessions, threads, block, window (0: half duplex) and how long a handler takes. In each
round every server of the row runs once, in an order that turns; server and load are processes of
their own, on different cores. A ratio is that of one round, and the verdict comes from the interval
of their median (bench/compare.py). What a server is held against is the best raw loop of the row,
or where none can run (a pool with slow handlers) the thread-pool Reactor of ACE.

The last table holds one pattern against the other (P-05, P-37): over each wait strategy Baton's
Proactor against Baton's Reactor, and the best Proactor against the best Reactor, ours or ACE's.

    bench/rows.py --patterns          only the servers which that table needs

Everything goes to bench/results/<date>-rows.json; bench/report.py makes the page of it.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import compare

REPOSITORY = compare.REPOSITORY

# sessions, threads, block, window, microseconds a handler takes; the first twelve are the paper's.
PAPER = [(1, 1, 512, 1024, 0), (1, 1, 512, 1024, 10), (1, 1, 8192, 8192, 0), (1, 5, 8192, 8192, 0),
         (1, 5, 8192, 8192, 10), (40, 5, 8192, 8192, 10), (40, 5, 8192, 0, 10),
         (100, 4, 1024, 1024, 10), (100, 5, 8192, 8192, 10), (100, 5, 8192, 8192, 0),
         (100, 5, 8192, 0, 10), (100, 5, 8192, 0, 0)]
OURS = [(1000, 1, 64, 0, 0), (1000, 1, 512, 0, 0), (40, 2, 8192, 0, 100), (40, 1, 8192, 0, 100)]
IDLE = 10_000

BATON = [
    # The papers' variants.
    ("baton select shared", "emulated", "select", "shared"),
    ("baton select dedicated", "emulated", "select", "dedicated"),
    ("baton rt_signals dedicated", "emulated", "rt_signals", "dedicated"),
    # Ours.
    ("baton poll shared", "emulated", "poll", "shared"),
    ("baton epoll shared", "emulated", "epoll", "shared"),
    ("baton epoll per_thread", "emulated", "epoll", "per_thread"),
    ("baton io_uring shared", "io_uring", None, "shared"),
    ("baton io_uring per_thread", "io_uring", None, "per_thread"),
]
# The papers' reactor test: the same rows on thread-pool Reactors.
REACTOR = {f"reactor {wait}": wait for wait in ("select", "poll", "epoll", "rt_signals")}
ACE = ("ACE_TP_Reactor", "ACE_Dev_Poll_Reactor")
# Name, program, options; whether it has a pool of threads, and can make a handler slow.
RIVALS = [
    ("raw epoll", "raw_epoll", [], False, False),
    ("raw epoll, edge", "raw_epoll", ["--edge", "1"], False, False),
    ("raw io_uring", "raw_uring", [], False, False),
    ("Asio epoll", "asio_epoll", [], True, True),
    ("Asio epoll, a context a thread", "asio_epoll", ["--contexts", "1"], True, True),
    ("Asio io_uring", "asio_uring", [], True, True),
    ("libuv", "libuv_echo", [], False, True),
    ("libevent", "libevent_echo", [], False, True),
    ("ACE_TP_Reactor", "ace_reactor", ["--reactor", "tp"], True, True),
    ("ACE_Dev_Poll_Reactor", "ace_reactor", ["--reactor", "dev_poll"], True, True),
]
SELECT_SESSIONS_MAX = 900  # of 1,024 descriptors


def name_of(row):
    sessions, threads, block, window, delay = row[:5]
    name = f"{sessions}/{threads}/{block}/{window}/{delay}"
    return name + (f"+{row[5]} idle" if len(row) > 5 else "")


def rows():
    return PAPER + OURS + [(100, 1, 512, 0, 0, IDLE)]


def servers(build, row):
    """Name -> command, of those that can serve the row here."""
    sessions, threads, block, _, delay = row[:5]
    crowd = sessions + (row[5] if len(row) > 5 else 0)
    found = {}
    for name, engine, wait, mode in BATON:
        if wait == "select" and crowd > SELECT_SESSIONS_MAX:
            continue
        command = [str(build / "bin" / "baton"), "echo", "--threads", str(threads), "--block",
                   str(block), "--engine", engine, "--mode", mode]
        found[name] = command + (["--wait", wait] if wait else []) + \
            (["--delay-us", str(delay)] if delay else [])
    for name, wait in REACTOR.items():
        if wait == "select" and crowd > SELECT_SESSIONS_MAX:
            continue
        found[name] = [str(build / "bench" / "reactor_echo"), "--wait", wait, "--threads",
                       str(threads), "--block", str(block)] + \
            (["--delay-us", str(delay)] if delay else [])
    for name, program, options, pool, slow in RIVALS:
        if (delay and not slow) or not (build / "bench" / program).exists():
            continue
        if program == "ace_reactor" and "tp" in options and crowd > SELECT_SESSIONS_MAX:
            continue
        found[name] = [str(build / "bench" / program), *options, "--block", str(block)] + \
            (["--threads", str(threads)] if pool else []) + \
            (["--delay-us", str(delay)] if delay else [])
    return found


def in_patterns(name):
    """Whether the table of the two patterns needs it."""
    return name.startswith("baton ") or name in REACTOR or name in ACE


def wanted_servers(options, row):
    return {name: command for name, command in servers(options.build, row).items()
            if options.only in name and (not options.patterns or in_patterns(name))}


def load_of(row):
    load = {"sessions": row[0], "block": row[2], "window": row[3]}
    return {**load, "idle": row[5]} if len(row) > 5 else load


class Clock:
    """How far the whole is, and how long it will go on."""

    def __init__(self, total):
        self.begin, self.done, self.total = time.monotonic(), 0, total

    def step(self, what):
        self.done += 1
        gone = time.monotonic() - self.begin
        left = gone / self.done * (self.total - self.done)
        width = 24
        filled = width * self.done // self.total
        compare.progress(f"[{'#' * filled}{'.' * (width - filled)}] {self.done}/{self.total}, "
                         f"{left / 60:.0f} min left  {what}")


def measure_row(options, row, clock):
    sides = wanted_servers(options, row)
    taken = {name: [] for name in sides}
    troubles = {}
    for number in range(options.rounds):
        turned = list(sides)[number % max(len(sides), 1):] + \
            list(sides)[:number % max(len(sides), 1)]
        for name in turned:
            clock.step(f"{name_of(row)}  {name}")
            if name in troubles:
                continue
            try:
                side = (name, sides[name], load_of(row))
                taken[name].append(
                    compare.measure_server(options.build, side, not options.free, options.seconds))
            except compare.CannotMeasure as why:
                troubles[name] = str(why)
    result = judge_row(row, taken, troubles)
    for name, medians in result["medians"].items():
        # In a round of their own, for counting them slows the server.
        compare.progress(f"{name_of(row)}  {name}: system calls")
        side = (name, sides[name], load_of(row))
        found, _ = compare.count_syscalls(options, side, not options.free)
        medians.update(found)
    return result


def judge_row(row, taken, troubles):
    good = {name: rounds for name, rounds in taken.items() if rounds and name not in troubles}
    medians = {name: {m: statistics.median(r[m] for r in rounds) for m in rounds[0]}
               for name, rounds in good.items()}
    spreads = {name: compare.spread([r["rate"] for r in rounds]) for name, rounds in good.items()}
    held = [name for name in good if name.startswith("raw")] or \
        [name for name in good if name == "ACE_TP_Reactor"]
    base = max(held, key=lambda name: medians[name]["rate"], default=None)
    judged = {}
    for name, rounds in good.items():
        if base is None or name == base:
            continue
        judged[name] = {m: compare.judge(m, [r[m] for r in rounds], [r[m] for r in good[base]])
                        for m in ("rate", "cpu_us")}
    return {"row": name_of(row), "parameters": row, "base": base, "rounds": good,
            "medians": medians, "spread": spreads, "judged": judged,
            "patterns": judge_patterns(good, medians), "troubles": troubles,
            "generator_busy": max((m["generator_busy"] for m in medians.values()), default=0)}


def judge_patterns(good, medians):
    """What is compared -> the Proactor, the Reactor and the ratios of the one to the other."""
    def best(names):
        return max((name for name in names if name in good),
                   key=lambda name: medians[name]["rate"], default=None)

    proactors = [name for name, *_ in BATON]
    pairs = {wait: (best([p for p, _, w, _ in BATON if w == wait]), best([name]))
             for name, wait in REACTOR.items()}
    pairs["the best"] = (best(proactors), best([*REACTOR, *ACE]))
    pairs["against ACE"] = (best(proactors), best(ACE))
    return {what: {"proactor": ours, "reactor": other,
                   **{m: compare.judge(m, [r[m] for r in good[ours]], [r[m] for r in good[other]])
                      for m in ("rate", "cpu_us")}}
            for what, (ours, other) in pairs.items() if ours and other}


def print_patterns(results):
    """P-05: in every row the Proactor is not slower."""
    results = [result for result in results if result["patterns"]]
    if not results:
        return
    print("\nProactor against Reactor: messages a second as a ratio, the interval of its median, "
          "and CPU a message as a ratio")
    for what in [*REACTOR.values(), "the best", "against ACE"]:
        for result in results:
            pair = result["patterns"].get(what)
            if not pair:
                continue
            rate, cpu = pair["rate"], pair["cpu_us"]
            print(f"  {what:11} {result['row']:22} {rate['ratio']:5.2f} "
                  f"[{rate['low']:.2f}, {rate['high']:.2f}] {rate['verdict']:14} CPU "
                  f"{cpu['ratio']:5.2f} {cpu['verdict']:14} {pair['proactor']} / {pair['reactor']}")


def told_calls(median):
    return f"{median['syscalls']:.2f}" if "syscalls" in median else "-"


def print_row(result):
    print(f"\n{result['row']}   (sessions/threads/block/window/delay in us)")
    print(f"  {'':32} {'msg/s':>9} {'spread':>6} {'CPU us':>7} {'calls':>6} {'switch':>6} "
          f"{'p50':>6} {'p99':>7} {'p99.9':>7} {'Jain':>5}  against {result['base']}")
    for name, median in sorted(result["medians"].items(), key=lambda item: -item[1]["rate"]):
        verdict = result["judged"].get(name, {}).get("rate")
        cpu = result["judged"].get(name, {}).get("cpu_us")
        told = "" if not verdict else (f"rate {verdict['ratio']:.2f} {verdict['verdict']}, "
                                       f"CPU {cpu['ratio']:.2f} {cpu['verdict']}" if cpu else "")
        print(f"  {name:32} {median['rate']:9,.0f} {result['spread'][name]:6.0%} "
              f"{median['cpu_us']:7.2f} {told_calls(median):>6} {median['switches']:6.2f} "
              f"{median['p50_us']:6.0f} {median['p99_us']:7.0f} {median['p999_us']:7.0f} "
              f"{median['jain']:5.2f}  {told}")
    for name, why in result["troubles"].items():
        print(f"  {name:32} {why}")
    if result["generator_busy"] > 0.95:
        print("  note: the load generator was fully busy: compare the CPU per message")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a round")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.3 s")
    parser.add_argument("--row", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--patterns", action="store_true", help="Proactors and Reactors only")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    parser.add_argument("--free", action="store_true", help="let the system place the processes")
    parser.add_argument("--syscalls", choices=["strace", "none"], default="strace",
                        help="how they are counted")
    parser.add_argument("--no-save", action="store_true", help="print the tables only")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.3
    options.build = options.build.resolve()
    wanted = [row for row in rows() if options.row in name_of(row)]
    if not wanted or options.rounds < 1:
        parser.error("no such row")
    total = sum(len(wanted_servers(options, row)) for row in wanted) * options.rounds
    clock = Clock(total)
    results = []
    for row in wanted:
        results.append(measure_row(options, row, clock))
        compare.progress("")
        print_row(results[-1])
    print_patterns(results)
    if not options.no_save:
        compare.save("patterns" if options.patterns else "rows", results)
    return 0 if any(result["medians"] for result in results) else 2


if __name__ == "__main__":
    sys.exit(main())
