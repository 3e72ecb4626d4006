#!/usr/bin/env python3
"""Measures every combination there is on this machine, and holds the doctor's choice against it.

    bench/combinations.py                 all of them; under ten minutes
    bench/combinations.py --document      and writes docs/combinations.md anew

Sockets: engine x wait x interrupt x mode, echo of 512 bytes at 1, 100 and 1000 sessions. Files:
engine x variant x mode, alone and beside the doctor's choice for sockets, reads of 4 KiB, cached
and direct, with 1, 16 and 64 in flight. All take turns in rounds; a combination's cost is what
`baton doctor` calls so (docs/guide/doctor.md), and it is compared with the best of its round.
Everything goes to bench/results/<date>-combinations.json.

Exit status: 0 the doctor's choices are within 10 % of the best, 1 one is not, 2 not measured.
"""

import contextlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compare
import output
from compare import CannotMeasure, progress
from option_parser import OptionParser

ALLOWED = 1.10  # what the doctor's choice may cost, the best being 1
SESSIONS = (1, 100, 1000)
DEPTHS = (1, 16, 64)
DEPTH_THAT_COUNTS = 16  # the doctor's own
DOCUMENT = compare.REPOSITORY / "docs" / "combinations.md"
BLOCK = 512
FILE_BLOCK = 4096
FILE_SIZE = 16 << 20


# --- the parts of this machine --------------------------------------------------------------------

def doctor(options, *arguments):
    command = [str(options.build / "bin" / "baton"), "doctor", "--json", "--directory",
               options.directory, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=surroundings_without())
    if done.returncode != 0:
        raise CannotMeasure(f"{compare.shown(' '.join(command))} ended with {done.returncode}")
    return json.loads(done.stdout)


def surroundings_without(settings=None):
    """The environment without BATON* variables, and with these settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BATON")}
    return {**clean, "BATON": settings} if settings else clean


def row_name(row):
    name = row["engine"] + ("/" + row["wait"] if row["wait"] else "")
    return name + (" " + row["variant"] if row["variant"] else "")


def working_modes(row):
    return [mode for mode, answer in row["modes"].items() if answer["works"]]


def socket_combinations(report):
    """(name, settings); the interrupt is named where there is a choice of it."""
    names = [one["interrupt"] for one in report["interrupts"] if one["available"]]
    for row in report["table"]:
        if not row["sockets"]:
            continue
        for mode in working_modes(row):
            for interrupt in (names if row["wait"] else [""]):
                words = [row_name(row), mode] + ([interrupt] if interrupt else [])
                extra = f",mode={mode}" + (f",interrupt={interrupt}" if interrupt else "")
                yield " ".join(words), row["settings"] + extra, row["settings"], mode


def team(sockets, files):
    """What BATON says for two processors; `sockets` and `files` with their modes."""
    return f"operations=stream+accept+connect+datagram,{sockets};operations=file,{files}"


def file_combinations(report):
    """(name, settings, row, mode): each engine alone, and beside the doctor's choice for sockets.

    How an engine waits for sockets says nothing about its files: its first row is enough, unless
    the choice names another.
    """
    choice = report["recommendation"]["sockets"]
    sockets = f"{choice['settings']},mode={choice['mode']}"
    rows = sorted((row for row in report["table"] if row["files"]),
                  key=lambda row: row["settings"] != choice["settings"])
    seen = set()
    for row in rows:
        if (row["engine"], row["variant"]) in seen:
            continue
        seen.add((row["engine"], row["variant"]))
        for mode in working_modes(row):
            files = f"{row['settings']},mode={mode}"
            yield f"{row_name(row)} {mode}", files, row["settings"], mode
            # A team is either shared or per_thread; a dedicated processor goes with both.
            fits = mode == choice["mode"] or "dedicated" in (mode, choice["mode"])
            if row["settings"] != choice["settings"] and fits:
                name = f"{choice['name']} {choice['mode']} + {row_name(row)} {mode}"
                yield name, team(sockets, files), row["settings"], mode


# --- measuring ----------------------------------------------------------------------------------

@contextlib.contextmanager
def configured(settings):
    """compare.Server starts its process in this environment."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({k: v for k, v in before.items() if not k.startswith("BATON")})
    os.environ["BATON"] = settings
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def settle(server):
    """Waits until the server has accepted, or closed, everything: its memory stops growing."""
    quiet, before = 0, server.cpu_ns()
    for _ in range(200):
        time.sleep(0.002)
        now = server.cpu_ns()
        quiet, before = (quiet + 1 if now == before else 0), now
        if quiet == 3:
            return


def measure_sockets(options, settings):
    """The numbers of one round: a fresh server, one load after the other."""
    command = [str(options.build / "bin" / "baton"), "echo", "--port", "0", "--threads", "1",
               "--block", str(BLOCK)]
    server_cores, load_cores = compare.cores_for(True)
    numbers = {}
    with configured(settings), compare.serving(command, server_cores) as server:
        for sessions in SESSIONS:
            load = compare.Load(options.build, {"sessions": sessions, "block": BLOCK, "window": 0},
                                server.port, options.seconds, load_cores)
            settle(server)
            cpu = server.cpu_ns()
            load.run()
            cpu = server.cpu_ns() - cpu
            report = load.finish()
            settle(server)
            numbers[f"cpu_us_{sessions}"] = cpu / report["messages_total"] / 1000
            numbers[f"rate_{sessions}"] = report["messages_per_second"]
            numbers[f"p50_us_{sessions}"] = report["round_trip_us"]["p50"]
    return numbers


def measure_files(options, settings):
    numbers = {}
    server_cores, _ = compare.cores_for(True)
    for kind in options.kinds:
        for depth in DEPTHS:
            command = [str(options.build / "bin" / "baton"), "load", "--json", "--file",
                       options.file, "--depth", str(depth), "--block", str(FILE_BLOCK),
                       "--seconds", str(options.seconds)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command + (["--direct"] if kind == "direct" else []),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=surroundings_without(settings),
                                  preexec_fn=compare.on_cores(server_cores))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode != 0:
                raise CannotMeasure(done.stderr.strip() or done.stdout.strip())
            report = json.loads(done.stdout)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            numbers[f"cpu_us_{kind}_{depth}"] = cpu * 1e6 / report["operations"]
            numbers[f"time_us_{kind}_{depth}"] = report["seconds"] * 1e6 / report["operations"]
    return numbers


def play(options, title, combinations, measure):
    """{name: {..., "rounds": [numbers]}}; one that fails once is left out, with the reason."""
    results = {name: {"settings": settings, "row": row, "mode": mode, "rounds": []}
               for name, settings, row, mode in combinations}
    names = list(results)
    for number in range(-1, options.rounds):
        for index in range(len(names)):
            # The order rotates, so that none always runs after the same neighbour.
            name = names[(index + max(number, 0)) % len(names)]
            if "failed" in results[name]:
                continue
            progress(f"{title}: round {number + 1} of {options.rounds}, {name}")
            try:
                if number >= 0:
                    results[name]["rounds"].append(measure(options, results[name]["settings"]))
                elif index == 0:
                    measure(options, results[name]["settings"])  # the first one only warms up
            except CannotMeasure as why:
                results[name]["failed"] = str(why)
    progress("")
    return results


# --- judging ------------------------------------------------------------------------------------

def counted(options, part):
    if part == "sockets":
        return ["p50_us_1"] + [f"cpu_us_{sessions}" for sessions in SESSIONS[1:]]
    return [f"{what}_us_{kind}_{DEPTH_THAT_COUNTS}" for kind in options.kinds
            for what in ("cpu", "time")]


def cost(numbers, names):
    return math.exp(sum(math.log(numbers[name]) for name in names) / len(names))


def judge(options, part, results, choices):
    """Adds to each result its cost and its ratio to the best; returns the choice's ratio."""
    names = counted(options, part)
    measured = {name: one for name, one in results.items() if "failed" not in one}
    if not measured:
        raise CannotMeasure(f"{part}: nothing could be measured")
    for one in measured.values():
        one["costs"] = [cost(numbers, names) for numbers in one["rounds"]]
        one["medians"] = {name: statistics.median(numbers[name] for numbers in one["rounds"])
                          for name in one["rounds"][0]}
    # Files are judged beside the sockets as they were chosen; what would need others is shown.
    able = [name for name in measured if part == "sockets" or goes_with(name, choices["sockets"])]
    best = min(able, key=lambda name: statistics.median(measured[name]["costs"]))
    for one in measured.values():
        ratios = [a / b for a, b in zip(one["costs"], measured[best]["costs"])]
        one["ratio"] = statistics.median(ratios)
        one["low"], one["high"] = compare.median_interval(ratios)
    chosen = [name for name in able if is_choice(part, name, measured[name], choices)]
    if not chosen:
        raise CannotMeasure(f"{part}: the doctor's choice, {choices[part]}, was not measured")
    ratio = measured[chosen[0]]["ratio"]
    return {"best": best, "choice": chosen[0], "ratio": ratio, "within": ratio <= ALLOWED}


def goes_with(name, sockets):
    return " + " in name or name == f"{sockets['name']} {sockets['mode']}"


def is_choice(part, name, one, choices):
    """What the doctor leaves open (the interrupt) is chosen by the engine: the first there is."""
    choice = choices[part]
    if (one["row"], one["mode"]) != (choice["settings"], choice["mode"]):
        return part == "files" and " + " in name and choices["processors"] == 2 \
            and of_files(one["row"]) == of_files(choice["settings"]) \
            and one["mode"] == choice["mode"]
    return part == "sockets" or (" + " in name) == (choices["processors"] == 2)


def of_files(settings):
    return [word for word in settings.split(",") if not word.startswith("wait=")]


# --- printing -------------------------------------------------------------------------------------

def columns(options, part):
    if part == "sockets":
        return [("round trip us, 1", "p50_us_1"), ("CPU us, 100", "cpu_us_100"),
                ("CPU us, 1000", "cpu_us_1000"), ("messages/s, 100", "rate_100"),
                ("messages/s, 1000", "rate_1000")]
    return [(f"{label} us, {kind}, {depth}", f"{what}_us_{kind}_{depth}")
            for kind in options.kinds for depth in DEPTHS
            for what, label in (("cpu", "CPU"), ("time", "time"))]


def table(options, part, results, verdict):
    heads = [label for label, _ in columns(options, part)]
    lines = ["| combination | cost, best = 1 | " + " | ".join(heads) + " |",
             "|---|---|" + "---|" * len(heads)]
    measured = sorted((name for name in results if "failed" not in results[name]),
                      key=lambda name: results[name]["ratio"])
    for name in measured:
        one = results[name]
        cells = [compare.number(one["medians"][key]) for _, key in columns(options, part)]
        shown = f"**{name}**" if name == verdict["choice"] else name
        lines.append(f"| {shown} | {one['ratio']:.2f} ({one['low']:.2f} - {one['high']:.2f}) | "
                     + " | ".join(cells) + " |")
    for name, one in results.items():
        if "failed" in one:
            lines.append(f"| {name} | - | {one['failed']} |" + " |" * (len(heads) - 1))
    return "\n".join(lines)


def sentence(part, verdict):
    if verdict["choice"] == verdict["best"]:
        return f"{part}: the doctor's choice, {verdict['choice']}, is the best."
    state = "within" if verdict["within"] else "NOT within"
    return f"{part}: the doctor's choice, {verdict['choice']}, costs {verdict['ratio']:.2f} x " \
           f"the best, {verdict['best']}: {state} 10 %."


def document(options, facts, report, parts):
    text = f"""# Every combination, and the doctor's choice

Made by `{facts['command']}`; `bench/results/` has the raw figures.
Machine: {facts['machine']}, {facts['cores']} cores, Linux {facts['kernel']},
{facts['compiler']}; {facts['date'][:10]}.

The [doctor's guide](guide/doctor.md) says what "cost" means and how the doctor chooses.
The bold line is its choice, made in {report['seconds']:.0f} seconds on the same machine.
In brackets: the interval of the median ratio to the best, round by round.
"""
    titles = {"sockets": f"Sockets: echo of {BLOCK} bytes, by sessions",
              "files": "Files: reads of 4 KiB, by the number in flight"}
    for part, (results, verdict) in parts.items():
        text += f"\n## {titles[part]}\n\n{sentence(part, verdict)}\n\n"
        if part == "files":
            text += "Held against the best of those that go with the sockets as they were " \
                    "chosen: alone on the same\nprocessor, or as the second one of a team (+). " \
                    "The others are shown for comparison.\n\n"
        text += table(options, part, results, verdict) + "\n"
    words = "\n".join(f"> {line}\n>" for line in report["recommendation"]["sentences"])
    text += f"\n## What the doctor said\n\n{words}\n"
    DOCUMENT.write_text(text)
    print(compare.shown(DOCUMENT))


# --- command line -------------------------------------------------------------------------------

def arguments():
    parser = OptionParser(__doc__, "no-save", rounds=3, seconds=0.25)
    parser.add_argument("--directory", default=os.environ.get("TMPDIR") or ".",
                        help="where the file for the file engines is made")
    parser.add_argument("--document", action="store_true", help="write docs/combinations.md")
    parser.add_argument("--only", choices=["sockets", "files"])
    options = parser.parse_args()
    if options.document and options.only:
        parser.error("--document needs both parts")
    return options


def make_file(options, folder, report):
    """The file that all read, with the pattern that `baton load` compares."""
    options.file = str(Path(folder) / "file")
    options.kinds = ["cached"] + (["direct"] if report["file_system"]["direct"]["there"] else [])
    done = subprocess.run([str(options.build / "bin" / "baton"), "load", "--write", "--file",
                           options.file, "--size", str(FILE_SIZE), "--seconds", "0.5"],
                          stdout=subprocess.PIPE, text=True, env=surroundings_without())
    if done.returncode != 0:
        raise CannotMeasure(done.stdout)


def measure_all(options):
    report = doctor(options)  # first, on a machine that rests
    choices = report["recommendation"]
    parts = {}
    if options.only != "files":
        results = play(options, "sockets", socket_combinations(report), measure_sockets)
        parts["sockets"] = (results, judge(options, "sockets", results, choices))
    if options.only != "sockets" and choices["files"] and report["file_system"]:
        with tempfile.TemporaryDirectory(dir=options.directory) as folder:
            make_file(options, folder, report)
            results = play(options, "files", file_combinations(report), measure_files)
        parts["files"] = (results, judge(options, "files", results, choices))
    return report, parts


def main():
    options = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        report, parts = measure_all(options)
    except CannotMeasure as why:
        progress("")
        print(f"not measured: {why}", file=sys.stderr)
        return 2
    for part, (results, verdict) in parts.items():
        print(f"\n{table(options, part, results, verdict)}\n\n{sentence(part, verdict)}")
    if not options.no_save:
        compare.save("combinations", {
            "doctor": report["recommendation"], "doctor_seconds": report["seconds"],
            **{part: {"combinations": results, "verdict": verdict}
               for part, (results, verdict) in parts.items()}})
    if options.document:
        document(options, compare.surroundings(), report, parts)
    return 0 if all(verdict["within"] for _, verdict in parts.values()) else 1


if __name__ == "__main__":
    sys.exit(output.status_of(main))
