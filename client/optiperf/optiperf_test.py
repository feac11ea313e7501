"""optiperf as its users start it, against a daemon that returns every input as
the result: right in a world of one, wrong in any other."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

CLIENT = pathlib.Path(__file__).absolute().parent.parent


class OptiperfTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.socket = os.path.join(self.directory, "s")
        fake = subprocess.Popen([CLIENT / "testing" / "fake_daemon", self.socket], stdout=subprocess.PIPE)
        self.addCleanup(fake.stdout.close)
        self.addCleanup(fake.wait)
        self.addCleanup(fake.kill)
        fake.stdout.readline()

    def start(self, *flags):
        command = [CLIENT / "optiperf" / "optiperf", f"--socket={self.socket}", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_alone(self, *flags):
        process = self.start(*flags)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def test_a_world_of_one(self):
        results = os.path.join(self.directory, "results.json")
        code, out, err = self.run_alone(
            "--mode=exact", "-d", "all", "-o", "all", "--counts=0,1,1000,5000", "--check", "--inflight=3", f"--json={results}"
        )
        self.assertEqual(code, 0, err)
        rows = [line.split() for line in out.splitlines() if not line.startswith("#")]
        # 8 integer types without an average, 4 floating types; 4 counts.
        self.assertEqual(len(rows), (8 * 3 + 4 * 4) * 4)
        self.assertEqual(rows[1][:5], ["1", "1", "int8", "sum", "-1"])
        self.assertEqual({row[8] for row in rows}, {"0"})
        self.assertIn("# Out of bounds values : 0 OK", out)
        with open(results) as file:
            parsed = json.load(file)["results"]
        self.assertEqual(len(parsed), len(rows))
        self.assertTrue(all(r["identical"] and r["wrong"] == 0 and r["mode"] == "exact" for r in parsed))
        self.assertTrue(all(r["p50_us"] > 0 and r["p50_us"] <= r["p999_us"] for r in parsed))

    def test_wrong_results_are_counted_and_fail(self):
        ranks = [
            self.start(f"--rank={r}", "--world=2", f"--rendezvous={self.directory}", "--name=together", "--mode=exact",
                       "--counts=1000", "-n", "2", "-w", "1", "--check")
            for r in range(2)
        ]
        out, _ = ranks[0].communicate(timeout=60)
        ranks[1].communicate(timeout=60)
        # The fake's all-gather has only rank 0's figures for rank 0.
        row = [line.split() for line in out.splitlines() if not line.startswith("#")][0]
        self.assertGreater(int(row[8]), 1900)
        self.assertIn("FAILED", out)
        self.assertEqual(ranks[0].returncode, 1)

    def test_exit_codes(self):
        code, _, err = self.run_alone("--nonsense")
        self.assertEqual(code, 2)
        self.assertIn("--nonsense", err)
        self.socket += "x"
        code, _, err = self.run_alone("--counts=1")
        self.assertEqual(code, 3)
        self.assertIn(self.socket, err)

    def test_help(self):
        code, out, _ = self.run_alone("--help")
        self.assertEqual(code, 0)
        self.assertIn("#wrong", out)


if __name__ == "__main__":
    unittest.main()
