"""Writes compile_commands.json, for clang-tidy and editors, from `bazel aquery`.

Run in the workspace, after `bazel build //...` (generated headers must exist).
"""

import json
import pathlib
import subprocess

# What clang's tools do not know, or complain about.
UNWANTED = ("-fno-canonical-system-headers", "-D__DATE__", "-D__TIMESTAMP__", "-D__TIME__")


def bazel(*args):
    return subprocess.run(["bazel", *args], text=True, check=True, capture_output=True).stdout


def main():
    workspace = pathlib.Path.cwd()
    execution_root = bazel("info", "execution_root").strip()
    actions = json.loads(bazel("aquery", "--output=jsonproto", 'mnemonic("CppCompile", //...)')).get("actions", [])
    entries = []
    for action in actions:
        arguments = [word for word in action["arguments"] if not word.startswith(UNWANTED)]
        source = workspace / arguments[arguments.index("-c") + 1]
        if source.exists():  # generated code is not ours to judge
            entries.append({"directory": execution_root, "file": str(source), "arguments": arguments})
    (workspace / "compile_commands.json").write_text(json.dumps(entries, indent=1) + "\n")
    print(f"compile_commands.json: {len(entries)} files")


if __name__ == "__main__":
    main()
