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


BAND = 0.001  # the most that ops may lack on average
WINDOW = 10  # ops that are averaged


def ops_until_in_band(outcome):
    """Ops after the change of rate, up to the last ten in a row that lack too much."""
    shares = [mean(op) for op in outcome["missing"][outcome["changed_at"]:]]
    ends = [end for end in range(WINDOW, len(shares) + 1) if mean(shares[end - WINDOW:end]) > BAND]
    return max(ends, default=0)


def settled(outcome):
    """What ops take once rates have long changed: those of the second half since then."""
    after = outcome["took_ns"][outcome["changed_at"]:]
    return [took for op in after[len(after) // 2:] for took in op]


def ops_until_bound_is_near(outcome):
    """Ops after the change of rate, up to the last one whose bound is over twice what ops take in the end."""
    most = 2 * percentile(settled(outcome), 0.5)
    bounds = outcome["bound_ns"][outcome["changed_at"]:]
    return max((place + 1 for place, op in enumerate(bounds) if max(op) > most), default=0)


def jobs_ratio(outcome):
    """By how much one job is faster than the other while both run."""
    jobs = outcome["jobs_ended_ns"]
    begin, end = max(ended[0] for ended in jobs), min(ended[-1] for ended in jobs)
    spans = []
    for ended in jobs:
        inside = [at for at in ended if begin <= at <= end]
        spans.append((inside[-1] - inside[0]) / (len(inside) - 1))
    return max(spans) / min(spans)


FIGURES = {
    "mean": lambda o: mean(times(o)),
    "p50": lambda o: percentile(times(o), 0.50),
    "p99": lambda o: percentile(times(o), 0.99),
    "p99_over_p50": lambda o: percentile(times(o), 0.99) / percentile(times(o), 0.50),
    "others_p99": lambda o: percentile(times_of_others(o), 0.99),
    "ideal": lambda o: o["ideal_ns"],
    "missing": missing,
    "mse": lambda o: mean(o["squared_error"]),
    "ops_until_in_band": ops_until_in_band,
    "ops_until_bound_is_near": ops_until_bound_is_near,
    "settled_p50": lambda o: percentile(settled(o), 0.5),
    "jobs_ratio": jobs_ratio,
    "background_goodput": lambda o: o["background_bytes"] / o["elapsed_ns"],
}
