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

import report  # noqa: E402
import rows  # noqa: E402

SKIPPED = 77


def measured():
    """A result file as bench/rows.py writes it, of two servers and two rows."""
    results = []
    for row in ((1, 1, 512, 0, 0), (40, 1, 512, 0, 0)):
        taken = {name: [{"rate": rate + i, "cpu_us": 5.0, "switches": 0.5, "p50_us": 30.0,
                         "p99_us": 90.0, "jain": 1.0, "generator_busy": 0.5} for i in range(7)]
                 for name, rate in (("raw epoll", 1000.0), ("baton epoll", 1500.0))}
        results.append(rows.judge_row(row, taken, {"libuv": "did not say where it listens"}))
    facts = {"date": "2000-01-01T00:00:00+00:00", "machine": "none", "cores": 2, "kernel": "0",
             "compiler": "none", "commit": "0" * 40, "modified": False, "load_average": 0.0,
             "command": "bench/rows.py"}
    return {**facts, "results": results}


def check_judgement(data):
    judged = data["results"][0]["judged"]["baton epoll"]["rate"]
    assert data["results"][0]["base"] == "raw epoll"
    assert judged["verdict"] == "better" and 1.4 < judged["ratio"] < 1.6, judged


def check_diff(folder, data):
    before, after = folder / "before.json", folder / "after.json"
    before.write_text(json.dumps(data))
    for result in data["results"]:
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
        page = folder / "page.html"
        try:
            page.write_text(report.page([file]))
        except ImportError:
            print("skipped: no python3-plotly")
            return SKIPPED
        assert "<script src" not in page.read_text(), "the page needs a network"
        dom = dom_of(browser, page, folder)
    charts = dom.count('class="main-svg"')
    assert charts >= 3, f"{charts} charts are drawn"
    assert "1.50 (1.50-1.50) better" in dom, "the verdict is not in the table"
    assert "did not say where it listens" in dom
    print(f"{charts} drawings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
