"""What the demo makes of its records: figures, a table, JSON and a picture.

A record is what a trainer prints for a step (client/examples/digits.py), with
its rank added. A stop is the time in which one trainer was stopped.
"""

import dataclasses
import math

# An operation is late if it closed that much later than its deadline, or its
# submit if that was later.
WALL_LIMIT_MS = 20.0


@dataclasses.dataclass
class Stop:
    rank: int
    begin: float  # seconds, on the records' clock
    end: float  # the trainer went on
    caught_up: float  # the trainer was back among the others


@dataclasses.dataclass
class Baselines:
    reference: float  # accuracy of one machine with all the data
    no_exchange: float  # the best accuracy of a rank on its own


def percentile(values, share):
    """The smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def outside(record, stop):
    """Neither during the stop nor while the stopped rank caught up."""
    return not stop.begin <= record["at"] <= stop.caught_up


def others_during(record, stop):
    return record["rank"] != stop.rank and stop.begin <= record["at"] <= stop.end


def summary(records, stop, baselines):
    """The demo's result, with the keys of --json."""
    usual = [r["op_ms"] for r in records if outside(r, stop)]
    others = [r["op_ms"] for r in records if others_during(r, stop)]
    last = {}
    for record in records:
        last[record["rank"]] = record
    return {
        "steps": min(record["step"] for record in last.values()) + 1,
        "accuracy": min(record["accuracy"] for record in last.values()),
        "reference_accuracy": baselines.reference,
        "no_exchange_accuracy": baselines.no_exchange,
        "p50_ms": percentile(usual, 0.50),
        "p99_ms": percentile(usual, 0.99),
        "missing_fraction": sum(r["missing_fraction"] for r in records) / len(records),
        "late_ops": sum(r["late_ms"] > WALL_LIMIT_MS for r in records),
        "stopped_rank_others_p99_ms": percentile(others, 0.99),
    }


def broken_promises(result):
    """What the figures should show and do not, in words."""
    promises = [
        (result["accuracy"] >= result["reference_accuracy"] - 0.01 - 1e-9, "accuracy within 1 point of one machine's"),
        (result["no_exchange_accuracy"] <= 0.5, "no rank above 50 % without exchange"),
        (result["steps"] >= 100, "100 steps or more"),
        (result["late_ops"] == 0, f"every operation closed within {WALL_LIMIT_MS:.0f} ms of its deadline"),
        (0 < result["missing_fraction"] < 0.2, "something missing, but less than 20 %"),
        (result["stopped_rank_others_p99_ms"] <= 3 * result["p99_ms"], "the usual pace while one trainer is stopped"),
    ]
    return [words for kept, words in promises if not kept]


def line(record):
    """One step as a line of progress."""
    return (f"step {record['step'] + 1:4d}   loss {record['loss']:6.3f}   accuracy {100 * record['accuracy']:5.1f} %   "
            f"op {record['op_ms']:6.1f} ms   missing {100 * record['missing_fraction']:5.2f} %   "
            f"deadline {record['deadline_ms']:5.1f} ms")


def table(result):
    rows = [
        ("steps", f"{result['steps']}"),
        ("time of an operation, p50", f"{result['p50_ms']:.1f} ms"),
        ("time of an operation, p99", f"{result['p99_ms']:.1f} ms"),
        ("p99 / p50", f"{result['p99_ms'] / result['p50_ms']:.2f}"),
        ("p99 of the others during the stop", f"{result['stopped_rank_others_p99_ms']:.1f} ms"),
        ("operations that ended late", f"{result['late_ops']}"),
        ("missing, mean over all operations", f"{100 * result['missing_fraction']:.2f} %"),
        ("accuracy, worst of the ranks", f"{100 * result['accuracy']:.1f} %"),
        ("accuracy of one machine with all the data", f"{100 * result['reference_accuracy']:.1f} %"),
        ("accuracy without exchange, best of the ranks", f"{100 * result['no_exchange_accuracy']:.1f} %"),
    ]
    return "\n".join(f"{name:<46}{value:>12}" for name, value in rows)


def draw(path, records, stop, baselines):
    """Accuracy, time of the operations and what they missed, over the steps."""
    import matplotlib  # slow to load, and only needed here

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (accuracy, time, missing) = pyplot.subplots(3, 1, sharex=True, figsize=(9, 10), layout="constrained")
    for rank in sorted({record["rank"] for record in records}):
        mine = [record for record in records if record["rank"] == rank]
        steps = [record["step"] + 1 for record in mine]
        accuracy.plot(steps, [100 * r["accuracy"] for r in mine], label=f"rank {rank}", linewidth=1)
        time.plot(steps, [r["op_ms"] for r in mine], ".", markersize=3)
        missing.plot(steps, [100 * r["missing_fraction"] for r in mine], ".", markersize=3)
    accuracy.axhline(100 * baselines.reference, color="black", linestyle="--", linewidth=1, label="all data, one machine")
    accuracy.axhline(100 * baselines.no_exchange, color="grey", linestyle=":", label="best rank without exchange")
    accuracy.set(ylabel="accuracy (%)", ylim=(0, 100))
    accuracy.legend(loc="lower right")
    first = [record for record in records if record["rank"] != stop.rank]
    deadlines = {record["step"] + 1: record["deadline_ms"] for record in first}
    time.plot(list(deadlines), list(deadlines.values()), color="black", linewidth=1, label="deadline")
    time.set(ylabel="time of the operation (ms)", ylim=(0, None))
    time.legend(loc="upper right")
    missing.set(ylabel="missing (%)", xlabel="step", ylim=(0, None))
    stopped = [record["step"] + 1 for record in records if others_during(record, stop)]
    if stopped:
        for axes in (accuracy, time, missing):
            axes.axvspan(min(stopped), max(stopped), color="orange", alpha=0.2)
        time.text(min(stopped), 0, f" rank {stop.rank} stopped", verticalalignment="bottom")
    figure.savefig(path, dpi=120)
