"""The form of the files in bench/results: JSON with one result a line."""

import json


def rounded(value):
    """Numbers with six significant digits: a measurement has no more."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return value


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def text_of(data):
    """One line for each fact about the run and for each result."""
    fields = []
    for key, value in rounded(data).items():
        if isinstance(value, list):
            value = "[" + ",".join(f"\n{compact(entry)}" for entry in value) + "]"
        else:
            value = compact(value)
        fields.append(f"{compact(key)}:{value}")
    return "{" + ",\n".join(fields) + "}\n"


def write(path, data):
    path.write_text(text_of(data))
