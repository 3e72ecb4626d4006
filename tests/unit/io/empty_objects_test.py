#!/usr/bin/env python3
"""empty_objects_test.py INCLUDE TEST: every public member function is tried on an empty object.

Reads the classes below from the headers in INCLUDE and looks for a call of each of their public
member functions in TEST.
"""

import re
import sys
from pathlib import Path

CLASSES = {
    "acceptor.hpp": ["Acceptor"],
    "buffer_pool.hpp": ["PooledBuffer"],
    "connector.hpp": ["Connector"],
    "coro/cancellation.hpp": ["CancellationToken", "CancellationSource"],
    "datagram_socket.hpp": ["DatagramSocket"],
    "file.hpp": ["File"],
    "io_object.hpp": ["IoObject"],
    "message_block.hpp": ["MessageBlock"],
    "pipe.hpp": ["Pipe"],
    "signal_set.hpp": ["SignalSet"],
    "socket_options.hpp": ["SocketOptions"],
    "stream.hpp": ["Stream"],
    "stream_socket.hpp": ["StreamSocket"],
}
# Creates an object, so it is no member of an empty one.
FACTORIES = {"adopt", "bind", "block", "create", "listen", "listen_each_lane", "open", "pair"}
HEAD = re.compile(r"^class (?:BATON_EXPORT )?(\w+)(?: final)?(?: : .*)? \{$")
MEMBER = re.compile(r"^  (?! )(?:\[\[nodiscard[^\]]*\]\] )?(?:static |constexpr |explicit )*"
                    r"[\w:<>,&* ]*?[\w>&*] [&*]?(\w+)\(")
KEYWORDS = {"if", "return", "requires", "static_assert", "noexcept", "decltype", "operator"}


def members(header, wanted):
    """The public member functions of these classes."""
    found, name, public = set(), None, False
    for line in header.splitlines():
        head = HEAD.match(line)
        if head:
            name, public = head[1], False
        elif line.startswith("};"):
            name = None
        elif line.strip() in ("public:", "private:", "protected:"):
            public = line.strip() == "public:"
        elif name in wanted and public:
            member = MEMBER.match(line)
            if member and member[1] not in KEYWORDS | FACTORIES | {name}:
                found.add(member[1])
    return found


def main():
    include, test = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8")
    missing, seen = [], 0
    for header, wanted in CLASSES.items():
        names = members((include / "baton" / header).read_text(encoding="utf-8"), wanted)
        seen += len(names)
        for name in sorted(names):
            call = r"(?:\.|->|::)(?:template )?" + name + r"(?:<[^;()]*>)?\("
            if not re.search(call, test):
                missing.append(f"{header}: {name}")
    if seen < 60:
        sys.exit(f"only {seen} member functions found: the headers look different now")
    if missing:
        sys.exit("not tried on an empty object:\n" + "\n".join(missing))
    print(f"{seen} member functions are tried")


if __name__ == "__main__":
    main()
