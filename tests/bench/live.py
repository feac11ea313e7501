"""Gloo's ring on real packets: hosts in network namespaces, a rank on each."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import plan
from errors import BenchError

NETLAB = pathlib.Path(__file__).absolute().parents[1] / "netlab/netlab"
# As the simulator's transport; the kernel's own default may be another.
CONGESTION_CONTROL = "cubic"
# By route, as a host may be forbidden to change its default.
SET_CONGESTION_CONTROL = ("ip route change 10.99.0.0/16 dev eth0 proto kernel scope link src $NETLAB_ADDRESS "
                          f"congctl {CONGESTION_CONTROL}")
TRAFFIC = pathlib.Path(__file__).absolute().with_name("traffic.py")
# What fq_codel, the default of distributions, does at a host: flows take turns. Kernels
# without it have HTB; the background's packets have a class of their own by their
# priority (traffic.py), with as many shares as it has flows.
TAKE_TURNS = """
set -e
tc qdisc replace dev eth0 root handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:1 htb rate {mbits}mbit burst 32k cburst 32k
tc class add dev eth0 parent 1:1 classid 1:10 htb rate {ring}kbit ceil {mbits}mbit burst 2k cburst 32k quantum 1514
tc class add dev eth0 parent 1:1 classid 1:20 htb rate {others}kbit ceil {mbits}mbit burst 2k cburst 32k quantum {quantum}
tc qdisc add dev eth0 parent 1:10 bfifo limit 500k
tc qdisc add dev eth0 parent 1:20 bfifo limit 500k
"""
# Until the first bursts are there.
WARM_UP_SECONDS = 3


def enter_namespaces():
    """Restarts this program where it may make networks, unless it may already."""
    if os.geteuid() == 0 or "OWN_NAMESPACES" in os.environ:
        return
    os.environ["OWN_NAMESPACES"] = "1"
    os.execvp("unshare", ["unshare", "-rnm", sys.executable, *sys.argv])


class Lab:
    """A context: hosts on one switch."""

    def __init__(self, flows):
        """flows: of the background, in a burst."""
        self.flows = flows

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="optireduce-live-"))
        try:
            self.run("up", str(plan.LIVE_HOSTS), f"--rate={plan.LIVE_MBITS}mbit")
            for host in range(plan.LIVE_HOSTS):
                self.run("exec", str(host), "--", "sh", "-c", SET_CONGESTION_CONTROL)
                self.run("exec", str(host), "--", "sh", "-c", self.take_turns())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.start("down").wait()
        shutil.rmtree(self.folder)

    def take_turns(self):
        kbits = plan.LIVE_MBITS * 1000 // (1 + self.flows)
        return TAKE_TURNS.format(mbits=plan.LIVE_MBITS, ring=kbits, others=kbits * self.flows, quantum=1514 * self.flows)

    def start(self, *command, **options):
        environment = {**os.environ, "NETLAB_STATE": str(self.folder / "netlab")}
        return subprocess.Popen([NETLAB, *command], env=environment, text=True, **options)

    def run(self, *command):
        with self.start(*command, stderr=subprocess.PIPE) as child:
            error = child.communicate()[1]
        if child.returncode:
            raise BenchError(f"netlab {command[0]}: {error.strip()}.")


class Background:
    """A context: each host sends bursts to others. Behind it, how long that was and how many bytes came through."""

    def __init__(self, lab, load, seed):
        """load: None for no traffic."""
        self.lab = lab
        self.flags = load and [f"--hosts={plan.LIVE_HOSTS}", f"--seed={seed}", *load.traffic()]
        self.hosts = []

    def __enter__(self):
        self.start = time.monotonic_ns()
        if self.flags:
            self.hosts = [self.start_host(host) for host in range(plan.LIVE_HOSTS)]
            time.sleep(WARM_UP_SECONDS)
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.terminate()
        self.elapsed_ns = time.monotonic_ns() - self.start
        self.received = sum(int(host.communicate()[0] or 0) for host in self.hosts)

    def start_host(self, host):
        return self.lab.start("exec", str(host), "--", sys.executable, str(TRAFFIC), f"--host={host}", *self.flags,
                              stdout=subprocess.PIPE)


def ring(lab, program, ops):
    """Runs all ranks; the nanoseconds that each op took, a list for each rank."""
    store = lab.folder / "store"
    store.mkdir()
    ranks = []
    for rank in range(plan.LIVE_HOSTS):
        flags = [f"--rank={rank}", f"--world={plan.LIVE_HOSTS}", f"--store={store}", f"--address=10.99.0.{rank + 1}",
                 f"--bytes={plan.LIVE_BYTES}", f"--ops={ops}"]
        ranks.append(lab.start("exec", str(rank), "--", str(program), *flags, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE))
    printed = [rank.communicate() for rank in ranks]
    for rank, (_, error) in zip(ranks, printed):
        if rank.returncode:
            raise BenchError(f"Gloo's ring: {error.strip()}.")
    return [json.loads(out) for out, _ in printed]


def measure(program, load, options):
    """The outcome of a run under a load of plan.LIVE_LOADS."""
    traffic = plan.LIVE_LOADS[load]
    ops = options.ops or plan.LIVE_OPS
    with Lab(traffic.flows if traffic else 1) as lab, Background(lab, traffic, options.seed) as background:
        ranks = ring(lab, program, ops)
    return {
        "run": f"live.{load}.gloo",
        "hosts": plan.LIVE_HOSTS,
        "bytes": plan.LIVE_BYTES,
        "rate_bps": plan.LIVE_MBITS * 10**6,
        "ops": ops,
        "seed": options.seed,
        "background": traffic.optisim() if traffic else "none",
        "congestion_control": CONGESTION_CONTROL,
        "took_ns": [list(took) for took in zip(*ranks)],
        "elapsed_ns": background.elapsed_ns,
        "background_bytes": background.received,
        "load_average": os.getloadavg()[0],
    }
