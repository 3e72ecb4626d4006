#!/usr/bin/env python3
"""Compares libuaio-preload.so with the system's AIO, and with fio's io_uring engine.

    bench/uaio.py                    the whole table, 5 rounds
    bench/uaio.py --quick            3 rounds of half a second
    bench/uaio.py --only direct      the rows whose name contains this
    bench/uaio.py --chart            the thesis's figures as charts, too

Three sides take turns in rounds on the same files: posixaio of fio with the library preloaded,
the same fio without it, and fio's io_uring engine. A cell is the median of the rounds' ratios, its
verdict against the floor of the issue beside it. The rows of the thesis (section 5.2) are run by
build/bench/uaio_thesis. Nothing else should run meanwhile. Needs fio.

Exit status: 0 all floors met, 1 one was missed, 2 something could not be measured.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("uaio", "system", "io_uring")
ENGINES = {"io_uring": "io_uring", "bound": "psync"}  # of fio; else posixaio


class CannotMeasure(Exception):
    pass


def environment(side, options):
    result = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "UAIO")}
    if side == "uaio":
        result["LD_PRELOAD"] = str(options.build / "lib" / "libuaio-preload.so")
        if options.uaio:
            result["UAIO"] = options.uaio
    return result


def call(command, side, options, timeout):
    try:
        done = subprocess.run(command, env=environment(side, options), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        raise CannotMeasure(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


# -- fio ------------------------------------------------------------------------------------------

def fio_rows():
    """(name, fio's options, floor against the system's, floor against io_uring)"""
    rows = []
    for direct in (1, 0):
        for write in (0, 1):
            for files in (1, 4):
                for depth in (1, 16, 128):
                    name = (f"{'direct' if direct else 'cached'} "
                            f"{'write' if write else 'read'} 4k, {files} file"
                            f"{'s' if files > 1 else ''}, depth {depth}")
                    rows.append((name, dict(rw="randwrite" if write else "randread", bs="4k",
                                            direct=direct, files=files, depth=depth),
                                 *fio_floor(direct, write, files, depth)))
    for direct in (1, 0):
        for rw in ("read", "write"):
            for depth in (1, 16):
                name = f"{'direct' if direct else 'cached'} {rw} 128k sequential, depth {depth}"
                rows.append((name, dict(rw=rw, bs="128k", direct=direct, files=1, depth=depth),
                             0.95, None))
    return rows


def fio_floor(direct, write, files, depth):
    if direct and files == 1 and depth > 1:
        return 4, 0.95
    if direct and files == 4 and depth == 128:
        return 2, 0.95
    if not direct and not write and files == 1 and depth == 1:
        return 20, 1.0
    if not direct and not write and files == 1 and depth == 128:
        return 1.0, 1.2
    if not direct and write and files == 1 and depth == 1:
        return 10, 5
    if not direct and write and files == 4 and depth == 128:
        return 0.95, 1.5
    return 0.95, None


def fio(row, side, options, folder):
    names = ":".join(str(folder / f"data{i}") for i in range(row["files"]))
    size = options.size // row["files"]
    command = ["fio", "--name=row", f"--filename={names}", f"--filesize={size}m",
               f"--ioengine={ENGINES.get(side, 'posixaio')}",
               f"--rw={row['rw']}", f"--bs={row['bs']}", f"--iodepth={row['depth']}",
               f"--direct={row['direct']}", "--time_based", f"--runtime={options.seconds}",
               "--norandommap", "--randrepeat=0", "--overwrite=1", "--invalidate=0",
               "--iomem_align=4096", "--output-format=json"]
    if not row["direct"]:
        warm(folder)
    before = cpu_of_children()
    job = call(command, side, options, 60 + 10 * options.seconds)["jobs"][0]
    direction = job["read" if "read" in row["rw"] else "write"]
    # fio's own figure leaves out the threads of libraries.
    cpu = cpu_of_children() - before
    return {"rate": direction["iops"], "cpu": cpu / max(direction["total_ios"], 1)}


def warm(folder):
    """Brings the files into the page cache, where "cached" wants them."""
    for path in folder.glob("data*"):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- the thesis -----------------------------------------------------------------------------------

def thesis_rows():
    """(name, arguments, key, floor of the ratio of that key, timeout of the system's)"""
    rows = [(f"one write of {size} MB (5.2.1)", ("write", size), "seconds", 0.95)
            for size in (50, 200)]
    rows += [("200 MB in 50 list requests (5.2.2)", ("lists", 50), "seconds", 0.95),
             ("200 MB in 500 list requests (5.2.2)", ("lists", 500), "seconds", 4)]
    for count in range(10, 61, 10):
        rows.append((f"{count} processes x 200 list reads, time (5.2.3)", ("processes", count),
                     "seconds", 0.95))
    rows.append(("60 processes x 200 list reads, CPU (5.2.3)", ("processes", 60), "cpu", 1 / 0.75))
    rows += [("FFT over audio (5.2.4)", ("fft", 300), "seconds", 0.95),
             ("cached read, submit to collected", ("latency", 20000), "each_us", 8),
             ("file read while 1000 sockets are idle", ("idle", 200), "each_us", None)]
    return rows


def thesis(arguments, side, options, folder):
    program = options.build / "bench" / "uaio_thesis"
    if not program.exists():
        raise CannotMeasure(f"{program} is missing: build it (libfftw3-dev)")
    what, count = arguments
    return call([str(program), what, str(folder / "thesis"), str(count)], side, options,
                10 if what == "idle" else 120)


# -- the table ------------------------------------------------------------------------------------

def ratio_text(ratio, floor):
    if ratio is None:
        return "-"
    mark = "" if floor is None else (" met" if ratio >= floor else " MISSED")
    wanted = "" if floor is None else f" (>= {floor:.2f})"
    return f"{ratio:.2f}{wanted}{mark}"


def measure_fio(options, folder, results):
    for name, row, against_system, against_uring in fio_rows():
        if options.only and options.only not in name:
            continue
        # Where the floor is high, what fio itself can: the same with pread and pwrite, no library.
        bounded = against_system >= 10
        taken = {side: [] for side in (*SIDES, *(("bound",) if bounded else ()))}
        for _ in range(options.rounds):
            for side in taken:
                taken[side].append(fio(row, side, options, folder))
        rates = {side: [each["rate"] for each in taken[side]] for side in taken}
        ratio = {side: statistics.median(mine / other for mine, other
                                         in zip(rates["uaio"], rates[side]))
                 for side in taken if side != "uaio"}
        cpu = {side: statistics.median(each["cpu"] for each in taken[side]) for side in SIDES}
        result = {"name": name, "rates": rates, "cpu_per_io": cpu,
                  "against_system": ratio["system"], "floor_system": against_system,
                  "against_io_uring": ratio["io_uring"], "floor_io_uring": against_uring}
        if name == "cached write 4k, 4 files, depth 128":
            result["cpu_floor"] = cpu["uaio"] <= cpu["system"]
        results.append(result)
        print(f"{name:42} {statistics.median(rates['uaio']):10.0f}/s "
              f"{ratio_text(ratio['system'], against_system):26} "
              f"{ratio_text(ratio['io_uring'], against_uring):26} "
              f"CPU {1e6 * cpu['uaio']:6.2f} {1e6 * cpu['system']:6.2f} "
              f"{1e6 * cpu['io_uring']:6.2f} us", flush=True)
        if bounded:
            result["bound"] = statistics.median(
                bound / system for bound, system in zip(rates["bound"], rates["system"]))
            print(f"{'':42} fio with pread and pwrite, no library at all: "
                  f"{result['bound']:.2f} x the system's", flush=True)


def measure_thesis(options, folder, results):
    for name, arguments, key, floor in thesis_rows():
        if options.only and options.only not in name:
            continue
        taken = {side: [] for side in SIDES[:2]}
        for _ in range(options.rounds):
            for side in taken:
                if side == "system" and None in taken[side]:
                    continue  # it has not finished, and would not now
                taken[side].append(thesis(arguments, side, options, folder))
        mine = [each[key] for each in taken["uaio"]]
        result = {"name": name, "uaio": mine, "floor_system": floor, "against_system": None}
        if None in taken["system"]:
            text = "the system's does not finish"
            result["met"] = statistics.median(mine) < 100
            verdict = "met" if result["met"] else "MISSED"
            text += f"; {statistics.median(mine):.1f} us (< 100) {verdict}"
        else:
            others = [each[key] for each in taken["system"]]
            result["system"] = others
            result["against_system"] = statistics.median(b / a for a, b in zip(mine, others))
            text = ratio_text(result["against_system"], floor)
        results.append(result)
        print(f"{name:42} {statistics.median(mine):10.4f} {key:8} {text}", flush=True)


def missed(result):
    return any(result.get(f"against_{side}") is not None and result.get(f"floor_{side}") is not None
               and result[f"against_{side}"] < result[f"floor_{side}"]
               for side in ("system", "io_uring")) or result.get("met") is False or \
        result.get("cpu_floor") is False


def chart(results):
    print("\nagainst the system's AIO (| is 1 x)")
    for result in results:
        ratio = result.get("against_system")
        if ratio is not None:
            print(f"{result['name']:46} {'#' * min(60, round(10 * ratio)):10}{ratio:8.2f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--folder", type=Path, help="where the files are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--size", type=int, default=256, help="of all files of a row, MB")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--uaio", default="", help="options for the library")
    parser.add_argument("--chart", action="store_true")
    parser.add_argument("--json", type=Path, help="keep the results here")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.quick:
        options.rounds, options.seconds = 3, 0.5
    results = []
    try:
        with tempfile.TemporaryDirectory(prefix="uaio-bench-", dir=options.folder) as folder:
            measure_fio(options, Path(folder), results)
            measure_thesis(options, Path(folder), results)
    except (CannotMeasure, FileNotFoundError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        sys.exit(2)
    if options.chart:
        chart(results)
    if options.json:
        options.json.write_text(json.dumps({
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "kernel": platform.release(), "command": " ".join(sys.argv),
            "rounds": options.rounds, "seconds": options.seconds, "rows": results},
            indent=1) + "\n")
    misses = [result["name"] for result in results if missed(result)]
    print(f"{len(results)} rows, {len(misses)} missed" + "".join(f"\n  {name}" for name in misses))
    sys.exit(1 if misses else 0)


main()
