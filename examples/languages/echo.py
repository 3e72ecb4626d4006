#!/usr/bin/env python3
"""An echo server in Python, by ctypes on the C interface (baton.h, docs/guide/c.md).

    echo.py [PORT]        prints "listening PORT"; then try: nc 127.0.0.1 PORT
    echo.py --layouts     prints the structs as this program has them, like the program `layouts`

BATON_LIBRARY names the library; otherwise the system's libbaton.so.0 is taken.
"""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint16, \
    c_uint32, c_uint64, c_void_p

ENVIRONMENT = 1
STREAM_SOCKET, OWNED, TRY_AGAIN, NOT_ENOUGH_MEMORY = 1, 0, 11, 12
READ_STREAM, WRITE_STREAM, ACCEPT = 1, 2, 7
EXACTLY = 2
BATCH, BUFFER = 64, 8192


class baton_config(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("completion_size", c_uint32), ("slots", c_uint32),
                ("flags", c_uint32), ("text", c_char_p)]


class baton_endpoint(ctypes.Structure):
    _fields_ = [("address", c_uint64 * 14), ("length", c_uint32), ("reserved", c_uint32)]


class baton_operation(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kind", c_uint16), ("flags", c_uint16), ("handle", c_uint64),
                ("tag", c_uint64), ("data", c_void_p), ("length", c_size_t), ("offset", c_uint64),
                ("deadline_ns", c_int64), ("endpoint", POINTER(baton_endpoint)),
                ("delimiter", c_void_p), ("delimiter_size", c_uint32), ("notify", c_uint32)]


class baton_completion(ctypes.Structure):
    _fields_ = [("tag", c_uint64), ("result", c_int64), ("activation", c_uint64),
                ("error", c_int32), ("kind", c_uint16), ("reserved", c_uint16),
                ("data", c_void_p), ("handle", c_uint64)]


STRUCTS = (baton_config, baton_endpoint, baton_operation, baton_completion)


def print_layouts():
    for struct in STRUCTS:
        print(f"{struct.__name__} {ctypes.sizeof(struct)}")
        for name, _ in struct._fields_:
            field = getattr(struct, name)
            print(f"{struct.__name__}.{name} {field.offset} {field.size}")


def load():
    """The library, with the types of what is called."""
    try:
        library = ctypes.CDLL(os.environ.get("BATON_LIBRARY") or "libbaton.so.0")
    except OSError as error:
        why = str(error)[-200:]
        raise SystemExit(f"cannot load the library, BATON_LIBRARY or the system's: {why}") from None
    for name, answer, arguments in (
            ("baton_open", c_int, [POINTER(baton_config), POINTER(c_void_p), c_char_p, c_size_t]),
            ("baton_listen", c_int, [c_void_p, c_char_p, c_int, POINTER(c_uint64)]),
            ("baton_local_endpoint", c_int, [c_void_p, c_uint64, POINTER(baton_endpoint)]),
            ("baton_endpoint_print", c_size_t, [POINTER(baton_endpoint), c_char_p, c_size_t]),
            ("baton_adopt", c_int, [c_void_p, c_int, c_int, c_int, POINTER(c_uint64)]),
            ("baton_handle_close", c_int, [c_void_p, c_uint64]),
            ("baton_start", c_int, [c_void_p, POINTER(baton_operation), c_int, c_void_p,
                                    POINTER(c_int)]),
            ("baton_wait", c_int, [c_void_p, POINTER(baton_completion), c_int, c_int64]),
            ("baton_error_text", c_size_t, [c_int, c_char_p, c_size_t])):
        function = getattr(library, name)
        function.restype, function.argtypes = answer, arguments
    return library


class Session:
    """A connection. The library may write to the buffer until the read is complete."""

    def __init__(self, handle):
        self.handle, self.buffer = handle, ctypes.create_string_buffer(BUFFER)


class Echo:
    def __init__(self, port):
        self.library = load()
        self.proactor, self.listener = c_void_p(), c_uint64()
        why = ctypes.create_string_buffer(256)
        config = baton_config(ctypes.sizeof(baton_config), ctypes.sizeof(baton_completion), 16384,
                              ENVIRONMENT, None)
        if self.library.baton_open(byref(config), byref(self.proactor), why, len(why)) != 0:
            raise SystemExit(f"cannot open: {why.value.decode()}")
        where = f"127.0.0.1:{port}"
        self.check(f"listen on {where}",
                   self.library.baton_listen(self.proactor, where.encode(), 1024,
                                             byref(self.listener)))
        self.sessions = {}  # by tag: the library has an address, and Python must keep the memory
        self.next_tag = 1
        self.accepting = False

    def check(self, what, error):
        if error != 0:
            text = ctypes.create_string_buffer(256)
            self.library.baton_error_text(error, text, len(text))
            raise SystemExit(f"cannot {what}: {text.value.decode()}")

    def port(self):
        endpoint, text = baton_endpoint(), ctypes.create_string_buffer(64)
        self.check("tell the port",
                   self.library.baton_local_endpoint(self.proactor, self.listener, byref(endpoint)))
        self.library.baton_endpoint_print(byref(endpoint), text, len(text))
        return text.value.decode().rsplit(":", 1)[1]

    def start(self, kind, handle, tag, data=None, length=0, flags=0):
        """0 if it was taken; then its completion comes. Else why not."""
        one = baton_operation(size=ctypes.sizeof(baton_operation), kind=kind, flags=flags,
                              handle=handle, tag=tag, data=data, length=length)
        why_not = c_int()
        self.library.baton_start(self.proactor, byref(one), 1, None, byref(why_not))
        return why_not.value

    def accept(self):
        """Without a free slot it is tried again after the next completions."""
        error = self.start(ACCEPT, self.listener, 0)
        self.accepting = error == 0
        self.check("accept", 0 if error == TRY_AGAIN else error)

    def read(self, tag, session):
        if self.start(READ_STREAM, session.handle, tag, ctypes.addressof(session.buffer),
                      BUFFER) != 0:
            self.end(tag)

    def write(self, tag, session, length):
        if self.start(WRITE_STREAM, session.handle, tag, ctypes.addressof(session.buffer),
                      length, EXACTLY) != 0:
            self.end(tag)

    def begin(self, descriptor):
        handle = c_uint64()
        error = self.library.baton_adopt(self.proactor, descriptor, STREAM_SOCKET, OWNED,
                                         byref(handle))
        if error != 0:
            if error != NOT_ENOUGH_MEMORY:  # else it is closed already
                os.close(descriptor)
            return
        tag, self.next_tag = self.next_tag, self.next_tag + 1
        self.sessions[tag] = Session(handle.value)
        self.read(tag, self.sessions[tag])

    def end(self, tag):
        self.library.baton_handle_close(self.proactor, self.sessions.pop(tag).handle)

    def completed(self, done):
        if done.kind == ACCEPT:
            self.accepting = False
            self.check("accept", done.error)  # the listener or the engine is lost
            self.begin(done.result)
        elif done.error != 0 or (done.kind == READ_STREAM and done.result == 0):
            self.end(done.tag)
        elif done.kind == READ_STREAM:
            self.write(done.tag, self.sessions[done.tag], done.result)
        else:
            self.read(done.tag, self.sessions[done.tag])

    def run(self):
        done = (baton_completion * BATCH)()
        count = 0
        while count >= 0:
            for i in range(count):
                self.completed(done[i])
            if not self.accepting:
                self.accept()
            count = self.library.baton_wait(self.proactor, done, BATCH, -1)


def main():
    if len(sys.argv) > 2:
        print(f"'{sys.argv[2]}' is one argument too many", file=sys.stderr)
        sys.exit(2)
    layouts = sys.argv[1:] == ["--layouts"]
    echo = None if layouts else Echo(sys.argv[1] if len(sys.argv) > 1 else "7007")
    try:
        if layouts:
            print_layouts()
        else:
            print(f"listening {echo.port()}")
        sys.stdout.flush()
    except OSError as error:
        print(f"standard output: {error.strerror}", file=sys.stderr)
        os._exit(1)  # without another try to write it
    if not layouts:
        echo.run()


if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a wait in the library sees no KeyboardInterrupt
    main()
