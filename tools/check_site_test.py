#!/usr/bin/env python3
"""Plants one fault of each kind in a small site and expects check_site.py to see it."""

import pathlib
import tempfile
import unittest

import check_site

MEMBER = ('<memberdef kind="function" prot="{}"><name>{}</name>'
          "<briefdescription>{}</briefdescription></memberdef>")


class Site(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def uncommented(self, *members, prot="public", about="<para>Pool.</para>"):
        (self.folder / "pool.xml").write_text(
            f'<doxygen><compounddef kind="class" prot="{prot}"><compoundname>baton::Pool'
            f"</compoundname><briefdescription>{about}</briefdescription>"
            f'{"".join(MEMBER.format(*one) for one in members)}</compounddef></doxygen>')
        return list(check_site.uncommented(self.folder))

    def test_declarations_without_a_comment(self):
        self.assertEqual(self.uncommented(("public", "take", "Takes."), ("public", "give", "")),
                         ["baton::Pool::give"])
        self.assertEqual(self.uncommented(about=""), ["baton::Pool"])

    def test_an_overload_shares_the_comment(self):
        self.assertEqual(self.uncommented(("public", "take", ""), ("public", "take", "T.")), [])

    def test_declarations_that_need_no_comment(self):
        self.assertEqual(self.uncommented(("private", "a", ""), ("public", "Pool", ""),
                                          ("public", "operator=", ""), ("public", "b_", "")), [])
        self.assertEqual(self.uncommented(("public", "a", ""), prot="private", about=""), [])

    def broken(self, page, **others):
        for name, text in {"a": page, **others}.items():
            (self.folder / f"{name}.html").write_text(text)
        return list(check_site.broken_links(self.folder))

    def test_links_that_lead_somewhere(self):
        self.assertEqual(self.broken('<p id="x"><a href="#x"><a href="b.html#y">'
                                     '<a href="https://z.org/#q">', b='<a name="y">'), [])

    def test_links_that_lead_nowhere(self):
        for link in ("#x", "b.html#z", "c.html", "picture.svg"):
            found = self.broken(f'<a href="{link}">', b='<a name="y">')
            self.assertEqual(len(found), 1, found)
            self.assertIn(link, found[0])

    def test_markup_that_is_shown(self):
        (self.folder / "a.html").write_text("<p>see [errors](@ref errors) there")
        (self.folder / "b.html").write_text('<p class="markdownTable">a table')
        found = list(check_site.shown_markup(self.folder))
        self.assertEqual(len(found), 1, found)
        self.assertIn("a.html", found[0])


if __name__ == "__main__":
    unittest.main()
