"""A test case whose ranks are sessions of its own process, on the daemons of four
hosts: a control socket can be reached from anywhere. To make one rank miss
something, the way from host 0 to host 1 is blocked during an operation.
"""

import concurrent.futures
import contextlib
import os
import sys
import unittest

import hosts

os.environ["OPTIREDUCE_LIBRARY"] = str(hosts.built("client/liboptireduce.so.0"))
sys.path.insert(0, str(hosts.ROOT / "client/python"))

import optireduce

HOSTS = 4
COUNT = 40_000
SETTINGS = {"soft_ms": 200, "hard_ms": 5000, "suspect_after_ms": 5000, "dead_after_ms": 20_000}
AVERAGE = (HOSTS + 1) / 2  # of what `gradient` gives the ranks


def gradient(rank):
    return rank + 1


class RanksTest(unittest.TestCase):
    settings = SETTINGS

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

    def each(self, call, ranks=range(HOSTS)):
        """call(rank) in a thread per rank; the results by rank."""
        return [future.result() for future in [self.pool.submit(call, rank) for rank in ranks]]

    def create(self, rank, world, host):
        session = optireduce.connect(self.lab.socket(host), segment_bytes=4 << 20)
        self.addCleanup(session.close)
        group = session.create_group(rank, world, rendezvous_dir=self.lab.folder, name=self.name, timeout_s=30,
                                     **self.settings)
        return group, group.allocate(COUNT)

    def join(self, hosts_of_ranks=range(HOSTS)):
        """A group of new sessions on these hosts: (group, array) by rank."""
        world = len(hosts_of_ranks)
        return self.each(lambda rank: self.create(rank, world, hosts_of_ranks[rank]), range(world))

    @contextlib.contextmanager
    def one_way(self, sender=0, receivers=(1,)):
        """Nothing gets from one host to some others."""
        for receiver in receivers:
            self.lab.netlab("block", str(sender), str(receiver))
        try:
            yield
        finally:
            self.lab.netlab("unblock")

    def reduce(self, ranks, step, values):
        """One operation of a step, with values(rank) in every element: the reports."""

        def run(rank):
            group, array = ranks[rank]
            array[:] = values(rank)
            return group.all_reduce(array, bucket=1, step=step).wait()

        return self.each(run, range(len(ranks)))

    def close(self, ranks, step, used=True):
        return self.each(lambda rank: ranks[rank][0].close_step(step, used), range(len(ranks)))

    def rest(self, ranks, steps):
        """What further steps bring that have nothing of their own, by rank."""
        total = [0.0 for _ in ranks]
        for step in steps:
            self.reduce(ranks, step, lambda rank: 0)
            self.close(ranks, step)
            for rank, (_, array) in enumerate(ranks):
                total[rank] += array.astype(float)
        return total
