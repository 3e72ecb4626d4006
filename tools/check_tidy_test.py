#!/usr/bin/env python3
"""Plants one fault of every kind in a small tree and expects check_tidy.py to see it."""

import pathlib
import tempfile
import unittest

import check_tidy

TABLE = """# Requirements
| id | requirement | where | test |
|---|---|---|---|
| P-01 | works | `src/here.cpp` | planned |
| B-03 | links | `src/here.cpp` | `tests/there.cpp` |
"""


class Tidy(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.put("docs/requirements.md", TABLE)
        self.put("src/here.cpp", "// Here.\n")
        self.put("tests/there.cpp", "// There.\n")

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def one(self, path, text, *words):
        self.put(path, text)
        found = check_tidy.Checker(self.root).check()
        self.assertEqual(len(found), 1, found)
        for word in (path, *words):
            self.assertIn(word, found[0])

    def test_a_tidy_tree(self):
        self.assertEqual(check_tidy.Checker(self.root).check(), [])
        self.assertEqual(check_tidy.main(["check_tidy.py", str(self.root)]), 0)

    def test_lines(self):
        self.one("src/here.cpp", "// Here.\n" + "x" * 101, ":2:", "101 columns")
        self.one("src/here.cpp", "// Here.\n\tint x;", ":2:", "tab")
        self.one("src/here.cpp", "// Here. \n", ":1:", "blanks")
        self.put("src/here.cpp", "// Here.\n" + "x" * 100)
        self.assertEqual(check_tidy.Checker(self.root).check(), [])

    def test_head_comment(self):
        self.one("include/baton/x.hpp", "#pragma once\n", ":1:", "begins without a comment")

    def test_left_to_do(self):
        self.one("src/here.cpp", "// Here.\n// TO" "DO: more\n", ":2:", "left to do")

    def test_ndebug(self):
        self.one("include/baton/x.hpp", "// X.\n#ifndef NDEBUG\n#endif\n", ":2:", "NDEBUG")

    def test_links(self):
        self.one("docs/a.md", "[b](b.md)\n", ":1:", "no such file")
        self.one("docs/a.md", "# A b, c\n[x](#a-b-c) [y](#nowhere)\n", ":2:", "no such heading")
        self.put("docs/a.md", "# A\n[r](requirements.md#requirements) [w](https://x.example/y)\n"
                 "```\n[b](b.md)\n```\n`[b](b.md)`\n")
        self.assertEqual(check_tidy.Checker(self.root).check(), [])

    def test_requirements(self):
        self.one("src/here.cpp", "// P-" "77 is nowhere.\n", ":1:", "P-" "77")
        self.put("src/here.cpp", "// P-01 is there.\n")
        self.one("docs/requirements.md", TABLE + "| P-02 | x | `src/gone.cpp` | - |\n", ":6:",
                 "src/gone.cpp does not exist")
        self.one("docs/requirements.md", TABLE + "| P-01 | x | y | z |\n", ":6:", "two rows")

    def test_the_command(self):
        self.put("src/bad.cpp", "int x;\n")
        self.assertEqual(check_tidy.main(["check_tidy.py", str(self.root)]), 1)


if __name__ == "__main__":
    unittest.main()
