"""Rounds of bench/java.py, with answers of this test in place of measurements."""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
import java  # noqa: E402
import rows  # noqa: E402

OPTIONS = SimpleNamespace(build=Path("build"), rounds=3, free=False, seconds=0.5, warm_up=2.0,
                          warm_up_messages=1, only="")
CLOCK = SimpleNamespace(step=lambda _: None)
RIVAL = "Java NIO.2"


class RoundsTest(unittest.TestCase):
    def measured(self, *slow):
        """Result of a row in which the rival is too slow in these of its loads."""
        loads = []

        def measure_server(_build, side, _pinned, seconds, *_warm_up):
            if side[0] == RIVAL:
                loads.append(seconds)
                if len(loads) in slow:
                    raise compare.TooSlow("3 sessions got nothing")
            return {"rate": 2.0, "cpu_us": 1.0, "generator_busy": 0.5}

        with mock.patch.object(compare, "measure_server", measure_server), \
                mock.patch.object(java, "servers", lambda *_: {java.BASE: [], RIVAL: []}):
            return java.measure_row(OPTIONS, rows.Row(1000, 1, 512), CLOCK), loads

    def test_server_that_is_too_slow_once_stays_in_the_row(self):
        result, loads = self.measured(2)
        self.assertEqual((len(result["rounds"][RIVAL]), result["troubles"]), (3, {}))
        self.assertGreater(loads[2], 2 * loads[1])

    def test_server_that_is_too_slow_twice_is_told(self):
        result, loads = self.measured(2, 3)
        self.assertNotIn(RIVAL, result["rounds"])
        self.assertEqual(result["troubles"], {RIVAL: "3 sessions got nothing"})
        self.assertEqual(len(loads), 3)


if __name__ == "__main__":
    unittest.main()
