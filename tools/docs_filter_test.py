#!/usr/bin/env python3
"""What Doxygen gets to see of a header, of the C header, and of a document."""

import unittest

import docs_filter

HEADER = """// Pool: equal blocks.
//
//   Pool pool{4};
#pragma once

namespace baton {

class Pool {
 public:
  /// Answers Result<int> or @ nothing.
  int take();  ///< <one>
  friend class Other;
};

}  // namespace baton

template <>
struct std::hash<baton::Pool> {};
"""

C_HEADER = """/* baton.h: C. */
/* ---- ends ---- */
/* Stops. */
BATON_API int baton_stop(void);
BATON_API int baton_drain(int a,
                          int b);
"""


class Headers(unittest.TestCase):

    def test_the_head_comment_belongs_to_the_class_it_names(self):
        text = docs_filter.cpp_header(HEADER)
        self.assertTrue(text.startswith("/// @class baton::Pool\n///\n/// Pool: equal blocks.\n"))
        self.assertIn("///\n///        Pool pool{4};\n", text)  # code, for Markdown

    def test_a_head_comment_without_a_class_belongs_to_the_file(self):
        self.assertTrue(docs_filter.cpp_header("// Points in time.\n\n").startswith("/// @file\n"))

    def test_comments_mean_what_they_say(self):
        text = docs_filter.cpp_header(HEADER)
        self.assertIn("  /// Answers `Result<int>` or \\@ nothing.\n", text)
        self.assertIn("int take();  ///< \\<one\\>\n", text)

    def test_parts_for_the_compiler_are_left_out(self):
        text = docs_filter.cpp_header(HEADER)
        self.assertNotIn("friend", text)
        self.assertNotIn("hash", text)

    def test_c_comments_and_those_that_functions_share(self):
        text = docs_filter.c_header(C_HEADER)
        self.assertIn("/** @file\n * baton.h: C. */", text)
        self.assertIn("/* ---- ends ---- */", text)
        self.assertIn("/** Stops. */\nBATON_API int baton_stop(void);\n/** See baton_stop(). */\n",
                      text)


class Documents(unittest.TestCase):

    def page(self, text):
        return docs_filter.document(text, "docs/guide/pools.md")

    def test_headings_have_names(self):
        self.assertEqual(self.page("# Pools\n\n## When it is `empty`\n"),
                         "# Pools {#docs_guide_pools}\n\n"
                         "## When it is empty {#docs_guide_pools__when-it-is-empty}\n")

    def test_links_lead_to_those_names(self):
        self.assertEqual(self.page("[a](../../README.md) [b](errors.md#codes) [c](#empty)"),
                         "[a](@ref readme) [b](@ref docs_guide_errors__codes) "
                         "[c](@ref docs_guide_pools__empty)")

    def test_code_in_the_text_of_a_link_becomes_text(self):
        self.assertEqual(self.page("[`run` it](../../README.md)"), "[run it](@ref readme)")

    def test_links_to_what_the_site_has_not_become_text(self):
        self.assertEqual(self.page("[x](../../examples) [y](https://z.org)"),
                         "x [y](https://z.org)")

    def test_a_link_over_two_lines_is_one(self):
        self.assertEqual(self.page("see [Figures\nin detail](../../README.md)"),
                         "see [Figures in detail](@ref readme)")

    def test_a_quote_does_not_end_code(self):
        self.assertEqual(self.page("(`run\n'x'`) and `y`"), "(``run 'x'``) and `y`")
        self.assertEqual(self.page("```\n`it's\n```"), "```\n`it's\n```")

    def test_code_stays(self):
        self.assertEqual(self.page("```\n# [x](y.md)\n```"), "```\n# [x](y.md)\n```")


if __name__ == "__main__":
    unittest.main()
