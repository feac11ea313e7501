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

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="optireduce-live-"))
        try:
            self.run("up", str(plan.LIVE_HOSTS), f"--rate={plan.LIVE_MBITS}mbit")
            for host in range(plan.LIVE_HOSTS):
                self.run("exec", str(host), "--", "sh", "-c", SET_CONGESTION_CONTROL)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.start("down").wait()
        shutil.rmtree(self.folder)

    def start(self, *command, **options):
        environment = {**os.environ, "NETLAB_STATE": str(self.folder / "netlab")}
        return subprocess.Popen([NETLAB, *command], env=environment, text=True, **options)

    def run(self, *command):
        with self.start(*command, stderr=subprocess.PIPE) as child:
            error = child.communicate()[1]
        if child.returncode:
            raise BenchError(f"netlab {command[0]}: {error.strip()}.")


def ring(lab, program, ops):
    """Runs all ranks; what each of them printed."""
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
    with Lab() as lab:
        if traffic:
            lab.start("background", f"--seed={options.seed}", *traffic.netlab(), stdout=subprocess.DEVNULL)
            time.sleep(WARM_UP_SECONDS)
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
        "took_ns": [list(took) for took in zip(*(rank["took_ns"] for rank in ranks))],
        "elapsed_ns": max(rank["elapsed_ns"] for rank in ranks),
        "load_average": os.getloadavg()[0],
    }
