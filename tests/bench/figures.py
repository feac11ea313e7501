"""Numbers out of the raw outcome of a run.

An outcome is a line of the samples file, as `optisim baseline` or `optisim mse` wrote
it; times are in nanoseconds, a list for each op, in it one for each rank.
"""

import math


def percentile(values, share):
    """The smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def mean(values):
    return math.fsum(values) / len(values)


def times(outcome):
    return [took for op in outcome["took_ns"] for took in op]


def times_of_others(outcome):
    """Of all ranks but rank 0, which may be late."""
    return [took for op in outcome["took_ns"] for took in op[1:]]


def missing(outcome):
    """Share of contributions and results that were not there in time; baselines lack none."""
    shares = [share for op in outcome["missing"] for share in op]
    return mean(shares) if shares else 0.0


FIGURES = {
    "mean": lambda o: mean(times(o)),
    "p50": lambda o: percentile(times(o), 0.50),
    "p99": lambda o: percentile(times(o), 0.99),
    "p99_over_p50": lambda o: percentile(times(o), 0.99) / percentile(times(o), 0.50),
    "others_p99": lambda o: percentile(times_of_others(o), 0.99),
    "ideal": lambda o: o["ideal_ns"],
    "missing": missing,
    "mse": lambda o: mean(o["squared_error"]),
    "background_goodput": lambda o: o["background_bytes"] / o["elapsed_ns"],
}
