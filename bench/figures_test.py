"""The counts in docs/figures.md and docs/guide/threads_and_modes.md are those that the gate keeps
(bench/instructions.json), within the gate's tolerance; the ratios of the rows are those of the
newest kept results."""

import json
import re
import sys
import unittest

sys.dont_write_bytecode = True

import instructions  # noqa: E402
import picture  # noqa: E402

# Label in docs/figures.md -> name of the count.
FIGURES = {
    "callbacks": "{}",
    "coroutines": "{}, coroutines",
    "vectored writes": "{}, vectored",
    "`read_until`": "{}, until",
    "datagrams": "{}, datagrams",
    "`handle_events`, attached": "{}, attached",
    "default mode (`shared`)": "{}, shared",
}
ENGINES = ("epoll", "io_uring")
FIGURE_ROWS = {f"Baton, {engine}, {label}": name.format(f"baton {engine}")
               for engine in ENGINES for label, name in FIGURES.items()}
for each in ENGINES:
    FIGURE_ROWS[f"Baton, {each}, a program for ACE's Proactor, attached"] = f"baton ace, {each}"
    FIGURE_ROWS[f"Baton, {each}, a program in C, by `baton_exchange`"] = f"baton c, {each}"
    FIGURE_ROWS[f"Baton, {each}, the same, attached"] = f"baton c, {each}, attached"
FIGURE_ROWS["Baton's Reactor, epoll"] = "baton reactor, epoll"
# In docs/guide/threads_and_modes.md, one column for each engine.
MODE_ROWS = {
    "`run()`": "baton {}",
    "`handle_events`, attached": "baton {}, attached",
    "C, `baton_exchange`, attached": "baton c, {}, attached",
    "C, `baton_exchange`": "baton c, {}",
}
NUMBERS = r"([\d,]+)\s*[|/]\s*([\d,]+)"


def row_of(text, label):
    found = re.search(rf"^\| {re.escape(label)} \|(.*)$", text, re.M)
    return [tuple(int(number.replace(",", "")) for number in pair)
            for pair in re.findall(NUMBERS, found.group(1))] if found else []


class Figures(unittest.TestCase):
    def setUp(self):
        self.kept = json.loads(instructions.KEPT.read_text())["instructions"]

    def compare(self, label, pair, name):
        for shown, kept in zip(pair, (self.kept[name][row] for row in instructions.ROWS)):
            self.assertLessEqual(abs(shown - kept), kept * instructions.TOLERANCE,
                                 f"{label}: {shown} is shown, {kept} is kept ({name})")

    def test_the_table_of_figures(self):
        text = (instructions.REPOSITORY / "docs/figures.md").read_text()
        for label, name in FIGURE_ROWS.items():
            [pair] = row_of(text, label)
            self.compare(label, pair, name)

    def test_the_page_of_modes(self):
        text = (instructions.REPOSITORY / "docs/guide/threads_and_modes.md").read_text()
        for label, name in MODE_ROWS.items():
            pairs = row_of(text, label)
            self.assertEqual(len(pairs), len(ENGINES), label)
            for pair, engine in zip(pairs, ENGINES):
                self.compare(label, pair, name.format(engine))

    def test_the_rows(self):
        text = (instructions.REPOSITORY / "docs/figures.md").read_text()
        for result in picture.newest_rows()["results"]:
            if result["parameters"]["kind"] != "echo":
                continue
            ours = [one for name, one in result["medians"].items() if name.startswith("baton ")]
            others = [one for name, one in result["medians"].items()
                      if not name.startswith(("baton ", "reactor "))]
            ratios = [best(one[measure] for one in ours) / best(one[measure] for one in others)
                      for measure, best in (("rate", max), ("cpu_us", min))]
            label = result["row"].replace("+10000 idle", ", 10,000 idle")
            shown = re.search(rf"^\| {label} \| ([\d.]+) × \| ([\d.]+) × \|", text, re.M)
            self.assertIsNotNone(shown, label)
            for number, ratio in zip(shown.groups(), ratios):
                self.assertAlmostEqual(float(number), ratio, delta=0.0051, msg=label)


if __name__ == "__main__":
    unittest.main()
