#!/usr/bin/env python3
"""Which branches of gcov's text stay."""

import unittest

import gcov_entered

TEXT = """        -:    1:// a comment
        5:    2:  return zone ? "%" + text : "";
branch  0 taken 5 (fallthrough)
branch  1 taken 0
branch  2 never executed
branch  3 never executed
call    4 returned 5
    #####:    3:  if (a) b();
branch  0 never executed
branch  1 never executed
       7*:    4:  if (c) d();
branch  0 never executed
"""


class Entered(unittest.TestCase):

    def test_exits_of_blocks_never_entered_are_dropped_where_the_line_was_run(self):
        kept = "".join(gcov_entered.entered(TEXT.splitlines(keepends=True)))
        self.assertEqual(kept, """        -:    1:// a comment
        5:    2:  return zone ? "%" + text : "";
branch  0 taken 5 (fallthrough)
branch  1 taken 0
call    4 returned 5
    #####:    3:  if (a) b();
branch  0 never executed
branch  1 never executed
       7*:    4:  if (c) d();
""")


if __name__ == "__main__":
    unittest.main()
