#!/usr/bin/env python3
"""Checks the include rules of docs/ARCHITECTURE.md. Prints every offending line with its rule.

usage: check_layers.py [ROOT]

The map, from the bottom to the top; a group may include itself and the groups named with it:

    base -> nothing          os -> base          contracts (include/) -> nothing
    values, demux, core, engines, config -> contracts, os, base; engines/emulated -> demux as well
    sim -> contracts, os, base; engines/simulated -> sim as well
    reactor -> contracts, os, base, demux; core for its timers
    proactor -> config, core, engines, demux, contracts, os, base
    coro, capi -> contracts, os, base; io -> core as well
    tools -> contracts, os, config; tools/simulation -> sim, demux as well

Contracts name only each other and the standard library. Siblings do not know each other, except for
the two lists of siblings, engines/registry and demux/registry, and for config/registry, which makes
one of both.

Includes show what a file knows. What it calls, also behind a public header, is check_symbols.py's.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include(?:_next)?\s*(["<])([^">]+)[">]')
SOURCES = {".hpp", ".cpp", ".h", ".c"}

CONTRACTS = "contracts"
LOW = {"base", "os", CONTRACTS}
ENGINE_SHARED = "engines/common"

# Groups that a group may include, beside itself.
ALLOWED = {
    "base": set(),
    # Besides, os and base may use the contracts' plain types (see PLAIN).
    "os": {"base"},
    CONTRACTS: set(),
    # What the contracts' plain classes leave out of line.
    "values": LOW,
    # The simulated machine: behind the seam, and beside the real one.
    "sim": LOW,
    # The door to it for users' scenarios.
    "testing": LOW | {"sim"},
    "demux": LOW,
    "core": LOW,
    "config": LOW,
    # The registry names the engines by their factories, declared in engines/<name>/<name>.hpp.
    "engines": LOW,
    ENGINE_SHARED: LOW | {"engines"},
    # The second client of demux; it shares the core's timer queue.
    "reactor": LOW | {"demux", "core"},
    # Where the pieces meet.
    "proactor": LOW | {"demux", "core", "engines", ENGINE_SHARED, "config"},
    "io": LOW | {"core"},
    # Both prove that the public interface is enough; locks and assertions are below it.
    "coro": {CONTRACTS, "base", "os"},
    "capi": {CONTRACTS, "base", "os"},
}

# Folders beside the library, which use its public interface, and what they may know besides. The
# command is built with the library; its `sim` runs programs in the simulator.
OUTSIDE = {
    "examples": set(),
    "uaio": set(),
    "ace": set(),
    "native": set(),
    "bench": set(),
    "tools": {"os", "config"},
    "tools/simulation": {"os", "sim", "demux"},
    "tools/command_sim.cpp": {"sim"},
}

# Contracts that are plain data: values without behaviour that reaches into the library.
PLAIN = {
    "baton/buffer.hpp",
    "baton/deadline.hpp",
    "baton/endpoint.hpp",
    "baton/error.hpp",
    "baton/fwd.hpp",
    "baton/handle.hpp",
    "baton/interest.hpp",
    "baton/limits.hpp",
    "baton/log.hpp",
    "baton/misuse.hpp",
    "baton/reason_code.hpp",
    "baton/result.hpp",
    "baton/signal_mask.hpp",
    "baton/version.hpp",
}

# demux has no operations: its two clients, the Reactor and the emulated engine, are equals.
OPERATION_HEADERS = re.compile(
    r"^baton/(operation\w*|engine|proactor|processor|baton)\.hpp$|^baton\.h")

# A mechanism's system header stays in the mechanism's own source file: those whose path matches.
# The system calls themselves are made by src/os, whose .cpp files may use any of them.
MECHANISMS = {
    "sys/epoll.h": r"epoll|silent_files|sim/readiness",
    "sys/select.h": r"select|sim/readiness",
    # The ring takes poll masks; the merged wait over several engines is a poll() of its own.
    "poll.h": r"/poll|devpoll|event_ports|rt_signals|io_uring|core/merged_wait|sim/readiness",
    "sys/poll.h": r"/poll",
    "sys/eventfd.h": r"eventfd",
    "sys/signalfd.h": r"signal",
    "sys/timerfd.h": r"timer",
    "sys/event.h": r"kqueue",
    "sys/devpoll.h": r"devpoll",
    "port.h": r"event_ports",
    "aio.h": r"posix_aio",
    "sys/asynch.h": r"sun_aio",
    "libaio.h": r"linux_aio",
    "liburing.h": r"$^",  # the rings are our own: docs/decisions/0001-own-ring-layer.md
    "linux/io_uring.h": r"io_uring",
    "linux/aio_abi.h": r"linux_aio",
    "winsock2.h": r"iocp|windows",
    "windows.h": r"iocp|windows",
}
# The seam's own header declares poll() and select(), whose types cannot be declared beforehand.
SEAM_HEADERS = {"src/os/system.hpp": {"poll.h", "sys/select.h"}}

# C++20's headers, and the C ones in their C++ form.
STANDARD = set(
    """algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex
    concepts condition_variable coroutine deque exception execution filesystem format
    forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
    iterator latch limits list locale map memory memory_resource mutex new numbers numeric
    optional ostream queue random ranges ratio regex scoped_allocator semaphore set
    shared_mutex source_location span sstream stack stdexcept stop_token streambuf string
    string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo
    unordered_map unordered_set utility valarray variant vector version cassert cctype cfenv
    cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype""".split())
# <cerrno> is missing: a public header speaks in std::error_code. baton.h is C and may use these.
STANDARD_C = {"stddef.h", "stdint.h", "stdbool.h"}


def group_of(path):
    """The group that a path below src/ or include/ belongs to; None if it has no rules."""
    parts = path.split("/")
    if parts[0] == "include":
        return CONTRACTS
    if parts[0] != "src":
        return None
    if len(parts) == 2:
        return "src"
    if parts[1] == "engines" and len(parts) > 3:
        return "/".join(parts[1:3])
    return parts[1]


def is_registry(path):
    return pathlib.PurePosixPath(path).name.startswith("registry")


def allowed(group):
    if group in ALLOWED:
        return ALLOWED[group]
    if group == "engines/emulated":
        return LOW | {ENGINE_SHARED, "engines", "demux"}
    if group == "engines/simulated":
        return LOW | {ENGINE_SHARED, "engines", "sim"}
    if group.startswith("engines/"):
        return LOW | {ENGINE_SHARED, "engines"}
    return None


def check_system_header(path, group, name):
    if group == CONTRACTS:
        if path.endswith(".h"):
            if name not in STANDARD_C:
                return "baton.h includes only stddef.h, stdint.h and stdbool.h"
        elif name not in STANDARD:
            return "public headers include no system header, only the C++ standard library"
    if name in MECHANISMS and name not in SEAM_HEADERS.get(path, ()):
        own = group == "os" or re.search(MECHANISMS[name], path)
        if not own or not path.endswith((".cpp", ".c")):
            return "a mechanism's system header stays in the mechanism's own .cpp"
    return None


STRATEGIES = ("src/demux/wait/", "src/demux/interrupt/")


def check_strategy(path, target):
    """`target` is a wait or interrupt strategy: only a registry and its own .cpp include it."""
    if is_registry(path):
        return None
    here, there = pathlib.PurePosixPath(path), pathlib.PurePosixPath(target)
    if here.parent == there.parent and (here.stem == there.stem or there.stem == "common"):
        return None
    if path.startswith(STRATEGIES):
        return "wait and interrupt strategies do not know their siblings"
    return "only the registry knows the strategies by name"


def check_own_header(root, path, group, name, quoted):
    """`name` names one of our own files: its group must be below."""
    if name.startswith("baton/") or name in ("baton.h", "baton.hpp"):
        target, target_group = "include/" + name, CONTRACTS
    else:
        target = "src/" + name
        if not (root / target).exists():
            local = str(pathlib.PurePosixPath(path).parent / name)
            if (root / local).exists():
                return "includes are written from src/ or include/, not relative to the file"
            return "no such header in src/ or include/" if quoted else None
        target_group = group_of(target)

    if group == CONTRACTS and target_group != CONTRACTS:
        return "contracts include only each other and the standard library"
    if group in ("base", "os") and target_group == CONTRACTS:
        if name in PLAIN:
            return None
        return f"{group} may use the contracts' plain types, nothing more"
    if group == "demux" and target_group == CONTRACTS and OPERATION_HEADERS.match(name):
        return "demux does not know operations"
    if target.startswith(STRATEGIES):
        return check_strategy(path, target)
    if group == "engines" and is_registry(path) and target_group.startswith("engines/"):
        return None
    if group == "config" and is_registry(path) and target_group in ("engines", "demux"):
        return None
    if target_group == group:
        return None
    if group.startswith("engines/") and target_group not in allowed(group):
        if target_group.startswith("engines/"):
            return "engines do not know each other"
    reach = allowed(group)
    if reach is None:
        return f"the folder {group} is not on the map; give it a place in tools/check_layers.py"
    if target_group not in reach:
        return f"{group} does not include {target_group}: arrows point down"
    return None


def check_outside(root, path, name):
    """A file beside the library uses the public interface, and what OUTSIDE names."""
    places = path, "/".join(path.split("/")[:2]), path.split("/")[0]
    known = next(OUTSIDE[place] for place in places if place in OUTSIDE)
    folder = name.split("/")[0]
    is_inside = "/" in name and folder not in known and (root / "src" / name).exists()
    if is_inside or "src/" in name or (folder == ".." and places[-1] != "tools"):
        return "uses the public interface only"
    return None


def includes(text):
    """(line number, line, quoted or not, name) of every include outside block comments."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, line.strip(), match.group(1) == '"', match.group(2)


def check(root):
    """Returns the list of violations as printable lines."""
    root = pathlib.Path(root)
    found = []
    for top in ("include", "src", *(place for place in OUTSIDE if "/" not in place)):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            group = group_of(path)
            for number, line, quoted, name in includes(file.read_text(encoding="utf-8")):
                if group is None:
                    rule = check_outside(root, path, name)
                else:
                    rule = None
                    if not quoted and not name.startswith("baton"):
                        rule = check_system_header(path, group, name)
                    else:
                        rule = check_own_header(root, path, group, name, quoted)
                if rule:
                    found.append(f"{path}:{number}: {line}\n    rule: {rule}")
    return found


def main(argv):
    root = argv[1] if len(argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = check(root)
    for violation in found:
        print(violation)
    if found:
        print(f"{len(found)} violations of the layers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
