#!/usr/bin/env python3
"""The command baton-ace, and what it preloads: with a program that uses ACE only.

usage: preload_test.py COMMAND PROGRAM PRELOAD_LIBRARY LIBRARY_OF_ANOTHER_VERSION PLUGIN
"""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

COMMAND, PROGRAM, LIBRARY, OTHER_VERSION, PLUGIN = sys.argv[1:6]


def run(arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BATON")}
    return subprocess.run(arguments, env={**clean, **environment}, capture_output=True, text=True,
                          timeout=60)


def expect(condition, what, result):
    if not condition:
        sys.exit(f"FAILED: {what}\nexit {result.returncode}\n{result.stdout}\n{result.stderr}")


TALKED = "echoed 13, timers 1\nechoed 13, timers 1\nleft 2 loops\n"

# The engines, by the environment; silent unless asked.
for engine in ("engine=emulated,wait=epoll", "engine=io_uring", "mode=per_thread,threads=1",
               "engine=io_uring,mode=per_thread,threads=2", ""):
    result = run([COMMAND, PROGRAM], BATON=engine)
    expect(result.returncode == 0 and result.stdout == TALKED and "baton-ace" not in result.stderr,
           f"runs on {engine or 'auto'}", result)

    for how, status in (("exit", 5), ("beside", 6), ("static", 7), ("after", 8), ("idle", 9)):
        result = run([COMMAND, PROGRAM, how], BATON=engine)
        expect(result.returncode == status, f"{how} on {engine or 'auto'}", result)

result = run([COMMAND, "--explain", PROGRAM], BATON="engine=emulated,wait=epoll")
expect(result.stderr.count("runs on Baton") == 3 and "epoll" in result.stderr,
       "--explain tells the engine, for each proactor", result)
for engine in ("posix_aio", "linux_aio"):
    result = run([COMMAND, PROGRAM, "idle"], BATON=f"engine={engine}")
    expect(result.stderr.count("\n") == 1 and f"engine={engine} does only files" in result.stderr,
           f"{engine} is explained", result)
result = run([COMMAND, "--options", "batch=1,lazy", PROGRAM])
expect(result.stdout == TALKED, "--options", result)

# A plugin's libACE, which its host has loaded so that no other library sees its names (RTLD_LOCAL).
HOST = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).run_plugin())"
for engine in ("engine=emulated,wait=epoll", "engine=io_uring", "mode=per_thread,threads=1"):
    result = run([COMMAND, sys.executable, "-c", HOST, PLUGIN], BATON=engine)
    expect(result.returncode == 0 and result.stdout.endswith("left the loop\n"),
           f"a plugin on {engine}", result)

# On ACE's own Proactor the write waits behind the read for ever.
try:
    result = subprocess.run([PROGRAM], timeout=2, capture_output=True, text=True)
    expect(False, "ACE's own Proactor hangs in full duplex", result)
except subprocess.TimeoutExpired:
    pass

# Bad input, or a libACE of another version: one line, and ACE's own Proactor, on which this program
# cannot end.
for variable, text, reason in (
        ("BATON_ACE", "fast", "fast"), ("BATON", "engine=steam", "steam"),
        ("BATON_ACE", "x" * 70_000, "x" * 60),
        ("LD_PRELOAD", OTHER_VERSION, "and this is 6.5.12")):
    program = subprocess.Popen([COMMAND, PROGRAM], env={**os.environ, variable: text},
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = []
    for line in program.stderr:
        if "ACE's own Proactor" in line:
            told.append(line)
            # It hangs from here on. A second line would follow at once.
            threading.Timer(0.3, program.kill).start()
    program.wait()
    if len(told) != 1 or reason not in told[0] or len(told[0]) > 400:
        sys.exit(f"FAILED: {variable}={text[:60]} is explained: {told}")

# A program without ACE is left alone, and so is the command's own error.
result = run([COMMAND, "echo", "hello"])
expect(result.stdout == "hello\n" and result.stderr == "", "a program without ACE", result)
for arguments, reason in (((), "a program is missing"), (("--", ), "a program is missing"),
                          (("--explane", PROGRAM), "no option '--explane'"),
                          (("--options", ), "--options needs"),
                          (("--library", "extra"), "there is 'extra'")):
    result = run([COMMAND, *arguments])
    expect(result.returncode == 2 and reason in result.stderr.split("\n")[0] and
           "baton-ace [" in result.stderr, f"{arguments} is explained", result)
result = run([COMMAND, "--help"])
expect(result.returncode == 0 and "baton-ace [" in result.stdout, "--help", result)
page = Path(__file__).resolve().parents[2] / "ace/man/baton-ace.1"
synopsis = page.read_text().split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
options = {"-" + option for option in re.findall(r"Fl (-[a-z-]+)", synopsis)}
expect(options == set(re.findall(r"--[a-z-]+", result.stdout)),
       f"the manual page has the options of --help, not {sorted(options)}", result)
result = run([COMMAND, "no-such-program"])
expect(result.returncode == 127 and "baton-ace: there is no program 'no-such-program'" in
       result.stderr, "a program that is missing", result)
result = run([COMMAND, "--", "--no-such-program"])
expect(result.returncode == 127 and result.stderr.count("\n") == 1,
       "a program that is missing, whose name begins with dashes", result)
result = run([COMMAND, "--library"])
expect(os.path.samefile(result.stdout.strip(), LIBRARY), "--library", result)

# It exports constructors, destructors and event loops, and nothing else.
result = run(["nm", "-D", "--defined-only", LIBRARY])
names = [line.split()[-1] for line in result.stdout.splitlines()]
wrong = [name for name in names
         if not re.match(r"_ZN\w*12ACE_Proactor([CD][12]|23proactor_run_event_loop|"
                         r"15close_singleton)E", name)]
expect(len(names) == 7 and not wrong, f"exports only the seven names, not {wrong}", result)
