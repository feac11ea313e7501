"""Makes the runs of a plan, as many at a time as there are processors."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile
import time

from errors import BenchError


def make(optisim, run):
    """The run's outcome, with its name."""
    with tempfile.TemporaryDirectory(prefix="optireduce-bench-") as folder:
        samples = pathlib.Path(folder) / "samples"
        command = [str(optisim), *run.arguments(samples)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{run.name}: {done.stderr.strip() or 'optisim was killed'} ({' '.join(command)})")
        return {"run": run.name, **json.loads(samples.read_text())}


def make_twice(optisim, run):
    """The same, and an error unless a second time gives the same to the last packet."""
    outcome = make(optisim, run)
    again = make(optisim, run)
    if outcome != again:
        raise BenchError(f"{run.name} is not repeatable: trace hashes {outcome['trace_hash']}, {again['trace_hash']}.")
    return outcome


def make_all(optisim, runs, twice=False, say=print):
    """Outcomes in the order of the runs."""
    started = time.monotonic()
    finished = 0

    def timed(run):
        nonlocal finished
        begin = time.monotonic()
        outcome = (make_twice if twice else make)(optisim, run)
        finished += 1
        say(f"[{time.monotonic() - started:5.0f} s] {finished}/{len(runs)} {run.name}: {run.ops} ops, "
            f"{time.monotonic() - begin:.0f} s, trace {outcome['trace_hash']}")
        return outcome

    pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    futures = [pool.submit(timed, run) for run in runs]
    try:
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
