"""The end of each program here: a table or help text that cannot be written is a failure."""

import errno
import os
import sys
from pathlib import Path


class Output:
    """Standard output that remembers an error: argparse drops it, and a buffer has it late."""

    def __init__(self, stream):
        self.stream = stream
        self.error = None

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        return self.attempt(self.stream.write, text)

    def flush(self):
        return self.attempt(self.stream.flush)

    def attempt(self, call, *arguments):
        try:
            return call(*arguments)
        except OSError as why:
            self.error = self.error or why
            raise


def cannot_write(why):
    print(f"{Path(sys.argv[0]).name}: standard output cannot be written: {why}", file=sys.stderr)
    return 1


def status_of(main):
    """What `main` answers; 1, with a note, if some of its output could not be written."""
    if sys.stdout is None:  # closed; the next file that is opened would be taken for it
        return cannot_write(os.strerror(errno.EBADF))
    output = sys.stdout = Output(sys.stdout)
    try:
        try:
            status = main()
        except SystemExit as end:  # --help, or a wrong command line
            status = end.code
        output.flush()
    except OSError:
        if output.error is None:
            raise
    if output.error is None:
        return status
    # Python writes out the rest of the buffer when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return cannot_write(output.error.strerror)
