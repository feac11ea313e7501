"""Hosts in network namespaces, each with an optireduced of its own, and ranks of
programs that run on them. For tests and benchmarks over real daemons.

    with hosts.Hosts(4, rate="200mbit", loss=5) as lab:
        results = lab.optiperf("--mode=exact", "--counts=1000", "--check")
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).absolute().parents[2]
READY_SECONDS = 60


def waited_s(pid, *names):
    """How long threads of a process, all or those so named, have waited for a processor so far."""
    nanos = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if not names or (thread / "comm").read_text().strip() in names:
            nanos += int((thread / "schedstat").read_text().split()[1])
    return nanos / 1e9


class HostsError(Exception):
    """What the user is told."""


def built(path):
    """A built file: beside this one in a test's runfiles, else in bazel-bin."""
    for folder in (ROOT, ROOT / "bazel-bin"):
        if (folder / path).exists():
            return folder / path
    raise HostsError(f"{path} is not built")


def enter_namespaces():
    """Restarts this program where it may make networks, unless it may already."""
    if os.geteuid() == 0 or "OWN_NAMESPACES" in os.environ:
        return
    os.environ["OWN_NAMESPACES"] = "1"
    os.execvp("unshare", ["unshare", "-rnm", sys.executable, *sys.argv])


class Hosts:
    """A context: `count` hosts with a daemon each, all of them ready."""

    def __init__(self, count, rate=None, loss=0, mtu=1500, config="", with_daemons=True):
        """config: further lines of every daemon's configuration file."""
        self.count = count
        self.rate = rate
        self.loss_percent = loss
        self.mtu = mtu
        self.config = config
        self.with_daemons = with_daemons
        self.daemons = []

    def __enter__(self):
        # Short: a socket's path has at most 108 bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="or", dir="/tmp"))
        self.meetings = 0
        try:
            rate = [f"--rate={self.rate}"] if self.rate else []
            self.netlab("up", str(self.count), f"--mtu={self.mtu}", *rate)
            for host in range(self.count if self.with_daemons else 0):
                self.daemons.append(self.start_daemon(host))
            for host in range(len(self.daemons)):
                self.await_ready(host)
            if self.loss_percent:
                self.netlab("loss", str(self.loss_percent))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.netlab("down")
        shutil.rmtree(self.folder)

    # ---- the lab ----

    def start_netlab(self, *args, **options):
        environment = {**os.environ, "NETLAB_STATE": str(self.folder / "netlab")}
        return subprocess.Popen([ROOT / "tests/netlab/netlab", *args], env=environment, text=True, **options)

    def netlab(self, *args):
        with self.start_netlab(*args, stdout=subprocess.PIPE) as child:
            out = child.communicate()[0]
        if child.returncode:
            raise HostsError(f"netlab {args[0]} failed")
        return out

    def counters(self):
        """The switch's and the ports' counts of frames."""
        return json.loads(self.netlab("counters"))

    def start(self, host, *command, **options):
        """A process on a host; it ends with the lab at the latest."""
        return self.start_netlab("exec", str(host), "--", *map(str, command), **options)

    # ---- daemons ----

    def socket(self, host):
        return self.folder / f"s{host}"

    def log(self, host):
        return self.folder / f"daemon{host}.log"

    def start_daemon(self, host):
        """Also after the host's daemon was killed."""
        settings = self.folder / f"daemon{host}.textproto"
        settings.write_text(
            f'port: "af_packet:eth0"\naddress: "10.99.1.{host + 1}/16"\nsocket: "{self.socket(host)}"\n{self.config}\n'
        )
        runtime = self.folder / f"run{host}"
        with open(self.log(host), "w") as log:
            return self.start(host, "env", f"RUNTIME_DIRECTORY={runtime}", built("control/optireduced"),
                              f"--config={settings}", stdout=log, stderr=log)

    def restart_daemon(self, host):
        """In place of one that was killed."""
        self.daemons[host].wait()
        self.daemons[host] = self.start_daemon(host)
        self.await_ready(host)

    def await_ready(self, host):
        end = time.monotonic() + READY_SECONDS
        while "optireduced is ready" not in self.log(host).read_text():
            if self.daemons[host].poll() is not None or time.monotonic() > end:
                raise HostsError(f"the daemon of host {host} does not get ready:\n{self.log(host).read_text()}")
            time.sleep(0.02)

    # ---- ranks ----

    def start_optiperf(self, rank, world, *flags, results=None, **options):
        """One rank, on host `rank` modulo their number."""
        host = rank % self.count
        output = [f"--json={results}"] if results else []
        return self.start(host, built("client/optiperf/optiperf"), f"--socket={self.socket(host)}", f"--rank={rank}",
                          f"--world={world}", f"--rendezvous={self.folder}", *output, *flags, **options)

    def optiperf(self, *flags, world=None, limit_s=600):
        """Runs all ranks and returns the results; an error if a rank fails.

        `table` is then what rank 0 printed.
        """
        self.meetings += 1
        world = world or self.count
        results = self.folder / f"results{self.meetings}.json"
        ranks = []
        for rank in range(world):
            ranks.append(self.start_optiperf(rank, world, f"--name=perf{self.meetings}", *flags, results=results,
                                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        end = time.monotonic() + limit_s
        outputs = []
        for rank in ranks:
            try:
                outputs.append(rank.communicate(timeout=max(end - time.monotonic(), 0.1))[0])
            except subprocess.TimeoutExpired:
                rank.kill()
                outputs.append(rank.communicate()[0] + f"killed after {limit_s} s")
        if any(rank.returncode for rank in ranks):
            text = "\n".join(
                f"rank {r}: exit {rank.returncode}\n{outputs[r]}" for r, rank in enumerate(ranks) if rank.returncode
            )
            raise HostsError(f"optiperf {' '.join(flags)}:\n{text}")
        self.table = outputs[0]
        return json.loads(results.read_text())["results"]

    def run_delay_s(self):
        """How long all engines together have waited for a processor so far."""
        return sum(waited_s(daemon.pid, "engine") for daemon in self.daemons)
