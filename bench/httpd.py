#!/usr/bin/env python3
"""Compares examples/httpd with nginx: one thread against one worker, a 1 KiB file, keep-alive.

    bench/httpd.py                     7 rounds, everything below; about two minutes
    bench/httpd.py --rounds 15         narrower intervals

wrk is the load, on a core of its own. In each round every server runs once, freshly started, in an
order that turns; a round gives one ratio for each pair, and the verdict comes from the median of
the ratios, as in bench/compare.py. CPU is that of the process that serves (nginx: of its worker),
all its threads, from the first connection to the last answer.

nginx is given what it is fast with: no access log, connections that are never renewed, and a cache
of open files (open_file_cache), for httpd keeps files open, too. Both trust an entry for the same
time. nginx runs with sendfile and without; the one that needs less CPU is the rival. httpd runs on
several engines; the goal is for its default, the others are shown.

Exit status: 0 the goal is met, 1 it is missed, 2 something could not be measured.
"""

import contextlib
import json
import os
import re
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

import compare
import output
from compare import CannotMeasure
from option_parser import OptionParser

FILE_BYTES = 1024
CACHE_SECONDS = 10
GOAL = ("cpu_us", "ratio", "<=", 1.10)

compare.MEASURES = {
    "rate": ("requests/s", True),
    "cpu_us": ("CPU us/request", False),
    "switches": ("switches/request", False),
    "syscalls": ("system calls/request", False),
    "p50_us": ("p50 us", False),
    "p99_us": ("p99 us", False),
}

# The first one is the default, to which the goal applies.
HTTPD = {
    "httpd": [],
    "httpd, epoll": ["--engine", "emulated", "--wait", "epoll"],
    # Sockets and files in one ring, in one processor.
    "httpd, one ring": ["--config", "{folder}/one.xml"],
}
ONE_PROCESSOR = '<baton><processor engine="io_uring" mode="per_thread"/></baton>\n'

NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; use epoll; }}
http {{
  access_log off;
  sendfile {sendfile};
  default_type text/html;
  types {{ text/html html; }}
  keepalive_requests 1000000000;
  keepalive_timeout 60s;
  open_file_cache max=1024 inactive=60s;
  open_file_cache_valid {seconds}s;
  open_file_cache_errors off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""

# wrk prints for people; this is for us.
WRK_REPORT = """
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"us":%d,"p50":%f,"p99":%f,"failed":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


# --- the servers ----------------------------------------------------------------------------------

class Process:
    """A server under test; `worker` is the process whose CPU counts."""

    def __init__(self, command, cores, **pipes):
        self.process = subprocess.Popen(command, preexec_fn=compare.on_cores(cores), text=True,
                                        **pipes)
        self.worker = self.process.pid

    def of_tasks(self, file, pick):
        total = 0
        for task in Path(f"/proc/{self.worker}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += pick((task / file).read_text())
        return total

    def cpu_ns(self):
        return self.of_tasks("schedstat", lambda text: int(text.split()[0]))

    def switches(self):
        return self.of_tasks("status", lambda text: sum(
            int(n) for n in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", text)))

    def stop(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=compare.STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise CannotMeasure(f"{self.process.args[0]} did not stop") from None


def start_httpd(build, folder, root, more, cores):
    command = httpd_command(build, root, [word.format(folder=folder) for word in more])
    if not shutil.which(command[0]):
        raise CannotMeasure(f"{compare.shown(command[0])} is missing: is Boost installed?")
    server = Process(command, cores, stdout=subprocess.PIPE)
    found = re.match(r"listening (\d+)", server.process.stdout.readline())
    if not found:
        server.stop()
        raise CannotMeasure(f"{compare.shown(shlex.join(command))} did not start")
    return server, int(found.group(1))


def httpd_command(build, root, more):
    return [str(build / "bin" / "examples" / "httpd"), "--root", str(root), "--listen",
            "127.0.0.1:0", "--threads", "1", "--requests", "0", "--cache-seconds",
            str(CACHE_SECONDS), *more]


def start_nginx(folder, root, sendfile, cores):
    with socket.socket() as probe:  # nginx cannot be told to take any port
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration = folder / f"nginx-{sendfile}.conf"
    configuration.write_text(NGINX.format(folder=folder, root=root, sendfile=sendfile, port=port,
                                          seconds=CACHE_SECONDS))
    server = Process(["nginx", "-p", str(folder), "-c", str(configuration)], cores,
                     stdout=subprocess.DEVNULL)
    end = time.monotonic() + compare.START_TIMEOUT_S
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    while time.monotonic() < end and server.process.poll() is None:
        with contextlib.suppress(OSError):
            found = children.read_text().split()
            socket.create_connection(("127.0.0.1", port), 1).close()
            if found:
                server.worker = int(found[0])
                return server, port
        os.sched_yield()
    server.stop()
    raise CannotMeasure("nginx did not start")


# --- measuring ------------------------------------------------------------------------------------

class Bench:

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        os.chmod(folder, 0o755)  # nginx's worker may be another user
        (self.root / "file.html").write_bytes(b"x" * FILE_BYTES)
        (folder / "one.xml").write_text(ONE_PROCESSOR)
        (folder / "report.lua").write_text(WRK_REPORT)
        self.server_cores, self.load_cores = compare.cores_for(not options.free)

    @contextlib.contextmanager
    def serving(self, name):
        server, port = start_httpd(self.options.build, self.folder, self.root, HTTPD[name],
                                   self.server_cores) \
            if name in HTTPD else \
            start_nginx(self.folder, self.root, name.rsplit(" ", 1)[1], self.server_cores)
        try:
            yield server, port
        finally:
            server.stop()

    def wrk(self, port, seconds):
        done = subprocess.run(
            ["wrk", "-t1", f"-c{self.options.connections}", f"-d{seconds}", "-s",
             str(self.folder / "report.lua"), f"http://127.0.0.1:{port}/file.html"],
            stdout=subprocess.PIPE, text=True, preexec_fn=compare.on_cores(self.load_cores))
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            raise CannotMeasure(f"wrk failed: {done.stdout.strip()[-200:]}")
        report = json.loads(lines[-1])
        if report["failed"] or not report["requests"]:
            raise CannotMeasure(f"wrk counted {report['failed']} failures")
        return report

    def round(self, name, seconds):
        with self.serving(name) as (server, port):
            cpu, switches, before = server.cpu_ns(), server.switches(), os.times()
            report = self.wrk(port, seconds)
            after = os.times()
            requests = report["requests"]
            generator = after.children_user + after.children_system - before.children_user - \
                before.children_system
            return {
                "rate": requests / report["us"] * 1e6,
                "cpu_us": (server.cpu_ns() - cpu) / requests / 1000,
                "switches": (server.switches() - switches) / requests,
                "p50_us": report["p50"],
                "p99_us": report["p99"],
                "generator_busy": generator / (report["us"] / 1e6),
            }

    def count_syscalls(self, name):
        """Calls per request by name, with the server slowed by strace: see bench/compare.py."""
        if not shutil.which("strace"):
            return {}
        with self.serving(name) as (server, port):
            with compare.StraceTracer(server.worker) as tracer:
                requests = self.wrk(port, 1)["requests"]
            calls = tracer.result(requests) or {}
        return dict(sorted(calls.items(), key=lambda item: -item[1]))


def measure(bench, names):
    rounds = {name: [] for name in names}
    for number in range(-1, bench.options.rounds):
        order = names if number % 2 == 0 else names[::-1]
        for name in order:
            compare.progress(f"{name}: round {max(number + 1, 0)} of {bench.options.rounds}")
            result = bench.round(name, bench.options.seconds if number >= 0 else 1)
            if number >= 0:  # the first one only warms up
                rounds[name].append(result)
    compare.progress("")
    return rounds


def result_of(name, rival, rounds, calls, goals, commands):
    sides = {"a": name, "b": rival}
    measures = list(rounds[name][0])
    columns = {key: {m: [r[m] for r in rounds[side]] for m in measures}
               for key, side in sides.items()}
    medians = {key: {m: statistics.median(columns[key][m]) for m in measures} for key in sides}
    judged = {m: compare.judge(m, columns["a"][m], columns["b"][m]) for m in measures
              if m in compare.MEASURES}
    for key, side in sides.items():
        if calls.get(side):
            medians[key]["syscalls"] = sum(calls[side].values())
    return {
        "title": f"{FILE_BYTES} bytes, {name} against {rival}",
        "pinned": True,
        "sides": {key: {"name": side, "command": commands[side]} for key, side in sides.items()},
        "rounds": {key: rounds[side] for key, side in sides.items()},
        "medians": medians,
        "spreads": {key: {m: compare.spread(columns[key][m]) for m in measures} for key in sides},
        "judged": judged,
        "calls_per_request": {key: calls.get(side, {}) for key, side in sides.items()},
        "goals": [compare.check_goal(goal, judged, medians["a"]) for goal in goals],
    }


def arguments():
    parser = OptionParser(__doc__, "free", "no-save", rounds=7, seconds=2)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--no-syscalls", action="store_true", help="do not count system calls")
    return parser.parse_args()


def compare_all(options, folder):
    bench = Bench(options, folder)
    nginx = ["nginx, sendfile on", "nginx, sendfile off"]
    names = [*HTTPD, *nginx]
    rounds = measure(bench, names)
    rival = min(nginx, key=lambda name: statistics.median(r["cpu_us"] for r in rounds[name]))
    calls = {}
    if not options.no_syscalls:
        for name in names:
            compare.progress(f"{name}: system calls")
            calls[name] = bench.count_syscalls(name)
        compare.progress("")
    commands = {name: compare.shown(shlex.join(httpd_command(options.build, "FOLDER", more)))
                for name, more in HTTPD.items()}
    for name in nginx:
        commands[name] = NGINX.format(folder="FOLDER", root="FOLDER/root", port="PORT",
                                      seconds=CACHE_SECONDS, sendfile=name.rsplit(" ", 1)[1])
    results = [result_of(name, rival, rounds, calls, [GOAL] if name == "httpd" else [], commands)
               for name in HTTPD]
    results.append(result_of(*[name for name in nginx if name != rival], rival, rounds, calls, [],
                             commands))
    return results


def main():
    options = arguments()
    for program in ("wrk", "nginx"):
        if not shutil.which(program):
            print(f"not measured: {program} is not installed", file=sys.stderr)
            return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    with tempfile.TemporaryDirectory(prefix="baton-httpd-") as folder:
        try:
            results = compare_all(options, Path(folder))
        except CannotMeasure as why:
            compare.progress("")
            print(f"not measured: {why}", file=sys.stderr)
            return 2
    for result in results:
        compare.print_result(result)
    if not options.no_save:
        compare.save("httpd", results)
    return 0 if all(goal["met"] for goal in results[0]["goals"]) else 1


if __name__ == "__main__":
    sys.exit(output.status_of(main))
