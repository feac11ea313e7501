"""Mutants: small deliberate breaks of the code, each with the tests that should
notice it. The script `run` applies them; this is what it knows of them.
"""

import collections
import pathlib
import shutil
import subprocess
import tomllib

REQUIRED = ("name", "file", "old", "new", "why", "tests")

# What became of a mutant. One that does not compile proves nothing.
KILLED = "killed"
SURVIVED = "SURVIVED"
NOT_BUILT = "does not build"

# Of all that ran, in percent; below it the run fails.
LEAST_KILLED = 95

# Exit codes of `bazel test`.
BAZEL_ALL_PASSED = 0
BAZEL_BUILD_FAILED = 1
BAZEL_TESTS_FAILED = 3

# Not part of the code; bazel-* are links into another output base.
NOT_COPIED = {".git", ".cache", "__pycache__", "fuzz-findings"}


class Unusable(Exception):
    """The list of mutants, or the tree, is not in a state to be run."""


Outcome = collections.namedtuple("Outcome", "mutant result seconds failed")


class Mutant:
    """One entry of mutants.toml."""

    def __init__(self, entry):
        missing = [key for key in REQUIRED if not entry.get(key)]
        unknown = sorted(set(entry) - {*REQUIRED, "sample"})
        if missing or unknown:
            raise Unusable(f"mutant {entry.get('name')!r}: missing {missing}, unknown {unknown}")
        self.name = entry["name"]
        self.file = entry["file"]
        # The quotes of a block stand on lines of their own.
        self.old = entry["old"].removesuffix("\n")
        self.new = entry["new"].removesuffix("\n")
        self.why = entry["why"]
        self.tests = entry["tests"]
        self.sample = entry.get("sample", False)
        if self.old == self.new:
            raise Unusable(f"mutant {self.name}: changes nothing")

    def applied_to(self, text):
        """The text of its file with the break in it. The place must be unmistakable."""
        found = text.count(self.old)
        if found != 1:
            raise Unusable(
                f"mutant {self.name}: its old text is in {self.file} {found} times instead of once; "
                "has the code changed? Then so must tests/mutation/mutants.toml"
            )
        return text.replace(self.old, self.new)


def load(path):
    """All mutants of a list, by name and in its order."""
    mutants = {}
    for entry in tomllib.loads(pathlib.Path(path).read_text())["mutant"]:
        mutant = Mutant(entry)
        if mutant.name in mutants:
            raise Unusable(f"two mutants are called {mutant.name}")
        mutants[mutant.name] = mutant
    return mutants


def check_applicable(mutants, root):
    """Names every mutant that the code has outgrown, not only the first."""
    problems = []
    for mutant in mutants:
        path = pathlib.Path(root, mutant.file)
        try:
            mutant.applied_to(path.read_text())
        except FileNotFoundError:
            problems.append(f"mutant {mutant.name}: there is no file {mutant.file}")
        except Unusable as error:
            problems.append(str(error))
    if problems:
        raise Unusable("\n".join(problems))


def copy_tree(root, to):
    def ignored(folder, names):
        top = pathlib.Path(folder) == pathlib.Path(root)
        return [n for n in names if n in NOT_COPIED or (top and n.startswith("bazel-"))]

    shutil.copytree(root, to, symlinks=True, ignore=ignored)


class Bench:
    """A copy of the tree and an output base of its own, in which mutants are
    built one after the other, so that each build is a small one."""

    def __init__(self, root, folder):
        self.tree = pathlib.Path(folder, "tree")
        self.startup = ["bazel", f"--output_base={folder}/output-base"]
        shutil.rmtree(self.tree, ignore_errors=True)
        copy_tree(root, self.tree)

    def test(self, targets):
        """(exit code of bazel, its output)"""
        command = [
            *self.startup,
            "test",
            "--curses=no",
            "--color=no",
            "--noshow_progress",
            "--noshow_loading_progress",
            "--test_output=errors",
            "--noexperimental_convenience_symlinks",
            # Of a mutant that hangs nobody wants to see more than the first
            # minutes; of one that fails, more than the first failure.
            "--test_timeout=120",
            "--test_env=GTEST_FAIL_FAST=1",
            *targets,
        ]
        done = subprocess.run(command, cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout

    def try_mutant(self, mutant):
        """(result, output of bazel)"""
        path = self.tree / mutant.file
        text = path.read_text()
        path.write_text(mutant.applied_to(text))
        try:
            code, output = self.test(mutant.tests)
        finally:
            path.write_text(text)
        results = {BAZEL_ALL_PASSED: SURVIVED, BAZEL_BUILD_FAILED: NOT_BUILT, BAZEL_TESTS_FAILED: KILLED}
        if code not in results:
            raise Unusable(f"mutant {mutant.name}: bazel test ended with {code}\n{output}")
        return results[code], output

    def close(self, keep):
        """Ends the Bazel server; without `keep` its files go, too."""
        subprocess.run([*self.startup, "shutdown" if keep else "clean", *([] if keep else ["--expunge"])], cwd=self.tree, capture_output=True)


def failed_targets(output):
    """The tests that failed, as Bazel's summary names them."""
    lines = (line.split() for line in output.splitlines())
    return [words[0] for words in lines if len(words) > 1 and words[0].startswith("//") and words[1] in ("FAILED", "TIMEOUT")]


def table(outcomes):
    width = max(len(outcome.mutant.name) for outcome in outcomes)
    yield f"{'mutant':<{width}}  {'result':<14}  {'s':>5}  noticed by"
    for outcome in outcomes:
        yield f"{outcome.mutant.name:<{width}}  {outcome.result:<14}  {outcome.seconds:5.0f}  {' '.join(outcome.failed)}".rstrip()


def summary(outcomes):
    """For --json."""
    results = collections.Counter(outcome.result for outcome in outcomes)
    return {
        "mutants": [
            {
                "name": outcome.mutant.name,
                "file": outcome.mutant.file,
                "result": outcome.result.lower(),
                "seconds": round(outcome.seconds, 1),
                "tests": outcome.mutant.tests,
                "failed": outcome.failed,
            }
            for outcome in outcomes
        ],
        "killed": results[KILLED],
        "survived": results[SURVIVED],
        "not_built": results[NOT_BUILT],
        "killed_percent": round(100 * results[KILLED] / len(outcomes), 1),
    }


def good_enough(outcomes):
    killed = sum(outcome.result == KILLED for outcome in outcomes)
    return 100 * killed >= LEAST_KILLED * len(outcomes)
