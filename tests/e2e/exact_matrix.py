#!/usr/bin/python3
"""Exact all-reduce over real daemons: every world, type and count, with and
without loss; each element of each result is compared bit for bit with the sum
in rank order, and the results of all ranks with each other.

    exact_matrix.py [--worlds 2,3] [--loss 0,5] [--report FILE]

Needs //control:optireduced and //client/optiperf built. Exit status 1 if
anything was wrong.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

import hosts

WORLDS = "1,2,3,4,5,7,8"
LOSSES = "0,5"
LARGE = 2**20 + 1


def counts_for(world):
    return sorted({0, 1, 2, 3, world - 1, world + 1, 1000, LARGE})


def run(world, loss):
    """All types and counts in a world: (results, wrong elements, rows whose ranks differ)."""
    with hosts.Hosts(world, loss=loss) as lab:
        results = lab.optiperf("--mode=exact", "--datatype=all", "--op=sum", "--check", "--iters=2", "--warmup_iters=0",
                               "--hard-ms=120000", "--counts=" + ",".join(map(str, counts_for(world))), limit_s=1800)
    wrong = sum(result["wrong"] for result in results)
    return len(results), wrong, sum(not result["identical"] for result in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=WORLDS, help=f"numbers of hosts (default {WORLDS})")
    parser.add_argument("--loss", default=LOSSES, help=f"percent of all frames (default {LOSSES})")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="also write the table to FILE")
    args = parser.parse_args()
    lines = ["| hosts | loss | types x counts | wrong elements | rows that differ between ranks | seconds |",
             "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    bad = 0
    for world in map(int, args.worlds.split(",")):
        for loss in map(float, args.loss.split(",")):
            start = time.monotonic()
            rows, wrong, differing = run(world, loss)
            bad += wrong + differing
            lines.append(f"| {world} | {loss:g} % | {rows} | {wrong} | {differing} | {time.monotonic() - start:.0f} |")
            print(lines[-1], flush=True)
    if args.report:
        args.report.write_text("\n".join(lines) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    hosts.enter_namespaces()
    sys.exit(main())
