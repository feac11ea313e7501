"""Prints the line coverage of each room from an LCOV file.

    coverage.py FILE    FILE: bazel-out/_coverage/_coverage_report.dat
"""

import collections
import pathlib
import sys

import layers


def lines_by_room(text):
    """{room: [lines that ran, lines]} of an LCOV report; tests do not count."""
    rooms = collections.defaultdict(lambda: [0, 0])
    room = None
    for line in text.splitlines():
        if line.startswith("SF:"):
            path = line[3:]
            room = None if path.endswith(("_test.cc", ".pb.cc", ".pb.h")) else layers.room_of(path)
        elif line.startswith("DA:") and room:
            rooms[room][0] += line.split(",")[1] != "0"
            rooms[room][1] += 1
    return rooms


def main():
    rooms = lines_by_room(pathlib.Path(sys.argv[1]).read_text())
    for room, (ran, lines) in sorted(rooms.items()):
        print(f"{room:<20}{100 * ran / lines:6.1f} % of {lines} lines")


if __name__ == "__main__":
    main()
