#!/usr/bin/env python3
"""Plants violations of every rule in a small tree and expects check_layers.py to see each."""

import pathlib
import tempfile
import unittest

import check_layers


class Layers(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for header in ("base/assert", "os/mutex", "demux/demultiplexer", "demux/wait/epoll",
                       "demux/wait/poll", "demux/interrupt/pipe", "core/dispatcher",
                       "engines/common/pool", "engines/emulated/engine", "engines/io_uring/engine",
                       "io/stream", "config/xml", "sim/world", "proactor/parts"):
            self.put(f"src/{header}.hpp", "")
        self.addCleanup(self.folder.cleanup)

    def put(self, path, *lines):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))

    def include(self, path, *names):
        """The checker's findings about `path` if it includes `names`."""
        self.put(path, *(f"#include {n}" if n[0] == "<" else f'#include "{n}"' for n in names))
        found = check_layers.check(self.root)
        (self.root / path).unlink()
        return found

    def refused(self, path, name, rule):
        found = self.include(path, name)
        self.assertEqual(len(found), 1, f"{path} including {name}: {found}")
        self.assertIn(f"{path}:1: #include", found[0])
        self.assertIn(rule, found[0])

    def accepted(self, path, *names):
        self.assertEqual(self.include(path, *names), [])

    def test_downwards_is_right(self):
        self.accepted("src/os/clock.cpp", "base/assert.hpp", "<time.h>")
        self.accepted("src/core/timers.cpp", "os/mutex.hpp", "base/assert.hpp", "baton/engine.hpp")
        self.accepted("src/engines/emulated/files.cpp", "demux/demultiplexer.hpp",
                      "engines/common/pool.hpp", "engines/emulated/engine.hpp")
        self.accepted("src/proactor/proactor.cpp", "core/dispatcher.hpp", "demux/demultiplexer.hpp",
                      "config/xml.hpp")
        self.accepted("src/io/file.cpp", "baton/operation.hpp", "core/dispatcher.hpp")
        self.accepted("src/config/environment.cpp", "baton/config.hpp", "<pugixml.hpp>")

    def test_upwards_is_wrong(self):
        self.refused("src/base/list.cpp", "os/mutex.hpp", "arrows point down")
        self.refused("src/os/clock.cpp", "core/dispatcher.hpp", "arrows point down")
        self.refused("src/demux/table.cpp", "proactor/parts.hpp", "arrows point down")
        self.refused("src/proactor/proactor.cpp", "io/stream.hpp", "arrows point down")
        self.refused("src/config/xml.cpp", "core/dispatcher.hpp", "arrows point down")
        self.refused("src/capi/capi.cpp", "core/dispatcher.hpp", "arrows point down")

    def test_groups_beside_each_other(self):
        self.refused("src/core/processor.cpp", "engines/io_uring/engine.hpp", "arrows point down")
        self.refused("src/engines/io_uring/ring.cpp", "core/dispatcher.hpp", "arrows point down")
        self.refused("src/core/processor.cpp", "demux/demultiplexer.hpp", "arrows point down")
        self.refused("src/engines/io_uring/ring.cpp", "demux/demultiplexer.hpp",
                     "arrows point down")
        self.refused("src/engines/common/pool.cpp", "engines/emulated/engine.hpp",
                     "engines do not know each other")

    def test_engines_do_not_know_each_other(self):
        self.refused("src/engines/io_uring/ring.cpp", "engines/emulated/engine.hpp",
                     "engines do not know each other")
        self.accepted("src/engines/registry.cpp", "engines/io_uring/engine.hpp",
                      "engines/emulated/engine.hpp")

    def test_strategies_do_not_know_each_other(self):
        for name in ("demux/wait/poll.hpp", "demux/interrupt/pipe.hpp"):
            self.refused("src/demux/wait/epoll.cpp", name, "do not know their siblings")
        self.accepted("src/demux/wait/epoll.cpp", "demux/wait/epoll.hpp", "<sys/epoll.h>")
        self.accepted("src/demux/registry.cpp", "demux/wait/epoll.hpp", "demux/wait/poll.hpp")
        self.refused("src/demux/demultiplexer.cpp", "demux/wait/poll.hpp", "only the registry")
        self.refused("src/engines/emulated/engine.cpp", "demux/wait/poll.hpp", "only the registry")

    def test_demux_does_not_know_operations(self):
        for name in ("baton/operation.hpp", "baton/operation_queue.hpp", "baton/engine.hpp"):
            self.refused("src/demux/demultiplexer.cpp", name, "demux does not know operations")

    def test_contracts(self):
        self.refused("include/baton/engine.hpp", "os/mutex.hpp", "contracts include only")
        self.accepted("include/baton/engine.hpp", "baton/operation.hpp", "<span>", "<cstdint>")
        for name in ("<sys/socket.h>", "<unistd.h>", "<linux/io_uring.h>", "<errno.h>",
                     "<pthread.h>", "<cerrno>", "<pugixml.hpp>"):
            self.refused("include/baton/engine.hpp", name, "no system header")
        self.accepted("include/baton.h", "<stdint.h>", "<stddef.h>")
        self.refused("include/baton.h", "<sys/types.h>", "baton.h includes only")

    def test_os_uses_plain_types_only(self):
        self.accepted("src/os/parking.hpp", "baton/deadline.hpp")
        self.refused("src/os/parking.hpp", "baton/operation.hpp", "plain types")
        self.refused("src/base/list.hpp", "baton/engine.hpp", "plain types")

    def test_mechanism_headers(self):
        self.refused("src/demux/wait/poll.cpp", "<sys/epoll.h>", "own .cpp")
        self.refused("src/demux/wait/epoll.hpp", "<sys/epoll.h>", "own .cpp")
        self.refused("src/core/dispatcher.cpp", "<sys/eventfd.h>", "own .cpp")
        self.refused("src/engines/emulated/engine.cpp", "<linux/io_uring.h>", "own .cpp")
        self.refused("src/engines/io_uring/ring.cpp", "<liburing.h>", "own .cpp")
        self.refused("src/os/clock.hpp", "<poll.h>", "own .cpp")
        self.accepted("src/os/system.hpp", "<poll.h>", "<sys/select.h>")
        self.accepted("src/os/system.cpp", "<sys/epoll.h>", "<sys/eventfd.h>")
        self.accepted("src/engines/io_uring/ring.cpp", "<linux/io_uring.h>")

    def test_outsiders(self):
        self.refused("examples/01_echo.cpp", "core/dispatcher.hpp", "public interface only")
        self.refused("examples/01_echo.cpp", "../src/core/dispatcher.hpp", "public interface")
        self.accepted("examples/01_echo.cpp", "baton/baton.hpp", "<unistd.h>")

    def test_paths_and_places(self):
        self.refused("src/core/timers.cpp", "dispatcher.hpp", "not relative to the file")
        self.refused("src/core/timers.cpp", "core/nowhere.hpp", "no such header")
        self.refused("src/misc/timers.cpp", "base/assert.hpp", "not on the map")

    def test_comments_are_not_includes(self):
        self.put("src/base/list.hpp", "/*", '#include "core/dispatcher.hpp"', "*/",
                 '// #include "core/dispatcher.hpp"')
        self.assertEqual(check_layers.check(self.root), [])

    def test_the_command(self):
        self.assertEqual(check_layers.main(["check_layers.py", str(self.root)]), 0)
        self.put("src/base/list.cpp", '#include "os/mutex.hpp"')
        self.assertEqual(check_layers.main(["check_layers.py", str(self.root)]), 1)


if __name__ == "__main__":
    unittest.main()
