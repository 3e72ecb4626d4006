#!/usr/bin/env python3
"""Compares two servers, or two programs, under the same load, and says whether they differ.

    bench/compare.py epoll-cpu                 one of the project's numbers, with its goal
    bench/compare.py all                       all of them
    bench/compare.py pair --a CMD --b CMD      any two servers that print `listening PORT`
    bench/compare.py all --against FOLDER      Baton's side of each against that of an older build

Machines drift: the clock rate, the neighbours, the page cache. So A and B take turns in rounds,
each round gives one ratio, and the verdict comes from the median of the ratios and its confidence
interval, never from two numbers taken at different times. Server and load run on different cores.
The table goes to standard output, everything else to bench/results/<date>-<name>.json.

Exit status: 0 all goals met, 1 a goal was missed, 2 something could not be measured.
"""

import contextlib
import datetime
import json
import math
import os
import platform
import re
import resource
import select
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import output
import result_file
from option_parser import OptionParser, REPOSITORY

START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 30

# Warm-up: the length of one load, the most of them, and how many in a row the compilers must rest.
WARM_UP_LOAD_S = 1.0
WARM_UP_LOADS_MAX = 60
WARM_UP_RESTING = 3
# A round that the machine was too slow for gets this many times its seconds.
LONGER = 6
# Compilers that take no more of the CPU time than this have nothing of weight left to do.
COMPILER_RESTS = 0.02


class CannotMeasure(Exception):
    pass


class TooSlow(CannotMeasure):
    """Nothing was wrong, but some sessions got no answer in the time."""


# --- comparisons ----------------------------------------------------------------------------------

def echo(engine, wait=None, mode="per_thread", threads=1, block=512, more=()):
    command = ["{build}/bin/baton", "echo", "--port", "0", "--threads", str(threads),
               "--block", str(block), "--engine", engine, "--mode", mode]
    return command + (["--wait", wait] if wait else []) + list(more)


def raw(name, block=512):
    return ["{build}/bench/" + name, "--port", "0", "--block", str(block)]


BUSY_100 = {"sessions": 100, "block": 512, "window": 0}
# With those that the system gives every process, and a few of their own, the 20,000 descriptors
# that server and load may each have here.
IDLE = 19_400
BUSY_100_IDLE = {**BUSY_100, "idle": IDLE}
TEN = {"sessions": 10, "block": 512, "window": 0}
ONE = {"sessions": 1, "block": 512, "window": 0}

# Each comparison: sides A (the candidate) and B (its rival), the load, and goals. A goal is (what,
# of, relation, bound): `of` is "ratio" (A / B, median of the rounds) or "a".
COMPARISONS = {
    "epoll-cpu": [{
        "title": "CPU and system calls per message, epoll, 100 sessions of 512 B half duplex",
        "a": ("baton emulated/epoll", echo("emulated", "epoll"), BUSY_100),
        "b": ("raw_epoll", raw("raw_epoll"), BUSY_100),
        "goals": [("cpu_us", "ratio", "<=", 1.10), ("syscalls", "a", "<=", 2.1)],
    }],
    "uring-syscalls": [{
        "title": "system calls per message, io_uring, 100 sessions of 512 B half duplex",
        "a": ("baton io_uring", echo("io_uring"), BUSY_100),
        "b": ("raw_uring", raw("raw_uring"), BUSY_100),
        "goals": [("syscalls", "a", "<=", 0.2)],
    }],
    # The raw loops' rates show the load generator's own work for its ends of the idle connections.
    "idle": [{
        "title": f"100 sessions beside {IDLE:,} idle ones against without, {name}",
        "a": (f"{name}, idle ones", command, BUSY_100_IDLE),
        "b": (f"{name}, none idle", command, BUSY_100),
        "memory": 10_000 if ours else 0,
        "goals": [("rate", "ratio", ">=", 0.98), ("idle_bytes", "a", "<=", 320)] if ours else [],
    } for name, command, ours in (
        ("baton emulated/epoll", echo("emulated", "epoll", more=["--pooled"]), True),
        ("raw_epoll", raw("raw_epoll"), False),
        ("baton io_uring", echo("io_uring", more=["--pooled"]), True),
        ("raw_uring", raw("raw_uring"), False))],
    # select stops at 1024 descriptors, so it has fewer to look at.
    "rt-signals": [{
        "title": f"10 active of 1,000 connections, rt_signals against 10 of {total}, {wait}",
        "a": ("baton rt_signals", echo("emulated", "rt_signals"), {**TEN, "idle": 990}),
        "b": (f"baton {wait}", echo("emulated", wait), {**TEN, "idle": total - 10}),
        "goals": [("cpu_us", "ratio", "<=", 1.0)] if wait == "select" else [],
    } for wait, total in (("select", 900), ("poll", 1_000), ("epoll", 1_000))],
    "post": [{
        "title": f"nanoseconds per posted no-op handler, {mode}, {engine}",
        "a": (f"baton {mode}, {engine}", ["env", f"BATON=engine={engine}{wait}",
                                          "{build}/bench/post", "--mode", mode], None),
        "b": ("floor_post", ["{build}/bench/floor_post"], None),
        "goals": [("post_inside", "ratio", "<=", 1.3), ("post_other_thread", "ratio", "<=", 1.5),
                  ("wake_hop", "ratio", "<=", 1.1)] if mode == "per_thread" else [],
    } for mode, engine, wait in (("per_thread", "io_uring", ""),
                                 ("per_thread", "emulated", ",wait=epoll"),
                                 ("shared", "emulated", ",wait=epoll"))],
    "timer": [{
        "title": f"nanoseconds per timer, {mode}",
        "a": (f"baton {mode}", ["{build}/bench/timer", "--mode", mode], None),
        "b": ("floor_timer", ["{build}/bench/floor_timer"], None),
        "goals": [("timer_create_cancel", "ratio", "<=", 1.5),
                  ("timer_put_off", "ratio", "<=", 0.65),
                  ("timer_create_expire", "ratio", "<=", 1.1),
                  ("timer_create_cancel_10k", "ratio", "<=", 1.5),
                  ("timer_create_expire_10k", "ratio", "<=", 1.1)],
    } for mode in ("shared", "per_thread")],
}

# Names, and whether more is better.
MEASURES = {
    "rate": ("messages/s", True),
    "cpu_us": ("CPU us/msg", False),
    "user_us": ("... in user space", False),
    "kernel_us": ("... in the kernel", False),
    "switches": ("switches/msg", False),
    "syscalls": ("system calls/msg", False),
    "syscalls_full_speed": ("... at full speed", False),
    "p50_us": ("p50 us", False),
    "p99_us": ("p99 us", False),
    "p999_us": ("p99.9 us", False),
    "idle_bytes": ("bytes/idle connection", False),
}


# --- processes ------------------------------------------------------------------------------------

def command_line(template, build):
    command = [part.replace("{build}", str(build)) for part in template]
    if not shutil.which(command[0]):
        raise CannotMeasure(f"{shown(command[0])} is missing; build it with scripts/build")
    return command


def shown(path):
    """A path, relative to the repository."""
    return str(path).replace(str(REPOSITORY) + "/", "")


def cores_for(pinned):
    """The cores of the server and of the load: apart if there are two, the load on the last."""
    cores = sorted(os.sched_getaffinity(0))
    if not pinned or len(cores) < 2:
        return set(cores), set(cores)
    return set(cores[:-1]), {cores[-1]}


def on_cores(cores):
    return lambda: os.sched_setaffinity(0, cores)


class Server:
    """A server process from its `listening PORT` line to its last one."""

    def __init__(self, command, cores):
        self.command = command
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, preexec_fn=on_cores(cores))
        self.port = self._wait_for_port()

    def _wait_for_port(self):
        ready, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        line = self.process.stdout.readline() if ready else ""
        found = re.match(r"listening (\d+)", line)
        if not found:
            self.kill()
            raise CannotMeasure(self._why("did not say where it listens"))
        return int(found.group(1))

    def _why(self, what):
        """What went wrong, with the last words of the server if it left any."""
        self.errors.seek(0)
        words = self.errors.read().strip().split("\n")[-1]
        return words or f"{shown(shlex.join(self.command))} {what}"

    def _of_tasks(self, file, pick, name=""):
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if not name or name in (task / "comm").read_text():
                    total += pick((task / file).read_text())
        return total

    def cpu_ns(self):
        # Exact, unlike the ticks of /proc/PID/stat, and with the kernel threads of a ring.
        return self._of_tasks("schedstat", lambda text: int(text.split()[0]))

    def compiler_ns(self):
        """Of a JVM's compilers."""
        return self._of_tasks("schedstat", lambda text: int(text.split()[0]), " CompilerThre")

    def ticks(self):
        """In user space and in the kernel, in ticks of the system's accounting."""
        def times(text):
            fields = text.rsplit(")", 1)[1].split()
            return int(fields[11]) + 1j * int(fields[12])
        both = self._of_tasks("stat", times)
        return both.real, both.imag

    def switches(self):
        return self._of_tasks("status", lambda text: sum(
            int(n) for n in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", text)))

    def anonymous_bytes(self):
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Anonymous:\s+(\d+) kB", text, re.M).group(1)) * 1024

    def descriptor_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Ends it by SIGTERM, and returns its output."""
        self.process.terminate()
        try:
            output, _ = self.process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CannotMeasure(self._why(f"did not stop in {STOP_TIMEOUT_S} s")) from None
        if self.process.returncode != 0:
            raise CannotMeasure(self._why(f"ended with {self.process.returncode}"))
        return output

    def kill(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def serving(command, cores):
    server = Server(command, cores)
    with server.errors:
        try:
            yield server
        except BaseException:
            server.kill()
            raise
        server.stop()


class Load:
    """A run of `baton load` that holds before and after its measured part.

    So what is read from the server in between belongs to the messages alone, not to accepting
    10,000 connections or to closing them.
    """

    def __init__(self, build, load, port, seconds, cores):
        command = [str(build / "bin" / "baton"), "load", "--json", "--hold", "--port", str(port),
                   "--seconds", str(seconds)]
        for name, value in load.items():
            command += [f"--{name}", str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=on_cores(cores))
        self._expect("connected")

    def _expect(self, word):
        line = self.process.stdout.readline()
        if line.strip() != word:
            self._end(line)

    def _go_on(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def run(self):
        """The measured part."""
        self._go_on()
        self._expect("finished")

    def finish(self):
        """Closes the connections; the report."""
        self._go_on()
        return self._end("")

    def _end(self, output):
        rest, _ = self.process.communicate()
        output += rest
        report = json.loads(output) if output.startswith("{") else {"error_texts": ["no report"]}
        if self.process.returncode != 0:
            why = "; ".join(report["error_texts"]) or \
                f"{report['fairness']['silent']} sessions got nothing"
            slow = not report["error_texts"] and report["errors"] == report["wrong"] == 0
            raise (TooSlow if slow else CannotMeasure)(f"the load failed: {why}")
        return report


# --- measuring ------------------------------------------------------------------------------------

def warm_up(server, load, seconds, messages):
    """Unmeasured loads: for so long at least, and until so many messages are answered and the
    compilers rest.

    Many short loads, because a JVM compiles code for what it has seen. At the first ends of
    connections it throws such code away and compiles again.

    load: runs one of WARM_UP_LOAD_S, and returns the number of messages.
    """
    loads = resting = 0
    while loads < WARM_UP_LOADS_MAX and (
            loads * WARM_UP_LOAD_S < seconds or messages > 0 or resting < WARM_UP_RESTING):
        cpu, compiler = server.cpu_ns(), server.compiler_ns()
        with contextlib.suppress(TooSlow):  # a JVM still interprets its code
            messages -= load()
        cpu, compiler = server.cpu_ns() - cpu, server.compiler_ns() - compiler
        resting = resting + 1 if compiler <= COMPILER_RESTS * cpu else 0
        loads += 1


def measure_server(build, side, pinned, seconds, warm_up_s=0.0, warm_up_messages=0):
    """One round of one side: a fresh server, unmeasured loads, and the measured one."""
    _, template, wanted = side
    server_cores, load_cores = cores_for(pinned)
    def load_once():
        load = Load(build, wanted, server.port, WARM_UP_LOAD_S, load_cores)
        load.run()
        return load.finish()["messages_total"]

    with serving(command_line(template, build), server_cores) as server:
        if warm_up_s > 0:
            warm_up(server, load_once, warm_up_s, warm_up_messages)
        load = Load(build, wanted, server.port, seconds, load_cores)
        cpu, switches, ticks = server.cpu_ns(), server.switches(), server.ticks()
        compiler = server.compiler_ns()
        load.run()
        cpu, switches = server.cpu_ns() - cpu, server.switches() - switches
        compiler = server.compiler_ns() - compiler
        user, kernel = (now - then for now, then in zip(server.ticks(), ticks))
        report = load.finish()
        messages = report["messages_total"]
        datagrams = report.get("datagrams")
        return {
            "rate": report["messages_per_second"],
            "cpu_us": cpu / messages / 1000,
            # The whole is exact, how it is shared out is in ticks.
            "user_us": cpu / messages / 1000 * user / max(user + kernel, 1),
            "kernel_us": cpu / messages / 1000 * kernel / max(user + kernel, 1),
            "switches": switches / messages,
            "p50_us": report["round_trip_us"]["p50"],
            "p99_us": report["round_trip_us"]["p99"],
            "p999_us": report["round_trip_us"]["p99_9"],
            "jain": report["fairness"]["jain"],
            "generator_busy": report["generator"]["busy"],
            **({"lost": datagrams["lost"] / datagrams["sent"]} if datagrams else {}),
            # A part of the CPU time: a JVM that still compiles was not warmed up for long enough.
            **({"compiler_us": compiler / messages / 1000} if warm_up_s > 0 else {}),
        }


def once_more(measure, seconds):
    """measure(seconds); where some sessions got no answer in the time, once more and longer."""
    try:
        return measure(seconds)
    except TooSlow:
        return measure(seconds * LONGER)


def measure_program(options, side):
    """One round of a program that prints {"scenario": {"median_ns": …}, …}."""
    command = command_line(side[1], options.build)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"{shown(shlex.join(command))} ended with {done.returncode}")
    return {name: value["median_ns"] for name, value in json.loads(done.stdout).items()
            if isinstance(value, dict)}


def count_syscalls(options, side, pinned):
    """System calls per message: with the server as the bottleneck, at full speed, and by name.

    strace slows the server, so that it and not the load is the bottleneck: each wait then finds all
    the work there is. perf counts at full speed, where a server that is faster than the load waits
    more often. Both are true; the goals mean the first.
    """
    found, calls = {}, {}
    if options.syscalls in ("auto", "strace"):
        calls = traced(options, side, pinned, StraceTracer) or {}
        if calls:
            found["syscalls"] = sum(calls.values())
    if options.syscalls in ("auto", "perf"):
        # How much one wait brings differs from run to run, so one run is not enough.
        counts = [traced(options, side, pinned, PerfTracer) for _ in range(3)]
        if None not in counts:
            found["syscalls_full_speed"] = statistics.median(counts)
    return found, dict(sorted(calls.items(), key=lambda item: -item[1]))


def traced(options, side, pinned, tracer_type):
    """What the tracer saw of the server during a short load, per message; None if it cannot."""
    if not shutil.which(tracer_type.program):
        return None
    _, template, wanted = side
    server_cores, load_cores = cores_for(pinned)
    with serving(command_line(template, options.build), server_cores) as server:
        load = Load(options.build, wanted, server.port, 0.7, load_cores)
        with tracer_type(server.process.pid) as tracer:
            load.run()
        return tracer.result(load.finish()["messages_total"])


class PerfTracer:
    program = "perf"

    def __init__(self, pid):
        self.counts = tempfile.NamedTemporaryFile("r")
        control, self.control = os.pipe()
        self.answers, answers = os.pipe()
        self.process = subprocess.Popen(
            ["perf", "stat", "-x", ",", "-o", self.counts.name, "-e", "raw_syscalls:sys_enter",
             "-D", "-1", "--control", f"fd:{control},{answers}", "-p", str(pid)],
            stderr=subprocess.DEVNULL, pass_fds=[control, answers])
        os.close(control)
        os.close(answers)

    def _tell(self, command):
        # The answer says that it is done; where perf may not, or is too old, the pipe ends.
        with contextlib.suppress(BrokenPipeError):
            os.write(self.control, command)
            return os.read(self.answers, 16) != b""
        return False

    def __enter__(self):
        self.works = self._tell(b"enable\n")
        return self

    def __exit__(self, *_):
        self._tell(b"disable\n")
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        os.close(self.control)
        os.close(self.answers)

    def result(self, messages):
        found = re.search(r"^(\d+),,raw_syscalls:sys_enter", self.counts.read(), re.M)
        return int(found.group(1)) / messages if found and self.works else None


class StraceTracer:
    program = "strace"

    def __init__(self, pid):
        self.counts = tempfile.NamedTemporaryFile("r")
        self.process = subprocess.Popen(["strace", "-c", "-f", "-o", self.counts.name, "-p",
                                         str(pid)], stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.works = "attached" in self.process.stderr.readline()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def result(self, messages):
        if not self.works:
            return None
        rows = [line.split() for line in self.counts.read().splitlines()]
        return {row[-1]: round(int(row[3]) / messages, 4) for row in rows
                if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def idle_bytes(options, side, count):
    """User memory per connection that is accepted and has a read pending."""
    server_cores, load_cores = cores_for(True)

    def echo_once(server):
        load = Load(options.build, ONE, server.port, 0.05, load_cores)
        load.run()
        load.finish()

    with serving(command_line(side[1], options.build), server_cores) as server:
        # A busy session first, so that what every server needs once is there already.
        echo_once(server)
        before, descriptors = server.anonymous_bytes(), server.descriptor_count()
        with contextlib.ExitStack() as open_sockets:
            for _ in range(count):
                open_sockets.enter_context(
                    socket.create_connection(("127.0.0.1", server.port), START_TIMEOUT_S))
            end = time.monotonic() + START_TIMEOUT_S
            while server.descriptor_count() < descriptors + count:
                if time.monotonic() > end:
                    raise CannotMeasure(f"the server did not accept {count} connections")
                os.sched_yield()
            # An answer on one more connection: the reads of all earlier ones were started.
            echo_once(server)
            return (server.anonymous_bytes() - before) / count


# --- judging --------------------------------------------------------------------------------------

def median_interval(values):
    """The median's confidence interval (at least 90 %) from the order of the values alone.

    No distribution is assumed: the k-th least and k-th greatest of n values enclose the median
    with probability 1 - 2 * P(fewer than k of n coin tosses are heads).
    """
    ordered, n = sorted(values), len(values)
    k, tail = 1, 2 * (1 / 2 ** n)
    while k < n // 2:
        tail += 2 * math.comb(n, k) / 2 ** n
        if tail > 0.10:
            break
        k += 1
    return ordered[k - 1], ordered[n - k]


def judge(name, a, b):
    """The paired ratio A / B of one measure and its verdict."""
    ratios = [x / y for x, y in zip(a, b) if y > 0]
    if not ratios:
        return None
    low, high = median_interval(ratios)
    more_is_better = MEASURES.get(name, (name, False))[1]
    verdict = "no difference"
    if len(ratios) < 5:
        verdict = "too few rounds"  # no interval of so few is worth 90 %
    elif low > 1 or high < 1:
        verdict = "better" if (low > 1) == more_is_better else "worse"
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "verdict": verdict}


def check_goal(goal, judged, medians_a):
    name, of, relation, bound = goal
    if of == "ratio":
        value = judged[name]["ratio"] if judged.get(name) else None
    else:
        value = medians_a.get(name)
    met = None if value is None else (value <= bound if relation == "<=" else value >= bound)
    return {"measure": name, "of": of, "relation": relation, "bound": bound, "value": value,
            "met": met}


# --- one comparison -------------------------------------------------------------------------------

def compare(options, comparison):
    sides = {"a": comparison["a"], "b": comparison["b"]}
    is_server = sides["a"][2] is not None
    pinned = comparison.get("pinned", True) and not options.free
    rounds = {"a": [], "b": []}
    for number in range(-1, options.rounds):
        # The order turns round by round, so that neither side always runs on a warmer machine.
        for key in ("a", "b") if number % 2 == 0 else ("b", "a"):
            progress(f"{comparison['title']}: round {max(number + 1, 0)} of {options.rounds}")
            seconds = options.seconds if number >= 0 else min(options.seconds, 0.3)
            result = measure_server(options.build, sides[key], pinned, seconds) if is_server else \
                measure_program(options, sides[key])
            if number >= 0:  # the first one only warms up
                rounds[key].append(result)

    measures = [m for m in rounds["a"][0] if m in rounds["b"][0]]
    columns = {key: {m: [r[m] for r in rounds[key]] for m in measures} for key in sides}
    medians = {key: {m: statistics.median(columns[key][m]) for m in measures} for key in sides}
    spreads = {key: {m: spread(columns[key][m]) for m in measures} for key in sides}
    judged = {m: judge(m, columns["a"][m], columns["b"][m]) for m in measures
              if m in MEASURES or not is_server}
    extra = {}
    if is_server and options.syscalls != "none":
        for key in sides:
            progress(f"{comparison['title']}: system calls")
            found, extra[key] = count_syscalls(options, sides[key], pinned)
            medians[key].update(found)
    if comparison.get("memory"):
        progress(f"{comparison['title']}: memory")
        medians["a"]["idle_bytes"] = idle_bytes(options, sides["a"], comparison["memory"])
    progress("")
    goals = [check_goal(goal, judged, medians["a"]) for goal in comparison["goals"]]
    return {
        "title": comparison["title"],
        "pinned": pinned,
        "sides": {key: {"name": sides[key][0], "load": sides[key][2],
                        "command": shown(shlex.join(command_line(sides[key][1], options.build)))}
                  for key in sides},
        "rounds": rounds, "medians": medians, "spreads": spreads, "judged": judged,
        "calls_per_message": extra, "goals": goals,
    }


def spread(values):
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


# --- printing -------------------------------------------------------------------------------------

def progress(text):
    """A line on the terminal that is rewritten, cut to its width; "" removes it. The cursor rests
    at its beginning, so that clearing from there also removes what a narrower window wrapped."""
    if sys.stderr.isatty():
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        print(f"\r\033[J{text[:columns - 1]}\r", end="", file=sys.stderr, flush=True)


def number(value):
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}" if value >= 0.01 else f"{value:.4f}"


def print_result(result):
    a, b = result["sides"]["a"]["name"], result["sides"]["b"]["name"]
    width = max(len(a), len(b), 12)
    print(f"\n{result['title']}")
    print(f"  {'':24} {a:>{width}} {b:>{width}}   ratio (interval)      verdict")
    medians = result["medians"]
    for name in [*medians["a"]]:
        if name == "generator_busy" or name == "jain":
            continue
        label = MEASURES.get(name, (name, False))[0]
        row = f"  {label:24} {number(medians['a'][name]):>{width}} " \
              f"{number(medians['b'].get(name)):>{width}}"
        judged = result["judged"].get(name)
        if judged:
            row += f"   {judged['ratio']:5.2f} ({judged['low']:.2f} to {judged['high']:.2f})   " \
                   f"{judged['verdict']}"
        elif medians["b"].get(name):
            row += f"   {medians['a'][name] / medians['b'][name]:5.2f}"
        print(row)
    busy = max(medians[key].get("generator_busy", 0) for key in medians)
    if busy > 0.95:
        print("  note: the load generator was fully busy, so the rates are its own; "
              "compare the CPU per message")
    for goal in result["goals"]:
        print(f"  goal: {goal_text(goal)}")


def goal_text(goal):
    label = MEASURES.get(goal["measure"], (goal["measure"], False))[0]
    of = "ratio of " if goal["of"] == "ratio" else ""
    state = {True: "met", False: "MISSED", None: "NOT MEASURED"}[goal["met"]]
    return f"{of}{label} {goal['relation']} {goal['bound']}: {number(goal['value'])} - {state}"


def output_of(*command):
    with contextlib.suppress(OSError):
        return subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip()
    return ""


def surroundings():
    model = "unknown"
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = found.group(1) if found else platform.machine()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": model, "cores": os.cpu_count(), "kernel": platform.release(),
        "compiler": output_of("c++", "--version").split("\n")[0],
        "commit": output_of("git", "rev-parse", "HEAD"),
        "modified": output_of("git", "status", "--porcelain", "--untracked-files=no") != "",
        "load_average": os.getloadavg()[0],
        "command": shlex.join([shown(os.path.abspath(sys.argv[0])), *sys.argv[1:]]),
    }


def keep(name, results):
    """Writes them down, and says where."""
    folder = REPOSITORY / "bench" / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.date.today().isoformat()}-{name}.json"
    result_file.write(path, {**surroundings(), "results": results})
    return path


def save(name, results):
    print(f"\n{shown(keep(name, results))}")


# --- command line ---------------------------------------------------------------------------------

def arguments():
    parser = OptionParser(__doc__, "free", "no-save", "against", rounds=7, seconds=1.0)
    parser.add_argument("name", choices=[*COMPARISONS, "all", "pair"])
    parser.add_argument("--syscalls", choices=["auto", "perf", "strace", "none"], default="auto")
    pair = parser.add_argument_group("pair")
    pair.add_argument("--a", help="command of the candidate; {build} stands for the build folder")
    pair.add_argument("--b", help="command of what it is compared with")
    for name, default in BUSY_100_IDLE.items():
        pair.add_argument(f"--{name}", type=int, default=0 if name == "idle" else default)
    options = parser.parse_args()
    if options.name == "pair" and not (options.a and options.b):
        parser.error("pair needs --a and --b")
    if options.name == "pair" and options.against:
        parser.error("pair names both sides itself: --against is for the other comparisons")
    return options


def chosen(options):
    if options.name == "pair":
        load = {name: getattr(options, name) for name in BUSY_100_IDLE}
        sides = {key: (Path(shlex.split(command)[0]).name, shlex.split(command), load)
                 for key, command in (("a", options.a), ("b", options.b))}
        return {"pair": [{"title": f"{options.a} against {options.b}", **sides, "goals": []}]}
    found = COMPARISONS if options.name == "all" else {options.name: COMPARISONS[options.name]}
    if options.against is None:
        return found
    return {name: with_older(comparisons, options.against) for name, comparisons in found.items()}


def with_older(comparisons, older):
    """Baton's side of each, against the same of an older build."""
    return [{**one, "title": f"{one['title']}: against an older build", "goals": [], "memory": 0,
             "b": (f"{one['a'][0]}, older",
                   [word.replace("{build}", str(older)) for word in one["a"][1]], one["a"][2])}
            for one in comparisons if one["a"][0].startswith("baton")]


def main():
    options = arguments()
    # The idle connections of the memory measure are this process's own.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    status = 0
    for name, comparisons in chosen(options).items():
        results = []
        for comparison in comparisons:
            try:
                results.append(compare(options, comparison))
            except CannotMeasure as why:
                progress("")
                print(f"\n{comparison['title']}\n  not measured: {why}", file=sys.stderr)
                status = 2
                continue
            print_result(results[-1])
            if any(goal["met"] is not True for goal in results[-1]["goals"]):
                status = max(status, 1)
        if results and not options.no_save:
            save(name if options.against is None else f"{name}-against", results)
    return status


if __name__ == "__main__":
    sys.exit(output.status_of(main))
