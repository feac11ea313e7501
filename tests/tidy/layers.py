"""Checks that dependencies point one way (docs/ARCHITECTURE.md, "Rooms").

    layers.py ROOT    prints each offence as FILE:LINE: words; exit 1 if any

Looks at the #include lines of C and C++ files and at the labels in BUILD
files. Bazel's visibility says who may use a room; this says whom a room may
use, and what the rooms without I/O may take from the system.
"""

import pathlib
import re
import sys

# Room -> the rooms it may use besides itself.
LEAVES = {"dataplane/base", "gradcodec", "proto"}
ROOMS = {
    "dataplane/base": set(),
    "proto": {"dataplane/base"},
    "gradcodec": {"dataplane/base"},
    "dataplane/core": LEAVES,
    "dataplane/nic": LEAVES,
    "dataplane/shm": LEAVES,
    "dataplane/sim": LEAVES | {"dataplane/core", "dataplane/nic"},  # nic: the frame parser, for optisim decode
    "dataplane/engine": LEAVES | {"dataplane/core", "dataplane/nic", "dataplane/shm"},
    "control": LEAVES | {"dataplane/core", "dataplane/nic", "dataplane/shm", "dataplane/engine"},
    "client": LEAVES,
}

# The one rule: no I/O, clock, thread, log or environment in these rooms. What
# is not on the list needs a good reason and then a line here.
SANS_IO_ROOMS = {"dataplane/core", "gradcodec"}
SANS_IO_HEADERS = set("""
    algorithm array bit bitset cfloat climits cmath compare concepts cstddef cstdint cstring functional
    initializer_list iterator limits memory new numeric optional ranges span string string_view tuple type_traits
    unordered_map utility variant vector
""".split())


def room_of(path):
    """The room that a file or a package belongs to, or None."""
    for room in ROOMS:
        if path == room or path.startswith(room + "/"):
            return room
    return None


def used_paths(name, text):
    """(line, path in this repository) for each #include or label of a file."""
    # "//room:__subpackages__" and the like are visibility: it points the other way.
    pattern = r'"//([^":]+)(?!:__)[":]' if name == "BUILD.bazel" else r'^\s*#\s*include\s+"([^"]+)"'
    for number, line in enumerate(text.split("\n"), 1):
        for path in re.findall(pattern, line):
            yield number, path


def system_headers(text):
    for number, line in enumerate(text.split("\n"), 1):
        for header in re.findall(r"^\s*#\s*include\s+<([^>]+)>", line):
            yield number, header


def offences(path, text):
    """`path` is relative to the root, with slashes."""
    room = room_of(path)
    if room is None:
        return
    name = path.rsplit("/", 1)[-1]
    for number, used in used_paths(name, text):
        target = room_of(used)
        if target and target != room and target not in ROOMS[room]:
            yield number, f"{room} must not use {target}"
    if room in SANS_IO_ROOMS and not name.endswith("_test.cc"):
        for number, header in system_headers(text):
            if header not in SANS_IO_HEADERS:
                yield number, f"<{header}> is not for {room}: no I/O, clock, thread, log or environment"


def main():
    root = pathlib.Path(sys.argv[1])
    bad = 0
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".c", ".cc", ".h") or path.name == "BUILD.bazel":
                relative = path.relative_to(root).as_posix()
                for line, words in offences(relative, path.read_text()):
                    print(f"{relative}:{line}: {words}")
                    bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
