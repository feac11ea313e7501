#!/usr/bin/python3
"""Bounded all-reduce over real daemons under loss: are operations closed on
time, and is what they claim to miss what the network dropped?

    bounded_run.py [--ops 500] [--loss 5] [--soft-ms 60] [--report FILE]

Lateness is counted from an operation's deadline (its submit, if that was later)
to its close: by the clock, and "decision" lateness without the time in which
the engine had no processor (how long that was in all is in the last column: on
a busy machine it is what makes the clock's lateness). The share of frames that
the switch dropped says what share of contributions and results must be missing;
data that came too late adds to it.

Needs //control:optireduced and //client/optiperf built. Exit status 1 if a
limit is not kept.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

import hosts

HOSTS = 4
COUNT = 50_000
DECISION_LATE_US = 1_000
WALL_LATE_P99_US = 20_000
# Claimed over expected share of what is missing.
LEAST_CLAIM, MOST_CLAIM = 0.9, 1.1


def expected_missing(share_dropped):
    """A rank's own contribution and its own results never cross the network."""
    remote = share_dropped * (HOSTS - 1) / HOSTS
    return 1 - (1 - remote) ** 2


def run(ops, loss, soft_ms):
    with hosts.Hosts(HOSTS, loss=loss) as lab:
        before, delay = lab.counters(), lab.run_delay_s()
        result = lab.optiperf("--mode=bounded", "--op=avg", f"--counts={COUNT}", f"--iters={ops}", "--warmup_iters=0",
                              "--check", f"--soft-ms={soft_ms}")[0]
        after, delay = lab.counters(), lab.run_delay_s() - delay
        wall_max = float(re.search(r"Largest lateness *: ([0-9.]+) us", lab.table)[1])
    lost = after["lost"]["frames"] - before["lost"]["frames"]
    passed = after["forwarded"]["frames"] - before["forwarded"]["frames"]
    expected = expected_missing(lost / (lost + passed))
    return result, wall_max, delay, expected


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=500)
    parser.add_argument("--loss", type=float, default=5, help="percent of all frames")
    parser.add_argument("--soft-ms", type=float, default=60)
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="also write the table to FILE")
    args = parser.parse_args()
    result, wall_max, delay, expected = run(args.ops, args.loss, args.soft_ms)
    claimed = result["missing_fraction"]
    lines = [
        "| operations | wrong | missing: claimed | from the drops | decision late, max | late by the clock, p99 | max"
        " | engines' wait for a CPU |",
        "|---|---|---|---|---|---|---|---|",
        f"| {args.ops} | {result['wrong']} | {100 * claimed:.2f} % | {100 * expected:.2f} %"
        f" | {result['decision_late_p100_us']:.1f} us | {result['wall_late_p99_us']:.1f} us | {wall_max:.1f} us"
        f" | {delay:.2f} s |",
    ]
    print("\n".join(lines))
    if args.report:
        args.report.write_text("\n".join(lines) + "\n")
    kept = (
        result["wrong"] == 0
        and result["decision_late_p100_us"] <= DECISION_LATE_US
        and result["wall_late_p99_us"] <= WALL_LATE_P99_US
        and LEAST_CLAIM * expected <= claimed <= MOST_CLAIM * expected
    )
    return 0 if kept else 1


if __name__ == "__main__":
    hosts.enter_namespaces()
    sys.exit(main())
