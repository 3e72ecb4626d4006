"""The page of bench/report.py, opened by a browser: charts are drawn, tables are there.

Run as a test: report_test.py; exit 77 when there is no browser or no plotting library.
"""

import contextlib
import io
import json
import shutil
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

SKIPPED = 77


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
    return {**measured(), "command": "bench/java.py", "results": [result]}


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


def dom_of(browser, page, folder):
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom",
         page.as_uri()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return done.stdout


def main():
    data = measured()
    check_judgement(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_diff(folder, measured())
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser is None:
            print("skipped: no chromium")
            return SKIPPED
        file = folder / "2000-01-01-rows.json"
        file.write_text(json.dumps(data))
        programs_file = folder / "2000-01-01-programs.json"
        programs_file.write_text(json.dumps(measured_programs()))
        java_file = folder / "2000-01-01-java.json"
        java_file.write_text(json.dumps(measured_java()))
        page = folder / "page.html"
        try:
            page.write_text(report.page([file, java_file, programs_file]))
        except ImportError:
            print("skipped: no python3-plotly")
            return SKIPPED
        assert "<script src" not in page.read_text(), "the page needs a network"
        dom = dom_of(browser, page, folder)
    charts = dom.count('class="main-svg"')
    assert charts >= 5, f"{charts} charts are drawn"
    assert "CPU of a message, 40/1/512/0/0" in dom, "no chart of what a message's CPU is made of"
    assert "1.25 (1.25-1.25) worse" in dom, "the program's verdict is not in the table"
    assert "1.50 (1.50-1.50) better" in dom, "the verdict is not in the table"
    assert "did not say where it listens" in dom
    assert dom.count("Transfer rate against the number of connections") >= 2, "no chart with Java"
    assert "Java baton nio2 on native, against Java NIO.2, goal: ratio of messages/s" in dom
    for told in ("Held against: itself with 1 thread", "1.40 (1.40-1.40) better",
                 "baton epoll shared, goal: ratio of messages/s &gt;= 0.95: 1.4 - met",
                 "baton epoll shared, goal: switches/msg &lt;= 0.4: 0.5 - MISSED",
                 "baton epoll shared, goal: system calls/msg &lt;= 3.1: - - NOT MEASURED",
                 "without the slow session's", "3.00 (3.00-3.00) worse", "1.23%"):
        assert told in dom, f"not on the page: {told}"
    print(f"{charts} drawings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
