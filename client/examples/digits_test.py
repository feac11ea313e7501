"""The trainer learns only through exchange, and survives what a lossy one does."""

import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import numpy

import digits

CLIENT = pathlib.Path(__file__).absolute().parent.parent
WORLD = 4
CHUNK = 356  # float32 elements in one packet of an Ethernet frame


class Meeting:
    """Averages the arrays of WORLD threads, each of which calls `average`.

    With a loss, a chunk of a contribution or of a result is missing with that
    probability. It goes as with an operation of the daemon that has a bucket
    (docs/PROTOCOL.md, "Residuals and debts"): what was not summed is a residual
    that is added to the rank's next contribution, a missing result is zero now
    and added to the rank's next one. Rank 1 is absent in the steps of `absence`:
    it gets the others' result, and what it gives comes too late.
    """

    def __init__(self, loss=0.0, absence=range(0)):
        self.barrier = threading.Barrier(WORLD)
        self.given = [None] * WORLD
        self.residuals = self.debts = 0
        self.loss = loss
        self.absence = absence
        self.rng = numpy.random.default_rng(4)
        self.result = None
        self.parameters = None
        self.step = 0

    def present(self, count):
        """For each rank, which elements get through."""
        chunks = -(-count // CHUNK)
        kept = self.rng.random((WORLD, chunks)) >= self.loss
        return numpy.repeat(kept, CHUNK, axis=1)[:, :count]

    def reduce(self):
        count = len(self.given[0])
        summed = self.present(count)
        summed[1] &= self.step not in self.absence
        contributions = numpy.stack(self.given) + self.residuals
        total = numpy.where(summed, contributions, 0).sum(axis=0)
        summands = summed.sum(axis=0)
        imputed = numpy.where(4 * summands >= 3 * WORLD, total / numpy.maximum(summands, 1), 0)
        mean = (total + (WORLD - summands) * imputed) / WORLD
        arrived = self.present(count)
        self.residuals = numpy.where(summed, 0, contributions - imputed)
        self.result = (numpy.where(arrived, mean, 0) + self.debts).astype(numpy.float32)
        self.debts = numpy.where(arrived, 0, mean)
        self.step += 1

    def average(self, rank, array):
        self.given[rank] = array.copy()
        if self.barrier.wait() == 0:
            self.reduce()
        self.barrier.wait()
        array[:] = self.result[rank]

    def take_over_rank_0(self, rank, array):
        if rank == 0:
            self.parameters = array.copy()
        self.barrier.wait()
        array[:] = self.parameters
        self.barrier.wait()


class InProcessExchange(digits.NoExchange):

    def __init__(self, meeting, rank):
        self.meeting = meeting
        self.rank = rank

    def all_reduce(self, array, step):
        self.meeting.average(self.rank, array)
        return digits.Report()

    def resync(self, array):
        self.meeting.take_over_rank_0(self.rank, array)


def run_ranks(meeting):
    """The networks of WORLD ranks after a whole run."""
    networks = [None] * WORLD

    def run(rank):
        for network, _, _ in digits.train_rank(rank, WORLD, InProcessExchange(meeting, rank)):
            networks[rank] = network

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(WORLD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return networks


class DigitsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.test_images = digits.load_images()[1]
        cls.reference = digits.train_alone(WORLD)

    def test_the_reference_is_a_good_classifier(self):
        self.assertGreaterEqual(self.reference, 0.96)
        self.assertEqual(digits.train_alone(WORLD, steps=40), digits.train_alone(WORLD, steps=40))

    def test_without_exchange_no_rank_knows_the_digits(self):
        for rank in range(WORLD):
            self.assertIn(len(digits.digits_of_rank(rank, WORLD)), (2, 3))
            for network, _, _ in digits.train_rank(rank, WORLD, digits.NoExchange()):
                pass
            self.assertLessEqual(network.accuracy(self.test_images), 0.5)

    def test_exact_average_reaches_the_reference_on_all_ranks_alike(self):
        networks = run_ranks(Meeting())
        for network in networks:
            self.assertTrue((network.parameters == networks[0].parameters).all())
        self.assertGreaterEqual(networks[0].accuracy(self.test_images), self.reference - 0.01)

    def test_lossy_average_with_an_absent_rank_reaches_the_reference(self):
        networks = run_ranks(Meeting(loss=0.05, absence=range(152, 192)))
        worst = min(network.accuracy(self.test_images) for network in networks)
        self.assertGreaterEqual(worst, self.reference - 0.01)

    def test_over_a_daemon(self):
        # The fake daemon returns what it is given: a run over it is a run alone.
        folder = tempfile.mkdtemp(dir="/tmp")
        socket = f"{folder}/socket"
        fake = subprocess.Popen([CLIENT / "testing/fake_daemon", socket], stdout=subprocess.PIPE)
        self.addCleanup(fake.stdout.close)
        self.addCleanup(fake.wait)
        self.addCleanup(fake.kill)
        fake.stdout.readline()
        environment = {
            **os.environ,
            "OPTIREDUCE_LIBRARY": str(CLIENT / "liboptireduce.so.0"),
            "PYTHONPATH": str(CLIENT / "python"),
        }
        program = ["/usr/bin/python3", str(CLIENT / "examples/digits.py"), "--rank=0", "--world=1", "--steps=80"]
        daemon = [f"--socket={socket}", f"--rendezvous={folder}", "--soft-ms=50"]
        runs = [[], daemon, [*daemon, "--min-fraction=0.9"]]
        alone, over_daemon, judged = (
            [json.loads(line) for line in subprocess.check_output(program + run, env=environment).splitlines()]
            for run in runs
        )
        self.assertEqual([r["loss"] for r in alone], [r["loss"] for r in over_daemon])
        self.assertEqual(over_daemon[0].keys(), alone[0].keys())
        self.assertEqual({r["status"] for r in over_daemon}, {"complete"})
        self.assertEqual([r["loss"] for r in judged], [r["loss"] for r in alone])
        self.assertEqual({r["used"] for r in judged}, {True})

    def test_a_step_that_is_not_used_changes_nothing(self):
        class Skipping(digits.NoExchange):
            def close_step(self, step, parameters):
                return step != 2

        seen = []
        for network, _, report in digits.train_rank(0, 1, Skipping(), steps=4):
            seen.append((report.used, network.parameters.copy()))
        self.assertEqual([used for used, _ in seen], [True, False, True, True])
        changed = [(a != b).any() for (_, a), (_, b) in zip(seen, seen[1:])]
        self.assertEqual(changed, [False, True, True])

    def test_the_gradient_is_the_slope_of_the_loss(self):
        rng = numpy.random.default_rng(5)
        network = digits.Network(seed=6)
        images = self.test_images.where(slice(0, 50))
        gradient = numpy.zeros_like(network.parameters)
        network.loss_and_gradient(images, gradient)
        unused = numpy.zeros_like(gradient)
        for _ in range(5):
            direction = rng.normal(size=len(gradient)).astype(numpy.float32)
            direction *= 0.01 / numpy.linalg.norm(direction)
            start = network.parameters.copy()
            network.parameters = start + direction
            above = network.loss_and_gradient(images, unused)
            network.parameters = start - direction
            below = network.loss_and_gradient(images, unused)
            network.parameters = start
            slope = 2 * float(gradient @ direction)
            self.assertAlmostEqual(above - below, slope, delta=0.02 * abs(slope) + 2e-5)


if __name__ == "__main__":
    unittest.main()
