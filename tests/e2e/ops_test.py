"""`optictl ops` over real daemons: it says which rank was late and by how much, how
each stage closed, what was sent again and what became of what was lost.

The test's own ranks are sessions of this process, as a control socket can be
reached from anywhere.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
import unittest

import hosts

os.environ["OPTIREDUCE_LIBRARY"] = str(hosts.built("client/liboptireduce.so.0"))
sys.path.insert(0, str(hosts.ROOT / "client/python"))

import optireduce

HOSTS = 4
COUNT = 40_000
SHARD = COUNT // HOSTS
PACKETS = -(-SHARD // 356)  # of a shard
SETTINGS = {"soft_ms": 200, "hard_ms": 5000, "suspect_after_ms": 5000, "dead_after_ms": 20_000}
LATE_S = 0.5
LOSSY_OPS = 10
LIMIT_S = 20


class OpsTest(unittest.TestCase):
    def setUp(self):
        self.lab = hosts.Hosts(HOSTS)
        self.lab.__enter__()
        self.addCleanup(self.lab.__exit__)
        self.pool = concurrent.futures.ThreadPoolExecutor(HOSTS)
        self.addCleanup(self.pool.shutdown)
        self.ranks = self.each(self.create)

    def each(self, call):
        """call(rank) in a thread per rank; the results by rank."""
        return [future.result() for future in [self.pool.submit(call, rank) for rank in range(HOSTS)]]

    def create(self, rank):
        session = optireduce.connect(self.lab.socket(rank), segment_bytes=4 << 20)
        self.addCleanup(session.close)
        group = session.create_group(rank, HOSTS, rendezvous_dir=self.lab.folder, name="ops", timeout_s=30, **SETTINGS)
        return group, group.allocate(COUNT)

    def reduce(self, step=None, late=None):
        """One operation: the reports. The rank `late` comes after LATE_S."""

        def run(rank):
            group, array = self.ranks[rank]
            array[:] = rank + 1
            if rank == late:
                time.sleep(LATE_S)
            return group.all_reduce(array, bucket=1, step=step).wait()

        return self.each(run)

    def optictl(self, host, *args):
        command = [hosts.built("control/optictl/optictl"), f"--socket={self.lab.socket(host)}", "ops", *args]
        return subprocess.run(command, text=True, capture_output=True, timeout=60)

    def ask(self, host, report, until=lambda op: True):
        """What host `host` knows of the operation, once that is so."""
        end = time.monotonic() + LIMIT_S
        while True:
            done = self.optictl(host, "--json", f"--op={report.op_seq}")
            self.assertEqual(done.returncode, 0, done.stderr)
            (op,) = json.loads(done.stdout)["ops"]
            if until(op) or time.monotonic() > end:
                return op
            time.sleep(0.02)

    def tell(self, host, op):
        done = self.optictl(host, f"--group={op['group']}", f"--op={op['op_seq']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_late_rank_is_named(self):
        self.reduce()
        reports = self.reduce(late=3)
        for host in range(3):
            op = self.ask(host, reports[host], lambda op: op["openings"] == HOSTS)
            self.assertLess(op["duration_us"], LATE_S * 1e6)
            self.assertEqual((op["status"], op["missing"]), ("partial", [3]))
            last = op["last_openings"][0]
            self.assertEqual(last["rank"], 3)
            late_us = last["at_us"] - op["quorum_us"]
            self.assertGreater(late_us, 0.8 * LATE_S * 1e6)
            self.assertLess(late_us, 3 * LATE_S * 1e6)
            self.assertEqual(op["stage1"]["cause"], "bound")
            self.assertEqual(op["stage1"]["came"], 3 * PACKETS)
            (lack,) = op["stage1"]["lacking"]
            self.assertEqual((lack["rank"], lack["begun"], lack["packets"]), (3, False, PACKETS))
            # Its daemon has served it.
            self.assertEqual((op["stage2"]["cause"], op["stage2"]["came"]), ("all_in", HOSTS * PACKETS))
            self.assertIsNone(op["saved_us"])
            text = self.tell(host, op)
            self.assertRegex(text, r"Rank 3 began it [\d.]+ m?s after the quorum\.")
            self.assertRegex(text, rf"Of rank 3, which was not known to have begun the op, {PACKETS} packets lacked: "
                                   r"never came\.")
            self.assertIn("Time saved: unknown", text)
            self.assertRegex(self.optictl(host).stdout,
                             rf"bound [\d.]+ ms {3 * PACKETS}/{4 * PACKETS}.* 3 \+[\d.]+ m?s")
        # What it had to give was not summed, but for its own shard nor there.
        own = self.ask(3, reports[3], lambda op: op["owed"]["held"] == 0)
        self.assertEqual(own["stage2"]["cause"], "late_submit")
        self.assertEqual(own["owed"]["residual"], COUNT)

    def test_what_one_way_loses_is_residual_and_debt(self):
        self.reduce()
        self.lab.netlab("block", "0", "1")
        reports = self.reduce(step=1)
        blocked = self.ask(1, reports[1])
        self.assertEqual(blocked["stage1"]["cause"], "bound")
        self.assertEqual(blocked["stage2"]["cause"], "bound")
        for stage in ("stage1", "stage2"):
            (lack,) = blocked[stage]["lacking"]
            self.assertEqual((lack["rank"], lack["packets"], lack["late"]), (0, PACKETS, 0))
        self.assertEqual(blocked["owed"]["lacking"], SHARD)
        self.assertEqual(blocked["owed"]["held"], SHARD)
        # Rank 0 hears from rank 1 that it was not summed there.
        other = self.ask(0, reports[0], lambda op: op["owed"]["held"] == 0)
        self.assertEqual(other["owed"]["residual"], SHARD)
        self.assertIn(f"{SHARD} elements of this rank's contribution not summed: residual", self.tell(0, other))
        # The step of rank 1 is closed before the rest comes.
        self.ranks[1][0].close_step(1)
        self.lab.netlab("unblock")
        settled = self.ask(1, reports[1], lambda op: op["owed"]["lacking"] == 0)
        self.assertEqual((settled["owed"]["debt"], settled["owed"]["in_place"]), (SHARD, 0))
        (lack,) = settled["stage2"]["lacking"]
        self.assertEqual(lack["late"], PACKETS)
        self.assertGreater(settled["stage2"]["full_us"], settled["stage2"]["closed_us"])
        text = self.tell(1, settled)
        # Nor did it hear that rank 0 had begun.
        self.assertRegex(text, rf"Of rank 0, which was not known to have begun the op, {PACKETS} packets lacked: "
                               r"the last came [\d.]+ m?s after the close\.")
        self.assertIn(f"{SHARD} elements of the result came too late for that: debt", text)

    def test_what_was_sent_again_is_counted(self):
        self.reduce()
        self.lab.netlab("loss", "5")
        repaired = 0
        for _ in range(LOSSY_OPS):
            reports = self.reduce()
            for host, report in enumerate(reports):
                op = self.ask(host, report)
                stages = [op["stage1"], op["stage2"]]
                self.assertEqual(sum(stage["repaired"] for stage in stages), report.repaired)
                self.assertEqual(op["status"], report.status)
                if report.status == "complete":
                    self.assertEqual([stage["cause"] for stage in stages], ["all_in"] * 2)
                    self.assertEqual(op["saved_us"], 0)
                repaired += report.repaired
        self.assertGreater(repaired, 0)

    def test_what_is_not_remembered(self):
        done = self.optictl(0, "--op=4000000000")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("remembers no such op", done.stderr)


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
