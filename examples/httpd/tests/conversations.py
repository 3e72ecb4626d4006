"""Requests and answers: what is asked, byte by byte, and what has to come of it."""

import os
import subprocess

from support import Client, ask, check, equal, request, serving, wait_until


def files_and_folders(program, root, options):
    with serving(program, root, *options) as server:
        answer = ask(server, "GET", "/small.html")
        equal((answer.status, answer.body), (200, bytes(range(256)) * 4), "a file")
        equal(answer.headers["Content-Type"], "text/html; charset=utf-8", "its type")
        check(answer.headers["Date"].endswith(" GMT"), "the date")
        equal(ask(server, "GET", "/").body, b"root index\n", "the index page of the root")
        equal(ask(server, "GET", "/sub/").body, b"sub index\n", "an index page")
        equal(ask(server, "GET", "//sub/./index.html?q=1").body, b"sub index\n", "a query")
        equal(ask(server, "GET", "http://h/sub/").body, b"sub index\n", "an absolute target")
        equal(ask(server, "GET", "/with%20blank%20&%20%3Ctag%3E.txt").body, b"odd name\n",
              "an escaped name")
        answer = ask(server, "GET", "/sub?a=b")
        equal((answer.status, answer.headers["Location"]), (301, "/sub/?a=b"), "a folder")
        answer = ask(server, "GET", "//sub")
        equal((answer.status, answer.headers["Location"]), (301, "/sub/"), "no other host")
        answer = ask(server, "GET", "/empty.txt")
        equal((answer.status, answer.body), (200, b""), "an empty file")
        equal(ask(server, "GET", "/list/").status, 404, "a folder without an index page")
        equal(ask(server, "GET", "/small.html/").status, 404, "a file that is no folder")
        equal(ask(server, "GET", "/.git/config").status, 404, "a hidden name")


def head_and_methods(program, root, options):
    with serving(program, root, *options) as server:
        answer = ask(server, "HEAD", "/small.html")
        equal((answer.status, answer.headers["Content-Length"]), (200, "1024"), "HEAD")
        equal(ask(server, "HEAD", "/nothing").status, 404, "HEAD of nothing")
        for method in ("POST", "DELETE", "OPTIONS", "BREW"):
            answer = ask(server, method, "/small.html")
            equal((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"), method)


def ranges_and_conditions(program, root, options):
    whole = (root / "small.html").read_bytes()
    with serving(program, root, *options) as server:

        def get(*lines):
            return ask(server, "GET", "/small.html", *lines)

        answer = get("Range: bytes=10-19")
        equal((answer.status, answer.body), (206, whole[10:20]), "a range")
        equal(answer.headers["Content-Range"], "bytes 10-19/1024", "Content-Range")
        equal(get("Range: bytes=-4").body, whole[-4:], "the last bytes")
        equal(get("Range: bytes=1020-9999").body, whole[1020:], "a range beyond the end")
        answer = get("Range: bytes=1024-")
        equal((answer.status, answer.headers["Content-Range"]), (416, "bytes */1024"), "416")
        equal(get("Range: bytes=0-1,5-6").status, 200, "several ranges")
        equal(get("Range: lines=1-2").status, 200, "another unit")
        equal(ask(server, "HEAD", "/small.html", "Range: bytes=0-1").status, 200, "HEAD, range")

        tag, date = answer.headers.get("ETag"), None
        answer = get()
        tag, date = answer.headers["ETag"], answer.headers["Last-Modified"]
        equal(get(f"If-None-Match: {tag}").status, 304, "the same tag")
        equal(get(f'If-None-Match: "x", W/{tag}').status, 304, "a weak one in a list")
        equal(get('If-None-Match: "x"', f"If-Modified-Since: {date}").status, 200, "precedence")
        equal(get(f"If-Modified-Since: {date}").status, 304, "the same date")
        equal(get("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT").status, 200, "an old date")
        equal(get("If-Modified-Since: yesterday").status, 200, "no date")
        equal(get('If-Match: "x"').status, 412, "another tag is required")
        equal(get("Range: bytes=0-1", f"If-Range: {tag}").status, 206, "If-Range, the same")
        equal(get("Range: bytes=0-1", 'If-Range: "x"').status, 200, "If-Range, another")


def no_way_out(program, root, options):
    """Traversal by every means, and things that are no files."""
    targets = ["/../secret.txt", "/sub/../../secret.txt", "/%2e%2e/secret.txt", "/%2E./secret.txt",
               "/..%2fsecret.txt", "/sub/%2e%2e/%2e%2e/secret.txt", "/%00/secret.txt",
               "/small.html%00.txt", "/..%5csecret.txt", "/link_out", "/link_absolute",
               "/link_folder/secret.txt", "/link_folder/../secret.txt", "//../secret.txt",
               "/%252e%252e/secret.txt", "/fifo", "/proc/self/environ", "/dev/zero", "/%zz", "/%2",
               "secret.txt", "*", "http://h/../secret.txt", "/small.html#x", "/unreadable.txt"]
    with serving(program, root, *options) as server:
        for target in targets:
            answer = ask(server, "GET", target)
            check(answer.status in (400, 403, 404) and b"secret\n" not in answer.body,
                  f"{target}: {answer}")
        with Client(server) as client:
            client.send(b"GET /\0/../secret.txt HTTP/1.1\r\nHost: h\r\n\r\n")
            equal(client.answer().status, 400, "a zero byte")
        equal(ask(server, "GET", "/link_in").body, b"sub index\n", "a link that stays inside")


def listing(program, root, options):
    with serving(program, root, "--listing", *options) as server:
        answer = ask(server, "GET", "/list/")
        equal(answer.status, 200, "a list")
        check(b"a&lt;b&gt;&amp;&quot;c&quot;.txt</a>" in answer.body, answer.body)
        check(b'href="./a%3Cb%3E%26%22c%22.txt"' in answer.body, answer.body)
        equal(ask(server, "GET", "/sub/").body, b"sub index\n", "an index page comes first")
        check(b".git" not in ask(server, "GET", "/sub/deep/").body, "hidden names")
        equal(ask(server, "GET", "/nothing/").status, 404, "a list of nothing")


def connections_are_kept(program, root, options):
    with serving(program, root, *options) as server:
        with Client(server) as client:
            for _ in range(3):
                client.send(request("GET", "/small.html"))
                equal(client.answer().status, 200, "one after the other")
            # Five at once; the answers come in the same order.
            targets = ["/small.html", "/sub/", "/nothing", "/", "/empty.txt"]
            client.send("\r\n" + "".join(request("GET", target) for target in targets))
            equal([client.answer().status for _ in targets], [200, 200, 404, 200, 200], "pipeline")
            # A body that is not used does not become the next request.
            body = "GET /nothing HTTP/1.1\r\n\r\n"
            client.send(request("GET", "/sub/", f"Content-Length: {len(body)}") + body)
            equal(client.answer().body, b"sub index\n", "a request with a body")
            client.send(request("GET", "/sub/", f"Content-Length: {len(body)}") + body +
                        request("GET", "/small.html"))
            equal(client.answer().body, b"sub index\n", "a body and the next request at once")
            equal(client.answer().body, bytes(range(256)) * 4, "the request behind a body")
            client.send(request("GET", "/", "Connection: close"))
            answer = client.answer()
            equal((answer.body, answer.headers["Connection"]), (b"root index\n", "close"), "close")
            check(client.at_end(), "closed as asked")
        with Client(server) as client:  # it may send its body or not
            client.send(request("GET", "/", "Content-Length: 1", "Expect: 100-continue"))
            answer = client.answer()
            equal((answer.status, answer.headers.get("Connection")), (200, "close"),
                  "a body that may come")
            check(client.at_end(), "closed before a body that may come")
        with Client(server) as client:
            client.send(request("GET", "/", version="1.0", host=None))
            equal(client.answer().headers["Connection"], "close", "HTTP/1.0")
            check(client.at_end(), "HTTP/1.0 ends")
        with Client(server) as client:
            for _ in range(2):
                client.send(request("GET", "/", "Connection: keep-alive", version="1.0"))
                equal(client.answer().headers["Connection"], "keep-alive", "HTTP/1.0, kept")


def changed_in_place(program, root, options):
    """A file that is written to while it is open is answered as it is, within the time of trust."""
    file = root / "changing.txt"
    with serving(program, root, "--cache-seconds", "86400", *options) as server:
        tags = set()
        for content in (b"first\n", b"second, longer\n", b"3\n"):
            with open(file, "r+b" if file.exists() else "wb") as out:
                out.truncate(0)
                out.write(content)
            os.utime(file, (1_000_000_000 + len(tags), 1_000_000_000 + len(tags)))
            answer = ask(server, "GET", "/changing.txt")
            equal((answer.status, answer.body), (200, content), "the file as it is now")
            tags.add(answer.headers["ETag"])
        equal(len(tags), 3, "each with a tag of its own")
        os.utime(file, (15_000_000_000, 15_000_000_000))
        if file.stat().st_mtime == 15_000_000_000:
            equal(ask(server, "GET", "/changing.txt").headers["Last-Modified"],
                  "Mon, 01 May 2445 02:40:00 GMT", "a date far ahead")


def unix_name_is_taken_away(program, root, options):
    """So that the next start finds it free."""
    name = root.parent / "socket"
    for _ in range(2):
        server = subprocess.Popen([program, "--root", str(root), "--listen", f"unix:{name}",
                                   *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(server.stdout.readline().startswith(b"listening"), "it listens")
        check(name.exists(), "the name is there")
        server.terminate()
        _, errors = server.communicate(timeout=60)
        equal((server.returncode, name.exists()), (0, False), errors)


def malformed():
    """Requests that RFC 9112 calls malformed, each of which has to be answered by 400."""
    good = "Host: h\r\n"
    # Start lines.
    for line in ("GET  / HTTP/1.1", "GET /  HTTP/1.1", " GET / HTTP/1.1", "GET\t/ HTTP/1.1",
                 "GET / HTTP/1.1 ", "GET /", "GET", "/ HTTP/1.1", "GET / HTTP", "GET / HTTP/",
                 "GET / HTTP/1", "GET / HTTP/1.", "GET / HTTP/.1", "GET / HTTP/a.b",
                 "GET / http/1.1", "GET / HTTP/1.1.1", "GET / HTTP 1.1", "GET / XTTP/1.1",
                 "G(T / HTTP/1.1", "G[T / HTTP/1.1", 'G"T / HTTP/1.1', "G,T / HTTP/1.1",
                 "G@T / HTTP/1.1", "G:T / HTTP/1.1", "G/T / HTTP/1.1", "G{T / HTTP/1.1"):
        yield f"{line}\r\n{good}\r\n"
    for byte in (*range(0, 9), 11, 12, *range(14, 32), 127):
        yield f"GET /a{chr(byte)}b HTTP/1.1\r\n{good}\r\n"
    # Names of fields.
    for name in ("", " X", "X ", "X\t", "X Y", *(f"X{c}" for c in '()<>@,;\\"/[]?={}')):
        yield f"GET / HTTP/1.1\r\n{good}{name}: v\r\n\r\n"
    for byte in (*range(0, 9), 11, 12, *range(14, 32), 127):
        yield f"GET / HTTP/1.1\r\n{good}X{chr(byte)}: v\r\n\r\n"
    yield f"GET / HTTP/1.1\r\n{good}no colon\r\n\r\n"
    # Folded lines.
    for field in ("X", "Content-Length", "Range", "Host", "Connection", "If-Match"):
        for fold in ("\r\n 1", "\r\n\t1", " \r\n 1", "1\r\n 1"):
            yield f"GET / HTTP/1.1\r\n{good}{field}:{fold}\r\n\r\n"
    # Hosts: none, two, and some that are none.
    yield "GET / HTTP/1.1\r\n\r\n"
    yield f"GET / HTTP/1.1\r\n{good}{good}\r\n"
    for host in ("a b", "a/b", "a@b", "a b/c@d", "h:x", "h:1:2", "[::1", "[]", "::1", "%4", "%zz",
                 "a?b", "a#b", "<a>", "a|b", "a^b", "a`b", "{a}", "a\\b"):
        yield f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"
    # Lengths and codings.
    for length in ("x", "-1", "+1", "1 2", "0x1", "1.5", "99999999999999999999"):
        yield f"GET / HTTP/1.1\r\n{good}Content-Length: {length}\r\n\r\n"
    yield f"GET / HTTP/1.1\r\n{good}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"
    yield f"GET / HTTP/1.1\r\n{good}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    for twice in ("Range: bytes=0-1", 'If-Match: "a"', 'If-None-Match: "a"', 'If-Range: "a"'):
        yield f"GET / HTTP/1.1\r\n{good}{twice}\r\n{twice}\r\n\r\n"
    # Line ends.
    yield "GET / HTTP/1.1\nHost: h\n\n"
    yield "GET / HTTP/1.1\r\nHost: h\n\r\n\r\n"
    yield "GET / HTTP/1.1\rHost: h\r\r\n\r\n"


def malformed_requests(program, root, options):
    cases = list(malformed())
    check(len(cases) >= 150, f"{len(cases)} cases")
    with serving(program, root, *options) as server:
        for text in cases:
            with Client(server) as client:
                client.send(text.encode("latin-1"))
                equal(client.answer().status, 400, text)
                check(client.at_end(), f"{text!r}: closed")


def bad_requests(program, root, options):
    cases = {
        "GET / HTTP/1.1\r\n\r\n": 400,  # no Host
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": 400,
        "GET / HTTP/1.1\nHost: a\n\n": 400,
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n": 400,
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n": 400,
        "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n": 400,
        "GET /\r\n\r\n": 400,
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n": 505,
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n": 400,
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": 400,
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 411,
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n": 413,
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n": 417,
        "GET /" + "a" * 20_000: 414,
        "GET / HTTP/1.1\r\nHost: a\r\nX: " + "a" * 20_000: 431,
        "GET / HTTP/1.1\r\nHost: a\r\n" + "X: y\r\n" * 5_000: 431,
        "\x16\x03\x01\x02\x00\x01": 400,  # TLS
    }
    with serving(program, root, *options) as server:
        for text, status in cases.items():
            with Client(server) as client:
                client.send(text)
                answer = client.answer()
                equal(answer.status, status, text[:60])
                equal(answer.headers["Connection"], "close", f"{text[:60]}: the connection")
                check(client.at_end(), f"{text[:60]}: the end")
        equal(ask(server, "GET", "/").status, 200, "afterwards")
        # In the smallest pieces.
        with Client(server) as client:
            for byte in request("GET", "/sub/").encode():
                client.send(bytes([byte]))
            equal(client.answer().body, b"sub index\n", "byte by byte")


def open_files(server, root):
    """How many files of the root the server has open."""
    count = 0
    for number in os.listdir(f"/proc/{server.process.pid}/fd"):
        try:
            name = os.readlink(f"/proc/{server.process.pid}/fd/{number}")
        except FileNotFoundError:  # closed meanwhile
            continue
        count += name.startswith(f"{root.resolve()}/")
    return count


def files_change(program, root, options):
    with serving(program, root, "--cache-seconds", "0", *options) as server:
        place = root / "changing.txt"
        place.write_bytes(b"old")
        equal(ask(server, "GET", "/changing.txt").body, b"old", "before")
        fresh = root / "fresh.txt"
        fresh.write_bytes(b"replaced")
        os.replace(fresh, place)
        equal(ask(server, "GET", "/changing.txt").body, b"replaced", "after")
        fresh.write_bytes(b"the same")  # length, and the same date
        date = place.stat().st_mtime_ns
        os.utime(fresh, ns=(date, date))
        os.replace(fresh, place)
        equal(ask(server, "GET", "/changing.txt").body, b"the same", "another file like it")
        place.unlink()
        equal(ask(server, "GET", "/changing.txt").status, 404, "removed")
    with serving(program, root, "--cache-seconds", "1000", *options) as server:
        place.write_bytes(b"long enough")
        with Client(server) as client:  # one thread, and the files that it keeps open
            client.send(request("GET", "/changing.txt"))
            equal(client.answer().body, b"long enough", "before")
            os.truncate(place, 4)
            client.send(request("GET", "/changing.txt"))
            answer = client.answer()
            equal((answer.status, answer.body), (200, b"long"), "as it is now")
        equal(ask(server, "GET", "/changing.txt").body, b"long", "noticed")
        place.unlink()
    with serving(program, root, "--cache-files", "2", *options) as server:
        with Client(server) as client:  # one thread, and the files that it keeps open
            for target in ["/", "/sub/", "/small.html", "/empty.txt"] * 3:
                client.send(request("GET", target))
                equal(client.answer().status, 200, "more files than are kept open")
            wait_until(lambda: open_files(server, root) <= 2, "files that are kept open")


TESTS = [files_and_folders, head_and_methods, ranges_and_conditions, no_way_out, listing,
         connections_are_kept, bad_requests, malformed_requests, files_change, changed_in_place,
         unix_name_is_taken_away]
