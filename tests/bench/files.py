"""The two files of a measurement: rows, and beside them the samples.

FILE.json is {"rows": [...]}. FILE.samples.jsonl has what was asked for in its first line,
and the raw outcome of one run in each of the others.
"""

import dataclasses
import json
import pathlib

from errors import BenchError
from plan import Options


def samples_path(json_path):
    return json_path.with_name(json_path.stem + ".samples.jsonl")


def read(path):
    try:
        return path.read_text()
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}.") from error


def write(path, text):
    try:
        path.write_text(text)
    except OSError as error:
        raise BenchError(f"{path} cannot be written: {error.strerror}.") from error


def parse(text, path):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BenchError(f"{path} is not JSON: {error}.") from error


def read_rows(path):
    content = parse(read(path), path)
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        raise BenchError(f"{path} has no rows.")
    if not all(isinstance(row, dict) and "name" in row for row in content["rows"]):
        raise BenchError(f"{path} has a row without a name.")
    return content["rows"]


def write_rows(path, rows):
    write(path, json.dumps({"rows": rows}, indent=1) + "\n")


def read_samples(path):
    """(options, {run: outcome})."""
    if not path.exists():
        raise BenchError(f"The samples are missing: there is no {path}.")
    lines = [parse(line, path) for line in read(path).splitlines()]
    try:
        first, *others = lines
        return Options(**first), {outcome["run"]: outcome for outcome in others}
    except (TypeError, KeyError, ValueError) as error:
        raise BenchError(f"{path} is not a samples file: {error}.") from error


def write_samples(path, options, outcomes):
    lines = [dataclasses.asdict(options), *outcomes]
    write(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def named_samples(json_path, row):
    """Where the row says that its samples are: beside the file."""
    if not isinstance(row.get("samples"), str):
        raise BenchError(f"{row['name']} names no samples.")
    return pathlib.Path(json_path).parent / row["samples"]
