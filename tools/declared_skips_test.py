#!/usr/bin/env python3
"""Which skips are declared, on which kind of machine."""

import unittest

import declared_skips

TEXT = """# a comment
every | release: p/A\\.b/select$ | declares
bare | p/A\\.c | no tool
"""


class DeclaredSkips(unittest.TestCase):

    def test_the_whole_line_must_fit(self):
        declared = declared_skips.Declared(TEXT, machine="ci")
        self.assertTrue(declared.allows("release", "p/A.b/select", "it declares so"))
        self.assertFalse(declared.allows("release", "p/A.b/epoll", "it declares so"))
        self.assertFalse(declared.allows("asan", "p/A.b/select", "it declares so"))
        self.assertFalse(declared.allows("release", "p/A.b/select", "is not available"))

    def test_ci_has_every_tool(self):
        for machine, allowed in (("ci", False), ("", True)):
            declared = declared_skips.Declared(TEXT, machine)
            self.assertEqual(declared.allows("release", "p/A.c", "no tool"), allowed)

    def test_a_line_that_is_none_is_named(self):
        for line in ("sometimes | a | b", "every | a", "every a b"):
            with self.assertRaisesRegex(ValueError, "line 2: "):
                declared_skips.rules_of(f"# first\n{line}\n")

    def test_the_file_itself(self):
        self.assertTrue(declared_skips.Declared().rules)


if __name__ == "__main__":
    unittest.main()
