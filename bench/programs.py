#!/usr/bin/env python3
"""Rows that are no echo server: posting, timers, short connections, files.

    bench/programs.py                  every row, 7 rounds: half an hour
    bench/programs.py --quick          3 short rounds: rough
    bench/programs.py --row timers     rows whose name has this in it

Each side of a row is a program that measures itself, or fio. In each round every side runs once, in
an order that turns; a ratio is that of one round, and the verdict comes from the interval of their
median (bench/compare.py). A row is compared with its first side that is there: the floor program
(bench/rivals/raw), which does the same with nothing in between, or fio. What is not installed is
left out, and said.

Everything goes to bench/results/<date>-programs.json; bench/report.py makes tables of it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys

import compare
import files
import output
from rows import Clock
from option_parser import OptionParser

MODES = ("shared", "per_thread")
ENGINES = {"emulated/epoll": "engine=emulated,wait=epoll", "io_uring": "engine=io_uring"}
LIBRARIES = {"post": ("asio",), "timer": ("libuv", "asio")}  # libuv has no queue for posts
FILE_ROWS = {  # name: block, O_DIRECT, at random
    "files, 4 KiB at random, cached": (4096, False, True),
    "files, 4 KiB at random, O_DIRECT": (4096, True, True),
    "files, 128 KiB in order, cached": (131072, False, False),
}


def self_measured(command, environment=""):
    """A program that prints {"scenario": {"median_ns": …}, …}, in ns."""
    def measure(options):
        rounds = ["--rounds", "1" if options.quick else "3"]
        done = subprocess.run(
            compare.command_line([*command, *rounds], options.build), stdout=subprocess.PIPE,
            text=True, check=False, env={**os.environ, "BATON": environment})
        if done.returncode != 0:
            raise compare.CannotMeasure(f"{command[0]} ended with {done.returncode}")
        return {name: value["median_ns"] for name, value in json.loads(done.stdout).items()
                if isinstance(value, dict)}
    return measure


def churn(mode, environment):
    def measure(options):
        count = "5000" if options.quick else "50000"
        done = subprocess.run(
            compare.command_line(["{build}/bench/churn", "--mode", mode, "--connections", count],
                                 options.build), stdout=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "BATON": environment})
        if done.returncode != 0:
            raise compare.CannotMeasure(f"churn ended with {done.returncode}: {done.stdout}")
        return {"ns a connection": 1e9 / json.loads(done.stdout)["per_second"]}
    return measure


def by_baton(engine, block, direct, random):
    def measure(options):
        command = compare.command_line(
            ["{build}/bin/baton", "load", "--file", str(options.file), "--no-compare", "--json",
             "--depth", str(files.DEPTH), "--block", str(block), "--seconds", str(options.seconds),
             "--engine", engine, "--mode", "per_thread", *(["--direct"] if direct else []),
             *(["--random"] if random else [])], options.build)
        return per_read(files.measure_baton(command))
    return measure


def by_fio(engine, block, direct, random):
    def measure(options):
        return per_read(files.measure_fio(
            ["fio", "--name=read", f"--filename={options.file}", f"--ioengine={engine}",
             f"--rw={'randread' if random else 'read'}", f"--bs={block}",
             f"--iodepth={files.DEPTH}", f"--direct={int(direct)}", "--numjobs=1", "--thread",
             "--time_based", f"--runtime={options.seconds}s", "--norandommap", "--invalidate=0",
             "--iomem_align=4096", "--output-format=json"]))
    return measure


def per_read(measured):
    return {"ns a read": 1e9 / measured["iops"], "CPU ns a read": measured["cpu_io_us"] * 1e3,
            "p50 us": measured["p50_us"], "p99 us": measured["p99_us"]}


def rows():
    """Row -> side -> how it is measured; the others are compared with the first side."""
    found = {}
    for row, program in (("posting", "post"), ("timers", "timer")):
        found[row] = {"floor": self_measured([f"{{build}}/bench/floor_{program}"])}
        for mode in MODES:
            found[row][f"baton {mode}"] = self_measured(
                [f"{{build}}/bench/{program}", "--mode", mode])
        for library in LIBRARIES[program]:
            found[row][library] = self_measured([f"{{build}}/bench/{library}_{program}"])
    found["connect, echo, close"] = {
        f"baton {engine} {mode}": churn(mode, environment)
        for engine, environment in ENGINES.items() for mode in MODES}
    for row, (block, direct, random) in FILE_ROWS.items():
        found[row] = {}
        if shutil.which("fio"):
            found[row]["fio io_uring"] = by_fio("io_uring", block, direct, random)
            if direct:
                found[row]["fio libaio"] = by_fio("libaio", block, direct, random)
        for engine in ("io_uring", "linux_aio", "emulated"):
            found[row][f"baton {engine}"] = by_baton(engine, block, direct, random)
    return found


def measure_row(options, name, sides, clock):
    taken, troubles = {side: [] for side in sides}, {}
    for number in range(options.rounds):
        order = list(sides)[number % len(sides):] + list(sides)[:number % len(sides)]
        for side in order:
            clock.step(f"{name}  {side}")
            if side in troubles:
                continue
            try:
                taken[side].append(sides[side](options))
            except (compare.CannotMeasure, OSError) as why:
                troubles[side] = str(why)
    good = {side: rounds for side, rounds in taken.items() if rounds and side not in troubles}
    base = next(iter(good), None)
    medians = {side: {m: statistics.median(r[m] for r in rounds) for m in rounds[0]}
               for side, rounds in good.items()}
    judged = {side: {m: compare.judge(m, [r[m] for r in rounds], [r[m] for r in good[base]])
                     for m in rounds[0] if m in good[base][0]}
              for side, rounds in good.items() if side != base}
    return {"row": name, "base": base, "rounds": good, "medians": medians, "judged": judged,
            "troubles": troubles}


def print_row(result):
    print(f"\n{result['row']}: times, and their ratio to those of {result['base']}")
    measures = list(dict.fromkeys(m for medians in result["medians"].values() for m in medians))
    for measure in measures:
        print(f"  {measure}")
        for side, medians in result["medians"].items():
            if measure not in medians:
                continue
            judged = result["judged"].get(side, {}).get(measure)
            told = "" if not judged else (f"{judged['ratio']:6.2f} ({judged['low']:.2f} to "
                                          f"{judged['high']:.2f})  {judged['verdict']}")
            print(f"    {side:28} {compare.number(medians[measure]):>10}  {told}")
    for side, why in result["troubles"].items():
        print(f"  {side}: not measured: {why}")


def main():
    parser = OptionParser(__doc__, "row", "file", "no-save", rounds=7, seconds=2, quick=(3, 1))
    parser.add_argument("--size", type=int, default=256, help="of a file to be made, in MiB")
    options = parser.parse_args()
    wanted = {name: sides for name, sides in rows().items() if options.row in name}
    if not wanted:
        parser.error("no such row")
    if any(name in FILE_ROWS for name in wanted):
        files.make_file(options.file, options.size << 20)
    clock = Clock(sum(len(sides) for sides in wanted.values()) * options.rounds)
    results = []
    for name, sides in wanted.items():
        results.append(measure_row(options, name, sides, clock))
        compare.progress("")
        print_row(results[-1])
    if not options.no_save:
        compare.save("programs", results)
    return 0 if any(result["medians"] for result in results) else 2


if __name__ == "__main__":
    sys.exit(output.status_of(main))
