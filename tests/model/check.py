#!/usr/bin/env python3
"""Checks one model with Spin: every scenario of MODEL.rows must have the result written there.

usage: check.py MODEL [NAME...]       MODEL is lf, seat or op; NAME chooses scenarios
       check.py --record MODEL        notes in verified.txt that all is as written

A row is `ok|BAD quick|full name switches`. "ok" means that no state of the whole state space breaks
an assertion, stops short of its goal or runs in circles; "BAD" that Spin must find a
counterexample, which shows that the check would notice that fault. Rows marked "full" run only with
BATON_MODEL_FULL=1. BATON_MODEL_TRAIL=1 prints the counterexamples.

The result depends on nothing but the model, its rows, and the functions options and check below.
verified.txt has the hash of these as they were when every scenario had its result; as long as the
hash is the same, the ordinary run says so and checks nothing again. The full run always checks.

Exit status 0: all as written; 1: surprises; 77: Spin is not installed.
"""

import datetime
import hashlib
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
VERIFIED = HERE / "verified.txt"
MEMORY_MAX_MB = 9000
DEPTH_MAX = 2_000_000

# Per model: how the checker is compiled and run. Without fairness and cycles (SAFETY) it is faster.
# NOSTUTTER: the final state of the model does not count as an endless run.
def options(model, switches):
    if model == "lf":
        return (["-a", "-f"], []) if "-DLIVE=1" in switches else ([], ["-DSAFETY"])
    if model == "seat":
        return ["-a", "-f"], ["-DNOSTUTTER"]
    return ["-a", "-f", "-N", "ends"], []


def read_rows(model):
    """[(wanted, tier, name, [switches])]; `NAME = text` lines define $NAME."""
    rows, names = [], {}
    for line in (HERE / f"{model}.rows").read_text().split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        definition = re.match(r"([A-Z]\w*) = (.*)", line)
        if definition:
            names[definition.group(1)] = definition.group(2)
            continue
        wanted, tier, name, switches = line.split(None, 3)
        assert wanted in ("ok", "BAD") and tier in ("quick", "full"), line
        switches = re.sub(r"\$(\w+)", lambda m: names[m.group(1)], switches)
        rows.append((wanted, tier, name, switches.split()))
    return rows


def run(command, folder):
    return subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def check(model, switches, optimise):
    """(ok, BAD or what went wrong, number of states, Spin's reason, counterexample)."""
    with tempfile.TemporaryDirectory() as folder:
        source = f"{model}.pml"
        shutil.copy(HERE / source, folder)
        generated = run(["spin", *switches, "-a", source], folder)
        if not pathlib.Path(folder, "pan.c").exists():
            return "spin failed: " + generated.stdout.strip(), 0, "", ""
        pan, compile_options = options(model, switches)
        compiled = run(["gcc", optimise, "-w", *compile_options, "-DNFAIR=3", "-DCOLLAPSE",
                        f"-DMEMLIM={MEMORY_MAX_MB}", "-DVECTORSZ=2048", "-o", "pan", "pan.c"],
                       folder)
        if compiled.returncode != 0:
            return "gcc failed: " + compiled.stdout.strip(), 0, "", ""
        output = run(["./pan", f"-m{DEPTH_MAX}", *pan], folder).stdout
        errors = re.search(r"errors: (\d+)", output)
        states = re.search(r"^ *([0-9.e+]+) states, stored", output, re.M)
        states = int(float(states.group(1))) if states else 0
        reason = re.search(r"^pan: ?\d*: ?(.*?)(?: \(at depth.*)?$", output, re.M)
        reason = reason.group(1) if reason else ""
        if errors is None:
            return "pan failed: " + output.strip(), states, reason, ""
        if int(errors.group(1)) > 0:
            trail = ""
            if os.environ.get("BATON_MODEL_TRAIL"):
                trail = run(["spin", *switches, "-t", "-p", "-g", source], folder).stdout
            return "BAD", states, reason, trail
        # An incomplete search proves nothing.
        if "Search not completed" in output or "max search depth too small" in output:
            return "incomplete", states, reason, ""
        return "ok", states, reason, ""


def hash_of(model):
    files = ((HERE / f"{model}.{kind}").read_text() for kind in ("pml", "rows"))
    limits = f"{MEMORY_MAX_MB} {DEPTH_MAX}"
    checking = inspect.getsource(options) + inspect.getsource(check) + limits
    return hashlib.sha256("".join([*files, checking]).encode()).hexdigest()


def verified():
    """{model: (hash, date)}"""
    lines = VERIFIED.read_text().split("\n") if VERIFIED.exists() else []
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return {model: (digest, date) for model, digest, date in rows}


def record(model, digest):
    known = verified()
    known[model] = (digest, datetime.date.today().isoformat())
    rows = [f"{name} {digest} {date}\n" for name, (digest, date) in sorted(known.items())]
    VERIFIED.write_text("# Written by check.py and check_relacy.py with --record. "
                        "Model, hash of its sources, date.\n" + "".join(rows))


def full_run():
    return os.environ.get("BATON_MODEL_FULL", "0") not in ("", "0")


def main(model, chosen, recording):
    if not shutil.which("spin") or not shutil.which("gcc"):
        print("skipped: Spin needs the packages spin and gcc")
        return 77
    full = full_run()
    digest, date = verified().get(model, ("", ""))
    if digest == hash_of(model) and not (full or chosen or recording):
        print(f"{model}: unchanged since {date}, when every scenario had its result (verified.txt)")
        return 0
    surprises = checked = left_out = 0
    for wanted, tier, name, switches in read_rows(model):
        if chosen and name not in chosen:
            continue
        if tier == "full" and not full and not chosen:
            left_out += 1
            continue
        begin = time.monotonic()
        # For a small state space the compiler takes longer than the search.
        optimise = "-O0" if tier == "quick" else "-O2"
        got, states, reason, trail = check(model, switches, optimise)
        checked += 1
        surprise = "" if got == wanted else f"  <-- SURPRISE, must be {wanted}"
        surprises += bool(surprise)
        print(f"{got:4} {model} {name:28} {states:9} states {time.monotonic() - begin:6.1f} s"
              f"  {reason}{surprise}", flush=True)
        if trail:
            print(trail)
    print(f"{checked} scenarios checked, {left_out} left for the full run, {surprises} surprises")
    if surprises or not checked:
        return 1
    if recording:
        record(model, hash_of(model))
    return 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--record"]
    sys.exit(main(words[0], words[1:], "--record" in sys.argv))
