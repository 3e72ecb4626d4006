"""The warm-up of servers, with a server that tells the times of this test."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402


class Server:
    """One that compiles for so many of 100 units in each load, and for the last in later ones."""

    def __init__(self, *compiling):
        self.compiling = compiling
        self.loads = 0

    def cpu_ns(self):
        return 100 * self.loads

    def compiler_ns(self):
        last = self.compiling[-1]
        rest = max(0, self.loads - len(self.compiling))
        return sum(self.compiling[:self.loads]) + rest * last

    def load(self):
        self.loads += 1
        return 1000


def loads(server, seconds, messages):
    compare.warm_up(server, server.load, seconds, messages)
    return server.loads


class WarmUpTest(unittest.TestCase):
    def test_lasts_so_long_at_least(self):
        self.assertEqual(loads(Server(0), 7 * compare.WARM_UP_LOAD_S, 0), 7)

    def test_lasts_until_so_many_messages_are_answered(self):
        self.assertEqual(loads(Server(0), 1, 8500), 9)

    def test_lasts_until_compilers_rest(self):
        self.assertEqual(loads(Server(90, 50, 10, 0), 1, 1), 3 + compare.WARM_UP_RESTING)

    def test_compilers_that_begin_again_rest_later(self):
        self.assertEqual(loads(Server(90, 0, 0, 80, 1), 1, 1), 4 + compare.WARM_UP_RESTING)

    def test_may_leave_sessions_without_an_answer(self):
        server = Server(0)

        def load():
            server.load()
            if server.loads == 1:
                raise compare.TooSlow("3 sessions got nothing")
            return 1000

        compare.warm_up(server, load, 1, 4000)
        self.assertEqual(server.loads, 5)

    def test_has_an_end(self):
        self.assertEqual(loads(Server(50), 1, 1), compare.WARM_UP_LOADS_MAX)


if __name__ == "__main__":
    unittest.main()
