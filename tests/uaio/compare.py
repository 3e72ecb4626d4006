#!/usr/bin/env python3
"""Runs the behaviour program on the system's AIO and on ours, and prints both columns.

compare.py BEHAVIOUR PRELOAD [--own PROGRAM] [--uaio OPTIONS] [--environment NAME=VALUE]...

Fails when a case fails on ours, or when one that is known to fail on the system's does not. Cases
whose outcome on the system's library depends on timing or on its version are only shown.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import answers_shown


def run(program, cases, folder, seconds, preload=None, options=None, extra=()):
    environment = dict(os.environ, UAIO_TEST_FOLDER=folder, UAIO_TEST_SECONDS=str(seconds))
    environment.pop("UAIO", None)
    environment.update(pair.split("=", 1) for pair in extra)
    if preload:
        environment["LD_PRELOAD"] = preload
    if options:
        environment["UAIO"] = options
    output = subprocess.run([program, *cases], env=environment, stdout=subprocess.PIPE, text=True,
                            check=False).stdout
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("behaviour")
    parser.add_argument("preload", help="the library, with others before it if need be")
    parser.add_argument("--own", help="the same program, linked with libuaio")
    parser.add_argument("--uaio", help="options for our library")
    parser.add_argument("--environment", action="append", default=[])
    parser.add_argument("--without", action="append", default=[], metavar="CASE=REASON")
    parser.add_argument("--no-system", action="store_true", help="leave the system's column out")
    arguments = parser.parse_args()
    known = subprocess.run([arguments.behaviour, "--list"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    known = dict(line.split() for line in known.splitlines())
    only_system = set(known)
    if arguments.own:
        only = subprocess.run([arguments.own, "--list"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        only = dict(line.split() for line in only.splitlines())
        only_system -= set(only)
        known |= only
    else:
        only_system = set()
    for left_out in arguments.without:
        case, reason = left_out.split("=", 1)
        del known[case]
        print(f"skipped: {case}: {reason}")
    cases = list(known)
    with tempfile.TemporaryDirectory(prefix="uaio-") as folder:
        columns = {}
        if not arguments.no_system:
            columns["system"] = run(arguments.behaviour, cases, folder, 3)
        columns["preload"] = run(arguments.behaviour, cases, folder, 100, arguments.preload,
                                 arguments.uaio, arguments.environment)
        if arguments.own:
            columns["libuaio"] = run(arguments.own, cases, folder, 100, None, arguments.uaio,
                                     arguments.environment)
    print(f"{'case':42}" + "".join(f"{name:60}" for name in columns))
    failures = []
    for case, expected in known.items():
        answers = {name: column.get(case, "was not run") for name, column in columns.items()}
        if case.startswith("own_"):
            answers = {name: answer if name == "libuaio" else "-"
                       for name, answer in answers.items()}
        if case in only_system and "libuaio" in answers:
            answers["libuaio"] = "-"  # a name of the system's that libuaio has not
        print(f"{case:42}{answers_shown.row(answers.values(), 60)}")
        for name, answer in answers.items():
            if name != "system" and answer not in ("ok", "-"):
                failures.append(answers_shown.failure(f"{case} on {name}", answer))
        if expected == "fails" and answers.get("system") == "ok":
            failures.append(answers_shown.failure(
                case, "is said to fail on the system's AIO, and does not"))
    print(*failures, sep="\n")
    sys.exit(1 if failures else 0)


main()
