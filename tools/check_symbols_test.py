#!/usr/bin/env python3
"""Calls of every kind between made-up object files; check_symbols.py has to see those that point
up."""

import pathlib
import subprocess
import tempfile
import unittest

import check_symbols


def files(**defined_and_needed):
    """Sources by their names, with "__" for "/"."""
    return {"src/" + name.replace("__", "/") + ".cpp": sets
            for name, sets in defined_and_needed.items()}


class Symbols(unittest.TestCase):

    def calls(self, caller, callee):
        """The findings if `caller` calls a function of `callee`."""
        return check_symbols.violations(
            files(**{caller: (set(), {"f"}), callee: ({"f"}, set())}))

    def test_downwards_is_right(self):
        for caller, callee in (("os__clock", "base__text"), ("core__ledger", "values__error"),
                               ("reactor__turn", "demux__wait"), ("io__file", "proactor__proactor"),
                               ("io__connector", "coro__task"), ("coro__task", "core__strand"),
                               ("engines__emulated__submit", "demux__wait"),
                               ("engines__simulated__wait", "sim__kernel"),
                               ("engines__io_uring__reap", "engines__common__transfer"),
                               ("capi__start", "proactor__proactor"),
                               ("proactor__proactor", "engines__registry"),
                               ("core__ledger", "core__core")):
            self.assertEqual(self.calls(caller, callee), [], f"{caller} calls {callee}")

    def test_upwards_is_wrong(self):
        for caller, callee in (("base__text", "os__clock"), ("core__runner", "io__file"),
                               ("core__core", "proactor__proactor"), ("coro__task", "io__file"),
                               ("engines__io_uring__reap", "core__ledger"),
                               ("engines__io_uring__reap", "engines__emulated__wait"),
                               ("engines__linux_aio__reap", "demux__wait"),
                               ("demux__wait", "engines__common__transfer"),
                               ("config__text", "demux__registry"),
                               ("values__error", "config__text")):
            found = self.calls(caller, callee)
            self.assertEqual(len(found), 1, f"{caller} calls {callee}")
            self.assertIn("does not call", found[0])

    def test_lists_of_siblings(self):
        self.assertEqual(self.calls("engines__registry", "engines__io_uring__engine"), [])
        self.assertEqual(self.calls("config__registry", "demux__registry"), [])
        self.assertEqual(len(self.calls("config__registry", "core__core")), 1)

    def test_a_folder_without_a_place(self):
        found = check_symbols.violations(files(news__one=(set(), set())))
        self.assertIn("no place", found[0])

    def test_what_others_define_and_the_tag(self):
        self.assertEqual(check_symbols.violations(files(base__text=(set(), {"memcpy"}))), [])
        tag = "baton_abi_v0_1_libstdcxx_cxx11"
        self.assertEqual(check_symbols.violations(
            files(base__text=(set(), {tag}), values__version=({tag}, set()))), [])

    def test_object_files(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "one.c")
            source.write_text("extern int other(void); static int own(void) { return other(); }\n"
                              "int data; int shown(void) { return own(); }\n")
            subprocess.run(["cc", "-c", str(source), "-o", folder + "/one.o"], check=True)
            defined, needed = check_symbols.symbols_of(folder + "/one.o")
        self.assertEqual(defined, {"data", "shown"})
        self.assertEqual(needed, {"other"})

    def test_objects_of_joined_sources_are_refused(self):
        self.assertEqual(check_symbols.main(["/b/baton_objects.dir/Unity/unity_0_cxx.cxx.o"]), 2)


if __name__ == "__main__":
    unittest.main()
