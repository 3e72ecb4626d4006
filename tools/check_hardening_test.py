#!/usr/bin/env python3
"""Builds a program, a library and an archive without any hardening and expects check_hardening.py
to miss each of its marks. CXX is the compiler."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import check_hardening

PLAIN = ["-O0", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fcf-protection=none"]


class Hardening(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "plain.cpp").write_text("int main() {}\n", encoding="utf-8")

    def build(self, name, *flags):
        path = self.root / name
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, *PLAIN, str(self.root / "plain.cpp"), "-o", str(path), *flags],
                       check=True)
        return str(path)

    def test_a_plain_program(self):
        wrong = "\n".join(check_hardening.check_linked(
            self.build("plain", "-no-pie", "-Wl,-z,norelro,-z,lazy,-z,execstack,-rpath,/x"), True))
        for sentence in ["no RELRO", "bound at load time", "executable", "without -pie",
                         "not position independent", "stack-protector", "_FORTIFY_SOURCE",
                         "_GLIBCXX_ASSERTIONS", "search path"]:
            self.assertIn(sentence, wrong)

    def test_a_plain_library_is_not_blamed_for_lacking_pie(self):
        wrong = "\n".join(check_hardening.check_linked(
            self.build("plain.so", "-shared", "-fPIC", "-Wl,-soname,plain.so"), False))
        self.assertNotIn("-pie", wrong)  # a name of the folder has letters, but no hyphen
        self.assertIn("_FORTIFY_SOURCE", wrong)

    @unittest.skipUnless(check_hardening.X86, "the mark is of x86")
    def test_an_archive_without_control_flow_protection(self):
        plain = self.build("plain.o", "-c")
        archive = str(self.root / "plain.a")
        subprocess.run(["ar", "qc", archive, plain], check=True)
        self.assertEqual(len(check_hardening.check_archive(archive)), 1)

    def test_a_source_compiled_without_a_flag(self):
        flags = [flag for flag in check_hardening.FLAGS if flag != "-fstack-clash-protection"]
        commands = self.root / "compile_commands.json"
        commands.write_text(json.dumps([
            {"file": "/src/some.cpp", "command": " ".join(["c++", *flags])},
            {"file": "/src/good.cpp", "command": " ".join(["c++", *check_hardening.FLAGS])},
            {"file": "/tests/other.cpp", "command": "c++"}]), encoding="utf-8")
        wrong = check_hardening.check_commands(str(commands), "/src")
        self.assertEqual(wrong, ["/src/some.cpp: compiled without -fstack-clash-protection"])
        self.assertEqual(len(check_hardening.check_commands(str(commands), "/elsewhere")), 1)


if __name__ == "__main__":
    unittest.main()
