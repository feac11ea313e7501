"""Checks that BUILD files look as buildifier would leave them.

Debian has no buildifier; this knows the rules that people break: indentation,
quotes, trailing commas, `name` first, sorted lists with one entry per line.

    build_format.py ROOT    prints each offence as FILE:LINE: words; exit 1 if any
"""

import ast
import os
import pathlib
import re
import sys

SORTED = {"data", "default_visibility", "deps", "hdrs", "srcs", "tags", "textual_hdrs", "tools", "visibility"}


def build_files(root):
    """All BUILD files and our .bzl files; stand-ins under third_party have their own looks."""
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith((".", "bazel-")) and n != "third_party"]
        for name in files:
            if name in ("BUILD", "BUILD.bazel") or name.endswith(".bzl"):
                yield pathlib.Path(folder, name)


def sort_key(label):
    """buildifier's order: plain names, :local, //here, @elsewhere; then by parts."""
    phase = 1 if label.startswith(":") else 2 if label.startswith("//") else 3 if label.startswith("@") else 0
    return phase, label.replace(":", ".").split("."), label


def line_offences(text):
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield number, "tab"
        if line != line.rstrip():
            yield number, "space at the end of the line"
        if "'" in re.sub(r'"(\\.|[^"\\])*"|#.*', "", line):
            yield number, "single quotes"
    for number, (line, following) in enumerate(zip(lines, lines[1:]), 1):
        if re.match(r"\s*[\])}]", following) and not re.search(r"([,(\[{]|#.*|\"\"\")$", line):
            yield number, "no comma after the last entry"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end of the file"


def tree_offences(tree):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        entries = [*node.args, *node.keywords]
        if len({entry.lineno for entry in entries}) > 1:
            for entry in entries:
                if entry.col_offset % 4:
                    yield entry.lineno, "indentation is not a multiple of 4"
        for position, keyword in enumerate(node.keywords):
            if keyword.arg == "name" and position:
                yield keyword.lineno, "name is not the first attribute"
            if isinstance(keyword.value, ast.List):
                yield from list_offences(keyword.arg, keyword.value)


def list_offences(attribute, found):
    lines = [entry.lineno for entry in found.elts]
    if len(set(lines)) < len(lines) or (len(lines) > 1 and found.lineno == lines[0]):
        yield found.lineno, f"{attribute}: more than one entry on a line"
    labels = [entry.value for entry in found.elts if isinstance(entry, ast.Constant)]
    if attribute in SORTED and len(labels) == len(lines):
        # Entries on adjacent lines are sorted; a comment or an empty line begins anew.
        for before, after in zip(found.elts, found.elts[1:]):
            if after.lineno == before.lineno + 1 and sort_key(before.value) > sort_key(after.value):
                yield after.lineno, f"{attribute}: {after.value} belongs before {before.value}"


def offences(text):
    yield from line_offences(text)
    yield from tree_offences(ast.parse(text))


def main():
    root = pathlib.Path(sys.argv[1])
    bad = 0
    for path in sorted(build_files(root)):
        if path.name == "BUILD":
            print(f"{path}: BUILD files are named BUILD.bazel")
            bad += 1
        for line, words in sorted(offences(path.read_text())):
            print(f"{path}:{line}: {words}")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
