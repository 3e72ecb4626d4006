#!/usr/bin/env python3
"""The Reactor's numbers, each with its floor.

    bench/reactor.py                    all of them, half an hour
    bench/reactor.py fairness threads   some of them
    bench/reactor.py --quick            short runs, rough
    bench/reactor.py --against FOLDER   this build's Reactor against that of an older build

fairness  every wait strategy beside ACE's reactors, libevent and Asio at 5, 50 and 500 connections
          (`baton bench fairness`): spread, chunks a second and CPU a chunk against ACE's. A round
          counts only if ACE_TP_Reactor shows a spread of 50 % in it (D-05).
article   late resumption against resumption through the token that ACE had, both over an imitation
          of that token, more threads than sockets: the article's factor of two (D-06).
threads   an echo of one session, three threads against one.
idle      1,000 connections that are silent for ten seconds: processor time and context switches of
          all threads. A thread that makes a system call has run, so zero of these means zero system
          calls.

Ratios are those of one round, and what is told is their median (bench/compare.py). Everything goes
to bench/results/<date>-reactor.json.
"""

import json
import socket
import statistics
import subprocess
import sys
import time

import compare
import output
from option_parser import OptionParser

STRATEGIES = ("epoll", "poll", "select", "rt_signals")
SPREAD_MAX = {5: 0.01, 50: 0.01, 500: 0.03}
ACE_TP_SPREAD_MIN = 0.5
IDLE_CONNECTIONS = 1000


def arena(build, options, *, rounds=1, connections, threads=3, waits=("epoll",), variants=("late",),
          only=()):
    """Reactor -> its runs, of one `baton bench fairness`."""
    command = [str(build / "bin" / "baton"), "bench", "fairness", "--json", "--rounds",
               str(rounds), "--seconds", str(options.seconds), "--connections", str(connections),
               "--threads", str(threads), "--wait", ",".join(waits), "--variant",
               ",".join(variants)] + (["--only", ",".join(only)] if only else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
        raise compare.CannotMeasure("baton bench fairness gave no answer")
    return {one["name"]: one["runs"] for one in json.loads(done.stdout)["reactors"]}


def ratios(ours, theirs, measure):
    """The median of the rounds' own ratios; None: there is no such pair."""
    found = [a[measure] / b[measure] for a, b in zip(ours, theirs) if b[measure] > 0]
    return statistics.median(found) if found else None


def verdict(value, good):
    return "not measured" if value is None else "ok" if good(value) else "MISSED"


def tell(results, what, value, floor, good, note=""):
    state = verdict(value, good)
    shown = "-" if value is None else f"{value:.4f}"
    print(f"  {what:52} {shown:>10}  {floor:10} {state} {note}", flush=True)
    results.append({"what": what, "value": value, "floor": floor, "verdict": state, "note": note})


def fairness(options, results):
    taken = []
    for connections, spread_max in SPREAD_MAX.items():
        found = {}
        counted = 0
        for _ in range(options.rounds):
            round_of = arena(options.build, options, connections=connections, waits=STRATEGIES)
            taken.append({"connections": connections, "runs": round_of})
            tp = round_of.get("ace_tp", [])
            if not tp or tp[0]["spread"] < ACE_TP_SPREAD_MIN:
                continue
            counted += 1
            for name, runs in round_of.items():
                found.setdefault(name, []).extend(runs)
        print(f"\n{connections} connections: {counted} of {options.rounds} rounds count")
        for wait in STRATEGIES:
            runs = found.get("baton/" + wait, [])
            spread = statistics.median(r["spread"] for r in runs) if runs else None
            lost = statistics.median(r["leads_taken"] for r in runs) if runs else 0
            tell(results, f"{connections}: spread, {wait}", spread, f"<= {spread_max}",
                 lambda value, most=spread_max: value <= most,
                 f"leads taken from a thread without a processor: {lost:.0f}")
        ours = found.get("baton/epoll", [])
        for rival, least in (("ace_dev_poll", 1.3), ("ace_tp", 2.0)):
            theirs = found.get(rival, [])
            tell(results, f"{connections}: chunks a second, epoll / {rival}",
                 ratios(ours, theirs, "rate"), f">= {least}", lambda v, least=least: v >= least)
            tell(results, f"{connections}: CPU a chunk, epoll / {rival}",
                 ratios(ours, theirs, "cpu_us"), "<= 1", lambda v: v <= 1)
    return taken


def article(options, results):
    variants = ("late", "immediate", "token_late", "token", "token_notifier")
    taken = []
    print()
    for connections, threads in ((5, 3), (5, 10), (50, 10)):
        runs = arena(options.build, options, rounds=options.rounds, connections=connections,
                     threads=threads, variants=variants, only=("ace_dev_poll",))
        taken.append({"connections": connections, "threads": threads, "runs": runs})
        of = {name: runs.get("baton/epoll" + ("" if name == "late" else "/" + name), [])
              for name in variants}
        where = f"{connections} connections, {threads} threads"
        # The article's conditions: a small number of sockets, and a pool that stands in line.
        doubled = (connections, threads) == (5, 10)
        tell(results, f"{where}: late / token, chunks a second",
             ratios(of["token_late"], of["token"], "rate"), ">= 2" if doubled else "-",
             lambda v, d=doubled: v >= 2 or not d)
        tell(results, f"{where}: late / token, CPU a chunk",
             ratios(of["token_late"], of["token"], "cpu_us"), "<= 1", lambda v: v <= 1)
        tell(results, f"{where}: late / token_notifier, chunks a second",
             ratios(of["token_late"], of["token_notifier"], "rate"), "-", lambda v: True)
        tell(results, f"{where}: the imitation / ace_dev_poll, chunks a second",
             ratios(of["token_late"], runs.get("ace_dev_poll", []), "rate"), "-", lambda v: True)
        tell(results, f"{where}: ours, late / immediate, chunks a second",
             ratios(of["late"], of["immediate"], "rate"), ">= 0.95", lambda v: v >= 0.95)
        tell(results, f"{where}: ours, late / immediate, CPU a chunk",
             ratios(of["late"], of["immediate"], "cpu_us"), "<= 1.05", lambda v: v <= 1.05)
        tell(results, f"{where}: ours, notices because of a resume",
             max(r["resume_notices"] for r in of["late"]), "0", lambda v: v == 0)
    return taken


def server_of(wait, threads):
    return ["{build}/bench/reactor_echo", "--wait", wait, "--threads", str(threads)]


def threads_of_one_session(options, results):
    taken = {}
    print()
    for wait in STRATEGIES:
        runs = {1: [], 3: []}
        for _ in range(options.rounds):
            for count, into in runs.items():
                side = (f"{count}", server_of(wait, count), compare.ONE)
                into.append(compare.measure_server(options.build, side, False,
                                                   min(options.seconds, 2)))
        taken[wait] = runs
        tell(results, f"one session, three threads / one, {wait}",
             ratios(runs[3], runs[1], "rate"), ">= 0.95", lambda v: v >= 0.95)
    return taken


def idle(options, results):
    taken = {}
    print()
    for wait in ("epoll", "poll"):
        with compare.serving(compare.command_line(server_of(wait, 3), options.build),
                             compare.cores_for(False)[0]) as server:
            descriptors = server.descriptor_count()
            sockets = [socket.create_connection(("127.0.0.1", server.port))
                       for _ in range(IDLE_CONNECTIONS)]
            while server.descriptor_count() < descriptors + IDLE_CONNECTIONS:
                time.sleep(0.01)
            time.sleep(1)  # the standby has looked once more, and sleeps for good
            before = server.cpu_ns(), server.switches()
            time.sleep(options.seconds)
            spent = server.cpu_ns() - before[0], server.switches() - before[1]
            for one in sockets:
                one.close()
        taken[wait] = {"cpu_ns": spent[0], "switches": spent[1]}
        tell(results, f"idle, {wait}: processor time in ns", spent[0], "0", lambda v: v == 0)
        tell(results, f"idle, {wait}: context switches", spent[1], "0", lambda v: v == 0)
    return taken


def against(options, results):
    """This build's Reactor against the older one's, in turns. Only a ratio whose interval does not
    reach 1 is a difference."""
    taken = {}
    for connections in SPREAD_MAX:
        print(f"\n{connections} connections, against {compare.shown(options.against)}")
        rounds = {options.build: [], options.against: []}
        for number in range(options.rounds):
            turned = list(rounds) if number % 2 == 0 else list(rounds)[::-1]
            for build in turned:
                rounds[build].append(arena(build, options, connections=connections,
                                           waits=STRATEGIES, only=("none",)))
        for wait in STRATEGIES:
            new, old = ([one[f"baton/{wait}"][0] for one in rounds[build]] for build in rounds)
            taken[f"{connections}, {wait}"] = {"new": new, "old": old}
            for measure, more in (("rate", True), ("cpu_us", False)):
                judged = compare.judge(measure, [one[measure] for one in new],
                                       [one[measure] for one in old])
                tell(results, f"{wait}: {'chunks a second' if more else 'CPU a chunk'}",
                     judged["ratio"], "-", lambda _, worse=judged["verdict"]: worse != "worse",
                     f"{judged['low']:.2f} to {judged['high']:.2f}: {judged['verdict']}")
    return taken


PARTS = {"fairness": fairness, "article": article, "threads": threads_of_one_session, "idle": idle}


def main():
    parser = OptionParser(__doc__, "no-save", "against", rounds=3, seconds=10.0, quick=(3, 1.0))
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"the parts are {', '.join(PARTS)}")
    if options.parts and options.against:
        parser.error("--against is a part of its own")
    results, runs = [], {}
    if options.against is not None:
        runs["against"] = against(options, results)
    else:
        for part in options.parts or PARTS:
            runs[part] = PARTS[part](options, results)
    if not options.no_save:
        name = "reactor" if options.against is None else "reactor-against"
        compare.save(name, {"floors": results, "runs": runs})
    return 0 if all(one["verdict"] == "ok" for one in results) else 1


if __name__ == "__main__":
    sys.exit(output.status_of(main))
