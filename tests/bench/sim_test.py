"""`bench.sh sim` from end to end, with ops so small and few that it takes seconds."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import bench
import files
import measure
import plan
from errors import BenchError

TINY = ["--hosts=4", "--size=20000", "--ops=4"]


class SimTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sim(self, name, *flags):
        """What it says, and the file."""
        out = io.StringIO()
        path = self.folder / name
        with contextlib.redirect_stdout(out):
            self.assertEqual(bench.main(["sim", "--json", str(path), *TINY, *flags]), 0)
        return out.getvalue(), path

    def test_measures_prints_and_passes_its_own_check(self):
        said, path = self.sim("bench.json", "--twice")
        made = {row["name"]: row for row in files.read_rows(path)}
        ratio = made["sim.n4.tail30.ring_over_ours.mean.uncapped"]
        self.assertTrue(0.1 < ratio["value"] < 10, ratio)
        self.assertEqual(made["sim.n4.tail30.ours.missing_fraction.uncapped"]["value"], 0)
        self.assertIn("sim.n4.quiet.ours_over_ideal.p50", said)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(bench.main(["check", str(path)]), 0)

    def test_the_same_again_has_the_same_traces_and_another_seed_others(self):
        hashes = []
        for name, *flags in (["a.json"], ["b.json"], ["c.json", "--seed=2", "--loss=0.01"]):
            _, path = self.sim(name, *flags)
            _, outcomes = files.read_samples(files.samples_path(path))
            hashes.append([outcome["trace_hash"] for outcome in outcomes.values()])
        self.assertEqual(hashes[0], hashes[1])
        for one, other in zip(hashes[0], hashes[2]):
            self.assertNotEqual(one, other)

    def test_a_run_that_fails_is_a_sentence(self):
        run = plan.Run("wrong", {"algorithm": "star"}, 1)
        with self.assertRaisesRegex(BenchError, "^wrong: optisim: unknown algorithm star"):
            measure.make(bench.optisim(), run)

    def test_a_run_that_is_not_repeatable_is_found(self):
        tosses = self.folder / "tosses"
        fake = self.folder / "optisim"
        fake.write_text("#!/bin/bash\n"
                        f"echo >>{tosses}\n"
                        "for last; do :; done\n"
                        f'echo "{{\\"trace_hash\\": $(wc -l <{tosses})}}" >"${{last#*=}}"\n')
        fake.chmod(0o755)
        with self.assertRaisesRegex(BenchError, "^quiet is not repeatable: trace hashes 1, 2.$"):
            measure.make_twice(fake, plan.Run("quiet", {}, 1))


if __name__ == "__main__":
    unittest.main()
