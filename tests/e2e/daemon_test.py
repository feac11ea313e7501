"""optireduced as a process: how it starts, what it refuses, how it survives the
death of its clients and its own, and how it stops.
"""

import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import time
import unittest

import hosts

# A Request with id 1 that asks for the status.
STATUS_REQUEST = b"\x08\x01\x82\x01\x00"
# Limits that make the death of a rank a short story.
SHORT = "group_dead_after_us: 1000000 group_formation_limit_us: 2000000 group_hard_limit_us: 2000000"
# How often clients are killed; daemons a third of that.
KILLS = int(os.environ.get("DAEMON_TEST_KILLS", "12"))
# A client that submits until it is refused, reads no completion and stops.
STUCK = '''
import os, signal, sys
import optireduce
session = optireduce.connect(sys.argv[1])
group = session.create_group(0, 1, rendezvous_dir=sys.argv[2], name="stuck")
operations = []
try:
    while len(operations) < 100_000:
        operations.append(group.barrier())
except optireduce.BusyError:
    print("refused after", len(operations), flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
'''
EXIT_FAILURE, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_CONFIGURATION = 1, 2, 3, 78


def optictl(lab, *args, host=0):
    """Its output, or its exit code if that is not 0."""
    command = [hosts.built("control/optictl/optictl"), f"--socket={lab.socket(host)}", *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return done.returncode or done.stdout


def stats(lab, host=0):
    return json.loads(optictl(lab, "stats", "--json", host=host))


def await_value(what, wanted, limit_s=20):
    """Polls until what() is `wanted`."""
    end = time.monotonic() + limit_s
    while (value := what()) != wanted and time.monotonic() < end:
        time.sleep(0.02)
    return value


def daemon_pid(lab, host=0):
    return json.loads(optictl(lab, "status", "--json", host=host))["pid"]


def open_descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def leftovers():
    """What processes might leave behind on this machine."""
    meminfo = pathlib.Path("/proc/meminfo").read_text()
    pages = [line for line in meminfo.split("\n") if line.startswith("HugePages_Free")]
    return sorted(os.listdir("/dev/shm")), pages


class StartTest(unittest.TestCase):
    def run_daemon(self, lab, *flags, host=0, seconds=60, **environment):
        """A further daemon on a host: its exit code and its standard error."""
        words = [f"{name}={value}" for name, value in environment.items()]
        with lab.start(host, "env", *words, hosts.built("control/optireduced"), *flags, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE) as process:
            _, err = process.communicate(timeout=seconds)
        return process.returncode, err

    def test_what_is_refused(self):
        with hosts.Hosts(1) as lab:
            port, other = "--port=af_packet:eth0", f"--socket={lab.folder}/other"
            address = "--address=10.99.1.9/16"
            for flags, environment, code, words in [
                # Configuration.
                (["--hugepge=on"], {}, EXIT_CONFIGURATION, 'did you mean "--hugepages"?'),
                ([port, address], {"OPTIREDUCE_SOKET": "/s"}, EXIT_CONFIGURATION, "OPTIREDUCE_SOCKET"),
                ([port], {}, EXIT_CONFIGURATION, "address is not set"),
                ([port, "--address=127.0.0.1/8"], {}, EXIT_CONFIGURATION, "loopback"),
                (["--config=/nowhere"], {}, EXIT_CONFIGURATION, "No such file"),
                # The same socket, the same device, no such device, a CPU that is not there.
                ([port, address, f"--socket={lab.socket(0)}"], {}, EXIT_FAILURE, "another optireduced"),
                ([port, address, other], {}, EXIT_FAILURE, "in use by process"),
                (["--port=af_packet:eth7", address, other], {}, EXIT_FAILURE, "there are: "),
                ([port, address, other, "--mtu=9000"], {}, EXIT_FAILURE, ""),
            ]:
                result, err = self.run_daemon(lab, *flags, **environment)
                self.assertEqual(result, code, (flags, err))
                self.assertIn(words, err)
                self.assertFalse(os.path.exists(f"{lab.folder}/other"))
            # The first one has not noticed.
            self.assertEqual(json.loads(optictl(lab, "status", "--json"))["state"], "ready")

    def test_check_and_help_and_version(self):
        with hosts.Hosts(1) as lab:
            settings = f"{lab.folder}/daemon0.textproto"
            daemon = hosts.built("control/optireduced")
            out = subprocess.check_output([daemon, f"--config={settings}", "--check", "--mtu=1400"], text=True)
            self.assertIn("mtu = 1400  # flag --mtu\n", out)
            self.assertIn(f"address = 10.99.1.1/16  # file {settings}:2\n", out)
            self.assertIn("--config=FILE", subprocess.check_output([daemon, "--help"], text=True))
            self.assertIn("optireduced ", subprocess.check_output([daemon, "--version"], text=True))

    def test_an_address_that_another_host_has(self):
        with hosts.Hosts(2) as lab:
            lab.daemons[1].send_signal(signal.SIGTERM)
            self.assertEqual(lab.daemons[1].wait(timeout=30), 0)
            code, err = self.run_daemon(lab, "--port=af_packet:eth0", "--address=10.99.1.1/16",
                                        f"--socket={lab.folder}/other", host=1)
            self.assertEqual(code, EXIT_FAILURE)
            self.assertIn("another host has the address 10.99.1.1", err)

    def test_ready_only_when_the_gateway_answers(self):
        with hosts.Hosts(2) as lab:
            lab.daemons[1].send_signal(signal.SIGTERM)
            self.assertEqual(lab.daemons[1].wait(timeout=30), 0)
            # Host 0's daemon answers for 10.99.1.1; nobody does for 10.99.1.77.
            flags = [hosts.built("control/optireduced"), "--port=af_packet:eth0", "--address=10.99.1.2/16",
                     f"--socket={lab.socket(1)}"]
            log = open(lab.log(1), "w")
            silent = lab.start(1, *flags, "--gateway=10.99.1.77", stderr=log)
            await_value(lambda: "waiting: the gateway" in lab.log(1).read_text(), True)
            self.assertNotIn("is ready", lab.log(1).read_text())
            # It can be stopped while it waits.
            silent.send_signal(signal.SIGTERM)
            self.assertEqual(silent.wait(timeout=10), 0)
            good = lab.start(1, *flags, "--gateway=10.99.1.1", stderr=log)
            self.assertTrue(await_value(lambda: "is ready" in lab.log(1).read_text(), True))
            good.send_signal(signal.SIGTERM)
            self.assertEqual(good.wait(timeout=10), 0)
            log.close()

    def test_says_ready_to_the_service_manager(self):
        with hosts.Hosts(1) as lab:
            lab.daemons[0].send_signal(signal.SIGTERM)
            lab.daemons[0].wait(timeout=30)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(f"{lab.folder}/notify")
                manager.settimeout(30)
                daemon = lab.start(0, "env", f"NOTIFY_SOCKET={lab.folder}/notify", "WATCHDOG_USEC=600000",
                                   hosts.built("control/optireduced"), f"--config={lab.folder}/daemon0.textproto",
                                   stderr=subprocess.DEVNULL)
                seen = ""
                while "WATCHDOG=1" not in seen:
                    seen += manager.recv(4096).decode() + "\n"
                self.assertIn("READY=1\nSTATUS=ready", seen)
                daemon.send_signal(signal.SIGTERM)
                while "STOPPING=1" not in seen:
                    seen += manager.recv(4096).decode() + "\n"
                self.assertEqual(daemon.wait(timeout=10), 0)


class OptictlTest(unittest.TestCase):
    def test_exit_codes(self):
        with hosts.Hosts(1) as lab:
            self.assertEqual(optictl(lab, "stauts"), EXIT_USAGE)
            self.assertEqual(optictl(lab, "status", "--socket=/nowhere"), EXIT_UNREACHABLE)
            for command in ("status", "groups", "peers", "ops", "stats", "config"):
                self.assertIsInstance(json.loads(optictl(lab, command, "--json")), dict)
                self.assertIn("\n", optictl(lab, command))
            lab.daemons[0].send_signal(signal.SIGSTOP)
            self.assertEqual(optictl(lab, "status"), EXIT_UNREACHABLE)
            lab.daemons[0].send_signal(signal.SIGCONT)
            self.assertNotEqual(optictl(lab, "status"), EXIT_UNREACHABLE)

    def test_status_is_answered_soon_while_packets_flood(self):
        """K10."""
        with hosts.Hosts(2) as lab:
            ranks = [lab.start_optiperf(r, 2, "--mode=exact", "--counts=200000", "-n", "100000", "--inflight=8",
                                        "--check=0", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                     for r in range(2)]
            await_value(lambda: stats(lab)["engine_ops_done"] > 10, True)
            pid = daemon_pid(lab)
            slowest = max(self.answer_s(lab, pid) for _ in range(100))
            for rank in ranks:
                self.assertIsNone(rank.poll())
                rank.kill()
                rank.wait()
            self.assertLess(slowest, 0.1)

    def answer_s(self, lab, pid):
        """How long an answer took, less what the threads that it passes through waited for a processor.

        The flood alone keeps more threads busy than there may be processors, and how long one of them waits for
        its turn says nothing about the daemon. That it sleeps, or does other things first, does count.
        """
        def waited():
            return hosts.waited_s(os.getpid()) + hosts.waited_s(pid, "optireduced", "engine")

        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(10)
            before = waited()
            start = time.monotonic()
            client.connect(str(lab.socket(0)))
            client.send(STATUS_REQUEST)
            self.assertGreater(len(client.recv(4096)), 10)
            took = time.monotonic() - start
        return took - (waited() - before)


class DeathTest(unittest.TestCase):
    def start_ranks(self, lab, name):
        return [lab.start_optiperf(r, 2, "--mode=exact", "--counts=30000", "-n", "100000", "--check=0",
                                   f"--name={name}", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for r in range(2)]

    def test_killed_clients_leave_nothing(self):
        """S02, S17 in small; control/dispatcher_session_test.cc has every moment of the handshake."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        rng = random.Random(seed)
        before = leftovers()
        with hosts.Hosts(2, config=SHORT) as lab:
            pid = daemon_pid(lab)
            descriptors = open_descriptors(pid)
            for kill in range(KILLS):
                ranks = self.start_ranks(lab, f"kill{kill}")
                # A rank that never came would keep the other waiting at their rendezvous.
                await_value(lambda: stats(lab)["control_groups"], 1)
                time.sleep(rng.uniform(0.05, 0.3))
                ranks[0].kill()
                ranks[0].wait()
                # The survivor hears of it, at the latest by its limits.
                self.assertNotEqual(ranks[1].wait(timeout=60), 0)
            for host in range(2):
                def in_use():
                    return {name: value for name, value in stats(lab, host).items()
                            if name.startswith("control_") and value}
                self.assertEqual(await_value(in_use, {}), {})
            self.assertEqual(await_value(lambda: open_descriptors(pid), descriptors), descriptors)
            self.assertEqual(daemon_pid(lab), pid)
            self.assertEqual(lab.optiperf("--mode=exact", "--counts=1000", "-n", "3", "--check")[0]["wrong"], 0)
        self.assertEqual(leftovers(), before)

    def test_a_killed_daemon_is_restarted_at_once(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        rng = random.Random(seed)
        before = leftovers()
        with hosts.Hosts(2, config=SHORT) as lab:
            for kill in range(KILLS // 3):
                ranks = self.start_ranks(lab, f"kill{kill}")
                time.sleep(rng.uniform(0.2, 1))
                lab.daemons[0].kill()
                for rank in ranks:
                    self.assertNotEqual(rank.wait(timeout=60), 0)
                lab.restart_daemon(0)
                self.assertEqual(lab.optiperf("--mode=exact", "--counts=1000", "-n", "3", "--check")[0]["wrong"], 0)
            files = sorted(path.name for path in lab.folder.iterdir() if path.name.startswith("s0"))
            self.assertEqual(files, ["s0", "s0.lock"])
        self.assertEqual(leftovers(), before)

    def test_sigterm_lets_ops_end_and_tells_everybody(self):
        with hosts.Hosts(2, config=SHORT) as lab:
            ranks = self.start_ranks(lab, "stop")
            await_value(lambda: stats(lab)["engine_ops_done"] > 10, True)
            start = time.monotonic()
            lab.daemons[0].send_signal(signal.SIGTERM)
            self.assertEqual(lab.daemons[0].wait(timeout=30), 0)
            self.assertLess(time.monotonic() - start, 9)
            self.assertFalse(lab.socket(0).exists())
            for rank in ranks:
                self.assertNotEqual(rank.wait(timeout=30), 0)
            log = lab.log(0).read_text()
            self.assertIn("stopping", log)
            self.assertIn("stopped", log)
            self.assertNotIn("did not come back", log)

    def test_a_client_that_reads_nothing_delays_nobody(self):
        """S16: operations beside such a client take as long as on a host without one."""
        with hosts.Hosts(2) as lab:
            def median_us(host, name):
                command = [hosts.built("client/optiperf/optiperf"), f"--socket={lab.socket(host)}", "--rank=0",
                           "--world=1", f"--rendezvous={lab.folder}", f"--name={name}", "--mode=exact", "--counts=1000",
                           "-n", "1000", f"--json={lab.folder}/{name}.json"]
                self.assertEqual(lab.start(host, *command, stdout=subprocess.DEVNULL).wait(timeout=60), 0)
                return json.loads((lab.folder / f"{name}.json").read_text())["results"][0]["p50_us"]

            stuck = lab.start(0, "env", f"PYTHONPATH={hosts.ROOT}/client/python",
                              f"OPTIREDUCE_LIBRARY={hosts.built('client/liboptireduce.so.0')}", "/usr/bin/python3", "-c",
                              STUCK, lab.socket(0), lab.folder, stdout=subprocess.PIPE)
            self.assertRegex(stuck.stdout.readline(), r"^refused after [1-9]\d*$")
            # In turns, as other work on the machine comes and goes.
            ratios = [median_us(0, f"beside{i}") / median_us(1, f"alone{i}") for i in range(15)]
            self.assertEqual(stats(lab)["control_sessions"], 1)
            stuck.kill()
            stuck.wait()
            stuck.stdout.close()
            self.assertEqual(await_value(lambda: stats(lab)["control_sessions"], 0), 0)
            self.assertLess(statistics.median(ratios), 1.2, ratios)

    def test_clients_of_another_container(self):
        """K05, S10: neither sees the other's processes; only the socket is shared."""
        with hosts.Hosts(1) as lab:
            lab.daemons[0].send_signal(signal.SIGTERM)
            lab.daemons[0].wait(timeout=30)
            container = ["unshare", "--pid", "--fork", "--kill-child", "--ipc", "env"]
            with open(lab.log(0), "w") as log:
                lab.daemons[0] = lab.start(0, *container, hosts.built("control/optireduced"),
                                           f"--config={lab.folder}/daemon0.textproto", stderr=log)
            lab.await_ready(0)
            command = [*container, hosts.built("client/optiperf/optiperf"), f"--socket={lab.socket(0)}", "--rank=0",
                       "--world=1", f"--rendezvous={lab.folder}", "--mode=exact", "--counts=1000"]
            self.assertEqual(lab.start(0, *command, "-n", "3", stdout=subprocess.DEVNULL).wait(timeout=60), 0)
            self.assertIn("pid 0)", lab.log(0).read_text())
            endless = lab.start(0, *command, "-n", "100000000", "--name=endless", stdout=subprocess.DEVNULL)
            self.assertEqual(await_value(lambda: stats(lab)["control_groups"], 1), 1)
            endless.kill()
            endless.wait()
            self.assertEqual(await_value(lambda: stats(lab)["control_sessions"], 0), 0)
            self.assertEqual(await_value(lambda: stats(lab)["control_groups"], 0), 0)


if __name__ == "__main__":
    hosts.enter_namespaces()
    unittest.main(verbosity=2)
