#!/usr/bin/env python3
"""Runs an example and checks what it does. Bounded in time, exit status 0 if all is well.

usage: smoke.py {tcp|udp|chat|copy|...|plain|activated|ace_...|files} PROGRAM [ARGUMENT...]
"""

import atexit
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE_S = 30


def start_server(program, *arguments, by=(), variables=None):
    """The process and the port that it prints."""
    process = subprocess.Popen([*by, program, "0", *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE if by or variables else None, text=True,
                               env={**os.environ, **(variables or {})})
    atexit.register(process.kill)
    return process, port_of(process, program)


def port_of(process, program):
    words = process.stdout.readline().split()
    if len(words) != 2 or words[0] != "listening":
        raise SystemExit(f"{program}: no 'listening PORT' but {words}")
    return int(words[1])


def stop_server(process):
    if process.poll() is not None:
        raise SystemExit(f"the server ended by itself, status {process.returncode}")
    process.send_signal(signal.SIGTERM)
    status = process.wait(PATIENCE_S)
    check(status == -signal.SIGTERM, f"the server ends by the signal, not with status {status}")


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    return connection, connection.makefile("rwb")


def check(is_fine, what):
    if not is_fine:
        raise SystemExit(f"failed: {what}")


def tcp(program):
    process, port = start_server(program)
    echoes(port)
    stop_server(process)


def echoes(port):
    for size in (1, 100, 100_000):
        connection, stream = connect(port)
        data = os.urandom(size)
        connection.sendall(data)
        check(stream.read(size) == data, f"echo of {size} bytes")
        connection.shutdown(socket.SHUT_WR)
        check(stream.read() == b"", "end of the stream")


def udp(program):
    process, port = start_server(program)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(PATIENCE_S)
        for size in (1, 100, 10_000):
            data = os.urandom(size)
            one.sendto(data, ("127.0.0.1", port))
            check(one.recv(65536) == data, f"echo of a datagram of {size} bytes")
    stop_server(process)


def chat(program):
    process, port = start_server(program)
    # Sessions are accepted in the order in which they connected: Ann is there when Bob enters.
    _, ann = connect(port)
    _, bob = connect(port)
    check(b"(enters)" in ann.readline(), "the entry of another")
    bob.write(b"good morning\nand goodbye\n")
    bob.flush()
    check(ann.readline().endswith(b": good morning\n"), "the first line")
    check(ann.readline().endswith(b": and goodbye\n"), "the second line")
    those_who_do_not_read(port, ann, bob)
    stop_server(process)


def those_who_do_not_read(port, ann, bob):
    """They are put out together, not each after a second for which all others wait."""
    deaf = []
    for _ in range(2 * PATIENCE_S):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", port))
        deaf.append(connection)
        check(b"(enters)" in ann.readline(), "the entry of one who does not read")
    ended = threading.Event()

    def talk():
        while not ended.is_set():
            bob.write(b"x" * 400 + b"\n")

    talker = threading.Thread(target=talk)
    talker.start()
    end = time.monotonic() + PATIENCE_S
    try:
        for _ in deaf:
            while b"(leaves)" not in ann.readline():
                check(time.monotonic() < end, "those who do not read are put out")
    finally:
        ended.set()
        talker.join()


def copy(program):
    with tempfile.TemporaryDirectory() as folder:
        for size in (0, 1, 3_000_001):
            source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
            data = os.urandom(size)
            with open(source, "wb") as file:
                file.write(data)
            subprocess.run([program, source, target], check=True, timeout=PATIENCE_S)
            with open(target, "rb") as file:
                check(file.read() == data, f"copy of {size} bytes")
        failed = subprocess.run([program, source + ".missing", target], timeout=PATIENCE_S,
                                stderr=subprocess.PIPE, check=False)
        check(failed.returncode == 1, "a source that is missing is an error")
        with open(source, "wb") as file:
            file.write(b"short")
        subprocess.run([program, source, target], check=True, timeout=PATIENCE_S)
        with open(target, "rb") as file:
            check(file.read() == b"short", "a longer target is cut off")
        same_file(program, folder)
        subprocess.run([program, "/proc/self/maps", target], check=True, timeout=PATIENCE_S)
        with open(target, "rb") as file:
            check(b"04_copy_file" in file.read(), "a file of /proc, which has no size")


def same_file(program, folder):
    """A file is not copied onto itself, whatever it is called."""
    name = os.path.join(folder, "self")
    with open(name, "wb") as file:
        file.write(b"precious")
    os.link(name, name + ".hard")
    os.symlink(name, name + ".soft")
    for other in (name, name + ".hard", name + ".soft", os.path.join(folder, ".", "self")):
        for words in ((name, other), (other, name)):
            failed = subprocess.run([program, *words], timeout=PATIENCE_S, text=True,
                                    stderr=subprocess.PIPE, check=False)
            check(failed.returncode == 1 and "same file" in failed.stderr, f"{words} is refused")
            with open(name, "rb") as file:
                check(file.read() == b"precious", f"{words} leaves the file as it was")


def team(program):
    with tempfile.TemporaryDirectory() as folder, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        path = os.path.join(folder, "collected")
        process, port = start_server(program, path)
        data = os.urandom(100_000)
        for _ in range(2):
            connection, _ = connect(port)
            connection.sendall(data)
            connection.close()
        asking.settimeout(PATIENCE_S)
        answer = b""
        while answer != b"200000\n":
            asking.sendto(b"?", ("127.0.0.1", port))
            answer = asking.recv(64)
        with open(path, "rb") as file:
            check(sorted(file.read()) == sorted(data + data), "what was collected")
        stop_server(process)


MODES = ("engine=emulated", "engine=emulated,mode=dedicated", "engine=emulated,wait=select",
         "engine=emulated,mode=per_thread,threads=2", "engine=io_uring",
         "engine=io_uring,mode=dedicated", "engine=io_uring,mode=per_thread,threads=2")
ACCEPT_CALLS = {"x86_64": {"43", "288"}, "aarch64": {"202", "242"}}


def activated(program):
    """Two processes share a blocking listener of their parent's, in every mode."""
    for how in MODES:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            both = [start_activated(program, listener, how) for _ in range(2)]
            port = listener.getsockname()[1]
            # Both see each connection, and one of them is late.
            for _ in range(50):
                connection, stream = connect(port)
                connection.sendall(b"ping")
                check(stream.read(4) == b"ping", f"{how}: an echo")
            echoes(port)
            for process in both:
                check(not sleeps_in_accept(process.pid), f"{how}: a thread sleeps in accept")
                stop_server(process)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_activated(program, listener, "rubbish", stderr=subprocess.PIPE, text=True)
        why = process.communicate(timeout=PATIENCE_S)[1]
        check(process.returncode == 1 and why.startswith('BATON: "rubbish"'), f"refused: {why}")
    refused(program, status=1)
    for variables in ({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_PID": "self"},
                      {"LISTEN_PID": "self", "LISTEN_FDS": "1x"}):
        process = subprocess.run(["bash", "-c", SELF, "bash", program], check=False, text=True,
                                 env={**os.environ, **variables}, timeout=PATIENCE_S,
                                 stderr=subprocess.PIPE)
        check(process.returncode == 1 and "LISTEN_FDS" in process.stderr, f"{variables}: refused")


# As systemd does: the process that is named is the one that becomes the server.
SELF = 'if [ "$LISTEN_PID" = self ]; then export LISTEN_PID=$$; fi; exec "$@"'


def start_activated(program, listener, how, **more):
    script = f"exec 3<&{listener.fileno()}; {SELF}"
    process = subprocess.Popen(["bash", "-c", script, "bash", program],
                               pass_fds=[listener.fileno()],
                               env={**os.environ, "LISTEN_PID": "self", "LISTEN_FDS": "1",
                                    "BATON": how}, **more)
    atexit.register(process.kill)
    return process


def sleeps_in_accept(process):
    calls = ACCEPT_CALLS.get(os.uname().machine, set())
    for task in os.listdir(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{task}/syscall", encoding="ascii") as file:
                if file.read().split()[0] in calls:
                    return True
        except OSError:  # not for us to see
            pass
    return False


def simulated(program):
    """Right under every seed; with its bug the seed that shows it is named, and shows it again."""
    plain(program)
    found = run_careless(program)
    seed = re.search(r"^replay: BATON_SIM_SEED=(\d+) ", found, re.MULTILINE)
    check(seed is not None, "a seed is named")
    again = run_careless(program, BATON_SIM_SEED=seed[1])
    check(again.split("\n", 1)[1] == found.split("\n", 1)[1], "the same failure once more")


def run_careless(program, **variables):
    result = subprocess.run([program, "--careless"], stdout=subprocess.PIPE, text=True,
                            timeout=PATIENCE_S, env={**os.environ, **variables}, check=False)
    check(result.returncode == 1, "the bug is found")
    return result.stdout


def plain(program, *arguments):
    subprocess.run([program, *arguments], check=True, timeout=PATIENCE_S)
    if "timer" in program:
        ends_by_signal(program)
    if "pipeline" in program or "own_wait" in program:
        without_descriptors(program)


def ends_by_signal(program):
    """In good order, although a tick is pending: the signal is there before the program begins."""
    def send():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    done = subprocess.run([program, "1000000"], timeout=PATIENCE_S, text=True, check=False,
                          stdout=subprocess.PIPE, preexec_fn=send)
    check(done.returncode == 0 and "signal 15" in done.stdout, f"{done}")


def without_descriptors(program):
    """Too few of them for every step: an error each time, and no abort."""
    for most in range(4, 12):
        done = subprocess.run(["sh", "-c", f'ulimit -n {most}; exec "$0"', program], check=False,
                              timeout=PATIENCE_S, text=True, capture_output=True)
        check(done.returncode == 0 or (done.returncode in (1, 127) and done.stderr.strip() != ""),
              f"{most} descriptors: {done}")


def refused(program, *arguments, status, stdout=subprocess.DEVNULL, variables=None):
    """Ends by itself, with that status and a sentence."""
    done = subprocess.run([program, *arguments], timeout=PATIENCE_S, text=True, stdout=stdout,
                          stderr=subprocess.PIPE, check=False,
                          env={**os.environ, **(variables or {})})
    check(done.returncode == status, f"{arguments}: status {done.returncode}, not {status}")
    check(done.stderr.strip() != "", f"{arguments}: a reason is told")
    return done.stderr


def command_line(how, program, *arguments):
    """Numbers that are none, an argument too many, and an output that cannot be written."""
    with open("/dev/full", "w", encoding="ascii") as full:
        if how in ("tcp", "udp", "chat", "team", "ace_both", "files"):
            # Where the library reads the number.
            in_c = any(word in program for word in ("c_api", "echo.py", "echo_rust"))
            more = {"team": [os.devnull], "files": ["."]}.get(how, [])
            for port in ("99999", "65536", "-1", "", "x", "80x", " 80", "4294967296"):
                why = refused(program, port, *more, status=1 if in_c else 2)
                check(port in why, f"{port!r} is named in: {why}")
            why = refused(program, "0", *more, "extra", status=2)
            check("extra" in why or "usage" in why, f"the extra argument is named in: {why}")
            refused(program, "0", *more, status=1, stdout=full)
        elif how in ("plain", "simulated"):
            refused(program, *arguments, status=1, stdout=full)
    if "timer" in program:
        for ticks in ("0", "-1", "x", "", "1e9", "99999999999"):
            refused(program, ticks, status=2)
        refused(program, "1", "extra", status=2)
    if how == "simulated":
        refused(program, "--careles", status=2)
        refused(program, "--careless", "extra", status=2)
    if how == "copy":
        for words in ((), ("one",), ("one", "two", "three")):
            check("usage" in refused(program, *words, status=2), f"{words}: the usage is told")


def environment(how, program, *arguments):
    """Variables that make no sense: which one, in a short sentence."""
    huge = "x" * 70_000
    mistakes = []
    if how == "activated":
        return  # it looks for its listener first: activated()
    if how == "simulated":
        mistakes = [("BATON_SIM_" + name, text) for name in ("SEED", "SEEDS", "VERBOSE")
                    for text in ("", "rubbish", "-1", "18446744073709551616", huge)]
    elif not how.startswith("ace_") or how == "ace_both":
        if "own_wait_strategy" in program or "pipeline" in program:
            return  # they read none
        mistakes = [(name, text) for name in ("BATON", "BATON_FORBID")
                    for text in ("rubbish", "wait=nonsense", "threads=18446744073709551616", huge)]
        mistakes += [("BATON_CONFIG", "/nowhere/baton.xml")]
        if program.endswith(".py"):
            mistakes += [("BATON_LIBRARY", text) for text in ("rubbish", huge)]
    given = {"copy": (__file__, os.devnull), "plain": (), "simulated": (), "files": ("0", ".")}
    arguments = given.get(how, ("0", *arguments))
    for name, text in mistakes:
        why = refused(program, *arguments, status=1, variables={name: text})
        check(name in why, f"{name}={text[:40]!r} is named in: {why[:400]}")
        check("terminate" not in why and "Traceback" not in why, f"a sentence: {why[:400]}")
        check(len(why) < 1_000, f"{name}: the sentence is short: {len(why)}")
    # A server that cannot accept ends instead of listening for ever.
    if how in ("tcp", "udp", "chat"):
        why = refused(program, *arguments, status=1, variables={"BATON": "operations=file"})
        # ACE's acceptor has a number for it.
        by_ace = "ace_" in os.path.basename(program)
        words = "Operation not supported" if by_ace else "no processor of the team"
        check(words in why, f"the reason is told: {why}")


def ace_command(program, command):
    """By the command baton-ace, which says so if it is asked to."""
    process, port = start_server(program, by=[command, "--explain"])
    echoes(port)
    stop_server(process)
    check("runs on Baton" in process.stderr.read(), "Baton runs it")
    for words, status in (((), 2), (("--explan", program), 2), (("--options",), 2),
                          (("--library", program), 2), (("no-such-program",), 127),
                          (("/etc/passwd",), 126), (("/",), 126)):
        why = refused(command, *words, status=status)
        check(why.startswith("baton-ace: "), f"{words}: {why}")
    with open("/dev/full", "w", encoding="ascii") as full:
        for words in ("--help", "--library"):
            why = refused(command, words, status=1, stdout=full)
            check(why == "baton-ace: standard output cannot be written\n", f"{words}: {why}")


def ace_preload(program, command):
    """The same library by LD_PRELOAD alone."""
    library = subprocess.run([command, "--library"], stdout=subprocess.PIPE, text=True, check=True,
                             timeout=PATIENCE_S).stdout.strip()
    process, port = start_server(
        program, variables={"LD_PRELOAD": library, "BATON_ACE": "explain"})
    echoes(port)
    stop_server(process)
    check("runs on Baton" in process.stderr.read(), "Baton runs it")


def ace_both(program):
    """An echo by ACE's objects, and one by Baton's."""
    process, port = start_server(program)
    other = port_of(process, program)
    for each in (port, other, port):
        echoes(each)
    stop_server(process)


def files(program):
    """A file server: a name and a newline; the size and the file come back."""
    with tempfile.TemporaryDirectory() as folder:
        process, port = start_server(program, folder)
        for size in (0, 1, 1_000_000):
            data = os.urandom(size)
            with open(os.path.join(folder, "file"), "wb") as file:
                file.write(data)
            connection, stream = connect(port)
            connection.sendall(b"fi")
            connection.sendall(b"le\n")
            check(stream.read() == f"{size}\n".encode() + data, f"a file of {size} bytes")
        for name in (b"missing", b"../file", b".", b""):
            connection, stream = connect(port)
            connection.sendall(name + b"\n")
            check(stream.read() == b"-1\n", f"{name} is not there")
        stop_server(process)


def give_up(*_):
    raise SystemExit("failed: took too long")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, give_up)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(2 * PATIENCE_S)
    check_of = {"tcp": tcp, "udp": udp, "chat": chat, "copy": copy, "team": team,
                "simulated": simulated, "plain": plain,
                "activated": activated, "ace_command": ace_command,
                "ace_preload": ace_preload, "ace_both": ace_both, "files": files}
    check_of[sys.argv[1]](*sys.argv[2:])
    command_line(*sys.argv[1:])
    environment(*sys.argv[1:])
