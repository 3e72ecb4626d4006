#!/usr/bin/python3
"""One page, and a picture, of what was measured; or what changed between two measurements.

    bench/report.py                          the newest of each kind in bench/results/
    bench/report.py FILE...                  these
    bench/report.py --diff BEFORE AFTER      two result files of bench/rows.py, row by row

The page is bench/results/report.html: tables and charts in one file that needs no network, for the
plotting library (plotly; Debian's python3-plotly) is inside it. report.png is what a browser makes
of it (chromium), if there is one.
"""

import argparse
import html
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import compare

RESULTS = Path(__file__).resolve().parent / "results"

STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 1200px; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; }
th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.better { color: #07702f; } .worse { color: #b00020; } .facts { color: #666; }
"""


def newest(kind):
    found = sorted(RESULTS.glob(f"*-{kind}.json"))
    return found[-1:]


def table(head, rows):
    text = "<table><tr>" + "".join(f"<th>{html.escape(h)}</th>" for h in head) + "</tr>"
    for row in rows:
        text += "<tr>"
        for cell in row:
            shown, kind = cell if isinstance(cell, tuple) else (cell, "")
            text += f'<td class="{kind}">{html.escape(str(shown))}</td>'
        text += "</tr>"
    return text + "</table>"


def verdict_cell(judged):
    if not judged:
        return "-"
    kind = {"better": "better", "worse": "worse"}.get(judged["verdict"], "")
    return (f"{judged['ratio']:.2f} ({judged['low']:.2f}-{judged['high']:.2f}) "
            f"{judged['verdict']}", kind)


def fact(text):
    return f"<p class=facts>{html.escape(text)}</p>"


def row_tables(data):
    text = ""
    for result in data["results"]:
        # What some row or other has: lost datagrams, and of an uneven row the others' p99, judged.
        lost = any("lost" in m for m in result["medians"].values())
        tail = any("p99_us" in judged for judged in result["judged"].values())
        text += f"<h3>{html.escape(result['row'])}</h3>"
        if result["parameters"]["kind"] == "pool":
            text += fact(f"Held against: {result['base']}")
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
                         "held against" if name == result["base"]
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


def by_server(results, value):
    """Server -> rows and values, in the order of the rows; without those in which handlers compute
    for long, for beside them nothing else could be seen."""
    series = {}
    for result in results:
        if result["parameters"]["slow"]:
            continue
        for name, median in result["medians"].items():
            x, y = series.setdefault(name, ([], []))
            x.append(result["row"])
            y.append(value(result, median))
    return series


def rate_chart(go, data):
    """The article's figures 1 and 2: transfer rate against the number of connections."""
    results = sorted((r for r in data["results"] if r["parameters"]["kind"] == "echo"),
                     key=lambda r: r["parameters"]["sessions"])
    figure = go.Figure()
    servers = {name for result in results for name in result["medians"]}
    for name in sorted(servers):
        points = {}
        for result in results:
            sessions, block, delay = (result["parameters"][i]
                                      for i in ("sessions", "block", "delay"))
            if name in result["medians"] and delay == 0:
                rate = result["medians"][name]["rate"] * block / 1e6
                points.setdefault(sessions, []).append(rate)
        if points:
            figure.add_scatter(x=list(points), y=[statistics.median(v) for v in points.values()],
                               mode="lines+markers", name=name)
    figure.update_layout(title="Transfer rate against the number of connections",
                         xaxis_title="connections", yaxis_title="MB/s", xaxis_type="log")
    return figure


def bars(go, series, title, axis):
    figure = go.Figure()
    for name, (x, y) in series.items():
        figure.add_bar(x=x, y=y, name=name)
    figure.update_layout(title=title, yaxis_title=axis, barmode="group")
    return figure


def stacked_chart(go, result):
    """What a message of one row costs each server, by where it is spent."""
    medians = {name: m for name, m in result["medians"].items() if "user_us" in m}
    if not medians:
        return None
    names = sorted(medians, key=lambda name: medians[name]["cpu_us"])
    figure = go.Figure()
    for measure, title in (("user_us", "user space"), ("kernel_us", "kernel")):
        figure.add_bar(x=names, y=[medians[name][measure] for name in names], name=title)
    figure.update_layout(title=f"CPU of a message, {result['row']}", yaxis_title="us",
                         barmode="stack")
    return figure


def program_tables(data):
    """Rows of bench/programs.py."""
    text = ""
    for result in data["results"]:
        text += f"<h3>{html.escape(result['row'])}, against {html.escape(str(result['base']))}</h3>"
        measures = list(dict.fromkeys(m for median in result["medians"].values() for m in median))
        rows = []
        for name, median in result["medians"].items():
            judged = result["judged"].get(name, {})
            cells = [name]
            for measure in measures:
                cells.append(f"{median[measure]:,.1f}" if measure in median else "-")
                cells.append("held against" if name == result["base"]
                             else verdict_cell(judged.get(measure)))
            rows.append(cells)
        text += table(["", *(head for m in measures for head in (m, "ratio"))], rows)
        for name, why in result["troubles"].items():
            text += fact(f"{name}: {why}")
    return text


def latency_chart(go, data):
    figure = go.Figure()
    for name, (x, y) in by_server(data["results"], lambda _, m: m["p50_us"]).items():
        figure.add_scatter(x=x, y=y, mode="lines+markers", name=f"{name}, p50", legendgroup=name)
    for name, (x, y) in by_server(data["results"], lambda _, m: m["p99_us"]).items():
        figure.add_scatter(x=x, y=y, mode="lines", line={"dash": "dot"}, name=f"{name}, p99",
                           legendgroup=name, visible="legendonly")
    figure.update_layout(title="Round trip", yaxis_title="us", yaxis_type="log")
    return figure


def instruction_parts(go, table_of):
    counted = {name: rows for name, rows in table_of.items() if not isinstance(rows, str)}
    figure = go.Figure()
    for row in next(iter(counted.values()), {}):
        figure.add_bar(x=list(counted), y=[rows[row] for rows in counted.values()], name=row)
    figure.update_layout(title="User-space instructions of a message", barmode="group")
    heads = list(next(iter(counted.values()), {}))
    rows = [[name, *(f"{rows[h]:,.0f}" for h in heads)] for name, rows in counted.items()]
    missing = [name for name in table_of if name not in counted]
    text = table(["program", *heads], rows)
    for name in missing:
        text += fact(f"{name}: {table_of[name]}")
    return text, figure


def facts(data):
    return (f"<p class=facts>{html.escape(data['date'])}, {html.escape(data['machine'])}, "
            f"{data['cores']} cores, Linux {html.escape(data['kernel'])}, "
            f"{html.escape(data['compiler'])}, commit {data['commit'][:12]}"
            f"{' (modified)' if data['modified'] else ''}, load average "
            f"{data['load_average']:.1f}<br>{html.escape(data['command'])}</p>")


def page(files):
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs

    body, figures = "", []

    def draw(figure):
        figures.append(figure)
        return figure.to_html(full_html=False, include_plotlyjs=False)

    for file in files:
        data = json.loads(file.read_text())
        body += f"<h2>{html.escape(file.stem)}</h2>" + facts(data)
        kind = file.stem.split("-")[-1]
        if kind in ("rows", "java"):
            if any(result["parameters"]["kind"] == "echo" for result in data["results"]):
                body += draw(rate_chart(go, data))
            body += draw(bars(go, by_server(data["results"], lambda _, m: m["cpu_us"]),
                              "CPU of a message", "us"))
            for result in data["results"]:
                stacked = stacked_chart(go, result)
                body += draw(stacked) if stacked else ""
            body += draw(latency_chart(go, data)) + row_tables(data)
        elif kind == "instructions":
            text, figure = instruction_parts(go, data["results"])
            body += draw(figure) + text
        elif kind == "programs":
            body += program_tables(data)
        else:
            raise SystemExit(f"report.py: {file.name}: no rows, java, programs or instructions")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>Baton, measured</title>"
            f"<style>{STYLE}</style><script>{get_plotlyjs()}</script>"
            f"<h1>Baton, measured</h1>{body}</html>")


def picture(path, out):
    """What a browser shows; False when there is none."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--user-data-dir={profile}", "--window-size=1280,2400",
                        "--virtual-time-budget=10000", f"--screenshot={out}", path.as_uri()],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=120)
    return True


def diff(before, after):
    """Rates and CPU of the rows and servers that both files have."""
    first, second = (json.loads(Path(p).read_text()) for p in (before, after))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--diff", nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--out", type=Path, default=RESULTS / "report.html")
    options = parser.parse_args()
    if options.diff:
        diff(*options.diff)
        return 0
    kinds = ("rows", "java", "programs", "instructions")
    files = options.files or [file for kind in kinds for file in newest(kind)]
    if not files:
        print("report.py: nothing was measured yet: bench/rows.py", file=sys.stderr)
        return 2
    out = options.out.resolve()
    try:
        out.write_text(page(files))
    except ImportError:
        print("report.py: apt-get install python3-plotly", file=sys.stderr)
        return 2
    print(out)
    if picture(out, out.with_suffix(".png")):
        print(out.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
