"""The echo servers in Java: which there are, and their commands.

`scripts/java --bench` builds them.
"""

import os

from compare import REPOSITORY

FOLDER = REPOSITORY / "bench" / "java" / "target"
# One collector and one size of the heap for all of them.
JVM = ["-Xmx512m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"]
PROVIDER = "-Djava.nio.channels.spi.AsynchronousChannelProvider=io.baton.nio2.BatonProvider"

# The JDK's own NIO.2.
JDK = "Java NIO.2"
# Name -> class, its options, options of the JVM, words of the variable BATON.
SERVERS = {
    "Java selector loop": ("SelectorEcho", [], [], ""),
    JDK: ("Nio2Echo", [], [], ""),
    "Java virtual threads": ("VirtualEcho", [], [], ""),
    "Netty NIO": ("NettyEcho", ["--transport", "nio"], [], ""),
    "Netty epoll": ("NettyEcho", ["--transport", "epoll"], [], ""),
    "Netty io_uring": ("NettyEcho", ["--transport", "io_uring"], [], ""),
    "Java baton nio": ("BatonEcho", [], [], "engine=nio"),
    "Java baton native io_uring": ("BatonEcho", [], [], "engine=native,native.engine=io_uring"),
    "Java baton native epoll": ("BatonEcho", [], [],
                                "engine=native,native.engine=emulated,native.wait=epoll"),
    "Java baton nio2 on nio": ("Nio2Echo", [], [PROVIDER], "engine=nio"),
    "Java baton nio2 on native": ("Nio2Echo", [], [PROVIDER], "engine=native"),
}


def missing():
    """Why there are none; empty: they are there."""
    if not (FOLDER / "paths").exists():
        return "the servers in Java are not built: scripts/java --bench"
    return ""


def commands(row):
    """Name -> command, of the servers that are built, for a row of streams (bench/rows.py)."""
    if missing():
        return {}
    found = {}
    for name, (program, options, jvm, words) in SERVERS.items():
        parallelism = f"-Djdk.virtualThreadScheduler.parallelism={row.threads}"
        found[name] = [*java_for([*jvm, parallelism], words), f"io.baton.bench.{program}", *options,
                       "--port", "0", "--threads", str(row.threads), "--block", str(row.block)]
    return found


def streams():
    """Name -> command of a program that measures NIO.2 alone."""
    return {name: [*java_for(jvm, words), "io.baton.bench.Nio2Streams", "--threads", "3",
                   "--block", "128"]
            for name, (program, _, jvm, words) in SERVERS.items() if program == "Nio2Echo"}


def java_for(jvm, words):
    """The Java machine with all classes, and Baton's words."""
    java, library = (FOLDER / "paths").read_text().split()
    modules = [REPOSITORY / "java" / f"baton-{name}" / "target" / "classes"
               for name in ("core", "native", "nio2")]
    path = os.pathsep.join(map(str, [FOLDER / "classes", FOLDER / "libraries" / "*", *modules]))
    return ["env", f"BATON={words}", java, *JVM, *jvm, f"-Dbaton.library={library}", "-cp", path]
