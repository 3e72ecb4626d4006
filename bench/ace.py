#!/usr/bin/env python3
"""One program written for ACE's Proactor: on ACE's own implementation, and on Baton by baton-ace.

    bench/ace.py              every row, 7 rounds: fifteen minutes
    bench/ace.py --quick      3 short rounds: rough
    bench/ace.py --row 40     rows whose name has this in it

The program is bench/rivals/ace/proactor.cpp, an echo as ACE's examples write it. A row is sessions,
threads and the block in bytes. In each round every column runs once, in an order that turns, and a
ratio to ACE's own is that of one round (bench/compare.py). ACE's own serves some twenty connections
at a time: with more of them some get no answer, and its column says so; then no ratio is judged. A
row with one session also has a hand-written epoll loop, which shows what its mechanism costs.

Everything goes to bench/results/<date>-ace.json. Exit status: 0 all goals met, 1 a goal was missed,
2 something of Baton could not be measured.
"""

import statistics
import sys

import compare
import output
from option_parser import OptionParser

PROGRAM = "{build}/bench/ace_proactor"
STOCK = "ACE"
RAW = "raw epoll"
BATON = {"epoll": "engine=emulated,wait=epoll", "io_uring": "engine=io_uring"}


def calls(epoll, io_uring):
    """Goals for the system calls a message, column by column."""
    return {column: [("syscalls", "a", "<=", bound)]
            for column, bound in (("epoll", epoll), ("io_uring", io_uring))}


def all_columns(goal):
    return {column: [goal] for column in BATON}


# Sessions, threads, block; each column's goals. A ratio is to ACE's own, where that serves all.
RATE = all_columns(("rate", "ratio", ">=", 4))
ROWS = [(1, 1, 512, [calls(4.1, 2.1), all_columns(("cpu_us", "ratio", "<=", 0.35))]),
        (40, 1, 512, [calls(3.1, 0.2), RATE]),
        (40, 4, 512, [RATE]),
        (40, 1, 8192, [RATE]),
        (1000, 1, 512, [RATE]),
        (1000, 4, 512, [RATE])]


def name_of(row):
    sessions, threads, block, _ = row
    return f"{sessions} sessions, {threads} threads, {block} B"


def columns_of(row):
    return [STOCK, *BATON, *([RAW] if row[0] == 1 else [])]


def command_of(column, threads, block):
    if column == RAW:
        return compare.raw("raw_epoll", block)
    arguments = [PROGRAM, "--threads", str(threads), "--block", str(block)]
    if column == STOCK:
        return arguments
    return ["env", f"BATON={BATON[column]}", "{build}/bin/baton-ace", *arguments]


def is_judged(options, goal):
    """A ratio of one or two rounds says nothing."""
    return options.syscalls != "none" if goal[0] == "syscalls" else options.rounds >= 3


def measure_row(options, row):
    sessions, threads, block, goals_of = row
    load = {"sessions": sessions, "block": block}
    sides = {column: (column, command_of(column, threads, block), load)
             for column in columns_of(row)}
    taken, troubles = {column: [] for column in sides}, {}
    for number in range(options.rounds):
        turn = number % len(sides)
        for column in [*sides][turn:] + [*sides][:turn]:
            if column in troubles:
                continue
            compare.progress(f"{name_of(row)}: {column}, round {number + 1} of {options.rounds}")
            try:
                taken[column].append(compare.measure_server(options.build, sides[column], True,
                                                            options.seconds))
            except compare.CannotMeasure as why:
                troubles[column] = str(why)
    medians, calls = {}, {}
    for column, rounds in taken.items():
        if column in troubles or not rounds:
            continue
        medians[column] = {m: statistics.median(r[m] for r in rounds) for m in rounds[0]}
        compare.progress(f"{name_of(row)}: {column}, system calls")
        try:
            found, calls[column] = compare.count_syscalls(options, sides[column], True)
            medians[column].update(found)
        except compare.CannotMeasure as why:
            troubles[f"{column}, system calls"] = str(why)
    compare.progress("")
    judged = {column: {m: compare.judge(m, [r[m] for r in taken[column]],
                                        [r[m] for r in taken[STOCK]])
                       for m in ("rate", "cpu_us")}
              for column in medians if column != STOCK and STOCK in medians}
    goals = {column: [compare.check_goal(goal, judged.get(column, {}), medians.get(column, {}))
                      for goals_for in goals_of for goal in goals_for[column]
                      if is_judged(options, goal)]
             for column in BATON}
    return {"row": name_of(row), "rounds": taken, "medians": medians, "judged": judged,
            "calls_per_message": calls, "goals": goals, "troubles": troubles}


def print_row(result):
    print(f"\n{result['row']}")
    print(f"  {'':10} {'msg/s':>9} {'CPU us':>7} {'calls':>6} {'p50':>6} {'p99':>7}")
    for column, median in result["medians"].items():
        calls = f"{median['syscalls']:.2f}" if "syscalls" in median else "-"
        ratios = result["judged"].get(column, {})
        told = ", ".join(f"{what} {one['ratio']:.2f} x ACE's, {one['verdict']}" for what, one in
                         (("rate", ratios.get("rate")), ("CPU", ratios.get("cpu_us"))) if one)
        print(f"  {column:10} {median['rate']:9,.0f} {median['cpu_us']:7.2f} {calls:>6} "
              f"{median['p50_us']:6.0f} {median['p99_us']:7.0f}  {told}")
    for column, why in result["troubles"].items():
        print(f"  {column:10} {why}")
    for column, goals in result["goals"].items():
        for goal in goals:
            print(f"  {column}, goal: {compare.goal_text(goal)}")


def main():
    parser = OptionParser(__doc__, "row", "syscalls", "no-save", rounds=7, seconds=1.0, quick=(3,
                          0.3))
    options = parser.parse_args()
    wanted = [row for row in ROWS if options.row in name_of(row)]
    if not wanted:
        parser.error("no such row")
    results = []
    for row in wanted:
        results.append(measure_row(options, row))
        print_row(results[-1])
    if not options.no_save:
        compare.save("ace", results)
    if any(column not in result["medians"] for result in results for column in BATON):
        return 2
    return int(any(goal["met"] is False for result in results
                   for goals in result["goals"].values() for goal in goals))


if __name__ == "__main__":
    sys.exit(output.status_of(main))
