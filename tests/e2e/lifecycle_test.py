"""What becomes of trainers when other trainers, or daemons, die, stop or disagree.

Real daemons on hosts of their own; the test's own ranks are sessions of this
process, as a control socket can be reached from anywhere.
"""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import hosts

os.environ["OPTIREDUCE_LIBRARY"] = str(hosts.built("client/liboptireduce.so.0"))
sys.path.insert(0, str(hosts.ROOT / "client/python"))

import numpy

import optireduce

HOSTS = 3
KILLS = int(os.environ.get("LIFECYCLE_KILLS", "5"))
COUNT = 100_000
SETTINGS = {"soft_ms": 100, "hard_ms": 2000, "heartbeat_ms": 30, "suspect_after_ms": 100, "dead_after_ms": 1000}


def leftovers():
    """What shared memory and hugepages hold on this machine."""
    free = [line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if "HugePages_Free" in line]
    return sorted(os.listdir("/dev/shm")), free


class LifecycleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = hosts.Hosts(HOSTS)
        cls.lab.__enter__()
        cls.addClassCleanup(cls.lab.__exit__)
        cls.pool = concurrent.futures.ThreadPoolExecutor(HOSTS)
        cls.addClassCleanup(cls.pool.shutdown)
        cls.names = 0

    def setUp(self):
        type(self).names += 1
        self.name = f"group{self.names}"

    # ---- helpers ----

    def each(self, call, ranks=range(HOSTS)):
        """call(rank) in a thread per rank; the results, or exceptions, by rank."""
        futures = [self.pool.submit(call, rank) for rank in ranks]
        return [future.exception() or future.result() for future in futures]

    def connect(self, host):
        session = optireduce.connect(self.lab.socket(host), segment_bytes=4 << 20)
        self.addCleanup(session.close)
        return session

    def join(self, sessions, **settings):
        """A group of these sessions, by rank."""
        world = len(sessions)

        def create(rank):
            return sessions[rank].create_group(rank, world, rendezvous_dir=self.lab.folder, name=self.name,
                                               timeout_s=30, **{**SETTINGS, **settings})

        groups = self.each(create, range(world))
        for group in groups:
            if isinstance(group, Exception):
                raise group
        return groups

    def reduce_all(self, groups, **options):
        """One all-reduce of ones by all ranks: reports or exceptions."""

        def reduce(rank):
            array = groups[rank].allocate(COUNT)
            array[:] = 1
            return groups[rank].all_reduce(array, **options).wait()

        return self.each(reduce, range(len(groups)))

    def assert_works(self, groups):
        reports = self.reduce_all(groups, mode="exact")
        self.assertEqual([getattr(report, "status", None) for report in reports], ["complete"] * len(groups), reports)

    def start_trainer(self, rank, world, host):
        trainer = self.lab.start(
            host, "env", f"PYTHONPATH={hosts.ROOT}/client/python", sys.executable,
            pathlib.Path(hosts.__file__).parent / "trainer.py", self.lab.socket(host), rank, world, self.lab.folder,
            self.name, *(f"{key}={value}" for key, value in SETTINGS.items()), stdout=subprocess.PIPE,
        )
        self.addCleanup(trainer.stdout.close)
        self.addCleanup(trainer.wait)
        self.addCleanup(trainer.kill)
        return trainer

    def join_beside_trainer(self, sessions):
        """A group of these sessions and, as its last rank, a trainer of its own."""
        world = len(sessions) + 1
        trainer = self.start_trainer(world - 1, world, world - 1)

        def create(rank):
            return sessions[rank].create_group(rank, world, rendezvous_dir=self.lab.folder, name=self.name,
                                               timeout_s=30, **SETTINGS)

        groups = self.each(create, range(len(sessions)))
        for group in groups:
            if isinstance(group, Exception):
                raise group
        self.assertEqual(trainer.stdout.readline(), "ready\n")
        return trainer, groups

    def reduce_until_lost(self, groups):
        """Operations until each rank is told of a loss: (seconds, error) by rank.

        No operation may outlive its hard limit.
        """
        start = time.monotonic()

        def reduce(rank):
            array = groups[rank].allocate(COUNT)
            while time.monotonic() - start < 30:
                began = time.monotonic()
                try:
                    groups[rank].all_reduce(array).wait()
                except optireduce.Error as error:
                    return time.monotonic() - start, error
                finally:
                    self.assertLess(time.monotonic() - began, SETTINGS["hard_ms"] / 1000 + 1)
            return None

        return self.each(reduce, range(len(groups)))

    def await_event(self, group, event):
        """Events take another way than the ends of operations: they may come after."""
        end = time.monotonic() + 5
        seen = []
        while event not in seen:
            self.assertLess(time.monotonic(), end, seen)
            seen += group.events()
            time.sleep(0.01)

    # ---- trainers that die ----

    def test_killed_trainers_are_named_and_the_rest_goes_on(self):
        before = leftovers()
        sessions = [self.connect(0), self.connect(1)]
        for _ in range(KILLS):
            trainer, groups = self.join_beside_trainer(sessions)
            for report in self.reduce_all(groups):
                self.assertIn(report.status, ("complete", "partial"))
            trainer.kill()
            for seconds, error in self.reduce_until_lost(groups):
                self.assertIsInstance(error, optireduce.PeerLostError)
                self.assertLess(seconds, 5)
            self.await_event(groups[0], optireduce.Event("lost", 2))
            for group in groups:
                group.leave()
            # The same name, at once, without the dead one.
            pair = self.join(sessions)
            self.assert_works(pair)
            for group in pair:
                group.leave()
        self.assertEqual(leftovers(), before)

    def test_a_stopped_trainer_delays_nobody_past_the_soft_limit_and_catches_up(self):
        sessions = [self.connect(host) for host in range(HOSTS)]
        groups = self.join(sessions, quorum_permille=600)
        arrays = [group.allocate(COUNT) for group in groups]
        # Ranks 0 and 1 alone: rank 2 "sleeps".
        for step in range(5):
            began = time.monotonic()
            for report in self.each(lambda rank: groups[rank].all_reduce(arrays[rank]).wait(), range(2)):
                self.assertEqual(report.status, "partial")
                self.assertEqual(report.missing_ranks, [2], step)
            self.assertLess(time.monotonic() - began, 2)
        for _ in range(5):  # served from what is kept
            self.assertIn(groups[2].all_reduce(arrays[2]).wait(5).status, ("complete", "partial"))
        self.assert_works(groups)

    # ---- daemons that die ----

    def test_killed_daemons_are_lost_at_once_and_come_back(self):
        before = leftovers()
        for _ in range(KILLS):
            sessions = [self.connect(host) for host in range(HOSTS)]
            groups = self.join(sessions)
            self.assert_works(groups)
            held = groups[2].all_reduce(groups[2].allocate(COUNT))
            self.lab.daemons[2].kill()
            began = time.monotonic()
            with self.assertRaises(optireduce.DaemonLostError):
                held.wait()
            self.assertLess(time.monotonic() - began, 2)
            for seconds, error in self.reduce_until_lost(groups[:2]):
                self.assertIsInstance(error, optireduce.PeerLostError)
                self.assertLess(seconds, 10)
            self.lab.restart_daemon(2)
            for group in groups[:2]:
                group.leave()
            for session in sessions:
                session.close()
            again = [self.connect(host) for host in range(HOSTS)]
            self.assert_works(self.join(again))
            for session in again:
                session.close()
        self.assertEqual(leftovers(), before)

    def test_a_stopped_daemon_holds_its_trainer_no_longer_than_asked(self):
        sessions = [self.connect(host) for host in range(HOSTS)]
        groups = self.join(sessions, dead_after_ms=20_000)
        self.lab.daemons[2].send_signal(signal.SIGSTOP)
        try:
            operation = groups[2].all_reduce(groups[2].allocate(COUNT))
            began = time.monotonic()
            with self.assertRaises(optireduce.WaitTimeoutError):
                operation.wait(0.3)
            self.assertLess(time.monotonic() - began, 1.5)
        finally:
            self.lab.daemons[2].send_signal(signal.SIGCONT)
        reports = self.reduce_all(groups[:2])
        operation.wait()  # late, but there
        self.assertNotIn(None, reports)
        self.assert_works(groups)

    # ---- formation ----

    def test_missing_ranks_are_named(self):
        session = self.connect(0)
        with self.assertRaisesRegex(optireduce.FormationError, "rank 1, 2"):
            session.create_group(0, 3, rendezvous_dir=self.lab.folder, name=self.name, timeout_s=0.5)

    def test_settings_that_differ_are_refused_on_all_ranks(self):
        sessions = [self.connect(host) for host in range(2)]

        def create(rank):
            return sessions[rank].create_group(rank, 2, rendezvous_dir=self.lab.folder, name=self.name, timeout_s=20,
                                               soft_ms=100 + rank, window=8 + rank)

        for error in self.each(create, range(2)):
            self.assertIsInstance(error, optireduce.FormationError)
            for word in ("result_bound_us", "100000", "101000", "window", "8", "9"):
                self.assertIn(word, str(error))

    def test_one_rank_twice_is_refused(self):
        sessions = [self.connect(host) for host in range(2)]

        def create(unused):
            return sessions[unused].create_group(0, 2, rendezvous_dir=self.lab.folder, name=self.name, timeout_s=20)

        for error in self.each(create, range(2)):
            self.assertIsInstance(error, optireduce.FormationError)
            self.assertIn("rank 0", str(error))

    def test_the_same_name_a_hundred_times(self):
        sessions = [self.connect(host) for host in range(2)]
        self.assert_works(self.join(sessions))
        descriptors = [len(os.listdir(f"/proc/{daemon.pid}/fd")) for daemon in self.lab.daemons]
        for _ in range(100):
            for group in self.join(sessions):
                group.leave()
                group.leave()
        self.assert_works(self.join(sessions))
        self.assertEqual([len(os.listdir(f"/proc/{daemon.pid}/fd")) for daemon in self.lab.daemons], descriptors)

    # ---- operations ----

    def test_two_groups_and_several_ranks_on_a_host(self):
        sessions = [self.connect(0), self.connect(0), self.connect(1)]
        first = self.join(sessions)
        self.name += "b"
        second = self.join(list(reversed(sessions)))
        for _ in range(5):
            self.assert_works(first)
            self.assert_works(second)

    def test_operations_that_differ_are_an_error_with_both(self):
        sessions = [self.connect(host) for host in range(2)]
        groups = self.join(sessions)

        def reduce(rank):
            return groups[rank].all_reduce(groups[rank].allocate(100 + rank), "sum", "exact").wait()

        for rank, error in enumerate(self.each(reduce, range(2))):
            self.assertIsInstance(error, optireduce.MismatchError)
            self.assertIn(f"{100 + rank} elements", str(error))
            self.assertIn(f"rank {1 - rank} submitted", str(error))
            self.assertIn(f"{101 - rank} elements", str(error))

    def test_what_does_not_go_together_is_refused_by_name(self):
        groups = self.join([self.connect(0)])
        array = groups[0].allocate(10, "int32")
        array[:] = 7
        with self.assertRaisesRegex(optireduce.UnsupportedError, "avg int32"):
            groups[0].all_reduce(array, "avg", "exact").wait()
        numpy.testing.assert_array_equal(array, 7)
        self.assertEqual(groups[0].all_reduce(array, "sum").wait().op_seq,
                         groups[0].all_reduce(groups[0].allocate(1)).wait().op_seq - 1)

    def test_buffers_are_not_touched_after_the_end(self):
        self.lab.netlab("loss", "20")
        try:
            sessions = [self.connect(host) for host in range(HOSTS)]
            groups = self.join(sessions, soft_ms=5)
            arrays = [group.allocate(COUNT) for group in groups]
            for _ in range(20):
                for report in self.each(lambda rank: groups[rank].all_reduce(arrays[rank]).wait()):
                    self.assertIsInstance(report, optireduce.Report)
                for array in arrays:
                    array.view("uint8")[:] = 0xA5
                time.sleep(0.01)
                for array in arrays:
                    self.assertTrue((array.view("uint8") == 0xA5).all())
        finally:
            self.lab.netlab("loss", "0")

    def test_a_forked_child_is_told_and_the_parent_goes_on(self):
        groups = self.join([self.connect(0)])
        array = groups[0].allocate(10)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                groups[0].all_reduce(array)
            except optireduce.NotInheritedError:
                code = 0
            os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(groups[0].all_reduce(array).wait().status, "complete")

    def test_one_element_is_never_ended_by_a_limit(self):
        groups = self.join([self.connect(0)], hard_ms=5000)
        array = groups[0].allocate(1)
        for _ in range(20_000):
            self.assertEqual(groups[0].all_reduce(array, "sum", "exact").wait(5).cause, "all in")


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
