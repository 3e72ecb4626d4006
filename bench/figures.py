"""Drawings for bench/report.py and bench/picture.py, made without a library: bars and lines.

A library keeps its colour in every drawing. The colours are those of Okabe and Ito, which can be
told apart with every kind of colour vision; names stand beside them all the same.
"""

import html
import math

# Kind of a series -> its colour on white and on black.
COLOURS = {
    "baton-epoll": ("#0072b2", "#4aa8e0"),
    "baton-uring": ("#56b4e9", "#9bd5f7"),
    "raw": ("#6e7781", "#8b949e"),
    "asio": ("#e69f00", "#e69f00"),
    "libuv": ("#009e73", "#2fc79b"),
    "libevent": ("#d55e00", "#f0853a"),
    "ace": ("#cc79a7", "#dd9abf"),
    "netty": ("#a08a00", "#f0e442"),
    "java nio.2": ("#d55e00", "#f0853a"),
    "java baton nio2": ("#cc79a7", "#dd9abf"),
}


def kind_of(name):
    """The kind of a server of bench/rows.py, by its name there."""
    words = name.lower()
    if words.startswith(("baton", "reactor", "java baton n")) and "nio2" not in words:
        is_second = "io_uring" in words or "native" in words
        return "baton-uring" if is_second else "baton-epoll"
    return next((kind for kind in COLOURS if words.startswith(kind)), "raw")


def property_of(kind):
    """The name of its colour in a style sheet."""
    return kind.replace(" ", "-").replace(".", "")


def colour_rules():
    """As custom properties: --asio and so on."""
    def rules(index):
        return " ".join(f"--{property_of(kind)}: {both[index]};" for kind, both in COLOURS.items())
    return (f":root {{ {rules(0)} }}\n"
            f"@media (prefers-color-scheme: dark) {{ :root {{ {rules(1)} }} }}\n")


def bars(rows, unit):
    """(label, value, kind) as bars of a page, which fit any width."""
    longest = max(value for _, value, _ in rows)
    text = '<div class="bars">'
    for label, value, kind in rows:
        text += (f'<span>{html.escape(label)}</span><div class="bar"><i style="width:'
                 f'{value / longest * 80:.1f}%;background:var(--{property_of(kind)})"></i>'
                 f"<b>{shown(value)} {html.escape(unit)}</b></div>")
    return text + "</div>"


def shown(value):
    """With three digits, or all of those before the point."""
    digits = max(0, 2 - math.floor(math.log10(value))) if 0 < value < 100 else 0
    return f"{value:,.{min(digits, 3)}f}"


def nice_steps(largest, count=4):
    """Round numbers from 0 to beyond the largest."""
    raw = largest / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    return [step * i for i in range(math.ceil(largest / step) + 1)]


def apart(places, gap):
    """Places for labels, none closer to its neighbour than the gap, in the order given."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for before, i in zip(order, order[1:]):
        moved[i] = max(moved[i], moved[before] + gap)
    return moved


def lines(series, title, x_title, y_title):
    """{label: (kind, {x: y})} over places of equal distance, each line with its name at its end."""
    xs = sorted({x for _, points in series.values() for x in points})
    steps = nice_steps(max(y for _, points in series.values() for y in points.values()))
    left, top, width, height, names = 84, 34, 400, 250, 180
    total_width, total_height = left + width + names, top + height + 50

    def place(x, y):
        return (left + width * (xs.index(x) / max(len(xs) - 1, 1)),
                top + height * (1 - y / steps[-1]))

    text = (f'<svg viewBox="0 0 {total_width} {total_height}" role="img" '
            f'aria-label="{html.escape(title)}"><text x="0" y="16">{html.escape(y_title)}</text>')
    for y in steps:
        _, py = place(xs[0], y)
        text += (f'<path class="grid" d="M{left} {py:.1f}h{width}"/>'
                 f'<text x="{left - 8}" y="{py + 4:.1f}" text-anchor="end">{y:,.0f}</text>')
    for x in xs:
        px, _ = place(x, 0)
        text += f'<text x="{px:.1f}" y="{top + height + 20}" text-anchor="middle">{x:,}</text>'
    text += (f'<text x="{left + width / 2}" y="{top + height + 42}" text-anchor="middle">'
             f"{html.escape(x_title)}</text>")
    ends = apart([place(max(points), points[max(points)])[1] for _, points in series.values()], 21)
    for (label, (kind, points)), end in zip(series.items(), ends):
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in
                        (place(x, points[x]) for x in sorted(points)))
        last_x, last_y = place(max(points), points[max(points)])
        colour = property_of(kind)
        text += (f'<polyline class="line" style="stroke:var(--{colour})" points="{path}"/>'
                 f'<path class="grid" d="M{last_x:.1f} {last_y:.1f}L{left + width + 14} '
                 f'{end:.1f}"/>'
                 f'<circle style="fill:var(--{colour})" cx="{left + width + 18}" cy="{end:.1f}" '
                 f'r="4"/><text x="{left + width + 27}" y="{end + 4:.1f}">{html.escape(label)}'
                 "</text>")
    return text + "</svg>"
