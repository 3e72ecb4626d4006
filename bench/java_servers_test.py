"""Each echo server in Java, for a moment: all bytes are returned.

Run as a test, after the servers are built: java_servers_test.py BUILD_FOLDER
`scripts/java --bench` does both.
"""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import java_servers  # noqa: E402
import rows  # noqa: E402
import rows_test  # noqa: E402


class JavaServersTest(unittest.TestCase):
    def test_all_come_back(self):
        self.assertEqual(java_servers.missing(), "")
        row = rows.Row(10, 1, 512)
        for name, command in java_servers.commands(row).items():
            with self.subTest(name):
                if why := rows_test.missing_here(name):
                    self.skipTest(why)
                report = rows_test.exchange(command, rows.load_of(row))
                self.assertEqual(report["error_texts"], [])
                self.assertGreater(report["messages_total"], 0)


if __name__ == "__main__":
    rows_test.BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
