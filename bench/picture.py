#!/usr/bin/env python3
"""Draws README's picture from the results that are kept.

    bench/picture.py            writes docs/pictures/cpu_a_message.svg
    bench/picture.py --check    writes nothing; exit status 1 if the file is not what it would write

The picture shows one row of bench/rows.py: CPU time of the server for each message. The newest
bench/results/*-rows.json has the numbers.
"""

import argparse
import html
import json
import sys
from pathlib import Path

import output

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURE = REPOSITORY / "docs/pictures/cpu_a_message.svg"
ROW = "1000/1/512/0/0"
TITLE = "CPU time of an echo server for each message"
SUBTITLE = "1,000 connections, 512 bytes, one thread; microseconds, less is better"
# The servers shown: name in the results, and label.
BARS = [
    ("baton epoll per_thread", "Baton, epoll"),
    ("baton io_uring per_thread", "Baton, io_uring"),
    ("raw io_uring", "hand-written io_uring loop"),
    ("raw epoll", "hand-written epoll loop"),
    ("Asio epoll, a context a thread", "Asio"),
    ("libevent", "libevent"),
    ("libuv", "libuv"),
    ("ACE_Dev_Poll_Reactor", "ACE"),
]
# Narrow, so that the words can still be read when it is scaled to the width of a phone.
WIDTH, LEFT, TOP, STEP, BAR = 540, 200, 76, 34, 22
# Blue and grey differ for every kind of colour vision, on white and on black.
STYLE = """
  :root { color-scheme: light dark; }
  text { font: 14px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .dim { fill: #59636e; }
  .baton { fill: #0969da; }
  .other { fill: #8c959f; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .dim { fill: #9198a1; }
    .baton { fill: #4493f8; }
    .other { fill: #656c76; }
  }
"""


def newest_rows():
    files = sorted((REPOSITORY / "bench/results").glob("*[0-9]-rows.json"))
    if not files:
        raise SystemExit("picture.py: bench/results has no *-rows.json; bench/rows.py makes one")
    return json.loads(files[-1].read_text())


def cpu_of_each(data):
    for result in data["results"]:
        if result["row"] == ROW and not result["parameters"]["idle"]:
            return {name: value["cpu_us"] for name, value in result["medians"].items()}
    raise SystemExit(f"picture.py: the results have no row {ROW}")


def drawn(cpu):
    missing = [name for name, _ in BARS if name not in cpu]
    if missing:
        raise SystemExit(f"picture.py: row {ROW} has no {', '.join(missing)}")
    scale = (WIDTH - LEFT - 50) / max(cpu[name] for name, _ in BARS)
    height = TOP + STEP * len(BARS) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{html.escape(TITLE)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="12" y="28">{html.escape(TITLE)}</text>',
        f'<text class="dim" x="12" y="50">{html.escape(SUBTITLE)}</text>',
    ]
    for place, (name, label) in enumerate(BARS):
        y = TOP + STEP * place
        kind = "baton" if name.startswith("baton") else "other"
        width = cpu[name] * scale
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{html.escape(label)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{y + 16}">{cpu[name]:.2f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare with the file")
    options = parser.parse_args()
    text = drawn(cpu_of_each(newest_rows()))
    if not options.check:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(text)
    elif not PICTURE.exists() or PICTURE.read_text() != text:
        print(f"{PICTURE.relative_to(REPOSITORY)} is not drawn from the newest results: "
              "run bench/picture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(output.status_of(main))
