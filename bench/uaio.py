#!/usr/bin/env python3
"""Compares libuaio-preload.so with the system's AIO, and with fio's io_uring engine.

    bench/uaio.py                    the whole table, 5 rounds
    bench/uaio.py --quick            3 rounds of half a second
    bench/uaio.py --only direct      the rows whose name contains this
    bench/uaio.py --chart            the thesis's figures as charts, too
    bench/uaio.py --against FOLDER   beside the library of an older build, as one more side

Three sides take turns in rounds on the same files: posixaio of fio with the library preloaded,
the same fio without it, and fio's io_uring engine. A cell is the median of the rounds' ratios, its
verdict against its floor beside it. The rows of the thesis (section 5.2) are run by
build/bench/uaio_thesis. Nothing else should run meanwhile. Needs fio. The whole table takes some
25 minutes, --quick 10.

Where the page cache answers, two more sides show what is possible: libuaio_bound.so, a library
that makes the one system call in the caller and does nothing else ("call"), or not even that
("nothing": what the program itself needs). A floor that "call" misses, too, is beyond reach: the
cell is at the bound if the library has 0.85 of the rate of "call".

Exit status: 0 all floors met or at the bound, 1 one was missed, 2 something could not be measured.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
import output
import result_file
from option_parser import OptionParser

SIDES = ("uaio", "system", "io_uring")
BOUNDS = ("call", "nothing")
OLDER = "older"
NEAR = 0.85  # of the bound: a write asks for the limit of file sizes, too, a tenth of what it costs


class CannotMeasure(Exception):
    pass


def environment(side, options):
    result = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "UAIO")}
    if side in ("uaio", OLDER):
        build = options.build if side == "uaio" else options.against
        result["LD_PRELOAD"] = str(build / "lib" / "libuaio-preload.so")
        if options.uaio:
            result["UAIO"] = options.uaio
    if side in BOUNDS:
        result["LD_PRELOAD"] = str(options.build / "bench" / "libuaio_bound.so")
        result["UAIO_BOUND"] = side
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
            for files, depth in ((1, 1), (1, 16), (4, 16)):
                name = (f"{'direct' if direct else 'cached'} {rw} 128k sequential, {files} file"
                        f"{'s' if files > 1 else ''}, depth {depth}")
                rows.append((name, dict(rw=rw, bs="128k", direct=direct, files=files, depth=depth),
                             0.95, None))
    # Pages of the file are in the page cache, where direct transfers meet them.
    for rw, pages, depth in (("write", "clean", 1), ("write", "clean", 16), ("write", "clean", 128),
                             ("write", "dirty", 16), ("read", "dirty", 16)):
        rows.append((f"direct {rw} 4k of {pages} pages, 1 file, depth {depth}",
                     dict(rw=f"rand{rw}", bs="4k", direct=1, files=1, depth=depth, pages=pages),
                     *((fio_floor(1, 1, 1, depth)) if pages == "clean" else (0.95, None))))
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
               f"--ioengine={'io_uring' if side == 'io_uring' else 'posixaio'}",
               f"--rw={row['rw']}", f"--bs={row['bs']}", f"--iodepth={row['depth']}",
               f"--direct={row['direct']}", "--time_based",
               f"--runtime={round(1000 * options.seconds)}ms",
               "--norandommap", "--randrepeat=0", "--overwrite=1", "--invalidate=0",
               "--iomem_align=4096", "--output-format=json"]
    prepare(row.get("pages", "none" if row["direct"] else "clean"), folder)
    before = cpu_of_children()
    job = call(command, side, options, 60 + 10 * options.seconds)["jobs"][0]
    direction = job["read" if "read" in row["rw"] else "write"]
    # fio's own figure leaves out the threads of libraries.
    cpu = cpu_of_children() - before
    return {"rate": direction["iops"], "cpu": cpu / max(direction["total_ios"], 1)}


def make_files(row, options, folder):
    """New files for each row, by writes of its size: the size of the writes that brought a file
    into the page cache decides the cost of a small write (4 KiB on ext4: 2 us after writes of 4
    KiB, 8 to 13 us after writes of a megabyte)."""
    for path in folder.glob("data*"):
        path.unlink()
    block = os.urandom(int(row["bs"].rstrip("k")) << 10)
    for i in range(row["files"]):
        with (folder / f"data{i}").open("wb", buffering=0) as file:
            for _ in range((options.size // row["files"] << 20) // len(block)):
                file.write(block)


def prepare(pages, folder):
    """The pages of the files in the page cache: "none", all of them "clean", or all "dirty". Before
    each run, because direct transfers write them back and drop them, so that the next side would
    find fewer."""
    os.sync()
    for path in folder.glob("data*"):
        with path.open("r+b", buffering=0) as file:
            if pages == "none":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                continue
            place = 0
            while piece := file.read(1 << 20):
                if pages == "dirty":
                    os.pwrite(file.fileno(), piece, place)
                place += len(piece)


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- the thesis -----------------------------------------------------------------------------------

def thesis_rows():
    """(name, arguments, key, floor of the ratio of that key, timeout of the system's)"""
    rows = [(f"one write of {size} MB (5.2.1)", ("write", size), "seconds", 0.95)
            for size in (50, 200)]
    rows += [("200 MB in 50 list requests (5.2.2)", ("lists", 50), "seconds", 0.95),
             ("200 MB in 500 list requests (5.2.2)", ("lists", 500), "seconds", 4),
             ("the same 50, O_DIRECT", ("lists_direct", 50), "seconds", 0.95),
             ("the same 500, O_DIRECT", ("lists_direct", 500), "seconds", None)]
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
    os.sync()  # as in warm()
    return call([str(program), what, str(folder / "thesis"), str(count)], side, options,
                10 if what == "idle" else 120)


# -- the table ------------------------------------------------------------------------------------

def verdict(ratio, floor, share):
    """`share`: of the bound's rate, the library's."""
    if ratio is None or floor is None:
        return None
    if ratio >= floor:
        return "met"
    # The bound misses the floor, and we are near it.
    return "bound" if share is not None and ratio / share < floor and share >= NEAR else "MISSED"


def ratio_text(ratio, floor, share=None):
    if ratio is None:
        return "-"
    wanted = "" if floor is None else f" (>= {floor:.2f}) {verdict(ratio, floor, share)}"
    return f"{ratio:.2f}{wanted}"


def bound_text(share, others):
    """The library's share of the bound, and the bound."""
    return (f"  one system call and nothing else: "
            + ", ".join(f"{ratio / share:.2f} x {name}" for name, ratio in others.items() if ratio)
            + f"; uaio is at {share:.2f} of it")


def with_older(options, sides):
    return sides if options.against is None else (*sides, OLDER)


def judge_older(mine, older):
    """Rates of the library and of the older one, round by round."""
    return compare.judge("rate", mine, older) if older else None


def tell_older(judged):
    if judged is not None:
        print(f"  against the older build: {judged['ratio']:.2f} ({judged['low']:.2f} to "
              f"{judged['high']:.2f}), {judged['verdict']}", flush=True)


def measure_fio(options, folder, results):
    for name, row, against_system, against_uring in fio_rows():
        if options.only and options.only not in name:
            continue
        sides = with_older(options, SIDES if row["direct"] else (*SIDES, *BOUNDS))
        taken = {side: [] for side in sides}
        make_files(row, options, folder)
        for turn in range(options.rounds):
            # Each side is the first in turn.
            for place in range(len(sides)):
                side = sides[(turn + place) % len(sides)]
                taken[side].append(fio(row, side, options, folder))
        rates = {side: [each["rate"] for each in taken[side]] for side in sides}
        ratio = {side: statistics.median(mine / other for mine, other
                                         in zip(rates["uaio"], rates[side]))
                 for side in sides if side != "uaio"}
        cpu = {side: statistics.median(each["cpu"] for each in taken[side]) for side in sides}
        share = ratio.get("call")
        result = {"name": name, "rates": rates, "cpu_per_io": cpu,
                  "against_system": ratio["system"], "floor_system": against_system,
                  "against_io_uring": ratio["io_uring"], "floor_io_uring": against_uring,
                  "share_of_bound": share,
                  "verdicts": [verdict(ratio["system"], against_system, share),
                               verdict(ratio["io_uring"], against_uring, share)]}
        if name == "cached write 4k, 4 files, depth 128":
            result["verdicts"].append("met" if cpu["uaio"] <= cpu["system"] else "MISSED")
        result["against_older"] = judge_older(rates["uaio"], rates.get(OLDER))
        keep(options, results, result)
        print(f"{name:42} {statistics.median(rates['uaio']):10.0f}/s "
              f"{ratio_text(ratio['system'], against_system, share):26} "
              f"{ratio_text(ratio['io_uring'], against_uring, share):26} "
              f"CPU {1e6 * cpu['uaio']:6.2f} {1e6 * cpu['system']:6.2f} "
              f"{1e6 * cpu['io_uring']:6.2f} us", flush=True)
        tell_older(result["against_older"])
        if row["direct"] and result["verdicts"][1] == "MISSED":
            more = 1e6 * (cpu["uaio"] - cpu["io_uring"])
            print(f"  {more:.1f} us more CPU a request than fio's io_uring engine "
                  "(docs/decisions/0009-uaio-inside-any-program.md)", flush=True)
        if share is not None:
            print(bound_text(share, {"the system's": ratio["system"],
                                     "io_uring's": ratio["io_uring"]})
                  + f"; fio alone {statistics.median(rates['nothing']):.0f}/s", flush=True)


def measure_thesis(options, folder, results):
    for name, arguments, key, floor in thesis_rows():
        if options.only and options.only not in name:
            continue
        bounded = arguments[0] in ("lists", "processes")
        sides = (*SIDES[:2], *(BOUNDS[:1] if bounded else ()))
        taken = {side: [] for side in with_older(options, sides)}
        for _ in range(options.rounds):
            for side in taken:
                if side == "system" and None in taken[side]:
                    continue  # it has not finished, and would not now
                taken[side].append(thesis(arguments, side, options, folder))
        mine = [each[key] for each in taken["uaio"]]
        result = {"name": name, "uaio": mine, "floor_system": floor, "against_system": None}
        share = None
        if bounded:
            result["call"] = [each[key] for each in taken["call"]]
            share = statistics.median(b / a for a, b in zip(mine, result["call"]))
            result["share_of_bound"] = share
        if None in taken["system"]:
            result["verdicts"] = ["met" if statistics.median(mine) < 100 else "MISSED"]
            text = (f"the system's does not finish; {statistics.median(mine):.1f} us (< 100) "
                    f"{result['verdicts'][0]}")
        else:
            others = [each[key] for each in taken["system"]]
            result["system"] = others
            result["against_system"] = statistics.median(b / a for a, b in zip(mine, others))
            result["verdicts"] = [verdict(result["against_system"], floor, share)]
            text = ratio_text(result["against_system"], floor, share)
        result["against_older"] = judge_older([1 / each for each in mine],
                                              [1 / each[key] for each in taken.get(OLDER, [])])
        keep(options, results, result)
        print(f"{name:42} {statistics.median(mine):10.4f} {key:8} {text}", flush=True)
        tell_older(result["against_older"])
        if share is not None:
            print(bound_text(share, {"the system's": result["against_system"]}), flush=True)


def keep(options, results, result):
    """After each row, so that no result is lost."""
    results.append(result)
    if options.json is None:
        return
    result_file.write(options.json, {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "kernel": platform.release(), "command": "bench/uaio.py " + " ".join(sys.argv[1:]),
        "note": options.note, "load": os.getloadavg()[0],
        "rounds": options.rounds, "seconds": options.seconds, "rows": results})


def chart(results):
    print("\nagainst the system's AIO (| is 1 x)")
    for result in results:
        ratio = result.get("against_system")
        if ratio is not None:
            print(f"{result['name']:46} {'#' * min(60, round(10 * ratio)):10}{ratio:8.2f} x")


def main():
    parser = OptionParser(__doc__, "only", "against", rounds=5, seconds=1.0, quick=(3, 0.5))
    parser.add_argument("--folder", type=Path, help="where the files are made")
    parser.add_argument("--size", type=int, default=256, help="of all files of a row, MB")
    parser.add_argument("--uaio", default="", help="options for the library")
    parser.add_argument("--chart", action="store_true")
    parser.add_argument("--json", type=Path, help="keep the results here")
    parser.add_argument("--note", default="", help="to be kept with them")
    options = parser.parse_args()
    results = []
    try:
        for library in ("lib/libuaio-preload.so", "bench/libuaio_bound.so"):
            if not (options.build / library).exists():
                raise CannotMeasure(f"{options.build / library} is missing: build it")
        with tempfile.TemporaryDirectory(prefix="uaio-bench-", dir=options.folder) as folder:
            measure_fio(options, Path(folder), results)
            measure_thesis(options, Path(folder), results)
    except (CannotMeasure, FileNotFoundError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 2
    if options.chart:
        chart(results)
    misses = [result["name"] for result in results if "MISSED" in result["verdicts"]]
    bounds = [result["name"] for result in results if "bound" in result["verdicts"]]
    print(f"{len(results)} rows, {len(bounds)} at the bound, {len(misses)} missed"
          + "".join(f"\n  {name}" for name in misses))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(output.status_of(main))
