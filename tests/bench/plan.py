"""What is run: one line for each run, all of them data.

A run is one call of `optisim COMMAND` with flags; its raw outcome is one line of
the samples file. To add an experiment, add its runs here and its rows to
rows.py; if its samples are of a new kind, a statistic to statistics.py.
"""

import dataclasses

MIB = 1 << 20
LOADS = ("tail15", "tail30")
BASELINES = ("ring", "bcube", "tree", "tar")
QUICK_SCALE = (64,)
FULL_SCALE = (64, 256)  # beyond, the buffers of all ranks do not fit in 24 GB
BEST_EFFORT_HOSTS = (8, 16, 32, 64)
BATCHES = 100  # the ops of optisim mse are a multiple of it
INCASTS = (1, 2, 4)  # fixed ones, besides all others at a time, which is what is shipped
# tail30, as much shorter as ops of 4 MiB take shorter.
SHORT_TAIL = "5:48000-144000:8000-24000"
RATE_OPS = 160  # of runs in which cables change their rate
LATE_EVERY = 20  # ops: kLateEvery of dataplane/sim/baseline/experiment.h


@dataclasses.dataclass(frozen=True)
class LiveLoad:
    """Background traffic on real packets, and the same in the simulator; seconds."""
    flows: int
    pause: tuple
    burst: tuple

    def traffic(self):
        """Flags of traffic.py."""
        return [f"--flows={self.flows}", f"--pause={self.pause[0]}-{self.pause[1]}",
                f"--burst={self.burst[0]}-{self.burst[1]}"]

    def optisim(self):
        """Its --background."""
        ends = [round(seconds * 1e6) for seconds in (*self.pause, *self.burst)]
        return f"{self.flows}:{ends[0]}-{ends[1]}:{ends[2]}-{ends[3]}"


# Of real hosts. Under these the P99 of Gloo's ring is about 1.4 times its P50, and more than 3 times.
LIVE_HOSTS = 4
SHARE_CAP = 0.5  # of the line, in runs that are capped
LIVE_MBITS = 200
LIVE_BYTES = 4 * MIB
LIVE_OPS = 300
LIVE_LOADS = {
    "quiet": None,
    "tail15": LiveLoad(1, (0.3, 0.9), (0.1, 0.3)),
    "tail30": LiveLoad(4, (2.0, 6.0), (0.3, 0.9)),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What `bench.sh sim` was told; also the first line of the samples file."""
    hosts: int = 8
    loss: float = 0.0
    size: int = 25 * MIB
    seed: int = 1
    full: bool = False
    ops: int = 0  # most ops of a run; 0: as planned

    def moved(self):
        """Names of what differs from the published experiments."""
        return [name for name in ("hosts", "loss", "size", "ops") if getattr(self, name) != getattr(Options, name)]

    def is_short(self):
        """Too short for anybody to be late in; without what takes long, too."""
        return 0 < self.ops < LATE_EVERY


@dataclasses.dataclass(frozen=True)
class Run:
    name: str
    flags: dict
    ops: int
    command: str = "baseline"

    def arguments(self, samples):
        """optisim's; `samples` is where it leaves the raw outcome."""
        flags = {**self.flags, "ops": self.ops, "samples": samples}
        return [self.command, *(f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items())]


def scale(options):
    """Numbers of hosts beyond that of the other experiments."""
    if options.is_short():
        return []
    return [hosts for hosts in (FULL_SCALE if options.full else QUICK_SCALE) if hosts != options.hosts]


def best_effort_runs(options):
    """What averages lack if nobody repeats what is dropped, each packet with the same chance."""
    for hosts in BEST_EFFORT_HOSTS:
        batch = 200_000 // hosts**2  # as many drops for every number of hosts
        if options.ops:
            batch = min(batch, max(1, options.ops // BATCHES))
        for algorithm in ("ring", "tar", "ps") if hosts == BEST_EFFORT_HOSTS[0] else ("ring", "tar"):
            flags = {"algorithm": algorithm, "hosts": hosts, "drop": 0.001, "seed": options.seed}
            yield Run(f"mse.n{hosts}.{algorithm}", flags, batch * BATCHES, "mse")


def rate_runs(options):
    """Cables that change their rate, and two jobs that share one; with congestion control."""
    if 0 < options.ops < RATE_OPS:
        return
    common = {"algorithm": "ours", "hosts": 4, "bytes": min(2 * MIB, options.size), "seed": options.seed,
              "loss": options.loss, "congestion-control": True}
    # The change comes after some 50 ops; 20 ms pass before the first.
    for name, rate, after, factor in (("quarter", 10, 60, 0.25), ("fourfold", 2.5, 55, 4)):
        yield Run(f"rate.ours.{name}", {**common, "rate": rate, "rate-change": f"{after}:{factor}"}, RATE_OPS)
    yield Run("fair.ours", {**common, "jobs": 2}, RATE_OPS)


def incast_runs(options):
    """How many ranks send to one at a time, under a load that changes all the time."""
    if options.is_short():
        return
    common = {"algorithm": "ours", "hosts": options.hosts, "bytes": min(4 * MIB, options.size), "seed": options.seed,
              "loss": options.loss, "background": SHORT_TAIL}
    ops = 1000 if options.full else 200
    for incast in INCASTS:
        yield Run(f"incast.ours.i{incast}", {**common, "incast": incast}, min(ops, options.ops or ops))
    yield Run("incast.ours.all", common, min(ops, options.ops or ops))


def runs(options):
    """All runs, longest first where it matters: they go to the processors in this order."""
    common = {"hosts": options.hosts, "bytes": options.size, "seed": options.seed, "loss": options.loss}
    jumbo = {"bytes": min(4 * MIB, options.size), "mtu": 9000, "seed": options.seed, "loss": options.loss}
    loaded = 1000 if options.full else 150

    def run(name, ops, base=None, **flags):
        flags = {flag.replace("_", "-"): value for flag, value in flags.items()}
        return Run(name, {**(base or common), **flags}, min(ops, options.ops or ops))

    plan = []
    for load in reversed(LOADS):
        plan.append(run(f"{load}.ours", loaded, algorithm="ours", background=load))
        plan.append(run(f"{load}.ours.capped50", loaded, algorithm="ours", background=load,
                        share_cap=SHARE_CAP))
    if not options.is_short():
        # One rank is late by ten times the op, and the same without it.
        plan.append(run("late.ours", 3 * LATE_EVERY, algorithm="ours", period=2, late=10))
        plan.append(run("paced.ours", 3 * LATE_EVERY, algorithm="ours", period=2))
    plan.append(run("quiet.ours", 20, algorithm="ours"))
    plan.append(run("quiet.ours.controlled", 20, algorithm="ours", congestion_control=True))
    plan.append(run("tail30.ours.controlled", loaded, algorithm="ours", background="tail30", congestion_control=True))
    for load in LOADS:
        for algorithm in BASELINES:
            plan.append(run(f"{load}.{algorithm}", loaded, algorithm=algorithm, background=load))
    for hosts in scale(options):
        plan.append(run(f"n{hosts}.quiet.ours", 20, jumbo, hosts=hosts, algorithm="ours"))
        plan.append(run(f"n{hosts}.tail30.ours", 6400 // hosts, jumbo, hosts=hosts, algorithm="ours",
                        background="tail30"))
    return [*plan, *incast_runs(options), *rate_runs(options), *best_effort_runs(options)]


def live_runs(options):
    """The simulated ring on the hosts of the live one."""
    runs_of_loads = []
    for load, traffic in LIVE_LOADS.items():
        flags = {"algorithm": "ring", "hosts": LIVE_HOSTS, "bytes": LIVE_BYTES, "rate": LIVE_MBITS / 1000,
                 "seed": options.seed, "background": traffic.optisim() if traffic else "none"}
        runs_of_loads.append(Run(f"live.{load}.ring", flags, options.ops or LIVE_OPS))
    return runs_of_loads
