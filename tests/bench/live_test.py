"""Gloo's ring and its background on real packets, for seconds."""

import itertools
import unittest

import build
import live
import plan
import shipped
import traffic


class TrafficTest(unittest.TestCase):

    def test_the_seed_decides_and_the_ranges_hold(self):
        drawn = [list(itertools.islice(traffic.bursts(seed, 1, 4, (0.3, 0.9), (0.1, 0.2)), 50)) for seed in (5, 5, 6)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        for place, (pause, target, duration) in enumerate(drawn[0]):
            self.assertTrue((0 if place == 0 else 0.3) <= pause <= 0.9, pause)
            self.assertTrue(0.1 <= duration <= 0.2, duration)
            self.assertIn(target, (0, 2, 3))


class LiveTest(unittest.TestCase):

    def test_the_ring_runs_with_and_without_others(self):
        program = build.built("//tests/bench:gloo_ring", "tests/bench/gloo_ring")
        for load in ("quiet", "tail15"):
            outcome = live.measure_gloo(program, load, plan.Options(ops=3))
            self.assertEqual([len(op) for op in outcome["took_ns"]], [plan.LIVE_HOSTS] * 3)
            # A rank sends and receives 3/2 of the buffer.
            least = plan.LIVE_BYTES * 1.5 * 8 / (plan.LIVE_MBITS * 1e6)
            self.assertGreater(max(outcome["took_ns"][-1]), least * 1e9 * 0.9)
            if load == "quiet":
                self.assertEqual(outcome["background_bytes"], 0)
            else:
                # Each source is on for a quarter of the time.
                offered = plan.LIVE_HOSTS * plan.LIVE_MBITS / 8e3 * outcome["elapsed_ns"] / 4
                self.assertTrue(offered / 10 < outcome["background_bytes"] < offered * 1.5, outcome)

    def test_ours_runs_too_and_keeps_to_its_cap(self):
        took = {}
        for capped in (False, True):
            outcome = live.measure_ours("tail30", plan.Options(ops=3), capped)
            self.assertEqual([len(op) for op in outcome["took_ns"]], [plan.LIVE_HOSTS] * 3)
            self.assertEqual([len(op) for op in outcome["missing"]], [plan.LIVE_HOSTS] * 3)
            self.assertEqual(shipped.differences(outcome), "not as shipped: share_cap = 0.5" if capped else "")
            took[capped] = min(map(max, outcome["took_ns"]))
        # Each rank sends 3/2 of the buffer.
        least = plan.LIVE_BYTES * 1.5 * 8 / (plan.LIVE_MBITS * 1e6) * 1e9
        self.assertGreater(took[True], least / plan.SHARE_CAP * 0.9)
        self.assertGreater(took[False], least * 0.9)


if __name__ == "__main__":
    live.hosts.enter_namespaces()
    unittest.main()
