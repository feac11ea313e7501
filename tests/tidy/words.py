"""Checks that no file holds what must not stay in the tree.

    words.py ROOT    prints each offence as FILE:LINE: words; exit 1 if any

Marks of unfinished work, and absolute paths or parent folders that exist only
on the machine of whoever wrote them.
"""

import os
import pathlib
import re
import sys

# Written in parts, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(" + "TO" "DO|FIX" "ME|XX" "X|HA" "CK" + r")\b")
SOMEBODYS_PATH = re.compile(r"(?<![\w.])/(home|root|work|Users)/[\w.]|\.\./(\.\./)*shar" "ed")
# A licence may say what it likes; these are other people's words.
EXEMPT = {"LICENSE"}


def offences(text):
    for number, line in enumerate(text.split("\n"), 1):
        if UNFINISHED.search(line):
            yield number, "unfinished work is done, or named in an issue, not marked in a file"
        if SOMEBODYS_PATH.search(line):
            yield number, "a path that exists on one machine only"


def files(root):
    for folder, names, found in os.walk(root):
        names[:] = [n for n in names if n not in (".git", ".cache", "__pycache__") and not n.startswith("bazel-")]
        for name in found:
            # Not in the repository: .bazelrc.user, compile_commands.json.
            if name not in EXEMPT | {".bazelrc.user", "compile_commands.json"}:
                yield pathlib.Path(folder, name)


def main():
    bad = 0
    for path in sorted(files(sys.argv[1])):
        try:
            text = path.read_text()
        except UnicodeDecodeError:  # a picture, a golden byte vector
            continue
        for line, words in offences(text):
            print(f"{path}:{line}: {words}")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
