"""Gloo's ring and OptiReduce on real packets: hosts in network namespaces, a rank on each."""

import json
import os
import pathlib
import subprocess
import sys
import time

import plan
import shipped
from errors import BenchError

HERE = pathlib.Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import hosts

# As the simulator's transport; the kernel's own default may be another.
CONGESTION_CONTROL = "cubic"
# By route, as a host may be forbidden to change its default.
SET_CONGESTION_CONTROL = ("ip route change 10.99.0.0/16 dev eth0 proto kernel scope link src $NETLAB_ADDRESS "
                          f"congctl {CONGESTION_CONTROL}")
TRAFFIC = HERE / "traffic.py"
OUR_RANK = HERE / "our_rank.py"
# What fq_codel, the default of distributions, does at a host: flows take turns. Kernels
# without it have HTB; the background's packets have a class of their own by their
# priority (traffic.py), with as many shares as it has flows.
TAKE_TURNS = """
set -e
tc qdisc replace dev eth0 root handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:1 htb rate {mbits}mbit burst 32k cburst 32k quantum 1514
tc class add dev eth0 parent 1:1 classid 1:10 htb rate {ring}kbit ceil {mbits}mbit burst 2k cburst 32k quantum 1514
tc class add dev eth0 parent 1:1 classid 1:20 htb rate {others}kbit ceil {mbits}mbit burst 2k cburst 32k quantum {quantum}
tc qdisc add dev eth0 parent 1:10 bfifo limit 500k
tc qdisc add dev eth0 parent 1:20 bfifo limit 500k
"""
# Until the first bursts are there.
WARM_UP_SECONDS = 3


class Lab(hosts.Hosts):
    """A context: hosts on one switch, with daemons or without."""

    def __init__(self, flows, config=None):
        """flows: of the background, in a burst. config: of the daemons; None: there are none."""
        super().__init__(plan.LIVE_HOSTS, rate=f"{plan.LIVE_MBITS}mbit", config=config or "",
                         with_daemons=config is not None)
        # A daemon's port has a queue of its own, and a NIC takes turns between queues.
        self.flows = 1 if self.with_daemons else flows

    def __enter__(self):
        super().__enter__()
        try:
            for host in range(self.count):
                for command in (SET_CONGESTION_CONTROL, self.take_turns()):
                    self.netlab("exec", str(host), "--", "sh", "-c", command)
        except BaseException:
            self.__exit__()
            raise
        return self

    def take_turns(self):
        kbits = plan.LIVE_MBITS * 1000 // (1 + self.flows)
        return TAKE_TURNS.format(mbits=plan.LIVE_MBITS, ring=kbits, others=kbits * self.flows, quantum=1514 * self.flows)


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
        return self.lab.start(host, sys.executable, TRAFFIC, f"--host={host}", *self.flags, stdout=subprocess.PIPE)


def run_ranks(lab, command):
    """What each of `command(rank, store)` printed on its host."""
    store = lab.folder / "store"
    store.mkdir()
    ranks = [lab.start(rank, *command(rank, store), f"--rank={rank}", f"--world={lab.count}", f"--store={store}",
                       f"--bytes={plan.LIVE_BYTES}", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for rank in range(lab.count)]
    printed = [rank.communicate() for rank in ranks]
    for number, (rank, (_, error)) in enumerate(zip(ranks, printed)):
        if rank.returncode:
            raise BenchError(f"Rank {number}: {error.strip()}.")
    return [json.loads(out) for out, _ in printed]


def by_op(lists_of_ranks):
    return [list(values) for values in zip(*lists_of_ranks)]


def measure_gloo(program, load, options):
    """The outcome of Gloo's ring under a load of plan.LIVE_LOADS."""
    def command(rank, _):
        return [program, f"--address=10.99.0.{rank + 1}", f"--ops={options.ops or plan.LIVE_OPS}"]

    ranks, outcome = measure(f"live.{load}.gloo", load, options, command)
    return {**outcome, "took_ns": by_op(ranks)}


def measure_ours(load, options, capped=False):
    """The outcome of OptiReduce, whose daemons have no settings but the limit of a capped one."""
    def command(rank, store):
        return [sys.executable, OUR_RANK, f"--library={hosts.built('client/liboptireduce.so.0')}",
                f"--socket={store.parent / f's{rank}'}", f"--ops={options.ops or plan.LIVE_OPS}"]

    settings = {**shipped.shipped_settings(), "share_cap": plan.SHARE_CAP if capped else 1.0}
    config = f"rate_bps: {round(plan.LIVE_MBITS * 1e6 * plan.SHARE_CAP)}" if capped else ""
    name = f"live.{load}.ours" + (".capped50" if capped else "")
    ranks, outcome = measure(name, load, options, command, config)
    return {**outcome, "took_ns": by_op(rank["took_ns"] for rank in ranks),
            "missing": by_op(rank["missing"] for rank in ranks), **{name: settings.pop(name) for name in shipped.OF_RUNS},
            "settings": settings}


def measure(name, load, options, command, config=None):
    """(what the ranks printed, what is told of a run in any case)"""
    traffic = plan.LIVE_LOADS[load]
    try:
        with Lab(traffic.flows if traffic else 1, config) as lab, Background(lab, traffic, options.seed) as background:
            ranks = run_ranks(lab, command)
    except hosts.HostsError as error:
        raise BenchError(f"{name}: {error}") from error
    return ranks, {
        "run": name,
        "hosts": plan.LIVE_HOSTS,
        "bytes": plan.LIVE_BYTES,
        "rate_bps": plan.LIVE_MBITS * 10**6,
        "ops": options.ops or plan.LIVE_OPS,
        "seed": options.seed,
        "background": traffic.optisim() if traffic else "none",
        "congestion_control": CONGESTION_CONTROL,
        "elapsed_ns": background.elapsed_ns,
        "background_bytes": background.received,
        "load_average": os.getloadavg()[0],
    }


def experiments(program, options):
    """What is to be called for each outcome; `program` is Gloo's ring."""
    for load in plan.LIVE_LOADS:
        yield lambda load=load: measure_gloo(program, load, options)
        yield lambda load=load: measure_ours(load, options)
    yield lambda: measure_ours("tail30", options, capped=True)
