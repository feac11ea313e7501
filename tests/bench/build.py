"""Builds what is measured: by Bazel, after the Debian packages that it needs.

Every build of this repository is an optimised one (.bazelrc).
"""

import os
import pathlib
import subprocess

from errors import BenchError

ROOT = pathlib.Path(__file__).absolute().parents[2]
SCRIPT = """
source deploy/packages.sh
install_missing_packages deploy/packages.txt
bazel build --curses=no --color=no --show_progress_rate_limit=5 "$@"
"""


def built(target, path):
    """The file that a target is built to. A test has it among its runfiles already."""
    if "TEST_SRCDIR" in os.environ:
        return pathlib.Path(os.environ["TEST_SRCDIR"], "optireduce", path)
    print(f"Building {target} ...", flush=True)
    if subprocess.run(["bash", "-euc", SCRIPT, "build", target], cwd=ROOT, check=False).returncode:
        raise BenchError(f"{target} could not be built.")
    return ROOT / "bazel-bin" / path
