#!/usr/bin/python3
"""Stand-in for Bazel's coverage report tool: one LCOV file out of gcov's data.

Bazel calls it twice: per test with --coverage_dir (a tree of .gcda files), and
once at the end with --reports_file (a list of LCOV files to merge). Line
counts only; files are added up by name.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess


def add_gcda(counts, gcda):
    """Adds the line counts of one .gcda file, read through gcov's JSON."""
    output = subprocess.run(
        [os.environ.get("COVERAGE_GCOV_PATH") or "gcov", "--json-format", "--stdout",
         "--object-directory", str(gcda.parent), str(gcda)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    for document in output.splitlines():
        if not document.startswith("{"):
            continue
        for entry in json.loads(document)["files"]:
            name = entry["file"].removeprefix("/proc/self/cwd/")
            if name.startswith(("/usr/", "external/")):
                continue
            for line in entry["lines"]:
                counts[name][line["line_number"]] += line["count"]


def add_lcov(counts, path):
    """Adds the line counts of one LCOV file."""
    name = None
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("SF:"):
            name = line[3:]
        elif line.startswith("DA:") and name:
            number, count = line[3:].split(",")[:2]
            counts[name][int(number)] += int(count)


def write_lcov(counts, path):
    with open(path, "w", encoding="utf-8") as out:
        for name, lines in sorted(counts.items()):
            out.write(f"SF:{name}\n")
            for number, count in sorted(lines.items()):
                out.write(f"DA:{number},{count}\n")
            hit = sum(1 for count in lines.values() if count)
            out.write(f"LH:{hit}\nLF:{len(lines)}\nend_of_record\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coverage_dir", type=pathlib.Path)
    parser.add_argument("--reports_file", type=pathlib.Path)
    parser.add_argument("--output_file", required=True)
    args, _ = parser.parse_known_args()
    counts = collections.defaultdict(collections.Counter)
    if args.coverage_dir:
        for gcda in sorted(args.coverage_dir.rglob("*.gcda")):
            add_gcda(counts, gcda)
    if args.reports_file:
        for report in args.reports_file.read_text().split():
            if os.path.exists(report):
                add_lcov(counts, pathlib.Path(report))
    write_lcov(counts, args.output_file)


if __name__ == "__main__":
    main()
