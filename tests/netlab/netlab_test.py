"""Proves that a lab is what the other tests and benchmarks take it for.

The rate cannot be exceeded by either side, segmentation offloads are off, loss
drops the configured share and says so, a block works one way, two labs do not
touch each other, and nothing is left behind, whoever is killed.
"""

import contextlib
import importlib.machinery
import importlib.util
import itertools
import json
import math
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
NETLAB = str(HERE / "netlab")
SCRATCH = os.environ.get("TEST_TMPDIR", "/tmp")

RATE = "40mbit"  # low, so that a busy machine can fill it
BITS_PER_SECOND = 40_000_000
SECONDS = 1.5
BURST = 32 * 1024  # what a token bucket lets through at once, in bytes


# ---- senders, run on a host as `netlab_test.py VERB ...` ------------------


def host_mac(host):
    return bytes([2, 0x99, 0, 0, 0, host + 1])


def udp_frame(source, target, size):
    """A whole UDP/IPv4 frame with a right header checksum, `size` bytes long."""
    length = size - 14
    # The address left free for a daemon: the kernel there stays silent.
    addresses = bytes([10, 99, 1, source + 1, 10, 99, 1, target + 1])
    header = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", 0xFFFF - total) + header[12:]
    udp = struct.pack(">HHHH", 9, 9, length - 20, 0)
    return host_mac(target) + host_mac(source) + b"\x08\x00" + header + udp + bytes(length - 28)


def send_frames(targets, size, count):
    """Frames through AF_PACKET and the queueing discipline, as DPDK sends them."""
    source = int(os.environ["RANK"])
    frames = itertools.cycle([udp_frame(source, target, size) for target in targets])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as port:
        port.bind(("eth0", 0))
        for frame in itertools.islice(frames, count):
            while True:
                try:
                    port.send(frame)
                    break
                except OSError:  # ENOBUFS: the bucket's queue is full
                    time.sleep(0.001)


def flood_datagrams(targets):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        for target in itertools.cycle(targets):
            with contextlib.suppress(OSError):  # ICMP port unreachable
                port.sendto(bytes(1400), (f"10.99.0.{target + 1}", 9))


def sender(verb, targets, size=0, count=0):
    targets = [int(target) for target in targets.split(",")]
    if verb == "frames":
        send_frames(targets, int(size), int(count))
    elif verb == "flood-frames":
        send_frames(targets, 1514, sys.maxsize)
    elif verb == "flood-datagrams":
        flood_datagrams(targets)


# ---- a lab ---------------------------------------------------------------


class Lab:
    """A lab in a state directory of its own; a context that ends with `down`."""

    def __init__(self, *up):
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="lab", dir=SCRATCH)) / "state"
        self.up = up

    def __enter__(self):
        self.run("up", *self.up)
        return self

    def __exit__(self, *_):
        self.run("down")

    def start(self, *args, **options):
        environment = {**os.environ, "NETLAB_STATE": str(self.state)}
        return subprocess.Popen([NETLAB, *args], env=environment, text=True, **options)

    def try_run(self, *args):
        child = self.start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def run(self, *args):
        status, out, err = self.try_run(*args)
        if status:
            raise AssertionError(f"netlab {' '.join(args)}: {status} {out} {err}")
        return out

    def counters(self):
        return json.loads(self.run("counters"))

    def send(self, host, verb, *args):
        """Starts a sender of this file on a host."""
        return self.start("exec", str(host), "/usr/bin/python3", __file__, verb, *args)

    def send_frames(self, host, target, size, count):
        child = self.send(host, "frames", str(target), str(size), str(count))
        assert child.wait(timeout=60) == 0


def end(child):
    child.kill()
    child.wait()


class NetlabTest(unittest.TestCase):

    # ---- rate ----

    def check_saturated_ports(self, lab, ports):
        """In a window of time each of these (host, direction) carries the rate and not more."""
        time.sleep(0.3)  # the senders' start is not part of the window
        before_outer = time.monotonic()
        before = lab.counters()
        before_inner = time.monotonic()
        time.sleep(SECONDS)
        after_inner = time.monotonic()
        after = lab.counters()
        after_outer = time.monotonic()
        for host, direction in ports:
            carried = 8 * (after["ports"][host][direction]["bytes"] - before["ports"][host][direction]["bytes"])
            most = BITS_PER_SECOND * (after_outer - before_outer) + 8 * BURST
            least = 0.75 * BITS_PER_SECOND * (after_inner - before_inner)
            self.assertLessEqual(carried, most, f"host {host} {direction} above the rate")
            self.assertGreaterEqual(carried, least, f"host {host} {direction}: the test did not fill the port")

    def test_neither_side_exceeds_the_rate_by_udp(self):
        for flood in ("flood-datagrams", "flood-frames"):
            with self.subTest(flood), Lab("3", "--rate", RATE) as lab:
                pairs = {0: "1,2", 1: "0,2", 2: "0,1"}
                senders = [lab.send(host, flood, targets) for host, targets in pairs.items()]
                self.check_saturated_ports(lab, itertools.product(range(3), ("sent", "received")))
                for child in senders:
                    end(child)

    def test_two_senders_cannot_exceed_one_receivers_rate(self):
        with Lab("3", "--rate", RATE) as lab:
            senders = [lab.send(host, "flood-frames", "0") for host in (1, 2)]
            self.check_saturated_ports(lab, [(0, "received"), (1, "sent"), (2, "sent")])
            self.assertGreater(lab.counters()["ports"][0]["receive_queue_drops"], 0)
            for child in senders:
                end(child)

    def test_neither_side_exceeds_the_rate_by_tcp(self):
        with Lab("2", "--rate", RATE) as lab:
            server = lab.start("exec", "1", "iperf3", "-s", "-1", "--forceflush", stdout=subprocess.PIPE)
            while "listening" not in server.stdout.readline():
                pass
            client = lab.start("exec", "0", "iperf3", "-c", "10.99.0.2", "--bidir", "-t", "30",
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.check_saturated_ports(lab, itertools.product(range(2), ("sent", "received")))
            # With a segmentation offload on, frames of up to 64 kB would cross the switch.
            for port in lab.counters()["ports"]:
                self.assertLessEqual(port["sent"]["bytes"] / port["sent"]["frames"], 1514)
            end(client)
            end(server)
            server.stdout.close()

    def test_offloads_are_off(self):
        with Lab("2") as lab:
            views = [
                lab.run("exec", "1", "ethtool", "-k", "eth0"),
                subprocess.run(["nsenter", f"--net={lab.state}/switch", "/usr/sbin/ethtool", "-k", "p1"],
                               text=True, check=True, capture_output=True).stdout,
            ]
            for view in views:
                for feature in ("tcp-segmentation-offload", "generic-segmentation-offload",
                                "generic-receive-offload", "tx-checksumming"):
                    self.assertIn(f"{feature}: off", view)

    # ---- the switch ----

    def test_loss_is_the_configured_share_and_counted(self):
        frames, share = 20_000, 0.1
        with Lab("2", "--rate", "100mbit") as lab:
            lab.run("loss", str(100 * share))
            lab.send_frames(0, 1, 100, frames)
            found = self.settled(lab, lambda c: c["lost"]["frames"] + c["forwarded"]["frames"] == frames)
            lost = found["lost"]["frames"]
            self.assertLess(abs(lost - share * frames), 5 * math.sqrt(frames * share * (1 - share)))
            self.assertEqual(found["lost_udp"]["frames"], lost)
            self.assertEqual(found["ports"][1]["received"]["frames"], frames - lost)

            lab.run("loss", "0")
            lab.send_frames(0, 1, 100, 1000)
            found = self.settled(lab, lambda c: c["forwarded"]["frames"] == frames - lost + 1000)
            self.assertEqual(found["lost"]["frames"], lost)

            lab.run("loss", "100")
            lab.send_frames(0, 1, 100, 1000)
            self.settled(lab, lambda c: c["lost"]["frames"] == lost + 1000)

    def settled(self, lab, condition):
        """Counters once the last frames have left the queues."""
        limit = time.monotonic() + 10
        while True:
            found = lab.counters()
            if condition(found):
                return found
            self.assertLess(time.monotonic(), limit, found)
            time.sleep(0.02)

    def test_a_block_works_one_way_and_can_be_lifted(self):
        with Lab("2") as lab:
            lab.run("block", "0", "1")
            lab.send_frames(0, 1, 100, 50)
            lab.send_frames(1, 0, 100, 70)
            found = self.settled(lab, lambda c: c["blocked"]["frames"] == 50 and c["forwarded"]["frames"] == 70)
            self.assertEqual(found["ports"][1]["received"]["frames"], 0)
            self.assertEqual(found["ports"][0]["received"]["frames"], 70)
            lab.run("unblock")
            lab.send_frames(0, 1, 100, 30)
            self.settled(lab, lambda c: c["ports"][1]["received"]["frames"] == 30)

    # ---- labs and processes ----

    def test_two_labs_side_by_side(self):
        with Lab("2") as left, Lab("3") as right:
            left.run("loss", "100")
            left.send_frames(0, 1, 100, 10)
            right.send_frames(0, 1, 100, 20)
            self.settled(left, lambda c: c["lost"]["frames"] == 10 and c["forwarded"]["frames"] == 0)
            self.settled(right, lambda c: c["lost"]["frames"] == 0 and c["forwarded"]["frames"] == 20)
            left.run("down")
            self.assertEqual(right.run("all", "sh", "-c", "echo $RANK").count("h"), 3)

    def test_commands_see_their_host_and_return_their_status(self):
        with Lab("3") as lab:
            show = "echo $RANK/$WORLD_SIZE $NETLAB_ADDRESS $NETLAB_DAEMON_ADDRESS"
            self.assertEqual(lab.run("exec", "1", "--", "sh", "-c", show), "1/3 10.99.0.2 10.99.1.2\n")
            self.assertEqual(lab.try_run("exec", "2", "sh", "-c", "exit 7")[0], 7)
            out = lab.run("all", "sh", "-c", show)
            self.assertEqual(sorted(out.splitlines())[2], "h2: 2/3 10.99.0.3 10.99.1.3")
            self.assertEqual(lab.try_run("all", "sh", "-c", "exit $RANK")[0], 1)
            self.assertEqual(lab.try_run("all", "sh", "-c", "[ $RANK -lt 3 ]")[0], 0)

    def test_refusals_say_what_is_wrong(self):
        with Lab("2") as lab:
            for args, words in [
                (("up", "2"), "up already"),
                (("exec", "2", "true"), "no host 2"),
                (("block", "0", "-1"), "no host -1"),
                (("loss", "101"), "0 to 100"),
            ]:
                status, _, err = lab.try_run(*args)
                self.assertNotEqual(status, 0)
                self.assertIn(words, err)
        status, _, err = lab.try_run("counters")
        self.assertNotEqual(status, 0)
        self.assertIn("no lab is up", err)

    def test_down_cleans_up_after_kill_9(self):
        lab = Lab("2")
        for delay in (0.05, 0.1, 0.2):  # somewhere in the middle of a large `up`
            child = lab.start("up", "100")
            time.sleep(delay)
            end(child)
            lab.run("down")
            self.assert_nothing_left(lab)
        lab.run("up", "2")
        child = lab.start("all", "sleep", "1000")
        time.sleep(0.3)
        end(child)
        detached = lab.start("exec", "0", "setsid", "sleep", "1000")
        time.sleep(0.3)
        lab.run("down")
        self.assertEqual(detached.wait(timeout=10), -signal.SIGKILL)
        self.assert_nothing_left(lab)

    def assert_nothing_left(self, lab):
        self.assertFalse(lab.state.exists())
        self.assertNotIn(str(lab.state), pathlib.Path("/proc/self/mounts").read_text())

    def test_an_ordinary_users_namespaces_suffice(self):
        if subprocess.run(["unshare", "-rnm", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no user namespaces here, as in a chroot")
        # /run, where a lab is kept by default, is not his to write to.
        hide = "mount -t tmpfs -o ro tmpfs /run"
        script = f"{hide} && {NETLAB} up 2 --rate 10mbit && {NETLAB} all true && {NETLAB} loss 1 && {NETLAB} down"
        environment = {name: value for name, value in os.environ.items() if name != "NETLAB_STATE"}
        done = subprocess.run(["unshare", "-rnm", "sh", "-c", script], env=environment,
                              text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    # ---- background traffic ----

    def test_background_traffic_flows_and_its_seed_decides_it(self):
        loader = importlib.machinery.SourceFileLoader("netlab", NETLAB)
        netlab = importlib.util.module_from_spec(importlib.util.spec_from_loader("netlab", loader))
        loader.exec_module(netlab)
        plan = [list(itertools.islice(netlab.bursts(seed, 1, 4), 50)) for seed in (5, 5, 6)]
        self.assertEqual(plan[0], plan[1])
        self.assertNotEqual(plan[0], plan[2])
        self.assertNotIn(1, [target for _, target, _ in plan[0]])

        with Lab("3", "--rate", RATE) as lab:
            out = lab.run("background", "--seconds", "4", "--seed", "7")
            self.assertIn("seed 7", out)
            self.assertGreater(lab.counters()["forwarded"]["bytes"], 1_000_000)


if __name__ == "__main__":
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        sender(*sys.argv[1:])
    elif os.geteuid() == 0 and "NETLAB_TEST_NESTED" not in os.environ:
        unittest.main(verbosity=2)
    else:
        os.environ["NETLAB_TEST_NESTED"] = "1"
        os.execvp("unshare", ["unshare", "-rnm", "/usr/bin/python3", *sys.argv])
