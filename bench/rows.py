#!/usr/bin/env python3
"""The paper's test program and ours: echo servers side by side, row by row.

    bench/rows.py                     every row: the paper's twelve, then ours; 75 minutes
    bench/rows.py --quick             short rounds, few of them: 20 minutes, and rough
    bench/rows.py --row 40/5          rows whose name has this in it
    bench/rows.py --only io_uring     servers whose name has this in it
    bench/rows.py --without poll,reactor    and those whose name has none of these in it

A row is sessions, threads, block, window (0: half duplex) and how long a handler takes. In each
round every server of the row runs once, in an order that turns; server and load are processes of
their own, on different cores. A ratio is that of one round, and the verdict comes from the interval
of their median (bench/compare.py). A server is compared with the best raw loop of the row, or,
where none can run (a pool with slow handlers), with the thread-pool Reactor of ACE.

    bench/rows.py --java              the servers in Java, too, in the rows without slow handlers
    bench/rows.py --row pool          two threads in run(), each server against itself with one
    bench/rows.py --row uneven        one session whose handlers take long; p99 is the others'
    bench/rows.py --row udp           datagrams, back to where they came from; lost ones are counted

Handlers of the papers' rows sleep. Where a time is random, 0-10, or one session is slow, they
compute (tools/bench/handler_work.hpp). A pool needs its cores, so in most of its rows the system
places server and load (free).

The last table holds one pattern against the other (P-05, P-37): over each wait strategy Baton's
Proactor against Baton's Reactor, and the best Proactor against the best Reactor, ours or ACE's.

    bench/rows.py --patterns          only the servers which that table needs

Whether a change has made Baton slower is told by another build of it, in the same run:

    bench/rows.py --against FOLDER    each of Baton's servers against the one of that build

Everything goes to bench/results/<date>-rows.json; bench/report.py makes the page of it.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import compare
import java_servers
import output
from option_parser import OptionParser

REPOSITORY = compare.REPOSITORY

IDLE = 10_000


class Row(NamedTuple):
    sessions: int
    threads: int
    block: int
    window: int = 0       # bytes that may be on the way beyond one block
    delay: int = 0        # microseconds that a handler sleeps
    idle: int = 0         # more connections, which only connect
    kind: str = "echo"    # "pool", "uneven", "udp": see above
    random: int = 0       # microseconds that a handler computes, at most
    slow: int = 0         # microseconds that handlers of one session compute
    free: bool = False    # the system places server and load
    goals: tuple = ()     # of Baton: what, of, relation, bound (bench/compare.py)


# The first twelve are the paper's.
PAPER = [Row(*row) for row in (
    (1, 1, 512, 1024, 0), (1, 1, 512, 1024, 10), (1, 1, 8192, 8192, 0), (1, 5, 8192, 8192, 0),
    (1, 5, 8192, 8192, 10), (40, 5, 8192, 8192, 10), (40, 5, 8192, 0, 10),
    (100, 4, 1024, 1024, 10), (100, 5, 8192, 8192, 10), (100, 5, 8192, 8192, 0),
    (100, 5, 8192, 0, 10), (100, 5, 8192, 0, 0))]
OURS = [Row(1, 1, 512), Row(10, 1, 512), Row(100, 1, 512), Row(1000, 1, 64), Row(1000, 1, 512),
        Row(100, 1, 512, idle=IDLE)]
# Pinned to one core, a thread that is woken for nothing costs its switches; free, it also costs a
# core its sleep, and the rate of one session depends on which cores it and the load meet on: there
# the counts tell more.
ONE_SESSION = (("rate", "ratio", ">=", 0.95), ("syscalls", "a", "<=", 3.1),
               ("switches", "a", "<=", 0.6))
POOL = [Row(1, 2, 8192, 8192, kind="pool", goals=ONE_SESSION),
        Row(1, 2, 8192, 8192, kind="pool", free=True, goals=ONE_SESSION)] + \
    [Row(40, 2, 512, delay=delay, random=random, kind="pool", free=True,
         goals=(("rate", "ratio", ">=", least),))
     for delay, random, least in ((100, 0, 1.7), (0, 20, 1.0), (0, 10, 1.0), (0, 0, 1.0))]
UNEVEN = [Row(40, 2, 512, kind="uneven", slow=10_000, free=True)]
# Eight in flight for each peer.
UDP = [Row(10, 1, 64, 7 * 64, kind="udp"), Row(10, 1, 1400, 7 * 1400, kind="udp")]

BATON = [
    # The papers' variants.
    ("baton select shared", "emulated", "select", "shared"),
    ("baton select dedicated", "emulated", "select", "dedicated"),
    ("baton rt_signals dedicated", "emulated", "rt_signals", "dedicated"),
    # Ours.
    ("baton poll shared", "emulated", "poll", "shared"),
    ("baton poll per_thread", "emulated", "poll", "per_thread"),
    ("baton rt_signals per_thread", "emulated", "rt_signals", "per_thread"),
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
    ("ACE_POSIX_SIG_Proactor", "ace_proactor", [], True, True),
]
UDP_BATON = ("baton epoll per_thread", "baton io_uring per_thread")
UDP_RIVALS = {"raw epoll": "raw_epoll_udp", "raw io_uring": "raw_uring_udp",
              "Asio epoll": "asio_epoll_udp", "Asio io_uring": "asio_uring_udp",
              "libuv": "libuv_udp"}
# Each thread may take up any session, so there is a pool whose threads can be compared.
POOLED = ("baton epoll shared", "baton io_uring shared", "reactor epoll", "Asio epoll",
          "Asio io_uring", "ACE_TP_Reactor", "ACE_Dev_Poll_Reactor")
ALONE = ", 1 thread"  # of the same server, behind its name
OLDER = ", older build"
SELECT_SESSIONS_MAX = 900  # of 1,024 descriptors


def name_of(row):
    busy = f"0-{row.random}" if row.random else row.delay
    return ("" if row.kind == "echo" else f"{row.kind} ") + \
        f"{row.sessions}/{row.threads}/{row.block}/{row.window}/{busy}" + \
        (f"+{row.idle} idle" if row.idle else "") + \
        (f"+one of {row.slow}" if row.slow else "") + (" free" if row.free else "")


def rows():
    return PAPER + OURS + POOL + UNEVEN + UDP


def options_of(row):
    """Those that all servers have."""
    work = {"--delay-us": row.delay, "--random-us": row.random, "--slow-us": row.slow}
    found = ["--block", str(row.block)]
    for option, value in work.items():
        found += [option, str(value)] if value else []
    return found


def baton_echo(build, name, more):
    engine, wait, mode = next(rest for named, *rest in BATON if named == name)
    return [str(build / "bin" / "baton"), "echo", "--engine", engine, "--mode", mode,
            *(["--wait", wait] if wait else []), *more]


def servers(build, row):
    """Name -> command, of those that can serve the row here."""
    if row.kind == "udp":
        return datagram_servers(build, row)
    found = stream_servers(build, row)
    if row.kind != "pool":
        return found
    alone = stream_servers(build, row._replace(threads=1))
    return {named: command for name in POOLED if name in found
            for named, command in ((name, found[name]), (name + ALONE, alone[name]))}


def datagram_servers(build, row):
    more = options_of(row)
    found = {name: baton_echo(build, name, ["--protocol", "udp", *more]) for name in UDP_BATON}
    for name, program in UDP_RIVALS.items():
        if (build / "bench" / program).exists():
            found[name] = [str(build / "bench" / program), *more]
    return found


def stream_servers(build, row):
    crowd = row.sessions + row.idle
    threads = ["--threads", str(row.threads)]
    more = options_of(row)
    busy = row.delay or row.random or row.slow
    found = {}
    for name, _, wait, _ in BATON:
        if wait != "select" or crowd <= SELECT_SESSIONS_MAX:
            found[name] = baton_echo(build, name, [*threads, *more])
    for name, wait in REACTOR.items():
        if wait != "select" or crowd <= SELECT_SESSIONS_MAX:
            found[name] = [str(build / "bench" / "reactor_echo"), "--wait", wait, *threads, *more]
    for name, program, options, pool, slow in RIVALS:
        if (busy and not slow) or not (build / "bench" / program).exists():
            continue
        if program == "ace_reactor" and "tp" in options and crowd > SELECT_SESSIONS_MAX:
            continue
        found[name] = [str(build / "bench" / program), *options, *(threads if pool else []), *more]
    return found


def with_java(found, row):
    """The servers in Java as well; their handlers do nothing but echo."""
    busy = row.delay or row.random or row.slow
    return found if row.kind != "echo" or busy else {**found, **java_servers.commands(row)}


def in_patterns(name):
    """Whether the table of the two patterns needs it."""
    return name.startswith("baton ") or name in REACTOR or name in ACE


def wanted_servers(options, row):
    found = servers(options.build, row)
    if options.java:
        found = with_java(found, row)
    found = {name: command for name, command in found.items()
             if options.only in name and not any(word in name for word in options.without)
             and (not options.patterns or in_patterns(name))}
    return found if options.against is None else with_older(found, options)


def with_older(found, options):
    """Of Baton's servers, each beside the one of the build that it is compared with."""
    sides = {}
    for name, command in found.items():
        if name.startswith("baton ") or name in REACTOR:
            older = [word.replace(str(options.build), str(options.against), 1)
                     for word in command]
            sides |= {name: command, name + OLDER: older}
    return sides


def load_of(row):
    load = {"sessions": row.sessions, "block": row.block, "window": row.window}
    more = {"idle": row.idle, "apart": int(row.slow > 0),
            "protocol": "udp" if row.kind == "udp" else ""}
    return {**load, **{name: value for name, value in more.items() if value}}


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
    pinned = not (options.free or row.free)
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
                warm_up = 2.0 if name in java_servers.SERVERS else 0.0
                taken[name].append(compare.measure_server(
                    options.build, side, pinned, options.seconds, warm_up))
            except compare.CannotMeasure as why:
                troubles[name] = str(why)
    result = judge_row(row, taken, troubles, options.against)
    for name, medians in result["medians"].items():
        # In a round of their own, for counting them slows the server.
        compare.progress(f"{name_of(row)}  {name}: system calls")
        side = (name, sides[name], load_of(row))
        try:
            found, _ = compare.count_syscalls(options, side, pinned)
        except compare.CannotMeasure as why:
            found, troubles[f"{name}, system calls"] = {}, str(why)
        medians.update(found)
    check_goals(row, result)
    return result


def judge_row(row, taken, troubles, older=None):
    good = {name: rounds for name, rounds in taken.items() if rounds and name not in troubles}
    medians = {name: {m: statistics.median(r[m] for r in rounds) for m in rounds[0]}
               for name, rounds in good.items()}
    spreads = {name: compare.spread([r["rate"] for r in rounds]) for name, rounds in good.items()}
    held = [name for name in good if name.startswith("raw")] or \
        [name for name in good if name == "ACE_TP_Reactor"]
    base = max(held, key=lambda name: medians[name]["rate"], default=None)
    against = {name: base for name in good if base and name != base}
    if row.kind == "pool":
        base = "itself with 1 thread"
        against = {name: name + ALONE for name in good if name + ALONE in good}
    if older is not None:
        base = str(older)
        against = {name: name + OLDER for name in good if name + OLDER in good}
    judged = {name: {m: compare.judge(m, [r[m] for r in good[name]], [r[m] for r in good[other]])
                     for m in judged_measures(row)}
              for name, other in against.items()}
    return {"row": name_of(row), "parameters": row._asdict(), "base": base, "rounds": good,
            "medians": medians, "spread": spreads, "judged": judged, "goals": {},
            "patterns": judge_patterns(good, medians), "troubles": troubles,
            "generator_busy": max((m["generator_busy"] for m in medians.values()), default=0)}


def judged_measures(row):
    # Slow handlers take most of the CPU of an uneven row, in proportion to their calls.
    return ("rate", "p99_us") if row.kind == "uneven" else ("rate", "cpu_us")


def check_goals(row, result):
    """Of Baton with all its threads. The system calls must be counted by now."""
    for name, medians in result["medians"].items():
        if row.goals and name.startswith("baton ") and not name.endswith(ALONE):
            judged = result["judged"].get(name, {})
            result["goals"][name] = [compare.check_goal(goal, judged, medians)
                                     for goal in row.goals]


def judge_patterns(good, medians):
    """Comparison -> the Proactor, the Reactor and their ratios."""
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
    width = max(len(result["row"]) for result in results)
    print("\nProactor against Reactor: messages a second as a ratio, the interval of its median, "
          "and CPU a message as a ratio")
    for what in [*REACTOR.values(), "the best", "against ACE"]:
        for result in results:
            pair = result["patterns"].get(what)
            if not pair:
                continue
            rate, cpu = pair["rate"], pair["cpu_us"]
            print(f"  {what:11} {result['row']:{width}} {rate['ratio']:5.2f} "
                  f"[{rate['low']:.2f}, {rate['high']:.2f}] {rate['verdict']:14} CPU "
                  f"{cpu['ratio']:5.2f} {cpu['verdict']:14} {pair['proactor']} / {pair['reactor']}")


def told_calls(median):
    return f"{median['syscalls']:.2f}" if "syscalls" in median else "-"


def told_verdicts(judged, median):
    names = {"rate": "rate", "cpu_us": "CPU", "p99_us": "p99"}
    told = [f"{names[m]} {one['ratio']:.2f} {one['verdict']}" for m, one in judged.items() if one]
    return ", ".join(told + ([f"{median['lost']:.2%} lost"] if median.get("lost") else []))


def print_row(result):
    print(f"\n{result['row']}   (sessions/threads/block/window/delay in us)")
    print(f"  {'':32} {'msg/s':>9} {'spread':>6} {'CPU us':>7} {'calls':>6} {'switch':>6} "
          f"{'p50':>6} {'p99':>7} {'p99.9':>7} {'Jain':>5}  against {result['base']}")
    for name, median in sorted(result["medians"].items(), key=lambda item: -item[1]["rate"]):
        print(f"  {name:32} {median['rate']:9,.0f} {result['spread'][name]:6.0%} "
              f"{median['cpu_us']:7.2f} {told_calls(median):>6} {median['switches']:6.2f} "
              f"{median['p50_us']:6.0f} {median['p99_us']:7.0f} {median['p999_us']:7.0f} "
              f"{median['jain']:5.2f}  {told_verdicts(result['judged'].get(name, {}), median)}")
    for name, why in result["troubles"].items():
        print(f"  {name:32} {why}")
    for name, goals in result["goals"].items():
        for goal in goals:
            print(f"  {name}, goal: {compare.goal_text(goal)}")
    if result["generator_busy"] > 0.95:
        print("  note: the load generator was fully busy: compare the CPU per message")


def main():
    parser = OptionParser(__doc__, "row", "only", "free", "syscalls", "no-save", "against",
                          rounds=7, seconds=1.0, quick=(3, 0.3))
    parser.add_argument("--without", type=lambda text: text.split(","), default=[])
    parser.add_argument("--patterns", action="store_true", help="Proactors and Reactors only")
    parser.add_argument("--java", action="store_true",
                        help="the servers in Java, too (scripts/java --bench)")
    options = parser.parse_args()
    wanted = [row for row in rows() if options.row in name_of(row) and
              not (options.patterns and row.kind == "udp")]  # the Reactor's half is streams
    if not wanted:
        parser.error("no such row")
    total = sum(len(wanted_servers(options, row)) for row in wanted) * options.rounds
    clock = Clock(total)
    results = []
    for row in wanted:
        results.append(measure_row(options, row, clock))
        compare.progress("")
        print_row(results[-1])
        if not options.no_save:  # after each, so that what is measured is not lost
            path = compare.keep("patterns" if options.patterns else "rows", results)
    print_patterns(results)
    if not options.no_save:
        print(f"\n{compare.shown(path)}")
    return 0 if any(result["medians"] for result in results) else 2


if __name__ == "__main__":
    sys.exit(output.status_of(main))
