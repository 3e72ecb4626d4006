#!/usr/bin/env python3
"""The kept results are in the compact form, one result a line."""

import json
import unittest
from pathlib import Path

import result_file

RESULTS = Path(__file__).resolve().parent / "results"


class ResultFile(unittest.TestCase):
    def test_one_line_for_each_fact_and_each_result(self):
        text = result_file.text_of({"cores": 2, "results": [{"a": [0.1234567, 3]}, {"a": None}]})
        self.assertEqual(text, '{"cores":2,\n"results":[\n{"a":[0.123457,3]},\n{"a":null}]}\n')

    def test_kept_files_are_what_would_be_written(self):
        files = sorted(RESULTS.glob("*.json"))
        self.assertTrue(files)
        for file in files:
            text = file.read_text()
            self.assertEqual(result_file.text_of(json.loads(text)), text, file.name)


if __name__ == "__main__":
    unittest.main()
