#!/usr/bin/env python3
"""Checks the lock-free parts in relacy's memory model: relacy/relacy_test.cpp says what it runs.

usage: check_relacy.py [SCHEDULES]    SCHEDULES of each scenario, a million by default
       check_relacy.py --record       notes in verified.txt that every scenario ended as it must

The result depends on the test, on the headers of Baton that it includes, and on the options below.
verified.txt has the hash of these, without comments, as they were at the last record. As long as
the hash is the same, an ordinary run compiles and checks nothing again. With BATON_MODEL_FULL=1 or
SCHEDULES it does.

CXX is the compiler, BATON_RELACY the folder that has relacy/relacy.hpp if the compiler does not
find it. Exit status 0: all as it must be; 1: it is not; 77: relacy is not installed.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

import check

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = HERE / "relacy" / "relacy_test.cpp"
# Relacy replaces names of the standard library and was written for older compilers: our warnings
# are not for it.
OPTIONS = ["-std=c++20", "-O2", "-w", "-pthread"]
SCHEDULES = "1000000"


def command(*words):
    compiler = os.environ.get("CXX") or "c++"
    relacy = os.environ.get("BATON_RELACY")
    return [compiler, *OPTIONS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}",
            *(["-idirafter", relacy] if relacy else []), *words, str(SOURCE)]


def sources():
    """The files of Baton that the test consists of, or None: relacy is not here."""
    listed = subprocess.run(command("-MM"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, check=False)
    if listed.returncode != 0:
        if "relacy/relacy.hpp" in listed.stderr:
            return None
        sys.exit(listed.stderr)
    names = listed.stdout.replace("\\\n", " ").split()[1:]
    return sorted({pathlib.Path(name).resolve() for name in names})


def without_comments(file):
    lines = (line.strip() for line in file.read_bytes().split(b"\n"))
    return b"\n".join(line for line in lines if line and not line.startswith(b"//"))


def hash_of(files):
    parts = [without_comments(file) for file in files if file.is_relative_to(ROOT)]
    return hashlib.sha256(b"".join([" ".join([*OPTIONS, SCHEDULES]).encode(), *parts])).hexdigest()


def run(schedules):
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder, "relacy_test"))
        compiled = subprocess.run(command("-o", program), check=False).returncode
        return compiled or subprocess.run([program, schedules], check=False).returncode


def main(words):
    recording = "--record" in words
    schedules = next((word for word in words if word != "--record"), SCHEDULES)
    files = sources()
    if files is None:
        print("skipped: relacy/relacy.hpp is not here (apt-get install relacy-dev)")
        return 77
    digest = hash_of(files)
    known, date = check.verified().get("relacy", ("", ""))
    if known == digest and not (check.full_run() or words):
        print(f"relacy: unchanged since {date}, when all ended as it must (verified.txt)")
        return 0
    if run(schedules) != 0:
        return 1
    if recording:
        check.record("relacy", digest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
