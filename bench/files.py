#!/usr/bin/env python3
"""Compares `baton load --file` with fio: random reads past the page cache, engine against engine.

    bench/files.py                        both engines, 7 rounds of 3 s each
    bench/files.py --engine io_uring      one of them
    bench/files.py --file /mnt/disk/data  another disk (the file is made if it is not there)

Both read blocks of 4 KiB of the same file with O_DIRECT at random offsets, 64 on the way from one
thread, for the same time, and compare nothing of what they read; buffers and offsets are aligned to
4096 in both. fio runs with its own defaults otherwise. They take turns in rounds, as in
bench/compare.py, whose verdicts, table and file of results these are. CPU is that of the process
with all its threads, for fio that of its job.

A disk that gives both the same number is the limit then, and CPU per read is the fair figure.

Exit status: 0 all goals met, 1 a goal was missed, 2 something could not be measured.
"""

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys

import compare
import output
from compare import CannotMeasure
from option_parser import OptionParser

DEPTH = 64
BLOCK = 4096
SIDES = {"linux_aio": "libaio", "io_uring": "io_uring"}  # Baton's name, fio's name
GOALS = [("iops", "ratio", ">=", 0.95)]

compare.MEASURES.update({
    "iops": ("reads/s", True),
    "cpu_io_us": ("CPU us/read", False),
    "busy": ("cores busy", False),
})


def baton_command(options, engine):
    return compare.command_line(
        ["{build}/bin/baton", "load", "--file", str(options.file), "--direct", "--random",
         "--no-compare", "--json", "--depth", str(DEPTH), "--block", str(BLOCK),
         "--seconds", str(options.seconds), "--engine", engine, "--mode", options.mode],
        options.build)


def fio_command(options, engine):
    return ["fio", "--name=read", f"--filename={options.file}", f"--ioengine={engine}",
            "--rw=randread", f"--bs={BLOCK}", f"--iodepth={DEPTH}", "--direct=1", "--numjobs=1",
            "--thread", "--time_based", f"--runtime={options.seconds}s", "--norandommap",
            f"--iomem_align={BLOCK}", "--output-format=json"]


def run(command):
    """Its output, and the CPU seconds of the process with all its threads."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        why = (errors.strip() or output.strip() or "no word").split("\n")[-1]
        raise CannotMeasure(f"{compare.shown(shlex.join(command))}: {why}")
    return json.loads(output[output.index("{"):]), used.ru_utime + used.ru_stime


def measured(count, seconds, cpu, p50_us, p99_us):
    return {"iops": count / seconds, "cpu_io_us": cpu / count * 1e6, "busy": cpu / seconds,
            "p50_us": p50_us, "p99_us": p99_us}


def measure_baton(command):
    report, cpu = run(command)
    return measured(report["operations"], report["seconds"], cpu, report["latency_us"]["p50"],
                    report["latency_us"]["p99"])


def measure_fio(command):
    job = run(command)[0]["jobs"][0]
    if job["error"] != 0:
        raise CannotMeasure(f"fio: {os.strerror(job['error'])}")
    read = job["read"]
    seconds = read["runtime"] / 1000
    percentiles = read["clat_ns"]["percentile"]
    # Its start-up calibrates clocks, which is no read's: only the job counts.
    return measured(read["total_ios"], seconds,
                    (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000,
                    percentiles["50.000000"] / 1000, percentiles["99.000000"] / 1000)


def compare_engine(options, engine):
    rival = SIDES[engine]
    title = f"random reads of 4 KiB, O_DIRECT, {DEPTH} on the way: {engine} against fio's {rival}"
    sides = {"a": (f"baton {engine}", baton_command(options, engine), measure_baton),
             "b": (f"fio {rival}", fio_command(options, rival), measure_fio)}
    rounds = {"a": [], "b": []}
    for number in range(-1, options.rounds):
        for key in ("a", "b") if number % 2 == 0 else ("b", "a"):
            compare.progress(f"{title}: round {max(number + 1, 0)} of {options.rounds}")
            _, command, measure = sides[key]
            result = measure(command)
            if number >= 0:  # the first one only warms up
                rounds[key].append(result)
    compare.progress("")
    names = [*rounds["a"][0]]
    columns = {key: {m: [r[m] for r in rounds[key]] for m in names} for key in sides}
    medians = {key: {m: statistics.median(columns[key][m]) for m in names} for key in sides}
    judged = {m: compare.judge(m, columns["a"][m], columns["b"][m]) for m in names}
    ratios = [a / b for a, b in zip(columns["a"]["iops"], columns["b"]["iops"])]
    return {
        "title": title,
        "sides": {key: {"name": name, "command": compare.shown(shlex.join(command))}
                  for key, (name, command, _) in sides.items()},
        "rounds": rounds, "medians": medians, "judged": judged,
        "spreads": {key: {m: compare.spread(columns[key][m]) for m in names} for key in sides},
        "iops_ratio": {"worst": min(ratios), "best": max(ratios)},
        "goals": [compare.check_goal(goal, judged, medians["a"]) for goal in GOALS],
    }


def make_file(path, size):
    """Written, not only allocated: blocks that were never written are not read from the disk."""
    if path.exists() and path.stat().st_size >= size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def arguments():
    parser = OptionParser(__doc__, "file", "no-save", rounds=7, seconds=3)
    parser.add_argument("--engine", choices=[*SIDES, "all"], default="all")
    parser.add_argument("--mode", default="per_thread", help="of Baton")
    parser.add_argument("--size", type=int, default=1024, help="of a file to be made, in MiB")
    return parser.parse_args()


def main():
    options = arguments()
    if not shutil.which("fio"):
        print("fio is missing; install it with: apt-get install fio", file=sys.stderr)
        return 2
    make_file(options.file, options.size << 20)
    status, results = 0, []
    for engine in SIDES if options.engine == "all" else [options.engine]:
        try:
            result = compare_engine(options, engine)
        except CannotMeasure as why:
            compare.progress("")
            print(f"\n{engine}\n  not measured: {why}", file=sys.stderr)
            status = 2
            continue
        results.append(result)
        compare.print_result(result)
        worst, best = result["iops_ratio"]["worst"], result["iops_ratio"]["best"]
        print(f"  of the rounds: worst {worst:.2f}, best {best:.2f}")
        if any(goal["met"] is not True for goal in result["goals"]):
            status = max(status, 1)
    if results and not options.no_save:
        compare.save("files", results)
    return status


if __name__ == "__main__":
    sys.exit(output.status_of(main))
