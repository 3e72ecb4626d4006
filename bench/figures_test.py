"""Documents quote figures. Counts of instructions are those that the gate keeps
(bench/instructions.json), within its tolerance. All other figures are those of the newest kept
results, rounded as the document shows them."""

import json
import re
import statistics
import sys
import unittest

sys.dont_write_bytecode = True

import instructions  # noqa: E402
import picture  # noqa: E402

ROOT = instructions.REPOSITORY
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
# Other programs, from the newest kept results.
RIVAL_ROWS = {
    "raw loop, epoll": "raw epoll",
    "raw loop, io_uring": "raw io_uring",
    "libevent (no buffers, system calls by hand)": "libevent",
    "libuv (`uv_try_write`; reads again without a wait)": "libuv",
    "Asio, epoll": "Asio, epoll",
    "Asio, io_uring": "Asio, io_uring",
}
# In docs/guide/threads_and_modes.md, one column for each engine.
MODE_ROWS = {
    "`run()`": "baton {}",
    "`handle_events`, attached": "baton {}, attached",
    "C, `baton_exchange`, attached": "baton c, {}, attached",
    "C, `baton_exchange`": "baton c, {}",
}
NUMBERS = r"([\d,]+)\s*[|/]\s*([\d,]+)"

# Sentences with counts of a message, one connection and forty; {1} and {40} stand for the numbers.
COUNTS = {
    "docs/scaling.md": [
        ("{1} user-space instructions a message with one session, {40} with forty, over epoll",
         "baton epoll")],
    "docs/guide/reactor_or_proactor.md": [
        ("{40} user instructions a message with 40 sessions of 512 B, and {1} with a single",
         "baton reactor, epoll")],
    "docs/guide/objects/reactor.md": [
        ("{40} user-space instructions a message with 40 connections, {1} with one",
         "baton reactor, epoll")],
    "docs/guide/objects/datagram_socket.md": [
        ("{1} user-space instructions with one peer and {40} with forty",
         "baton epoll, datagrams")],
    "docs/internals/ace.md": [
        ("{1} user instructions with one connection and {40} with 40 over epoll",
         "baton ace, epoll")],
}
COUNT_OF_A_MESSAGE = r"[\d,]+ (?:user |user-space )?instructions (?:a message|with one)"


def newest(kind):
    file = sorted((ROOT / "bench/results").glob(f"*[0-9]-{kind}.json"))[-1]
    data = json.loads(file.read_text())
    return data["results"] if "results" in data else data


def kept_row(kind, row):
    [found] = [one for one in newest(kind) if one["row"].startswith(row)
               and not one.get("parameters", {}).get("idle")]
    return found


def of_row(row, server, measure, kind="rows"):
    return kept_row(kind, row)["medians"][server][measure]


def judged(kind, measure, place=0):
    return newest(kind)[place]["judged"][measure]


def ratio(kind, measure, place=0):
    return judged(kind, measure, place)["ratio"]


def against_one_thread(row, server):
    return kept_row("rows-pool", row)["judged"][server]["rate"]["ratio"]


def uaio(row):
    [found] = [one["against_system"] for one in newest("uaio")["rows"] if one["name"] == row]
    return found


def floor(what):
    [found] = [one["value"] for one in newest("reactor")["floors"] if one["what"] == what]
    return found


def doctors_choice():
    results = newest("combinations")
    choice = results["doctor"]["sockets"]
    [found] = [one for one in results["sockets"]["combinations"].values()
               if one["row"] == choice["settings"] and one["mode"] == choice["mode"]]
    return found["ratio"]


def spread_of_ace():
    """The median of its rounds."""
    return statistics.median(one["runs"]["ace_dev_poll"][0]["spread"]
                             for one in newest("reactor")["runs"]["fairness"]
                             if one["connections"] == 50)


def counted(name):
    return json.loads(instructions.KEPT.read_text())["instructions"][name]["40 x 512 B"]


MANY = "1000/1/512/0/0"
LONG_HANDLERS, NO_HANDLERS = "pool 40/2/512/0/100 free", "pool 40/2/512/0/0 free"
# Each question of docs/performance.md by some of its words -> the numbers of its answer.
ANSWERS = {
    "against a hand-written loop?": lambda: [ratio("epoll-cpu", "cpu_us")],
    "beside other libraries?": lambda: [
        of_row(MANY, "baton epoll per_thread", "cpu_us"),
        of_row(MANY, "Asio epoll, a context a thread", "cpu_us"),
        of_row(MANY, "libuv", "cpu_us"), of_row(MANY, "ACE_Dev_Poll_Reactor", "cpu_us")],
    "How many system calls": lambda: [newest("uring-syscalls")[0]["medians"]["a"]["syscalls"],
                                      newest("epoll-cpu")[0]["medians"]["a"]["syscalls"]],
    "How many instructions": lambda: [
        counted("baton epoll"), newest("instructions")["raw epoll"]["40 x 512 B"]],
    "beside 19,400 idle": lambda: [ratio("idle", "rate")],
    "How much memory": lambda: [newest("idle")[0]["medians"]["a"]["idle_bytes"]],
    "What rate do two threads": lambda: [against_one_thread(LONG_HANDLERS, "baton epoll shared"),
                                         against_one_thread(LONG_HANDLERS, "Asio epoll")],
    "handlers that only echo": lambda: [against_one_thread(NO_HANDLERS, "baton epoll shared"),
                                        against_one_thread(NO_HANDLERS, "Asio epoll")],
    "beside a handler of 10 ms": lambda: [
        of_row("uneven", "baton epoll per_thread", "p99_us"),
        of_row("uneven", "baton epoll shared", "p99_us") / 1000,
        of_row("uneven", "libuv", "p99_us") / 1000],
    "a post from another thread": lambda: [ratio("post", "post_other_thread", 1)],
    "10,000 timers": lambda: [ratio("timer", "timer_create_cancel_10k", 1)],
    "against fio?": lambda: [ratio("files", "iops")],
    "What does UAIO gain": lambda: [uaio("direct read 4k, 1 file, depth 128")],
    "ACE's Proactor": lambda: [
        kept_row("ace", "1 sessions")["judged"]["epoll"]["cpu_us"]["ratio"]],
    "against nginx?": lambda: [ratio("httpd", "cpu_us")],
    "doctor's choice": lambda: [doctors_choice()],
}
# README's sentences; # stands for a number.
README = {
    "over io_uring return # messages a second. Asio returns #.": lambda: [
        of_row(NO_HANDLERS, "baton io_uring shared", "rate", "rows-pool"),
        of_row(NO_HANDLERS, "Asio io_uring", "rate", "rows-pool")],
    "a message costs # us of CPU, as in the best hand-written loop (#). libuv takes # us": lambda: [
        of_row(MANY, server, "cpu_us")
        for server in ("baton epoll per_thread", "raw io_uring", "libuv")],
    "it returns # messages a second. Baton returns # with five threads": lambda: [
        of_row("100/5/8192/8192/10", name, "rate") for name in ("libuv", "baton epoll per_thread")],
    "ACE takes # us of CPU": lambda: [of_row(MANY, "ACE_Dev_Poll_Reactor", "cpu_us")],
    "Baton's Reactor reads # times as much as": lambda: [
        floor("50: chunks a second, epoll / ace_dev_poll")],
    "least served socket gets # % of the most served one's share, ACE's # %": lambda: [
        100 - 100 * floor("50: spread, epoll"), 100 - 100 * spread_of_ace()],
    "Asio takes # us, and Baton # us in its default mode": lambda: [
        of_row(MANY, "Asio epoll, a context a thread", "cpu_us"),
        of_row(MANY, "baton epoll shared", "cpu_us")],
    "over io_uring a message takes # system calls. ACE 7.0.8 makes # with one": lambda: [
        of_row("40 sessions, 1 threads, 512", "io_uring", "syscalls", "ace"),
        of_row("1 sessions", "ACE", "syscalls", "ace")],
    "In the third row Asio returns # messages a second": lambda: [
        of_row("100/5/8192/8192/10", "Asio epoll, a context a thread", "rate")],
}


def row_of(text, label):
    found = re.search(rf"^\| {re.escape(label)} \|(.*)$", text, re.M)
    return [tuple(int(number.replace(",", "")) for number in pair)
            for pair in re.findall(NUMBERS, found.group(1))] if found else []


def text_of(document):
    """On one line for each paragraph, as a sentence may be broken anywhere."""
    return re.sub(r"(?<!\n)\n(?![\n|*#])\s*", " ", (ROOT / document).read_text())


def unit_of(shown):
    """Of the last digit that a number shows; the zeros at the end of 305,000 are none."""
    if "." in shown:
        return 10.0 ** -len(shown.split(".")[1])
    return 10.0 ** (len(shown.replace(",", "")) - len(shown.replace(",", "").rstrip("0")))


class Figures(unittest.TestCase):
    def setUp(self):
        self.kept = json.loads(instructions.KEPT.read_text())["instructions"]

    def compare(self, label, pair, name):
        # Those of dedicated mode have no row of one connection.
        for shown, kept in zip(pair, self.kept[name].values(), strict=True):
            self.assertLessEqual(abs(shown - kept), kept * instructions.TOLERANCE,
                                 f"{label}: {shown} is shown, {kept} is kept ({name})")

    def compare_rounded(self, label, shown, values):
        self.assertEqual(len(shown), len(values), f"{label}: {shown}")
        for number, value in zip(shown, values):
            self.assertLessEqual(abs(float(number.replace(",", "")) - value),
                                 0.51 * unit_of(number),
                                 f"{label}: {number} is shown, {value} is kept")

    def test_the_table_of_figures(self):
        text = (ROOT / "docs/figures.md").read_text()
        for label, name in FIGURE_ROWS.items():
            [pair] = row_of(text, label)
            self.compare(label, pair, name)
        others = newest("instructions")
        for label, name in RIVAL_ROWS.items():
            [pair] = row_of(text, label)
            for shown, kept in zip(pair, others[name].values()):
                self.assertAlmostEqual(shown, kept, delta=0.51, msg=label)

    def test_the_kept_counts_are_those_of_the_gate(self):
        """The report shows them beside the other programs'."""
        found = newest("instructions")
        for name, rows in self.kept.items():
            self.assertIn(name, found, "bench/instructions.py --update keeps both")
            self.compare("the newest results", found[name].values(), name)

    def test_the_page_of_modes(self):
        text = (ROOT / "docs/guide/threads_and_modes.md").read_text()
        for label, name in MODE_ROWS.items():
            pairs = row_of(text, label)
            self.assertEqual(len(pairs), len(ENGINES), label)
            for pair, engine in zip(pairs, ENGINES):
                self.compare(label, pair, name.format(engine))

    def test_counts_in_other_documents(self):
        for document, sentences in COUNTS.items():
            text = text_of(document)
            for sentence, name in sentences:
                form = (re.escape(sentence).replace(r"\{1\}", r"(?P<one>[\d,]+)")
                        .replace(r"\{40\}", r"(?P<forty>[\d,]+)"))
                found = re.search(form, text)
                self.assertIsNotNone(found, f"{document}: {sentence}")
                pair = [int(found.group(which).replace(",", "")) for which in ("one", "forty")]
                self.compare(document, pair, name)

    def test_no_other_document_has_counts(self):
        """Decisions and the list of changes tell what was."""
        for file in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "bench/README.md"]:
            document = str(file.relative_to(ROOT))
            if document not in COUNTS and "decisions" not in file.parts:
                found = re.search(COUNT_OF_A_MESSAGE, text_of(document))
                self.assertIsNone(found, f"{document}: {found}")

    def test_the_answers(self):
        text = (ROOT / "docs/performance.md").read_text()
        rows = re.findall(r"^\| (.*\?.*) \| (.*) \| .* \|$", text, re.M)
        self.assertEqual(len(rows), len(ANSWERS))
        for question, answer in rows:
            [values] = [values for words, values in ANSWERS.items() if words in question]
            shown = re.findall(r"\d[\d,.]*(?<![,.])", re.sub(r" \(\[.*?\)\)", "", answer))
            self.compare_rounded(question, shown, values())

    def test_the_intervals(self):
        """Ratios of docs/figures.md that have one."""
        text = (ROOT / "docs/figures.md").read_text()
        ace = kept_row("ace", "1 sessions")["judged"]
        for one in (judged("epoll-cpu", "cpu_us"), judged("uring-syscalls", "cpu_us"),
                    judged("idle", "rate"), judged("idle", "rate", 2), judged("idle", "cpu_us"),
                    judged("idle", "cpu_us", 2), judged("rt-signals", "cpu_us"),
                    judged("files", "iops"), judged("files", "iops", 1),
                    judged("httpd", "cpu_us"), judged("httpd", "cpu_us", 1),
                    ace["epoll"]["cpu_us"], ace["io_uring"]["cpu_us"]):
            self.assertIn(f"{one['ratio']:.2f} × ({one['low']:.2f} - {one['high']:.2f})", text)

    def test_the_readme(self):
        text = text_of("README.md")
        for sentence, values in README.items():
            form = re.escape(sentence).replace(r"\#", r"(\d[\d,.]*(?<![,.]))")
            found = re.search(form, text)
            self.assertIsNotNone(found, sentence)
            self.compare_rounded(sentence, found.groups(), values())

    def test_the_rows(self):
        text = (ROOT / "docs/figures.md").read_text()
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
            for number, ratio_of_row in zip(shown.groups(), ratios):
                self.assertAlmostEqual(float(number), ratio_of_row, delta=0.0051, msg=label)


if __name__ == "__main__":
    unittest.main()
