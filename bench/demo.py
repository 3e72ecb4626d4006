#!/usr/bin/env python3
"""Shows what Baton does on this machine, in one table and in words.

An echo server under load on every engine, wait strategy and mode, and files written and read back.
Each row is a fresh server, or a fresh file, checked byte for byte by `baton load`. A row for which
the machine was too slow is measured once more, for longer. Then `baton doctor` says which
configuration suits the machine, and why.

Exit status: 0 when every row passed. scripts/demo builds first and then runs this.
"""

import html
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
import webbrowser

import compare
import output
from option_parser import OptionParser

MODES = ["shared", "dedicated", "per_thread"]
SESSIONS = [1, 100, 1000]
BLOCK = 512
FILE_BLOCK = 65536


# --- measuring ------------------------------------------------------------------------------------

def run_baton(options, *arguments):
    return subprocess.run([str(options.build / "bin" / "baton"), *arguments], capture_output=True,
                          text=True)


def combinations(options):
    """(engine, wait, mode) of all that serve sockets, the engines that do files, and what is not
    available, with the reason."""
    rows = json.loads(run_baton(options, "engines", "--json").stdout)
    available = [row for row in rows if row["available"]]
    servers = [(row["engine"], row["wait"], mode) for row in available
               if row["operations"] == "all" for mode in MODES
               # One and the same thread must wait: there is no leader to change.
               if row["leader_rule"] == "any" or mode != "shared"]
    files = sorted({row["engine"] for row in available if row["operations"] in ("all", "file")})
    missing = [(row["engine"], row["wait"], row["reason"]) for row in rows
               # Engines that exist in tests alone are nothing that a machine lacks.
               if not row["available"] and row["code"] != "unsuitable"]
    return servers, files, missing


def measure_echo(options, what, sessions):
    """One load on a fresh server."""
    engine, wait, mode = what
    load = {"sessions": sessions, "block": BLOCK, "window": 0}
    side = ("", compare.echo(engine, wait, mode, options.threads, BLOCK), load)
    return compare.once_more(
        lambda seconds: compare.measure_server(options.build, side, False, seconds),
        options.seconds)


def measure_file(options, engine):
    """Blocks written, and read back: (operations/s, p99 in us)."""
    with tempfile.TemporaryDirectory(dir=options.build) as folder:
        done = run_baton(options, "load", "--file", folder + "/demo.data", "--write", "--size",
                         "16m", "--block", str(FILE_BLOCK), "--seconds", str(options.seconds),
                         "--engine", engine, "--json")
    if done.returncode != 0:
        raise compare.CannotMeasure(done.stderr.strip() or done.stdout.strip())
    report = json.loads(done.stdout)
    return report["operations_per_second"], report["latency_us"]["p99"]


def measure(options, progress):
    """All rows, as the cells of two tables, and what went wrong."""
    servers, files, missing = combinations(options)
    total, begun, troubles = len(servers) * len(SESSIONS) + len(files), 0, []

    def attempt(name, function, *arguments):
        nonlocal begun
        begun += 1
        progress(f"measuring {begun} of {total}: {name}")
        try:
            return function(options, *arguments)
        except compare.CannotMeasure as why:
            troubles.append(f"{name}: {why}")
            return None

    echo = [(what, [attempt(f"{' '.join(filter(None, what))}, {connections(n)}", measure_echo, what,
                            n) for n in SESSIONS]) for what in servers]
    file = [(engine, attempt(f"files by {engine}", measure_file, engine)) for engine in files]
    progress("asking the doctor")
    doctor = run_baton(options, "doctor", "--seconds", str(options.doctor_seconds), "--json")
    return {"echo": echo, "files": file, "missing": missing, "troubles": troubles, "total": total,
            "default": default_choice(options),
            "doctor": json.loads(doctor.stdout) if doctor.returncode == 0 else None,
            "doctor_error": doctor.stderr.strip()}


def default_choice(options):
    """The choice without a configuration: the line of --explain, as a dictionary."""
    told = run_baton(options, "echo", "--explain", "--host", "no address").stderr
    line = next((line for line in told.splitlines() if line.startswith("processor 0: ")), "")
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


# --- words ----------------------------------------------------------------------------------------

def connections(number):
    return f"{number:,} connection{'' if number == 1 else 's'}"


def tables(measured):
    """(title, heading, how many columns are names, rows)."""
    echo = []
    for (engine, wait, mode), got in measured["echo"]:
        cells = [f"{one['rate']:,.0f}" if one else "failed" for one in got]
        cpu = f"{got[-1]['cpu_us']:.2f}" if got[-1] else "-"
        echo.append([engine, wait or "-", mode, *cells, cpu])
    yield ("Messages a second that an echo server returned, by the number of connections; the last "
           "column is its CPU time for each message, in us",
           ["engine", "wait", "mode", *(f"{n:,}" for n in SESSIONS), "CPU us"], 3, echo)
    files = [[engine, f"{got[0]:,.0f}", f"{got[1]:,.0f}"] if got else [engine, "failed", "-"]
             for engine, got in measured["files"]]
    yield (f"Files: blocks of {FILE_BLOCK // 1024} KiB written a second, and the 99th percentile",
           ["engine", "writes", "p99 us"], 1, files)


def sections(options, measured):
    """The demo in words: (heading, sentences)."""
    passed = measured["total"] - len(measured["troubles"])
    working = {(engine, wait) for (engine, wait, _), _ in measured["echo"]}
    offers = [f"{platform.system()} {platform.release()}, {os.cpu_count()} cores. "
              f"{len(working)} ways to serve sockets work: "
              + ", ".join(sorted(" over ".join(filter(None, pair)) for pair in working)) + ".",
              f"{passed} of {measured['total']} rows passed, each byte compared."]
    offers += [f"Not available: {engine}{' ' + wait if wait else ''}: {reason}."
               for engine, wait, reason in measured["missing"]]
    yield "What this machine offers", offers + [f"FAILED: {one}" for one in measured["troubles"]]

    chosen = measured["default"]
    words = []
    if chosen:
        wait = f", which waits by {chosen['wait']}" if chosen.get("wait", "-") != "-" else ""
        words = [f"Without a configuration a program gets the engine {chosen['engine']}{wait}, in "
                 f"{chosen['mode']} mode: the first in the library's order of preference that "
                 "works, for handlers of every kind."]
    if measured["doctor"]:
        words += ["The doctor measured for this machine:"]
        words += measured["doctor"]["recommendation"]["sentences"]
    else:
        words += [f"The doctor could not tell: {measured['doctor_error']}"]
    yield "What was chosen, and why", words

    command = compare.shown(options.build / "bin" / "baton")
    yield "How to go on", [
        f"{command} doctor --write baton.xml - measures for longer and writes the configuration, "
        "which BATON_CONFIG=baton.xml gives to any program.",
        f"{command} echo --port 7007 - a server, and {command} load --port 7007 - its load, from "
        "another terminal.",
        "docs/guide/first_server.md - a first program; README.md - everything else.",
        "scripts/build - builds the libraries, the examples and the benchmarks, in build/.",
    ]


# --- as text --------------------------------------------------------------------------------------

class Terminal:
    """Colour on a terminal, none in a pipe."""

    def __init__(self):
        self.colours = (sys.stdout.isatty() and "NO_COLOR" not in os.environ
                        and os.environ.get("TERM") != "dumb")
        self.width = min(shutil.get_terminal_size().columns, 100)

    def coloured(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.colours else text

    def cell(self, text, width, left, best):
        padded = f"{text:<{width}}" if left else f"{text:>{width}}"
        if text == "failed":
            return self.coloured(padded, "1;31")
        return self.coloured(padded, "1;32") if best else padded

    def table(self, title, heading, names, rows):
        print("\n" + textwrap.fill(title, self.width) + "\n")
        widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
        best = best_cells(names, rows)
        for number, row in enumerate([heading, *rows], -1):
            cells = [self.cell(text, widths[i], i < names, (number, i) in best)
                     for i, text in enumerate(row)]
            line = "  ".join(cells).rstrip()
            print(self.coloured(line, "1") if number < 0 else line)

    def section(self, heading, sentences):
        print("\n" + self.coloured(heading, "1"))
        for one in sentences:
            print(textwrap.fill(one, self.width, initial_indent="  ", subsequent_indent="    ",
                                break_long_words=False, break_on_hyphens=False))


def best_cells(names, rows):
    """The best number of each column: the smallest time, the largest rate. (row, column)"""
    best = set()
    for column in range(names, len(rows[0]) if rows else 0):
        numbers = {number: float(row[column].replace(",", "")) for number, row in enumerate(rows)
                   if row[column] not in ("failed", "-")}
        less_is_better = column == len(rows[0]) - 1
        if len(numbers) > 1:
            best.add(((min if less_is_better else max)(numbers, key=numbers.get), column))
    return best


# --- as a page ------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --best: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --best: #3fb950; --bad: #f85149; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52em; margin: 2em auto; padding: 0 1em; }
div { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid var(--line); }
.name { text-align: left; } .best { color: var(--best); font-weight: 600; }
.failed { color: var(--bad); font-weight: 600; }
/* In a narrow window the names of a row stand above its numbers. */
@media (max-width: 30em) { table { width: 100%; }
  tr { display: grid; grid-template-columns: repeat(12, 1fr); padding: 3px 0;
    border-bottom: 1px solid var(--line); }
  th, td { grid-column: span 3; padding: 0; border: 0; } .name { grid-column: span 4; } }
"""


def page_table(title, heading, names, rows):
    best = best_cells(names, rows)
    text = f"<p>{html.escape(title)}</p><div><table>"
    for number, row in enumerate([heading, *rows], -1):
        tag = "th" if number < 0 else "td"
        text += "<tr>"
        for i, cell in enumerate(row):
            kind = "name" if i < names else ""
            kind = "failed" if cell == "failed" else "best" if (number, i) in best else kind
            text += f'<{tag} class="{kind}">{html.escape(cell)}</{tag}>'
        text += "</tr>"
    return text + "</table></div>"


def page(options, measured):
    body = "".join(page_table(*one) for one in tables(measured))
    for heading, sentences in sections(options, measured):
        items = "".join(f"<li>{html.escape(one)}</li>" for one in sentences)
        body += f"<h2>{html.escape(heading)}</h2><ul>{items}</ul>"
    return ("<!doctype html><html lang=en><meta charset=utf-8>"
            '<meta name="viewport" content="width=device-width">'
            f"<title>Baton on this machine</title><style>{STYLE}</style>"
            f"<h1>Baton on this machine</h1>{body}</html>\n")


def open_page(options, measured):
    path = options.build / "demo.html"
    path.write_text(page(options, measured))
    print(f"\nthe same as a page: {compare.shown(path)}")
    if any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        webbrowser.open(path.as_uri())


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a row")
    parser.add_argument("--doctor-seconds", type=float, default=10, help="length of the doctor's")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--html", action="store_true", help="open the same as a page, too")
    options = parser.parse_args()

    terminal = Terminal()
    measured = measure(options, compare.progress)
    compare.progress("")
    for one in tables(measured):
        terminal.table(*one)
    for heading, sentences in sections(options, measured):
        terminal.section(heading, sentences)
    if options.html:
        open_page(options, measured)
    return 0 if measured["total"] and not measured["troubles"] else 1


if __name__ == "__main__":
    sys.exit(output.status_of(main))
