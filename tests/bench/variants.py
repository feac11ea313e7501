"""Builds the simulator with another value of one constant, in a copy of the tree."""

import pathlib
import shutil
import subprocess

import build
from errors import BenchError

NOT_COPIED = {".git", ".cache", "__pycache__"}


def copy_tree(to):
    def ignored(folder, names):
        top = pathlib.Path(folder) == build.ROOT
        return [name for name in names if name in NOT_COPIED or (top and name.startswith("bazel-"))]

    shutil.copytree(build.ROOT, to, symlinks=True, ignore=ignored)


class Workshop:
    """The copy, with an output base of its own, so that each build after the first is a small one."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.tree = self.folder / "tree"
        self.bazel = ["bazel", f"--output_base={self.folder}/output-base"]
        copy_tree(self.tree)

    def optisim(self, constant, value):
        """The simulator in which the constant has the value."""
        path = self.tree / constant.file
        source = path.read_text()
        path.write_text(constant.applied_to(source, value))
        try:
            done = subprocess.run([*self.bazel, "build", "--curses=no", "--color=no", "--noshow_progress",
                                   "//dataplane/sim:optisim"], cwd=self.tree, capture_output=True, text=True, check=False)
        finally:
            path.write_text(source)
        if done.returncode:
            raise BenchError(f"With {constant.name} = {value} the simulator does not build:\n{done.stderr}")
        to = self.folder / f"optisim-{constant.name}-{value}"
        shutil.copy(self.tree / "bazel-bin/dataplane/sim/optisim", to)
        return to

    def close(self):
        subprocess.run([*self.bazel, "clean", "--expunge"], cwd=self.tree, capture_output=True, check=False)
