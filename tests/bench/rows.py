"""The rows: what is made of the runs, and what must be reached.

A row is a figure of a run, one figure over another, or the largest of several over
the smallest. A row whose runs were not made is not there.
"""

import dataclasses

import figures
import plan
import shipped
import sweep


@dataclasses.dataclass(frozen=True)
class Part:
    run: str
    figure: str


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    top: Part
    under: Part = None  # the row is top / under
    among: tuple = ()  # the row is the largest of top and these / the smallest
    divisor: float = 1  # and then by this
    unit: str = "ratio"
    better: str = "lower"  # or higher, or one: the nearer to 1
    peer: str = ""  # what ours is compared with
    at_least: float = None
    at_most: float = None
    note: str = ""

    def parts(self):
        return [part for part in (self.top, self.under, *self.among) if part]

    def combine(self, values):
        """Of the figures of all parts; None if the lower one of a ratio is 0."""
        if self.among:
            values = max(values), min(values)
        if len(values) == 1:
            return values[0] / self.divisor
        return values[0] / values[1] / self.divisor if values[1] else None

    def target(self):
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "reported" if self.at_most is None else f"<= {self.at_most:g}"

    def reached(self, value):
        """None: there is nothing to reach."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


# ---- the tables ----------------------------------------------------------

# (load, peer, figure): what uncapped and capped must reach.
RATIOS = {
    ("tail30", "ring", "mean"): (2.0, 1.3),
    ("tail30", "bcube", "mean"): (2.0, 1.3),
    ("tail30", "tree", "mean"): (1.5, 1.3),
    ("tail30", "nccl_like", "mean"): (1.5, 1.3),
    ("tail30", "tar_reliable", "mean"): (1.5, 1.3),
    ("tail30", "ring", "p99"): (3.0, 2.0),
    ("tail15", "ring", "mean"): (1.3, None),
    ("tail15", "nccl_like", "mean"): (1.1, None),
}
# Of several runs the better one, by the mean.
BETTER_OF = {"nccl_like": ("ring", "tree"),
             "ours.best_static": (*(f"ours.i{incast}" for incast in plan.INCASTS), "ours.all")}
# The runs whose names differ from those of the rows.
RUN_OF = {"tar_reliable": "tar"}
CAPS = {"uncapped": "ours", "capped50": "ours.capped50"}
MISSING_AT_MOST = {"uncapped": 0.002, "capped50": 0.04}
BACKGROUND_AT_LEAST = {"uncapped": None, "capped50": 0.7}


def loaded_rows(n):
    for (load, peer, figure), targets in RATIOS.items():
        for (cap, ours), target in zip(CAPS.items(), targets):
            yield Row(f"sim.{n}.{load}.{peer}_over_ours.{figure}.{cap}", Part(f"{load}.{RUN_OF.get(peer, peer)}", figure),
                      Part(f"{load}.{ours}", figure), better="higher", peer=peer, at_least=target)
    for cap, ours in CAPS.items():
        yield Row(f"sim.{n}.tail30.background_goodput_ours_over_ring.{cap}", Part(f"tail30.{ours}", "background_goodput"),
                  Part("tail30.ring", "background_goodput"), better="higher", peer="ring",
                  at_least=BACKGROUND_AT_LEAST[cap])
        yield Row(f"sim.{n}.tail30.ours.missing_fraction.{cap}", Part(f"tail30.{ours}", "missing"), unit="fraction",
                  at_most=MISSING_AT_MOST[cap], note="before residuals and debts")
    yield Row(f"sim.{n}.ours.tail30_over_tail15.p50.uncapped", Part("tail30.ours", "p50"), Part("tail15.ours", "p50"),
              at_most=1.03)
    yield Row(f"sim.{n}.tail30.ours.p99_over_p50.uncapped", Part("tail30.ours", "p99_over_p50"), at_most=1.15)


def quiet_rows(n):
    yield Row(f"sim.{n}.quiet.ours_over_ideal.p50", Part("quiet.ours", "p50"), Part("quiet.ours", "ideal"),
              peer="ideal", at_most=1.05, note="ideal: bytes with headers / line rate")
    yield Row("sim.straggler.others_over_quiet.p99", Part("late.ours", "others_p99"), Part("paced.ours", "others_p99"),
              at_most=1.1, note="rank 0 is late by 10 times the ideal with every 20th op")


def scale_rows(options):
    for hosts in plan.scale(options):
        yield Row(f"sim.n{hosts}.quiet.ours_over_ideal.p50", Part(f"n{hosts}.quiet.ours", "p50"),
                  Part(f"n{hosts}.quiet.ours", "ideal"), peer="ideal", at_most=1.25)
        yield Row(f"sim.n{hosts}.tail30.ours.p99_over_p50.uncapped", Part(f"n{hosts}.tail30.ours", "p99_over_p50"))


    if not plan.scale(options):
        return
    everywhere = [Part("tail30.ours", "p99_over_p50"),
                  *(Part(f"n{hosts}.tail30.ours", "p99_over_p50") for hosts in plan.scale(options))]
    yield Row("sim.scale.p99_over_p50_max_over_min", everywhere[0], among=tuple(everywhere[1:]), at_most=1.2)


def best_effort_rows():
    first = plan.BEST_EFFORT_HOSTS[0]
    for hosts in plan.BEST_EFFORT_HOSTS:
        yield Row(f"sim.mse.ring_over_tar_per_half_n.n{hosts}", Part(f"mse.n{hosts}.ring", "mse"),
                  Part(f"mse.n{hosts}.tar", "mse"), divisor=hosts / 2, better="higher", peer="ring", at_least=0.9,
                  note="best effort, 0.1 % of packets dropped")
    yield Row("sim.mse.ps_over_tar.equal_drop", Part(f"mse.n{first}.ps", "mse"), Part(f"mse.n{first}.tar", "mse"),
              better="one", peer="ps", at_least=0.9, at_most=1.1, note="best effort, 0.1 % of packets dropped")


def rate_rows():
    quarter, fourfold = "rate.ours.quarter", "rate.ours.fourfold"
    yield Row("sim.rate.recover_ops_after_quarter_rate", Part(quarter, "ops_until_in_band"), unit="ops", at_most=20,
              note="of all cables; up to the last ten ops in a row that lack more than 0.1 %")
    yield Row("sim.rate.recover_ops_after_fourfold_rate", Part(fourfold, "ops_until_bound_is_near"), unit="ops",
              at_most=50, note="of all cables; up to the last bound that is over twice what ops take in the end")
    for run, name, factor in ((quarter, "quarter", 4), (fourfold, "fourfold", 0.25)):
        yield Row(f"sim.rate.ours_over_ideal_after_{name}_rate.p50", Part(run, "settled_p50"), Part(run, "ideal"),
                  divisor=factor, peer="ideal", note="the second half of the ops since the change")
    yield Row("sim.fair.two_jobs_ratio", Part("fair.ours", "jobs_ratio"), at_most=1.1,
              note="two jobs of 4 hosts, one of which is in both")


def controlled_rows(n):
    """What congestion control costs and gives."""
    yield Row(f"sim.{n}.quiet.controlled_over_ours.p50", Part("quiet.ours.controlled", "p50"), Part("quiet.ours", "p50"),
              at_most=1.01)
    for figure in ("mean", "p99", "background_goodput"):
        yield Row(f"sim.{n}.tail30.controlled_over_ours.{figure}", Part("tail30.ours.controlled", figure),
                  Part("tail30.ours", figure), better="higher" if figure == "background_goodput" else "lower")


def incast_rows():
    shipped_one = "shipped are all others at a time"
    yield Row("sim.incast.dynamic_over_best_static.mean", Part("incast.ours.all", "mean"),
              Part("incast.ours.best_static", "mean"), at_most=1.02, note=shipped_one)
    yield Row("sim.incast.dynamic_over_i1.mean", Part("incast.ours.all", "mean"), Part("incast.ours.i1", "mean"),
              at_most=0.79, note=shipped_one)


def live_rows():
    for load in plan.LIVE_LOADS:
        for figure in ("p50", "p99"):
            yield Row(f"live.ring.{load}.simulated_over_gloo.{figure}", Part(f"live.{load}.ring", figure),
                      Part(f"live.{load}.gloo", figure), better="one", peer="gloo", at_least=0.85, at_most=1.15)
        yield Row(f"live.gloo.{load}.p99_over_p50", Part(f"live.{load}.gloo", "p99_over_p50"), peer="gloo")
    for load in plan.LIVE_LOADS:
        for figure in ("mean", "p99"):
            yield Row(f"live.n4.{load}.gloo_over_ours.{figure}", Part(f"live.{load}.gloo", figure),
                      Part(f"live.{load}.ours", figure), better="higher", peer="gloo")
    for cap, ours in CAPS.items():
        run, is_capped = f"live.tail30.{ours}", cap != "uncapped"
        yield Row(f"live.n4.tail30.ours.p99_over_p50.{cap}", Part(run, "p99_over_p50"),
                  at_most=None if is_capped else 1.3)
        yield Row(f"live.n4.tail30.ours.missing_fraction.{cap}", Part(run, "missing"), unit="fraction",
                  at_most=None if is_capped else 0.005, note="before residuals and debts")
        yield Row(f"live.n4.tail30.background_goodput_ours_over_gloo.{cap}", Part(run, "background_goodput"),
                  Part("live.tail30.gloo", "background_goodput"), better="higher", peer="gloo")


def sweep_rows():
    """How long and how incomplete ops are with each value of each constant."""
    for constant in sweep.CONSTANTS:
        for value in constant.others:
            yield from rows_of_value(constant, value, f"{constant.name} = {value}, not {constant.shipped}")
    yield from rows_of_value(constant, constant.shipped, "")


def rows_of_value(constant, value, note):
    for case, (_, figure) in sweep.CASES.items():
        run = sweep.run_name(constant, value, case)
        yield Row(f"{run}.{figure}_over_ideal", Part(run, figure), Part(run, "ideal"), note=note)
        yield Row(f"{run}.missing", Part(run, "missing"), unit="fraction", note=note)


def all_rows(options):
    n = f"n{options.hosts}"
    return [*loaded_rows(n), *quiet_rows(n), *controlled_rows(n), *scale_rows(options), *incast_rows(), *rate_rows(),
            *best_effort_rows(), *live_rows(), *sweep_rows()]


# ---- what is made of them ------------------------------------------------


def outcome_of(part, outcomes):
    """The outcome of a part's run, or None."""
    load, _, name = part.run.partition(".")
    if name not in BETTER_OF:
        return outcomes.get(part.run)
    several = [outcomes.get(f"{load}.{one}") for one in BETTER_OF[name]]
    return min(several, key=figures.FIGURES["mean"]) if all(several) else None


def note_of(row, used, options):
    """Sizes of the runs, and in what they are not as published or shipped."""
    ops = "; ".join(f"{outcome['run']}: {outcome['ops']} ops" for outcome in used)
    notes = [row.note, ops]
    notes += [f"{name} = {getattr(options, name)}" for name in options.moved()]
    notes += [shipped.differences(outcome) for outcome in used]
    notes += [f"load average {outcome['load_average']:.1f}" for outcome in used if "load_average" in outcome]
    return "; ".join(dict.fromkeys(filter(None, notes)))


def evaluate(row, outcomes, options, samples):
    """The row as it stands in the JSON file; None if it was not measured."""
    used = [outcome_of(part, outcomes) for part in row.parts()]
    if None in used:
        return None
    value = row.combine([figures.FIGURES[part.figure](outcome) for part, outcome in zip(row.parts(), used)])
    if value is None:  # no background in a run that was too short
        return None
    return {
        "name": row.name,
        "value": value,
        "unit": row.unit,
        "better": row.better,
        "peer": row.peer,
        "note": note_of(row, used, options),
        "samples": samples,
        "config": shipped.config_hash(used),
        "seed": options.seed,
    }


def evaluate_all(outcomes, options, samples):
    """All rows for which there are outcomes; `samples` is the file's name."""
    made = (evaluate(row, outcomes, options, samples) for row in all_rows(options))
    return [row for row in made if row]
