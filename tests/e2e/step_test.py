"""Training steps over real daemons: results that come late are in place before a
step is closed, what is lost comes with later steps, and a step that is skipped
leaves nothing behind.
"""

import concurrent.futures
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import hosts
from ranks import AVERAGE, COUNT, HOSTS, RanksTest, gradient

import numpy

import optireduce

LIMIT_S = 20
# A trainer with an open step that stops there.
OPEN_STEP = """
import signal, sys
import optireduce
socket, rank, world, directory, name = sys.argv[1:]
session = optireduce.connect(socket)
group = session.create_group(int(rank), int(world), rendezvous_dir=directory, name=name, timeout_s=30,
                             soft_ms=200, hard_ms=5000, suspect_after_ms=5000, dead_after_ms=20_000)
print("ready", flush=True)
sys.stdin.readline()
array = group.allocate(40_000)
array[:] = int(rank) + 1
print(group.all_reduce(array, bucket=1, step=1).wait().absent, flush=True)
signal.pause()
"""


def stop(process):
    """Returns when all of its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    while not all("State:\tT" in (task / "status").read_text() for task in tasks.iterdir()):
        time.sleep(0.001)


class StepTest(RanksTest):
    def await_no_zero(self, array):
        end = time.monotonic() + LIMIT_S
        while (zeros := COUNT - numpy.count_nonzero(array)) and time.monotonic() < end:
            time.sleep(0.01)
        return zeros

    # ---- results ----

    def test_late_results_are_in_place_before_the_close(self):
        ranks = self.join()
        with self.one_way():
            reports = self.reduce(ranks, 1, gradient)
            group, array = ranks[1]
            self.assertEqual((reports[1].status, reports[1].step_open), ("partial", True))
            self.assertGreater(reports[1].absent, 0)
            self.assertEqual(COUNT - numpy.count_nonzero(array), reports[1].absent)
        self.assertEqual(self.await_no_zero(array), 0)
        # Until the close it is the daemon's.
        with self.assertRaisesRegex(optireduce.BusyError, "step 1, which is open"):
            group.all_reduce(array)
        self.assertEqual(self.close(ranks, 1), [1] * HOSTS)
        for _, other in ranks:
            numpy.testing.assert_array_equal(other, array)

    def test_what_a_step_lacks_comes_with_later_ones(self):
        ranks = self.join()
        with self.one_way():
            reports = self.reduce(ranks, 1, gradient)
            self.assertGreater(reports[1].absent, 0)
            self.assertEqual(self.close(ranks, 1)[1], 1)
            got = [array.astype(float) for _, array in ranks]
            self.assertEqual(COUNT - numpy.count_nonzero(got[1]), reports[1].absent)
        for rank, rest in enumerate(self.rest(ranks, range(2, 8))):
            numpy.testing.assert_allclose(got[rank] + rest, AVERAGE, rtol=1e-6, err_msg=f"rank {rank}")

    def test_a_skipped_step_leaves_nothing(self):
        ranks = self.join()
        with self.one_way():
            self.assertGreater(self.reduce(ranks, 1, lambda rank: 1000 * gradient(rank))[1].absent, 0)
            self.close(ranks, 1, used=False)
        reports = self.reduce(ranks, 2, gradient)
        self.close(ranks, 2)
        got = [array.astype(float) for _, array in ranks]
        for rank, rest in enumerate(self.rest(ranks, range(3, 8))):
            self.assertTrue(reports[rank].step_open)
            numpy.testing.assert_allclose(got[rank] + rest, AVERAGE, rtol=1e-6, err_msg=f"rank {rank}")

    def test_what_is_owed_outlives_the_group_in_a_saved_state(self):
        ranks = self.join()
        with self.one_way():
            self.assertGreater(self.reduce(ranks, 1, gradient)[1].absent, 0)
            self.close(ranks, 1)
            got = [array.astype(float) for _, array in ranks]
        states = self.each(lambda rank: ranks[rank][0].state_dict(timeout_s=LIMIT_S))
        self.assertGreater(len(states[1]), 1000)
        self.each(lambda rank: ranks[rank][0].leave())
        self.name += "b"
        ranks = self.join()
        self.each(lambda rank: ranks[rank][0].load_state_dict(states[rank]))
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "another rank"):
            ranks[0][0].load_state_dict(states[1])
        for rank, rest in enumerate(self.rest(ranks, range(2, 8))):
            numpy.testing.assert_allclose(got[rank] + rest, AVERAGE, rtol=1e-6, err_msg=f"rank {rank}")

    def test_a_loss_scale_that_changes(self):
        ranks = self.join()
        with self.one_way():
            def run(rank):
                group, array = ranks[rank]
                array[:] = 1024 * gradient(rank)
                return group.all_reduce(array, bucket=1, step=1, loss_scale=1024).wait()

            self.assertGreater(self.each(run)[1].absent, 0)
            self.close(ranks, 1)
            got = [array / 1024 for _, array in ranks]
        for rank, rest in enumerate(self.rest(ranks, range(2, 8))):
            numpy.testing.assert_allclose(got[rank] + rest, AVERAGE, rtol=1e-6, err_msg=f"rank {rank}")

    # ---- failures ----

    def test_a_trainer_that_dies_with_an_open_step(self):
        """What comes late then has no place to go to."""
        trainer = self.lab.start(1, "env", f"PYTHONPATH={hosts.ROOT}/client/python", sys.executable, "-c", OPEN_STEP,
                                 self.lab.socket(1), 1, HOSTS, self.lab.folder, self.name, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        for cleanup in (trainer.stdout.close, trainer.stdin.close, trainer.wait, trainer.kill):
            self.addCleanup(cleanup)
        others = [rank for rank in range(HOSTS) if rank != 1]
        joined = dict(zip(others, self.each(lambda rank: self.create(rank, HOSTS, rank), others)))
        self.assertEqual(trainer.stdout.readline(), "ready\n")

        def run(rank):
            group, array = joined[rank]
            array[:] = gradient(rank)
            group.all_reduce(array, bucket=1, step=1).wait()

        with self.one_way():
            trainer.stdin.write("go\n")
            trainer.stdin.flush()
            self.each(run, others)
            self.assertGreater(int(trainer.stdout.readline()), 0)
            trainer.kill()
            trainer.wait()
        time.sleep(0.5)  # for the answers to what host 1 has asked for
        self.assertIsNone(self.lab.daemons[1].poll())
        self.name += "b"
        ranks = self.join([0, 1])
        self.assertEqual([report.status for report in self.reduce(ranks, 1, gradient)], ["complete"] * 2)
        self.assertEqual(self.close(ranks, 1), [1, 1])


class DeathTest(unittest.TestCase):
    def test_a_daemon_that_stops_or_dies_during_a_close(self):
        with hosts.Hosts(1) as lab, concurrent.futures.ThreadPoolExecutor(1) as pool:
            session = optireduce.connect(lab.socket(0))
            group = session.create_group(0, 1, rendezvous_dir=lab.folder, name="alone", timeout_s=30)
            stop(lab.daemons[0])
            start = time.monotonic()
            with self.assertRaises(optireduce.WaitTimeoutError):
                group.close_step(1, timeout_s=0.3)
            self.assertLess(time.monotonic() - start, 5)
            closing = pool.submit(group.close_step, 1, timeout_s=60)
            time.sleep(0.1)
            lab.daemons[0].kill()
            start = time.monotonic()
            with self.assertRaises(optireduce.DaemonLostError):
                closing.result()
            self.assertLess(time.monotonic() - start, 10)


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
