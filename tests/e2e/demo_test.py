"""The demo's figures say what happened."""

import os
import pathlib
import unittest

import demo_report
from demo_report import Baselines, Stop

BASELINES = Baselines(reference=0.97, no_exchange=0.31)
STOP = Stop(rank=1, begin=5.0, end=7.0, caught_up=7.5)


def record(rank, step, at, **changes):
    return {"rank": rank, "step": step, "at": at, "loss": 0.5, "accuracy": 0.9, "op_ms": 10.0, "late_ms": 0.0,
            "missing_fraction": 0.01, "deadline_ms": 40.0, **changes}


def run():
    """Ten seconds of four ranks, a step each tenth of a second; rank 1 stops from 5 s to 7 s."""
    records = []
    for step in range(100):
        for rank in range(4):
            at = 0.1 * step + 0.01
            if rank == 1 and 5.0 <= at < 7.0:
                at = 7.0 + (at - 5.0) / 10
            records.append(record(rank, step, at))
    return sorted(records, key=lambda r: r["at"])


class SummaryTest(unittest.TestCase):

    def test_keys_are_those_of_the_json_file(self):
        self.assertEqual(list(demo_report.summary(run(), STOP, BASELINES)), [
            "steps", "accuracy", "reference_accuracy", "no_exchange_accuracy", "p50_ms", "p99_ms",
            "missing_fraction", "late_ops", "stopped_rank_others_p99_ms"
        ])

    def test_accuracy_and_steps_are_the_worst_ranks_last(self):
        records = run()
        next(r for r in records if r["rank"] == 0 and r["step"] == 5)["accuracy"] = 0.1
        [r for r in records if r["rank"] == 2][-1]["accuracy"] = 0.8
        result = demo_report.summary(records, STOP, BASELINES)
        self.assertEqual((result["accuracy"], result["steps"]), (0.8, 100))
        records = [r for r in records if r["rank"] != 3 or r["step"] < 60]
        self.assertEqual(demo_report.summary(records, STOP, BASELINES)["steps"], 60)

    def test_percentiles_leave_out_the_stop_and_the_catching_up(self):
        records = run()
        for r in records:
            if 5.0 <= r["at"] <= 7.5:
                r["op_ms"] = 30.0 if r["rank"] != 1 else 2000.0
        result = demo_report.summary(records, STOP, BASELINES)
        self.assertEqual((result["p50_ms"], result["p99_ms"]), (10.0, 10.0))
        self.assertEqual(result["stopped_rank_others_p99_ms"], 30.0)

    def test_late_operations_are_counted_wherever_they_happen(self):
        records = run()
        records[0]["late_ms"] = 20.1
        records[1]["late_ms"] = 20.0
        records[200]["late_ms"] = 300.0
        self.assertEqual(demo_report.summary(records, STOP, BASELINES)["late_ops"], 2)

    def test_missing_is_the_mean_over_all_operations(self):
        records = run()
        for r in records[:100]:
            r["missing_fraction"] = 0.25
        self.assertAlmostEqual(demo_report.summary(records, STOP, BASELINES)["missing_fraction"], 0.07)

    def test_promises(self):
        good = {"accuracy": 0.96, "reference_accuracy": 0.97, "no_exchange_accuracy": 0.31, "steps": 100, "p99_ms": 60.0,
                "late_ops": 0, "missing_fraction": 0.05, "stopped_rank_others_p99_ms": 180.0}
        self.assertEqual(demo_report.broken_promises(good), [])
        for change in ({"accuracy": 0.95}, {"no_exchange_accuracy": 0.51}, {"steps": 99}, {"late_ops": 1},
                       {"missing_fraction": 0.0}, {"missing_fraction": 0.2}, {"stopped_rank_others_p99_ms": 181.0}):
            self.assertEqual(len(demo_report.broken_promises({**good, **change})), 1, change)

    def test_percentile(self):
        self.assertEqual(demo_report.percentile([3.0], 0.99), 3.0)
        self.assertEqual(demo_report.percentile(range(1, 101), 0.99), 99)
        self.assertEqual(demo_report.percentile(range(1, 101), 0.50), 50)
        self.assertEqual(demo_report.percentile(range(1, 201), 0.99), 198)


class OutputTest(unittest.TestCase):

    def test_table_and_line_show_the_figures(self):
        result = demo_report.summary(run(), STOP, BASELINES)
        text = demo_report.table(result)
        for figure in ("97.0 %", "31.0 %", "90.0 %", "10.0 ms", "1.00 %"):
            self.assertIn(figure, text)
        self.assertRegex(demo_report.line(record(0, 4, 0.0)), r"step +5 .*0\.500.*90\.0 %.*10\.0 ms.*1\.00 %.*40\.0 ms")

    def test_picture(self):
        path = pathlib.Path(os.environ.get("TEST_TMPDIR", "/tmp")) / "demo.png"
        demo_report.draw(path, run(), STOP, BASELINES)
        self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(path.stat().st_size, 20_000)


if __name__ == "__main__":
    unittest.main()
