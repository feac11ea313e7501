"""One rank of OptiReduce's all-reduce: how long each op takes, and what it lacks.

    our_rank.py --library=FILE --socket=PATH --rank=R --world=N --store=DIR --bytes=S --ops=K

All ranks meet in DIR. Averages of S bytes of floats in bounded mode, one after
the other, each as soon as the one before is over, with the settings of the
daemon; WARM_UP_OPS come first that do not count. Prints JSON: the nanoseconds
and the missing share of each op. The clock runs as for Gloo's ring (gloo_ring.cc):
from the call to the result, not while the buffer is filled.
"""

import argparse
import json
import os
import pathlib
import sys
import time

# Until the daemons know what ops take.
WARM_UP_OPS = 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "socket", "store"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "world", "bytes", "ops"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def run(args):
    import optireduce

    took, missing = [], []
    with optireduce.connect(args.socket) as session:
        group = session.create_group(args.rank, args.world, rendezvous_dir=args.store, name="bench", timeout_s=60)
        array = group.allocate(args.bytes // 4)
        for op in range(WARM_UP_OPS + args.ops):
            array[:] = 1
            start = time.monotonic_ns()
            report = group.all_reduce(array, op="avg", mode="bounded").wait()
            if op >= WARM_UP_OPS:
                took.append(time.monotonic_ns() - start)
                missing.append(report.missing_fraction)
        group.leave()
    print(json.dumps({"took_ns": took, "missing": missing}))


def main():
    args = parse_arguments()
    os.environ["OPTIREDUCE_LIBRARY"] = args.library
    sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[2] / "client/python"))
    run(args)


if __name__ == "__main__":
    main()
