#!/usr/bin/env python3
"""One page of what was measured; or what changed between two measurements.

    bench/report.py                          the newest of each kind in bench/results/
    bench/report.py FILE...                  these
    bench/report.py --diff BEFORE AFTER      two result files of bench/rows.py, row by row

The page is bench/results/report.html: a sentence that sums it up, a figure for each question, and
all tables, in one file that needs no network and no program but a browser.
"""

import argparse
import html
import json
import statistics
import sys
from pathlib import Path

import compare
import figures
import output

RESULTS = Path(__file__).resolve().parent / "results"
KINDS = ("rows", "rows-pool", "java", "reactor", "idle", "programs", "instructions")

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --dim: #59636e; --line: #d0d7de;
  --page: #ffffff; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --text: #f0f6fc; --dim: #9198a1; --line: #3d444d;
  --page: #0d1117; --good: #3fb950; --bad: #ff7b72; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 50em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.7em; line-height: 1.25; } h2 { font-size: 1.2em; margin: 2.2em 0 0.2em; }
h3 { font-size: 1em; margin: 1.5em 0 0; }
p { margin: 0.4em 0; } .dim, figcaption { color: var(--dim); font-size: 0.9em; }
figure { margin: 1em 0; } figcaption { margin-top: 0.6em; } .scroll { overflow-x: auto; }
svg { width: 100%; font: 14px system-ui, sans-serif; }
svg text { fill: var(--text); } .grid { stroke: var(--line); fill: none; }
.line { fill: none; stroke-width: 2.5; }
.bars { display: grid; grid-template-columns: max-content 1fr; gap: 0.4em 0.8em; }
.bars > span { text-align: right; } .bar { display: flex; align-items: center; gap: 0.5em; }
.bar i { height: 1.3em; border-radius: 3px; min-width: 2px; } .bar b { font-weight: 500;
  white-space: nowrap; }
@media (max-width: 34em) { .bars { grid-template-columns: 1fr; gap: 0.1em; }
  .bars > span { text-align: left; margin-top: 0.4em; } svg { font-size: 20px; } }
summary { cursor: pointer; margin: 0.6em 0; }
details .scroll { width: max-content; min-width: 100%; max-width: min(94vw, 110em);
  margin-left: 50%; transform: translateX(-50%); }
table { border-collapse: collapse; margin: 0.6em 0; font-size: 13px; white-space: nowrap; }
th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.better { color: var(--good); } .worse { color: var(--bad); }
"""


# --- figures --------------------------------------------------------------------------------------

# Label, and the servers of bench/rows.py from which the best on the row is taken: a library is
# shown at its best. Never more than six.
SHOWN = (
    ("Baton, epoll", ("baton epoll per_thread",)),
    ("Baton, io_uring", ("baton io_uring per_thread",)),
    ("hand-written loop", ("raw epoll", "raw epoll, edge", "raw io_uring")),
    ("Asio", ("Asio epoll", "Asio epoll, a context a thread", "Asio io_uring")),
    ("libuv", ("libuv",)),
    ("ACE", ("ACE_TP_Reactor", "ACE_Dev_Poll_Reactor")),
)
# The same of what bench/java.py measures.
JAVA_SHOWN = (
    ("Baton, nio", ("Java baton nio",)),
    ("Baton, native", ("Java baton native io_uring", "Java baton native epoll")),
    ("hand-written loop in C", ("raw epoll",)),
    ("Netty", ("Netty NIO", "Netty epoll", "Netty io_uring")),
    ("the JDK's NIO.2", ("Java NIO.2",)),
    ("the JDK's NIO.2 on Baton", ("Java baton nio2 on native", "Java baton nio2")),
)
CPU_ROW = "1000/1/512/0/0"
# A ratio nearer to 1 than this is no difference (bench/README.md, "How far to trust a number").
NOT_TOLD_APART = 0.1


def row_in_words(row):
    """"100 connections, 8,192 B, full duplex, 5 threads, handlers that sleep 10 us"."""
    several = "s" if row["sessions"] > 1 else ""
    words = [f"{row['sessions']:,} {'peer' if row['kind'] == 'udp' else 'connection'}{several}"]
    if row["idle"]:
        words[0] += f" beside {row['idle']:,} idle ones"
    words.append(f"{row['block']:,} B")
    if row["kind"] == "udp":
        words.append(f"{row['window'] // row['block'] + 1} datagrams in flight for each")
    else:
        words.append("full duplex" if row["window"] else "half duplex")
    words.append("1 thread" if row["threads"] == 1 else f"{row['threads']} threads")
    if row["delay"]:
        words.append(f"handlers that sleep {row['delay']} us")
    if row["random"]:
        words.append(f"handlers that compute up to {row['random']} us")
    if row["slow"]:
        words.append(f"those of one connection compute {row['slow'] // 1000} ms")
    if row["free"]:
        words.append("placed by the system")
    return ", ".join(words)


def best_of(result, names, measure):
    """The best value of a measure among some servers of a row; None: none of them has it."""
    values = [result["medians"][name][measure] for name in names
              if measure in result["medians"].get(name, {})]
    _, more_is_better = compare.MEASURES[measure]
    return (max if more_is_better else min)(values, default=None)


def all_shown(result, measure, shown=SHOWN):
    """(label, value, kind) of those that the row has."""
    found = [(label, best_of(result, names, measure), figures.kind_of(names[0]))
             for label, names in shown]
    return [one for one in found if one[1] is not None]


def figure(question, answer, drawing, caption):
    return (f"<h2>{html.escape(question)}</h2><p>{html.escape(answer)}</p>"
            f'<figure class="scroll">{drawing}<figcaption>{html.escape(caption)}</figcaption>'
            "</figure>")


def compared(ours, other):
    """"20 % less than", of a cost; "about as much as" where a run cannot tell them apart."""
    change = ours / other - 1
    if abs(change) < NOT_TOLD_APART:
        return "about as much as"
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'} than".replace("%", " %")


def headline(results):
    """The headline of the page."""
    result = next((r for r in results if r["row"] == CPU_ROW), None)
    if result is None:
        return "Baton, measured"
    values = all_shown(result, "cpu_us")
    ours = min((value for label, value, _ in values if label.startswith("Baton")), default=None)
    rivals = [(label, value) for label, value, _ in values if label in ("Asio", "libuv", "ACE")]
    if ours is None or not rivals:
        return "Baton, measured"
    than = ", ".join(f"{compared(ours, value)} {label}" for label, value in rivals)
    return (f"A message costs Baton {figures.shown(ours)} us of CPU at "
            f"{result['parameters']['sessions']:,} connections: {than}")


def growing(results):
    """Rows that differ in the number of connections alone: the longest such list."""
    families = {}
    for result in results:
        row = result["parameters"]
        if row["kind"] == "echo" and not row["idle"] and result["medians"]:
            same = tuple(value for key, value in row.items() if key not in ("sessions", "goals"))
            families.setdefault(str(same), []).append(result)
    longest = max(families.values(), key=len, default=[])
    return sorted(longest, key=lambda r: r["parameters"]["sessions"]) if len(longest) > 2 else []


def rate_figure(results, shown=SHOWN, where=""):
    family = growing(results)
    if not family:
        return ""
    series = {}
    for label, names in shown:
        points = {result["parameters"]["sessions"]: best_of(result, names, "rate")
                  for result in family}
        points = {x: y for x, y in points.items() if y is not None}
        if points:
            series[label] = (figures.kind_of(names[0]), points)
    last = family[-1]
    values = sorted(all_shown(last, "rate", shown), key=lambda one: -one[1])
    close = [one for one in values if one[1] >= (1 - NOT_TOLD_APART) * values[0][1]]
    answer = f"With {last['parameters']['sessions']:,} connections: " + "; ".join(
        f"{label} {rate:,.0f}" for label, rate, _ in values) + " messages a second."
    if len(close) > 1:
        answer += f" The first {len(close)} are within 10 %, too close for a run to tell apart."
    without = row_in_words({**last["parameters"], "sessions": 1}).split(", ", 1)[1]
    missing = [label for label, _ in shown if label not in series]
    caption = f"{without[0].upper()}{without[1:]}. Each library at its best."
    if missing:
        caption += f" Not measured with these handlers: {', '.join(missing)}."
    drawing = figures.lines(series, "messages a second against connections", "connections",
                            "messages a second")
    return figure(f"How does the rate grow with the connections{where}?", answer, drawing, caption)


def cpu_figure(results):
    result = next((r for r in results if r["row"] == CPU_ROW), None)
    rows = sorted(all_shown(result, "cpu_us") if result else [], key=lambda one: one[1])
    if not rows:
        return ""
    first, last = rows[0], rows[-1]
    answer = (f"Least: {first[0]}, {figures.shown(first[1])} us. Most: {last[0]}, "
              f"{figures.shown(last[1])} us.")
    return figure("How much CPU does a message cost?", answer, figures.bars(rows, "us"),
                  "CPU time of the server for each message: "
                  f"{row_in_words(result['parameters'])}. Less is better.")


# The names of bench/reactor.py for the Reactors that it compares.
FAIRNESS = (("Baton's Reactor, epoll", "baton/epoll"), ("Asio", "asio"), ("libevent", "libevent"),
            ("ACE_Dev_Poll_Reactor", "ace_dev_poll"), ("ACE_TP_Reactor", "ace_tp"))
FAIRNESS_CONNECTIONS = 50


def fairness_figure(reactor):
    rounds = [one["runs"] for one in reactor.get("runs", {}).get("fairness", [])
              if one["connections"] == FAIRNESS_CONNECTIONS]
    runs = {name: [run for one in rounds for run in one.get(name, [])] for _, name in FAIRNESS}
    rows = [(label, statistics.median(run["spread"] for run in runs[name]) * 100,
             figures.kind_of(name.replace("/", " "))) for label, name in FAIRNESS if runs[name]]
    if not rows:
        return ""
    rows.sort(key=lambda row: row[1])
    threads = next(run["threads"] for name in runs.values() for run in name)
    answer = "The least served socket gets this much less than the most served one: " + ", ".join(
        f"{label} {figures.shown(value)}\u00a0%" for label, value, _ in rows) + "."
    return figure("Does every connection get its turn?", answer, figures.bars(rows, "%"),
                  f"{FAIRNESS_CONNECTIONS} sockets that are always full, {threads} threads. Less "
                  "is better.")


def memory_figure(comparisons):
    rows, goal = [], None
    for one in comparisons:
        value = one["medians"]["a"].get("idle_bytes")
        if value is not None:
            name = one["sides"]["a"]["name"]
            rows.append(("Baton, io_uring" if "io_uring" in name else "Baton, epoll", value,
                         figures.kind_of(name)))
            goal = next((g["bound"] for g in one["goals"] if g["measure"] == "idle_bytes"), goal)
    if not rows:
        return ""
    answer = "An idle connection with a pooled read takes " + " and ".join(
        f"{value:.0f} B ({label.split(', ')[1]})" for label, value, _ in rows) + "."
    caption = "User memory of an accepted connection with a read pending, of 10,000."
    if goal:
        caption += f" The goal is {goal:.0f} B."
    return figure("How much memory does an idle connection take?", answer,
                  figures.bars(rows, "B"), caption)


def all_figures(results, comparisons, reactor, of_java=()):
    return (rate_figure(results)
            + rate_figure(of_java, JAVA_SHOWN, ", in Java")
            + cpu_figure(results)
            + fairness_figure(reactor)
            + memory_figure(comparisons))


# --- tables ---------------------------------------------------------------------------------------

def table(head, rows):
    heads = "".join(f"<th>{html.escape(one)}</th>" for one in head)
    text = f'<div class="scroll"><table><tr>{heads}</tr>'
    for row in rows:
        text += "<tr>"
        for cell in row:
            shown, kind = cell if isinstance(cell, tuple) else (cell, "")
            text += f'<td class="{kind}">{html.escape(str(shown))}</td>'
        text += "</tr>"
    return text + "</table></div>"


def verdict_cell(judged):
    if not judged:
        return "-"
    kind = {"better": "better", "worse": "worse"}.get(judged["verdict"], "")
    return (f"{judged['ratio']:.2f} ({judged['low']:.2f}-{judged['high']:.2f}) "
            f"{judged['verdict']}", kind)


def fact(text):
    return f"<p class=dim>{html.escape(text)}</p>"


def row_tables(results):
    text = ""
    for result in results:
        # Columns that only some rows have: lost datagrams, and in an uneven row the others' p99,
        # judged.
        lost = any("lost" in m for m in result["medians"].values())
        tail = any("p99_us" in judged for judged in result["judged"].values())
        words = row_in_words(result["parameters"])
        text += f"<h3>{html.escape(words[0].upper() + words[1:])}</h3>"
        if result["parameters"]["kind"] == "pool":
            text += fact(f"Compared with: {result['base']}")
        if result["parameters"]["slow"]:
            text += fact("Round trips are those of the others, without the slow session's.")
        rows = []
        for name, m in sorted(result["medians"].items(), key=lambda item: -item[1]["rate"]):
            judged = result["judged"].get(name, {})
            rows.append([name, f"{m['rate']:,.0f}", f"{result['spread'][name]:.0%}",
                         f"{m['cpu_us']:.2f}",
                         f"{m['syscalls']:.2f}" if "syscalls" in m else "-",
                         f"{m['switches']:.2f}", f"{m['p50_us']:.0f}",
                         f"{m['p99_us']:.0f}",
                         f"{m['p999_us']:.0f}" if "p999_us" in m else "-", f"{m['jain']:.3f}",
                         "the base" if name == result["base"]
                         else verdict_cell(judged.get("rate")), verdict_cell(judged.get("cpu_us"))]
                        + ([verdict_cell(judged.get("p99_us"))] if tail else [])
                        + ([f"{m['lost']:.2%}"] if lost else []))
        text += table(["server", "messages/s", "spread", "CPU us/msg", "calls", "switches",
                       "p50 us", "p99 us", "p99.9 us", "Jain", "rate", "CPU",
                       *(["p99"] if tail else []), *(["lost"] if lost else [])], rows)
        for name, goals in result["goals"].items():
            for goal in goals:
                text += fact(f"{name}, goal: {compare.goal_text(goal)}")
        for name, why in result["troubles"].items():
            text += fact(f"{name}: {why}")
        if result["generator_busy"] > 0.95:
            text += fact("The load generator was fully busy: compare the CPU.")
    return text


def program_tables(results):
    """Rows of bench/programs.py."""
    text = ""
    for result in results:
        text += f"<h3>{html.escape(result['row'])}, against {html.escape(str(result['base']))}</h3>"
        measures = list(dict.fromkeys(m for median in result["medians"].values() for m in median))
        rows = []
        for name, median in result["medians"].items():
            judged = result["judged"].get(name, {})
            cells = [name]
            for measure in measures:
                cells.append(f"{median[measure]:,.1f}" if measure in median else "-")
                cells.append("the base" if name == result["base"]
                             else verdict_cell(judged.get(measure)))
            rows.append(cells)
        text += table(["", *(head for m in measures for head in (m, "ratio"))], rows)
        for name, why in result["troubles"].items():
            text += fact(f"{name}: {why}")
    return text


def instruction_table(table_of):
    """User-space instructions of a message, program by program."""
    counted = {name: rows for name, rows in table_of.items() if not isinstance(rows, str)}
    heads = list(next(iter(counted.values()), {}))
    rows = [[name, *(f"{rows[h]:,.0f}" if h in rows else "-" for h in heads)]
            for name, rows in counted.items()]
    text = table(["program", *heads], rows)
    for name in table_of:
        if name not in counted:
            text += fact(f"{name}: {table_of[name]}")
    return text


def floor_table(reactor):
    """Of bench/reactor.py."""
    rows = [[one["what"], f"{one['value']:.4g}", one["floor"], one["verdict"]]
            for one in reactor["floors"]]
    return table(["connections: what", "value", "floor", "verdict"], rows)


def comparison_table(comparisons):
    """Of bench/compare.py: each measure of the two sides."""
    text = ""
    for one in comparisons:
        text += f"<h3>{html.escape(one['title'])}</h3>"
        sides = [one["sides"][side]["name"] for side in "ab"]
        rows = [[compare.MEASURES.get(m, (m,))[0],
                 *(f"{one['medians'][side][m]:,.2f}" if m in one["medians"][side] else "-"
                   for side in "ab")] for m in one["medians"]["a"]]
        text += table(["", *sides], rows)
    return text


def facts(data):
    return (f"<p class=dim>{machine_of(data)}, commit {data['commit'][:12]}"
            f"{' (modified)' if data['modified'] else ''}, load average "
            f"{data['load_average']:.1f}<br>{html.escape(data['command'])}</p>")


def machine_of(data):
    return html.escape(f"{data['date'][:10]}, {data['machine']}, {data['cores']} cores, Linux "
                       f"{data['kernel']}, {data['compiler']}")


def newest(kind):
    return sorted(RESULTS.glob(f"*[0-9]-{kind}.json"))[-1:]


def tables_of(file, results):
    """All that a file has, as a part of the page that opens at a click."""
    kind = kind_of_results(results)
    if kind is None:
        raise SystemExit(f"report.py: {file.name}: no rows, programs, comparisons or instructions")
    titles = {"rows": "Servers, row by row", "programs": "Programs, row by row",
              "reactor": "The Reactor's numbers, each with its floor",
              "comparisons": "Comparisons with their goals",
              "instructions": "User-space instructions of a message"}
    makers = {"rows": row_tables, "programs": program_tables, "reactor": floor_table,
              "comparisons": comparison_table, "instructions": instruction_table}
    return (f"<details><summary>{titles[kind]} ({html.escape(file.stem)})</summary>"
            f"{{facts}}{makers[kind](results)}</details>")


def kind_of_results(results):
    if isinstance(results, dict):
        return "reactor" if "floors" in results else "instructions"
    first = results[0] if results else {}
    if "sides" in first:
        return "comparisons"
    if "row" in first:
        return "rows" if "kind" in first.get("parameters", {}) else "programs"
    return None


def is_of_java(result):
    return any(name.startswith("Java") for name in result["medians"])


def page(files):
    measured = [(file, json.loads(file.read_text())) for file in files]
    of_kind = {"rows": [], "comparisons": []}
    for _, data in measured:
        kind, results = kind_of_results(data["results"]), data["results"]
        of_kind[kind] = of_kind.get(kind, []) + results if isinstance(results, list) else results
    details = "".join(tables_of(file, data["results"]).replace("{facts}", facts(data), 1)
                      for file, data in measured)
    of_java = [result for result in of_kind["rows"] if is_of_java(result)]
    rows = [result for result in of_kind["rows"] if not is_of_java(result)]
    title = html.escape(headline(rows))
    return (f"<!doctype html><html lang=en><meta charset=utf-8>"
            f'<meta name="viewport" content="width=device-width">'
            f"<title>Baton, measured</title><style>{figures.colour_rules()}{STYLE}</style>"
            f"<h1>{title}</h1>"
            f"<p class=dim>{machine_of(measured[0][1])}</p>"
            + all_figures(rows, of_kind["comparisons"], of_kind.get("reactor", {}), of_java)
            + f"<h2>All measurements</h2>{details}</html>\n")


def diff(before, after):
    """Rates and CPU of the rows and servers that both files have."""
    first, second = (json.loads(path.read_text()) for path in (before, after))
    rows = {r["row"]: r for r in first["results"]}
    print(f"{'row':24} {'server':32} {'rate':>22} {'CPU us/msg':>22}")
    for result in second["results"]:
        old = rows.get(result["row"])
        for name, new in result["medians"].items():
            if old is None or name not in old["medians"]:
                continue
            was = old["medians"][name]
            cells = [f"{was[m]:,.{d}f} -> {new[m]:,.{d}f} ({new[m] / was[m] - 1:+.0%})"
                     for m, d in (("rate", 0), ("cpu_us", 2))]
            print(f"{result['row']:24} {name:32} {cells[0]:>22} {cells[1]:>22}")


def results_file(name):
    """A file of results that can be read, for argparse."""
    try:
        json.loads(Path(name).read_text())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error.strerror}") from error
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name} holds no results in JSON") from error
    return Path(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=results_file)
    parser.add_argument("--diff", nargs=2, type=results_file, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--out", type=Path, default=RESULTS / "report.html")
    options = parser.parse_args()
    if options.diff:
        diff(*options.diff)
        return 0
    files = options.files or [file for kind in KINDS for file in newest(kind)]
    if not files:
        print("report.py: nothing was measured yet: bench/rows.py", file=sys.stderr)
        return 2
    out = options.out.resolve()
    out.write_text(page(files))
    print(compare.shown(out))
    return 0


if __name__ == "__main__":
    sys.exit(output.status_of(main))
