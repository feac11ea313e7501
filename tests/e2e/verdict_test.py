"""The step's verdict over real daemons: alike on all ranks whatever was lost, or an
error by the hard limit."""

import json
import subprocess
import time
import unittest

import hosts
from ranks import AVERAGE, COUNT, HOSTS, SETTINGS, RanksTest, gradient

import numpy

import optireduce

MIN_FRACTION = 0.8
HALT_AFTER = 3
BAD_RANK = 2
HARD_S = 2


def with_nan(rank):
    """A gradient of which one element is none at one rank."""
    values = numpy.full(COUNT, gradient(rank), numpy.float32)
    if rank == BAD_RANK:
        values[COUNT // 3] = numpy.nan
    return values


class VerdictTest(RanksTest):
    settings = {**SETTINGS, "min_fraction": MIN_FRACTION, "halt_after": HALT_AFTER}

    def judge(self, ranks, step, parameters=lambda rank: None):
        """The verdict, which is the same on all ranks."""
        verdicts = self.each(lambda rank: ranks[rank][0].judge_step(step, parameters(rank)))
        for verdict in verdicts:
            self.assertEqual(verdict, verdicts[0])
        return verdicts[0]

    def check_next_steps_are_good(self, ranks, first):
        """Of steps that were skipped nothing is left."""
        self.reduce(ranks, first, gradient)
        verdict = self.judge(ranks, first)
        self.assertEqual((verdict.good, verdict.bad_steps), (True, 0))
        self.close(ranks, first, verdict.good)
        got = [array.astype(float) for _, array in ranks]
        for rank, rest in enumerate(self.rest(ranks, range(first + 1, first + 4))):
            numpy.testing.assert_allclose(got[rank] + rest, AVERAGE, rtol=1e-6, err_msg=f"rank {rank}")

    def test_a_value_that_is_not_finite_at_one_rank(self):
        ranks = self.join()
        self.reduce(ranks, 1, with_nan)
        verdict = self.judge(ranks, 1)
        self.assertEqual((verdict.non_finite_ranks, verdict.below_floor), ([BAD_RANK], False))
        self.assertEqual((verdict.good, verdict.bad_steps, verdict.halt_advised), (False, 1, False))
        # It came to all, as it is.
        for _, array in ranks:
            self.assertTrue(numpy.isnan(array[COUNT // 3]))
        self.close(ranks, 1, verdict.good)
        self.check_next_steps_are_good(ranks, 2)

    def test_one_that_comes_to_nobody(self):
        ranks = self.join()
        with self.one_way(BAD_RANK, [rank for rank in range(HOSTS) if rank != BAD_RANK]):
            reports = self.reduce(ranks, 1, with_nan)
            self.assertGreater(reports[0].missing_fraction, 0)
            for rank, (_, array) in enumerate(ranks):
                if rank != BAD_RANK:
                    self.assertTrue(numpy.isfinite(array).all())
        verdict = self.judge(ranks, 1)
        self.assertEqual(verdict.non_finite_ranks, [BAD_RANK])
        self.close(ranks, 1, verdict.good)
        self.check_next_steps_are_good(ranks, 2)

    def test_loss_below_the_floor(self):
        ranks = self.join()
        with self.one_way():
            reports = self.reduce(ranks, 1, gradient)
        verdict = self.judge(ranks, 1)
        present = [1 - report.missing_fraction for report in reports]
        self.assertLess(present[1], MIN_FRACTION)
        self.assertGreater(min(present[0], *present[2:]), MIN_FRACTION)
        self.assertEqual((verdict.below_floor, verdict.least_present_rank), (True, 1))
        self.assertAlmostEqual(verdict.least_present, present[1])
        self.assertEqual((verdict.lacking_ranks, verdict.absent), ([1], reports[1].absent))
        self.assertEqual((verdict.non_finite_ranks, verdict.min_fraction), ([], MIN_FRACTION))
        self.close(ranks, 1, verdict.good)
        self.check_next_steps_are_good(ranks, 2)

    def test_a_run_of_bad_steps(self):
        ranks = self.join()
        seen = []
        for step, values in enumerate([with_nan, with_nan, gradient, with_nan, with_nan, with_nan], 1):
            self.reduce(ranks, step, values)
            verdict = self.judge(ranks, step)
            self.close(ranks, step, verdict.good)
            seen.append((verdict.bad_steps, verdict.halt_advised))
        self.assertEqual(seen, [(1, False), (2, False), (0, False), (1, False), (2, False), (3, True)])
        for host in range(HOSTS):
            self.check_telemetry(host, {"steps_judged": 6, "steps_bad": 5, "bad_in_a_row": 3},
                                 {"below_floor": 0, "non_finite": 5, "halt_advised": 1})

    def test_replicas_that_are_apart(self):
        ranks = self.join()
        parameters = numpy.ones(10_000, numpy.float32)

        def of_rank(rank):
            mine = parameters.copy()
            if rank == BAD_RANK:
                mine[1234] += 1
            return mine

        self.reduce(ranks, 1, gradient)
        self.assertEqual(self.judge(ranks, 1, lambda rank: parameters).divergence, 0)
        self.close(ranks, 1)
        self.reduce(ranks, 2, gradient)
        verdict = self.judge(ranks, 2, of_rank)
        self.close(ranks, 2)
        # 3/4 of one element, of a vector whose length is 100.
        self.assertGreater(verdict.divergence, 0.0075 / 2)
        self.assertLess(verdict.divergence, 0.0075 * 2)
        self.assertEqual((verdict.divergent_rank, verdict.good), (BAD_RANK, True))
        group = self.check_telemetry(0, {"steps_judged": 2, "steps_bad": 0}, {"non_finite": 0})
        self.assertAlmostEqual(group["divergence"], verdict.divergence, places=8)

    def test_read_one_step_later(self):
        """Nobody waits for a verdict that is not asked for at once."""
        ranks = self.join()

        def run(rank):
            group, array = ranks[rank]
            pending, verdicts = None, []
            for step in range(1, 21):
                array[:] = with_nan(rank) if step % 2 == 0 else gradient(rank)
                group.all_reduce(array, bucket=1, step=step).wait()
                group.close_step(step, used=False)
                if pending is not None:
                    verdicts.append(pending.wait())
                pending = group.submit_verdict(step)
            verdicts.append(pending.wait())
            return verdicts

        verdicts = self.each(run)
        for others in verdicts[1:]:
            self.assertEqual(others, verdicts[0])
        self.assertEqual([verdict.step for verdict in verdicts[0]], list(range(1, 21)))
        self.assertEqual([verdict.non_finite_ranks for verdict in verdicts[0]], [[], [BAD_RANK]] * 10)

    # ---- what operators see ----

    def optictl(self, host, command):
        optictl = [hosts.built("control/optictl/optictl"), f"--socket={self.lab.socket(host)}", command, "--json"]
        return json.loads(subprocess.run(optictl, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout)

    def check_telemetry(self, host, wanted, counters):
        """What a host's daemon shows of this test's group."""
        end = time.monotonic() + 20
        while True:
            groups = self.optictl(host, "groups")["groups"]
            group = next(group for group in groups if group["name"] == self.name)
            shown = {key: group[key] for key in wanted}
            if shown == wanted or time.monotonic() > end:
                break
            time.sleep(0.02)
        self.assertEqual(shown, wanted)
        stats = self.optictl(host, "stats")
        for name, value in counters.items():
            self.assertEqual(stats[f"group_{group['group']}_steps_{name}"], value, name)
        return group


class DeadPeerTest(RanksTest):
    settings = {**SETTINGS, "hard_ms": 1000 * HARD_S}

    def test_it_is_an_error_by_the_hard_limit(self):
        ranks = self.join()
        self.reduce(ranks, 1, gradient)
        self.lab.daemons[3].kill()
        self.lab.daemons[3].wait()

        def judge(rank):
            start = time.monotonic()
            with self.assertRaisesRegex(optireduce.HardLimitError, "verdict on step 1.*missing: rank 3"):
                ranks[rank][0].judge_step(1)
            return time.monotonic() - start

        for span in self.each(judge, range(3)):
            self.assertGreater(span, HARD_S - 0.1)
            self.assertLess(span, HARD_S + 2)


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
