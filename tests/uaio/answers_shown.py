"""How host.py and compare.py show what programs answer.

tools/sum_results.py quotes a few lines of a test's output that tell why it failed. These are the
failures on ours; a row of the table, where the system's library fails as expected, is none of them.
"""

import re

# The beginnings of notable answers, and their form in a row.
IN_ROWS = ((r"hangs\b", "does not end"), (r"crashes with\b", "ends by"),
           (r"exits with\b", "has status"), (r"line (\d+):", r"(\1)"))


def row(answers, width):
    """The columns of one case."""
    columns = []
    for answer in answers:
        for telling, shown in IN_ROWS:
            answer = re.sub("^" + telling, shown, answer)
        columns.append(f"{answer[:width - 2]:{width}}")
    return "".join(columns).rstrip()


def failure(case, answer):
    """A telling line."""
    return f"FAILED: {case}: {answer}"
