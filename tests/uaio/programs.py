#!/usr/bin/env python3
"""Runs an unmodified program of Debian's on libuaio-preload.so: programs.py WHAT BUILD SOURCE

WHAT: fio, stress-ng, mpi, python. Exit status 77: skipped, with the reason.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            skip(f"{program} is not installed")


def run(command, build, folder, uses=True):
    """Runs it under `uaio run`; it must succeed and (uses) have made requests."""
    print("+", *command, flush=True)
    environment = {k: v for k, v in os.environ.items() if k not in ("UAIO", "LD_PRELOAD")}
    done = subprocess.run([build / "bin" / "uaio", "run", "--trace", "--", *command], cwd=folder,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    lines = done.stderr.splitlines()
    started = sum(": start " in line for line in lines)
    print(done.stdout[-2000:])
    print("\n".join([line for line in lines if not line.startswith("uaio[")][-40:]))
    print(f"{started} requests went through the library")
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}")
    if uses and started == 0:
        sys.exit(f"{command[0]} did not use the library")


def fio(build, _, folder):
    need("fio")
    for direct in (0, 1):
        for verified in ("randwrite", "randrw"):
            run(["fio", "--name=verify", "--filename=data", "--size=4m", "--ioengine=posixaio",
                 f"--rw={verified}", "--bs=4k", "--iodepth=32", f"--direct={direct}",
                 "--verify=crc32c", "--verify_fatal=1", "--randseed=7"], build, folder)


def stress(build, _, folder):
    need("stress-ng")
    run(["stress-ng", "--aio", "1", "--aio-ops", "2000", "--verify", "--temp-path", "."], build,
        folder)


def mpi(build, source, folder):
    need("mpicc", "mpiexec")
    program = pathlib.Path(folder) / "mpi_files"
    subprocess.run(["mpicc", "-O1", "-o", program, source / "mpi_files.c"], check=True)
    run(["mpiexec", "-n", "3", str(program), "data"], build, folder)


def python(build, source, folder):
    run([sys.executable, "-B", str(source / "python_client.py")], build, folder)


def main():
    what, build, source = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="uaio-") as folder:
        {"fio": fio, "stress-ng": stress, "mpi": mpi, "python": python}[what](
            build.resolve(), source.resolve(), folder)


main()
