"""A server under test, and a client that says exactly the bytes it is told to."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time

PATIENCE_S = 20


def check(is_fine, what):
    if not is_fine:
        raise AssertionError(what)


def equal(found, expected, what):
    check(found == expected, f"{what}: {found!r} instead of {expected!r}")


def wait_until(condition, what):
    """Waits for something that the server does without telling a client."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < end, f"{what}: not after {PATIENCE_S} s")
        time.sleep(0.005)


class Server:

    def __init__(self, program, root, *options, environment=None, descriptors=None):
        # A server may have fewer descriptors than this program.
        few = ["prlimit", f"--nofile={descriptors}"] if descriptors else []
        self.process = subprocess.Popen(
            [*few, program, "--root", str(root), "--listen", "127.0.0.1:0", *options],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if words[:1] != ["listening"]:
            raise AssertionError(f"no 'listening PORT': {self.process.communicate()}")
        self.port = int(words[1])

    def url(self, target):
        return f"http://127.0.0.1:{self.port}{target}"

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """What it printed at its end, as a dictionary."""
        try:
            output, self.errors = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"no end after {PATIENCE_S} s: {self.process.communicate()}")
        equal(self.process.returncode, 0, f"exit status ({self.errors})")
        lines = [line.split() for line in output.splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}

    def stop(self):
        self.terminate()
        return self.wait()


@contextlib.contextmanager
def serving(program, root, *options, **how):
    server = Server(program, root, *options, **how)
    try:
        yield server
        if server.process.poll() is None:
            server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


class Answer:

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:60]!r}"


class Client:
    """One connection."""

    def __init__(self, server, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", server.port))
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def head(self):
        """Status and headers of the next answer; None at the end of the connection."""
        line = self.stream.readline()
        if not line:
            return None, {}
        check(line.startswith(b"HTTP/1.1 ") and line.endswith(b"\r\n"), f"status line {line!r}")
        return int(line.split()[1]), dict(http.client.parse_headers(self.stream).items())

    def answer(self, method="GET"):
        status, headers = self.head()
        if status is None:
            return None
        has_body = method != "HEAD" and status != 304
        size = int(headers["Content-Length"]) if has_body else 0
        body = self.stream.read(size)
        equal(len(body), size, "length of the body")
        return Answer(status, headers, body)

    def at_end(self):
        """The server closes, and says nothing more."""
        try:
            return self.stream.read(1) == b""
        except ConnectionResetError:
            return True


def ask(server, method, target, *lines, version="1.1", host="Host: h"):
    """One request on a connection of its own."""
    with Client(server) as client:
        client.send(request(method, target, *lines, version=version, host=host))
        return client.answer(method)


def request(method, target, *lines, version="1.1", host="Host: h"):
    every = [f"{method} {target} HTTP/{version}", *([host] if host else []), *lines]
    return "\r\n".join(every) + "\r\n\r\n"
