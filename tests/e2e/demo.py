"""The demo: four hosts train one network over a lossy, congested switch.

Started by deploy/demo.sh, which has built everything, in namespaces where it
may make networks. Each host runs a daemon and a trainer that sees two or three
of the ten digits only. In the middle one trainer is stopped for two seconds.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client/examples"))
sys.path.insert(0, str(ROOT / "tests/e2e"))

import demo_report
import digits
import hosts

HOSTS = 4
RATE = "200mbit"
LOSS_PERCENT = 1.0
BACKGROUND_SEED = 1
STOPPED_RANK = 1
STOP_SECONDS = 2.0
SOFT_LIMIT_MS = 60.0
# A daemon usually has a core of its own; here it at least goes first.
NICENESS = 19
TRAINER = [
    "nice",
    f"--adjustment={NICENESS}",
    "env",
    f"OPTIREDUCE_LIBRARY={ROOT}/bazel-bin/client/liboptireduce.so.0",
    f"PYTHONPATH={ROOT}/client/python",
    str(ROOT / "client/examples/digits.py"),
    f"--soft-ms={SOFT_LIMIT_MS}",
]


class DemoError(Exception):
    """What the user is told."""


class Trainers:
    """One trainer on every host; their records arrive in `records`."""

    def __init__(self, lab, folder, steps):
        self.arrivals = queue.Queue()
        self.logs = [folder / f"trainer{rank}.log" for rank in range(HOSTS)]
        self.processes = []
        for rank in range(HOSTS):
            command = [*TRAINER, f"--rank={rank}", f"--world={HOSTS}", f"--steps={steps}",
                       f"--socket={lab.socket(rank)}", f"--rendezvous={folder}"]
            with open(self.logs[rank], "w") as log:
                process = lab.start(rank, *command, stdout=subprocess.PIPE, stderr=log)
            self.processes.append(process)
            threading.Thread(target=self.relay, args=(rank, process), daemon=True).start()

    def relay(self, rank, process):
        for text in process.stdout:
            self.arrivals.put({"rank": rank, **json.loads(text)})
        self.arrivals.put({"rank": rank, "status": process.wait()})

    def records(self):
        """Yields the records of all trainers as they come, until all have ended."""
        running = HOSTS
        while running:
            record = self.arrivals.get()
            if "step" in record:
                yield record
                continue
            running -= 1
            if record["status"]:
                log = self.logs[record["rank"]].read_text().strip()
                raise DemoError(f"the trainer of rank {record['rank']} ended with {record['status']}:\n{log}")


class Stopper:
    """Stops one trainer for a while, once, and sees when it is back."""

    def __init__(self, process, at_step):
        self.process = process
        self.at_step = at_step
        self.begin = self.end = self.caught_up = None
        self.step = collections.Counter()

    def see(self, record):
        """To be told of every record."""
        self.step[record["rank"]] = record["step"]
        if self.begin is None and record["rank"] == 0 and record["step"] >= self.at_step:
            self.begin = time.monotonic()
            self.process.send_signal(signal.SIGSTOP)
            print(f"---- the trainer of rank {STOPPED_RANK} is stopped for {STOP_SECONDS:.0f} seconds", flush=True)
            threading.Timer(STOP_SECONDS, self.go_on).start()
        elif self.end and not self.caught_up and self.step[STOPPED_RANK] >= self.step[0] - 2:
            self.caught_up = record["at"]
            print(f"---- rank {STOPPED_RANK} has caught up, {self.caught_up - self.end:.1f} seconds later", flush=True)

    def go_on(self):
        self.end = time.monotonic()
        self.process.send_signal(signal.SIGCONT)
        print(f"---- the trainer of rank {STOPPED_RANK} goes on", flush=True)

    def stop(self):
        if self.caught_up is None:
            raise DemoError(f"rank {STOPPED_RANK} did not catch up before the end")
        return demo_report.Stop(STOPPED_RANK, self.begin, self.end, self.caught_up)


def baselines(steps):
    """What the exchange has to reach, and what there is without one."""
    print("One machine with all the data ...", flush=True)
    reference = digits.train_alone(HOSTS, steps)
    print(f"  accuracy {100 * reference:.1f} %")
    print("Each rank on its own, without exchange ...", flush=True)
    _, test = digits.load_images()
    alone = []
    for rank in range(HOSTS):
        for network, _, _ in digits.train_rank(rank, HOSTS, digits.NoExchange(), steps):
            pass
        alone.append(network.accuracy(test))
        seen = ", ".join(str(digit) for digit in digits.digits_of_rank(rank, HOSTS))
        print(f"  rank {rank} sees the digits {seen}: accuracy {100 * alone[-1]:.1f} %", flush=True)
    return demo_report.Baselines(reference, max(alone))


def train(folder, steps):
    """The main part: returns all records and the stop."""
    with hosts.Hosts(HOSTS, rate=RATE, loss=LOSS_PERCENT) as lab:
        print(f"{HOSTS} hosts on ports of {RATE}, {LOSS_PERCENT:g} % of all frames dropped", flush=True)
        background = lab.start_netlab("background", f"--seed={BACKGROUND_SEED}", preexec_fn=lambda: os.nice(NICENESS))
        trainers = Trainers(lab, folder, steps)
        # Just after a resync, which would wait for the stopped rank.
        resyncs = steps // digits.RESYNC_STEPS
        stopper = Stopper(trainers.processes[STOPPED_RANK], resyncs // 2 * digits.RESYNC_STEPS + 2)
        records = []
        for record in trainers.records():
            records.append(record)
            if record["rank"] == 0:
                print(demo_report.line(record), flush=True)
            stopper.see(record)
        background.kill()
        background.wait()
        return records, stopper.stop()


def main():
    parser = argparse.ArgumentParser(prog="demo.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=digits.STEPS, help=f"at least 100 (default {digits.STEPS})")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--png", type=pathlib.Path, metavar="FILE", default=pathlib.Path("demo.png"),
                        help="where the curves go (default demo.png)")
    args = parser.parse_args()
    if args.steps < 100:
        parser.error("--steps is at least 100")
    for path in filter(None, (args.json, args.png)):
        if not os.access(path.absolute().parent, os.W_OK):
            parser.error(f"cannot write {path}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="optireduce-demo-"))
    os.environ["MPLCONFIGDIR"] = str(folder)  # the home directory may be read-only
    try:
        known = baselines(args.steps)
        records, stop = train(folder, args.steps)
        result = demo_report.summary(records, stop, known)
        print("\n" + demo_report.table(result))
        demo_report.draw(args.png, records, stop, known)
        print(f"\nThe curves are in {args.png}.")
        if args.json:
            args.json.write_text(json.dumps(result, indent=1) + "\n")
        broken = demo_report.broken_promises(result)
        if broken:
            raise DemoError("this run did not show what it should:\n  " + "\n  ".join(broken))
    except (DemoError, hosts.HostsError) as error:
        sys.exit(f"demo: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is taken down
    with contextlib.suppress(KeyboardInterrupt):
        main()
        sys.exit(0)
    sys.exit(130)
