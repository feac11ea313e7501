"""Collectives between hosts with real daemons over a lossy network.

The whole matrix of worlds, types and counts is tests/e2e/exact_matrix.py's;
this is the part of it that is quick.
"""

import unittest

import hosts

COUNTS = "0,1,2,3,4,1000,20000"


class OptiperfTest(unittest.TestCase):
    def assert_right(self, results):
        for result in results:
            self.assertEqual(result["wrong"], 0, result)
            self.assertTrue(result["identical"] or result["mode"] == "bounded", result)

    def test_exact_of_every_type_under_loss(self):
        with hosts.Hosts(3, loss=5) as lab:
            results = lab.optiperf("--mode=exact", "-d", "all", "-o", "all", f"--counts={COUNTS}", "-n", "2", "-w", "0",
                                   "--check", "--hard-ms=20000")
            self.assertEqual(len(results), (8 * 3 + 4 * 4) * 7)
            self.assert_right(results)
            for collective in ("reduce_scatter", "all_gather", "broadcast", "barrier"):
                self.assert_right(lab.optiperf(f"--collective={collective}", "--mode=exact", "--counts=0,3,9000", "-n",
                                               "3", "--check", "--inflight=2", "--hard-ms=20000"))

    def test_bounded_without_loss_loses_nothing(self):
        with hosts.Hosts(4) as lab:
            results = lab.optiperf("--mode=bounded", "-d", "float,half,bfloat16,double", "-o", "sum,avg",
                                   "--counts=0,1,5,30000", "-n", "5", "--check", "--soft-ms=2000")
            self.assert_right(results)
            for result in results:
                self.assertEqual(result["missing_fraction"], 0, result)
                self.assertTrue(result["identical"], result)
            for codec in ("bfloat16", "float16"):
                results = lab.optiperf("--mode=bounded", f"--codec={codec}", "--counts=5,30000", "-n", "5", "--check",
                                       "--soft-ms=2000")
                self.assert_right(results)
                for result in results:
                    self.assertEqual(result["missing_fraction"], 0, result)

    def test_bounded_under_loss_is_right_in_what_it_has_and_on_time(self):
        with hosts.Hosts(4, loss=5) as lab:
            before = lab.counters()
            results = lab.optiperf("--mode=bounded", "-o", "avg", "--counts=50000", "-n", "40", "-w", "5", "--check",
                                   "--soft-ms=60")
            after = lab.counters()
            self.assert_right(results)
            self.assertGreater(after["lost"]["frames"] - before["lost"]["frames"], 0)
            # Nearly all of what the network drops comes in time when it is sent again.
            self.assertGreater(results[0]["repaired_packets"], 1)
            self.assertLess(results[0]["missing_fraction"], 0.25)
            self.assertLessEqual(results[0]["decision_late_p100_us"], 1000)

    def test_several_ranks_on_a_host(self):
        with hosts.Hosts(2, loss=1) as lab:
            self.assert_right(lab.optiperf("--mode=exact", "--counts=1,1000", "-n", "3", "--check", world=5))


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
