#!/usr/bin/env python3
"""A client of POSIX AIO in Python, by ctypes: writes a file by a list, reads it back, and is
notified by a callback. Knows nothing of the library behind the names."""

import ctypes
import os
import sys
import tempfile
import threading

LIO_WAIT, LIO_READ, LIO_WRITE = 0, 0, 1
SIGEV_NONE, SIGEV_THREAD = 1, 2
PIECE, COUNT = 1000, 50


class Sigevent(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int),
                ("function", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("pad", ctypes.c_char * 32)]


class Aiocb(ctypes.Structure):
    _fields_ = [("fildes", ctypes.c_int), ("opcode", ctypes.c_int), ("priority", ctypes.c_int),
                ("buffer", ctypes.c_void_p), ("size", ctypes.c_size_t), ("event", Sigevent),
                ("private", ctypes.c_char * 32), ("offset", ctypes.c_int64),
                ("reserved", ctypes.c_char * 32)]


libc = ctypes.CDLL(None, use_errno=True)
libc.aio_return.restype = ctypes.c_ssize_t


def request(file, buffer, offset, opcode):
    block = Aiocb(fildes=file, opcode=opcode, size=len(buffer), offset=offset)
    block.buffer = ctypes.cast(buffer, ctypes.c_void_p)
    block.event.notify = SIGEV_NONE
    return block


def run_list(blocks):
    pointers = (ctypes.POINTER(Aiocb) * len(blocks))(*[ctypes.pointer(each) for each in blocks])
    if libc.lio_listio(LIO_WAIT, pointers, len(blocks), None) != 0:
        sys.exit(f"lio_listio: {os.strerror(ctypes.get_errno())}")
    for each in blocks:
        if libc.aio_return(ctypes.byref(each)) != PIECE:
            sys.exit("a request is short")


def main():
    assert ctypes.sizeof(Aiocb) == 168, ctypes.sizeof(Aiocb)
    with tempfile.TemporaryFile() as file:
        texts = [ctypes.create_string_buffer(bytes([65 + i % 26]) * PIECE, PIECE)
                 for i in range(COUNT)]
        run_list([request(file.fileno(), text, PIECE * i, LIO_WRITE)
                  for i, text in enumerate(texts)])
        buffers = [ctypes.create_string_buffer(PIECE) for _ in range(COUNT)]
        run_list([request(file.fileno(), buffer, PIECE * i, LIO_READ)
                  for i, buffer in enumerate(buffers)])
        if any(a.raw != b.raw for a, b in zip(texts, buffers)):
            sys.exit("read other bytes than were written")
        called = threading.Event()
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda value: called.set())
        block = request(file.fileno(), buffers[0], 0, LIO_READ)
        block.event.notify = SIGEV_THREAD
        block.event.function = ctypes.cast(callback, ctypes.c_void_p)
        if libc.aio_read(ctypes.byref(block)) != 0:
            sys.exit("aio_read")
        called.wait()
        if libc.aio_error(ctypes.byref(block)) != 0:
            sys.exit("the request that called back is not complete")
        if libc.aio_return(ctypes.byref(block)) != PIECE:
            sys.exit("the request that called back is not complete")
    print("ok")


main()
