#!/usr/bin/python3
"""Bounded all-reduce over real daemons under loss: are operations closed on
time, and is what they claim to have got only when it was sent again, or not at
all, what the network dropped?

    bounded_run.py [--ops 500] [--loss 5] [--soft-ms 60] [--report FILE]

Lateness is counted from an operation's deadline (its submit, if that was later)
to its close: by the clock, and "decision" lateness without the time in which
the engine had no processor (how long that was in all is in the last column: on
a busy machine it is what makes the clock's lateness). The share of frames that
the switch dropped says what share of packets did not come the first time: they
were repaired or are missing.

Needs //control:optireduced and //client/optiperf built. Exit status 1 if a
limit is not kept.
"""

import argparse
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

import hosts

HOSTS = 4
COUNT = 50_000
DECISION_LATE_US = 1_000
WALL_LATE_P99_US = 20_000
PACKET_ELEMENTS = 356  # of 4 bytes, in a payload of 1,424
# Claimed over dropped share of packets.
LEAST_CLAIM, MOST_CLAIM = 0.9, 1.1


def claimed_shares(result):
    """(repaired, missing): shares of the packets that a rank should get in an operation,
    contributions to its shard and the results of the others'."""
    chunks = -(-(COUNT // HOSTS) // PACKET_ELEMENTS)
    packets = 2 * (HOSTS - 1) * chunks
    # A rank's own contribution and its own results never cross the network.
    missing = (1 - math.sqrt(1 - result["missing_fraction"])) * HOSTS / (HOSTS - 1)
    return result["repaired_packets"] / packets, missing


def run(ops, loss, soft_ms):
    with hosts.Hosts(HOSTS, loss=loss) as lab:
        before, delay = lab.counters(), lab.run_delay_s()
        result = lab.optiperf("--mode=bounded", "--op=avg", f"--counts={COUNT}", f"--iters={ops}", "--warmup_iters=0",
                              "--check", f"--soft-ms={soft_ms}")[0]
        after, delay = lab.counters(), lab.run_delay_s() - delay
        wall_max = float(re.search(r"Largest lateness *: ([0-9.]+) us", lab.table)[1])
    lost = after["lost"]["frames"] - before["lost"]["frames"]
    passed = after["forwarded"]["frames"] - before["forwarded"]["frames"]
    return result, wall_max, delay, lost / (lost + passed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=500)
    parser.add_argument("--loss", type=float, default=5, help="percent of all frames")
    parser.add_argument("--soft-ms", type=float, default=60)
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="also write the table to FILE")
    args = parser.parse_args()
    result, wall_max, delay, dropped = run(args.ops, args.loss, args.soft_ms)
    repaired, missing = claimed_shares(result)
    lines = [
        "| operations | wrong | packets repaired | missing | dropped | decision late, max | late by the clock, p99 | max"
        " | engines' wait for a CPU |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| {args.ops} | {result['wrong']} | {100 * repaired:.2f} % | {100 * missing:.2f} % | {100 * dropped:.2f} %"
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
        and LEAST_CLAIM * dropped <= repaired + missing <= MOST_CLAIM * dropped
    )
    return 0 if kept else 1


if __name__ == "__main__":
    hosts.enter_namespaces()
    sys.exit(main())
