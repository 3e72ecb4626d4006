"""The page of bench/report.py: its sentence, its figures, its tables, its size; and what it says of
the results that are kept.

Run as a test: report_test.py.
"""

import contextlib
import html
import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import java  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402

PAGE_BYTES_MAX = 1_000_000
SERIES_MAX = 6


def rounds(rate, **more):
    """Seven of a server, as bench/compare.py measures them."""
    return [{"rate": rate + i, "cpu_us": 5.0, "user_us": 2.0, "kernel_us": 3.0, "switches": 0.5,
             "p50_us": 30.0, "p99_us": 90.0, "p999_us": 95.0, "jain": 1.0, "generator_busy": 0.5,
             **more} for i in range(7)]


def measured():
    """A result file as bench/rows.py writes it, of two servers and two rows, and those of other
    kinds."""
    results = []
    for row in (rows.Row(1, 1, 512), rows.Row(40, 1, 512)):
        taken = {"raw epoll": rounds(1000.0), "baton epoll": rounds(1500.0)}
        results.append(rows.judge_row(row, taken, {"libuv": "did not say where it listens"}))
    results += [pool_row(), uneven_row(), udp_row()]
    facts = {"date": "2000-01-01T00:00:00+00:00", "machine": "none", "cores": 2, "kernel": "0",
             "compiler": "none", "commit": "0" * 40, "modified": False, "load_average": 0.0,
             "command": "bench/rows.py"}
    return {**facts, "results": results}


def pool_row():
    """A goal that is met, one that is missed, one of what was not counted."""
    row = rows.Row(1, 2, 512, kind="pool", goals=(
        ("rate", "ratio", ">=", 0.95), ("switches", "a", "<=", 0.4), ("syscalls", "a", "<=", 3.1)))
    taken = {"baton epoll shared": rounds(840.0), "baton epoll shared" + rows.ALONE: rounds(600.0),
             "Asio epoll": rounds(400.0), "Asio epoll" + rows.ALONE: rounds(500.0)}
    result = rows.judge_row(row, taken, {})
    rows.check_goals(row, result)
    assert list(result["judged"]) == ["baton epoll shared", "Asio epoll"], result["judged"]
    assert list(result["goals"]) == ["baton epoll shared"], result["goals"]
    assert [goal["met"] for goal in result["goals"]["baton epoll shared"]] == [True, False, None]
    return result


def uneven_row():
    row = rows.Row(40, 2, 512, kind="uneven", slow=10_000)
    taken = {"ACE_TP_Reactor": rounds(500.0), "baton epoll shared": rounds(500.0, p99_us=270.0)}
    result = rows.judge_row(row, taken, {})
    assert result["judged"]["baton epoll shared"]["p99_us"]["verdict"] == "worse"
    return result


def udp_row():
    row = rows.Row(10, 1, 64, 448, kind="udp")
    return rows.judge_row(row, {"raw epoll": rounds(500.0, lost=0.0),
                                "libuv": rounds(400.0, lost=0.0123)}, {})


def measured_programs():
    """A result file as bench/programs.py writes it, of one row."""
    def gone(_):
        raise OSError("no such program")

    def takes(ns):
        return lambda _: {"post_inside": ns}

    options = type("Options", (), {"rounds": 7})
    clock = type("Clock", (), {"step": lambda _, what: None})()
    row = programs.measure_row(options, "posting", {"floor": takes(10.0), "baton": takes(12.5),
                                                    "asio": gone}, clock)
    assert row["base"] == "floor" and "asio" in row["troubles"], row
    return {**measured(), "results": [row]}


def check_judgement(data):
    judged = data["results"][0]["judged"]["baton epoll"]["rate"]
    assert data["results"][0]["base"] == "raw epoll"
    assert judged["verdict"] == "better" and 1.4 < judged["ratio"] < 1.6, judged


def check_diff(folder, data):
    before, after = folder / "before.json", folder / "after.json"
    before.write_text(json.dumps(data))
    for result in data["results"][:2]:
        result["medians"]["baton epoll"]["rate"] *= 2
    after.write_text(json.dumps(data))
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        report.diff(before, after)
    assert told.getvalue().count("(+100%)") == 2, told.getvalue()


def check_tables(page):
    assert "1.25 (1.25-1.25) worse" in page, "the program's verdict is not in the table"
    assert "1.50 (1.50-1.50) better" in page, "the verdict is not in the table"
    assert "did not say where it listens" in page
    for told in ("Compared with: itself with 1 thread", "1.40 (1.40-1.40) better",
                 "baton epoll shared, goal: ratio of messages/s >= 0.95: 1.4 - met",
                 "baton epoll shared, goal: switches/msg <= 0.4: 0.5 - MISSED",
                 "baton epoll shared, goal: system calls/msg <= 3.1: - - NOT MEASURED",
                 "without the slow session's", "3.00 (3.00-3.00) worse", "1.23%",
                 "40 connections, 512 B, half duplex, 1 thread",
                 "10 peers, 64 B, 8 datagrams in flight for each, 1 thread"):
        assert told in page, f"not on the page: {told}"


def check_self_contained(page):
    assert len(page.encode()) < PAGE_BYTES_MAX, len(page)
    assert "<script" not in page and "src=" not in page and "url(" not in page, "needs a network"
    # Every colour that is used is defined, for a white page and for a black one.
    for name in set(re.findall(r"var\(--([a-z-]+)\)", page)):
        assert page.count(f"--{name}:") == 2, name


def grown(rate, sessions):
    """A row of six libraries, of which only the number of sessions tells it from the next one."""
    names = [names[0] for _, names in report.SHOWN]
    taken = {name: rounds(rate * (i + 1), cpu_us=float(i + 2)) for i, name in enumerate(names)}
    return rows.judge_row(rows.Row(sessions, 1, 512), taken, {})


def check_figures():
    """A point for each number of sessions, a line for each library, and the sentence."""
    results = [grown(1000.0 * n, n) for n in (1, 10, 1000)]
    drawn = report.rate_figure(results)
    assert drawn.count("<polyline") == SERIES_MAX == len(report.SHOWN), drawn
    first = re.search(r'points="([^"]*)"', drawn).group(1)
    assert len(first.split()) == 3, first
    assert report.rate_figure(results[:2]) == "", "two points are no growth"
    cpu = report.all_figures(results, [], {})
    assert "Least: Baton, epoll, 2.00 us. Most: ACE, 7.00 us." in cpu, cpu
    assert "connections: 60 % less than Asio, 67 % less than libuv, 71 % less than ACE" in \
        report.headline(results), report.headline(results)
    assert report.headline(results[:2]) == "Baton, measured"
    assert report.compared(1.2, 1.0) == "20 % more than"
    assert report.compared(1.0, 1.09) == "about as much as"


def measured_java():
    """A result file as bench/java.py writes it: goals met, missed and not measured."""
    row = rows.Row(40, 1, 512)
    taken = {"raw epoll": rounds(1000.0), "Java selector loop": rounds(900.0),
             "Java baton nio": rounds(950.0), "Java NIO.2": rounds(700.0),
             "Java baton nio2 on native": rounds(800.0)}
    result = rows.judge_row(row, taken, {})
    result["goals"] = java.goals(row, result["rounds"])
    met = {name: [goal["met"] for goal in goals] for name, goals in result["goals"].items()}
    assert met == {"Java baton nio, against raw epoll": [True],
                   "Java baton nio, against Java selector loop": [True],
                   "Java baton nio2 on native, against Java NIO.2": [False, False]}, met
    del taken["Java selector loop"]
    without = java.goals(row, taken)["Java baton nio, against Java selector loop"]
    assert [goal["met"] for goal in without] == [None], without
    results = [rows.judge_row(rows.Row(sessions, 1, 512), taken, {}) for sessions in (1, 1000)]
    return {**measured(), "command": "bench/java.py", "results": [result, *results]}


def check_kept_results():
    """The page of a fresh clone, from the kept results."""
    files = [file for kind in report.KINDS for file in report.newest(kind)]
    page = report.page(files)
    check_self_contained(page)
    assert page.count("<figure") == 4, "a figure for each question"
    assert not re.search(r"\d+/\d+/\d+/\d+", re.sub(r"<details.*?</details>", "", page)), \
        "a row without words"


def check_fairness():
    """Each server's figure is the median of all rounds."""
    page = report.fairness_figure({"runs": {"fairness": [
        {"connections": 50, "runs": {"asio": [{"spread": spread, "threads": 3}]}}
        for spread in (0.01, 0.09, 0.02)]}})
    assert "Asio 2.00\u00a0%" in page, page


def check_files_that_are_none():
    """A name that is wrong is told, without a traceback."""
    for name, words in (("/nonexistent", "No such file"), (__file__, "no results in JSON")):
        done = subprocess.run([sys.executable, "-B", report.__file__, name], text=True,
                              capture_output=True, check=False)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr, done.stderr


def main():
    check_files_that_are_none()
    data = measured()
    check_judgement(data)
    check_fairness()
    check_figures()
    check_kept_results()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_diff(folder, measured())
        file = folder / "2000-01-01-rows.json"
        file.write_text(json.dumps(data))
        programs_file = folder / "2000-01-01-programs.json"
        programs_file.write_text(json.dumps(measured_programs()))
        java_file = folder / "2000-01-01-java.json"
        java_file.write_text(json.dumps(measured_java()))
        page = report.page([file, java_file, programs_file])
    check_self_contained(page)
    check_tables(html.unescape(page))
    assert "How does the rate grow with the connections, in Java?" in page
    return 0


if __name__ == "__main__":
    sys.exit(main())
