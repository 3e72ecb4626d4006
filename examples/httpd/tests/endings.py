"""Limits, deadlines, clients that go away, and the end of the server."""

import contextlib
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from support import PATIENCE_S, Client, ask, check, equal, request, serving, wait_until

SHORT = "0.3"


def deadlines(program, root, options):
    with serving(program, root, "--header-seconds", SHORT, "--idle-seconds", SHORT,
                 "--write-seconds", SHORT, *options) as server:
        with Client(server) as client:
            begin = time.monotonic()
            client.send("GET / HTTP/1.1\r\n")
            # However steadily it goes on, a head has its time.
            client.socket.settimeout(0.05)
            with contextlib.suppress(OSError):
                while time.monotonic() < begin + PATIENCE_S:
                    with contextlib.suppress(TimeoutError):
                        if client.socket.recv(1, socket.MSG_PEEK):
                            break
                    client.send("X: y\r\n")
            client.socket.settimeout(PATIENCE_S)
            equal(client.answer().status, 408, "a head that does not end")
            check(time.monotonic() - begin >= float(SHORT), "not before its time")
            check(client.at_end(), "the end after a time-out")
        with Client(server) as client:
            check(client.at_end(), "a connection without a word")
        with Client(server) as client:
            client.send(request("GET", "/"))
            equal(client.answer().status, 200, "an answer")
            check(client.at_end(), "a connection without another word")
        with Client(server) as client:
            client.send(request("GET", "/", "Content-Length: 10") + "x")
            equal(client.answer().status, 408, "a body that does not come")
        with Client(server, receive_buffer=4096) as client:
            client.send(request("GET", "/large.bin"))
            equal(client.head()[0], 200, "the download begins")
            wait_until(lambda: connections(server) == 0, "a client that does not read")
        check(server.stop()["timeouts"] >= 5, "time-outs are counted")


def connections(server):
    """Sockets of the server, without its listener."""
    with open(f"/proc/{server.process.pid}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    # Local port, state ESTABLISHED or CLOSE_WAIT, and an inode: a process has it open.
    return sum(1 for row in rows if int(row[1].split(":")[1], 16) == server.port and
               row[3] in ("01", "08") and row[9] != "0")


def limits(program, root, options):
    with serving(program, root, "--connections", "2", "--requests", "2", *options) as server:
        with Client(server) as one, Client(server) as two:
            for client in (one, two):
                client.send(request("GET", "/"))
                equal(client.answer().status, 200, "within the limit")
            answer = ask(server, "GET", "/")
            equal((answer.status, answer.headers["Retry-After"]), (503, "5"), "beyond the limit")
            one.send(request("GET", "/"))
            answer = one.answer()
            equal((answer.status, answer.headers["Connection"]), (200, "close"), "the last request")
            check(one.at_end(), "one request too many")
        wait_until(lambda: ask(server, "GET", "/").status == 200, "room again")
        check(server.stop()["turned_away"] >= 1, "turned away")


def clients_go_away(program, root, options):
    with serving(program, root, *options) as server:
        process = subprocess.Popen(["curl", "--silent", "--limit-rate", "1M", "--output", "-",
                                    server.url("/large.bin")], stdout=subprocess.PIPE)
        process.stdout.read(100_000)  # in the middle of it
        process.kill()
        process.communicate()
        for text in ("", "GET / HT", request("GET", "/large.bin")):
            with Client(server) as client:
                client.send(text)
        wait_until(lambda: connections(server) == 0, "connections of clients that are gone")
        equal(ask(server, "GET", "/").status, 200, "afterwards")
        with Client(server) as client:  # says that it is done, and still wants its answer
            client.send(request("GET", "/small.html"))
            client.socket.shutdown(socket.SHUT_WR)
            equal(client.answer().status, 200, "half closed")
            check(client.at_end(), "and closed")


def few_descriptors(program, root, options):
    many = root / "many"
    many.mkdir(exist_ok=True)
    for i in range(100):
        (many / str(i)).write_bytes(b"x")
    with serving(program, root, *options, descriptors=64) as server:
        for i in range(100):  # more than can be kept open
            equal(ask(server, "GET", f"/many/{i}").status, 200, f"file {i}")
        with contextlib.ExitStack() as crowd:  # more than can be let in
            first = crowd.enter_context(Client(server))
            for _ in range(100):
                crowd.enter_context(Client(server))
            first.send(request("GET", "/small.html"))
            answer = first.answer()
            equal(answer.status, 200, f"a file beside a crowd {answer}")
        wait_until(lambda: ask_or_none(server, "GET", "/") == 200, "room again")
        server.stop()
        check("few descriptors" in server.errors, "the limit that was lowered is told")


def ask_or_none(server, method, target):
    """The status, or None where the connection is closed without one."""
    with contextlib.suppress(ConnectionError):
        answer = ask(server, method, target)
        return answer and answer.status


def graceful_end(program, root, options):
    large = (root / "large.bin").read_bytes()
    with serving(program, root, "--drain-seconds", "1000", *options) as server:
        with Client(server) as busy, Client(server) as idle, Client(server) as silent:
            idle.send(request("GET", "/"))
            equal(idle.answer().status, 200, "before the end")
            busy.send(request("GET", "/large.bin"))
            status, _ = busy.head()
            begin = busy.stream.read(10)
            equal((status, begin), (200, large[:10]), "a download that has begun")
            server.terminate()
            check(idle.at_end() and silent.at_end(), "idle connections end at once")
            with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
                with Client(server) as late:
                    check(late.at_end(), "no client is accepted")
            check(begin + busy.stream.read() == large, "the download is complete")
        server.wait()
    with serving(program, root, "--drain-seconds", SHORT, *options) as server:
        with Client(server, receive_buffer=4096) as busy:
            busy.send(request("GET", "/large.bin"))
            busy.head()
            server.terminate()
            server.wait()  # although that client never reads
    with serving(program, root, *options) as server:
        with Client(server, receive_buffer=4096) as busy:
            busy.send(request("GET", "/large.bin"))
            busy.head()
            server.terminate()
            wait_until(lambda: not accepts(server), "the first signal closes the listener")
            server.terminate()  # the second one means now
            server.wait()
    with serving(program, root, *options) as server:
        with stopped(server.process):
            server.terminate()
            server.process.send_signal(signal.SIGINT)  # at once, while the accepts end
        counts = server.wait()
        equal(counts["completed"] - counts["posted"], counts["started"], "nothing is left behind")


@contextlib.contextmanager
def stopped(process):
    """Signals that are sent meanwhile reach it together."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process) == "T", "it is stopped")
    yield
    process.send_signal(signal.SIGCONT)


def state_of(process):
    status = Path(f"/proc/{process.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0]


def accepts(server):
    try:
        with Client(server):
            return True
    except (ConnectionRefusedError, ConnectionResetError):
        return False


def lack_of_memory(program, root, options):
    """Connections end, and the server goes on: it answers when there is memory again."""
    with serving(program, root, *options) as server:
        equal(ask(server, "GET", "/").status, 200, "before")
        pid, unlimited = server.process.pid, resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_AS, (0, unlimited))
        with contextlib.ExitStack() as crowd:
            clients = []
            for _ in range(400):
                clients.append(crowd.enter_context(Client(server)))
                with contextlib.suppress(ConnectionError):
                    clients[-1].send(request("GET", "/"))
            ready = select.select([client.socket for client in clients], [], [], PATIENCE_S)[0]
            check(ready and server.process.poll() is None, "it runs without memory")
        resource.prlimit(pid, resource.RLIMIT_AS, (unlimited, unlimited))
        wait_until(lambda: ask_or_none(server, "GET", "/") == 200, "answers again")
        server.stop()


def too_many_threads(program, root, options):
    done = subprocess.run([program, "--root", str(root), "--listen", "127.0.0.1:0", *options,
                           "--threads", "200"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE_S, text=True, preexec_fn=lambda: resource.setrlimit(
                              resource.RLIMIT_AS, (400 << 20, 400 << 20)))
    equal(done.returncode, 1, f"exit status ({done.stderr})")
    check("terminate" not in done.stderr and done.stderr.startswith("httpd: "), done.stderr)


TESTS = [deadlines, limits, few_descriptors, clients_go_away, graceful_end, lack_of_memory,
         too_many_threads]
