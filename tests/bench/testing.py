"""Made-up outcomes of runs, for tests."""

import plan
import sweep

SETTINGS = {"group_result_bound_us": 100000, "group_window": 16}


def outcome(run, took_ns, hosts=8, missing=None, settings=None, **changes):
    """took_ns: by op; all ranks of an op take that long."""
    ours = ".ours" in run
    made = {
        "run": run,
        "ops": len(took_ns),
        "took_ns": [[took] * hosts for took in took_ns],
        "missing": [[missing or 0.0] * hosts for _ in took_ns] if ours else [],
        "ideal_ns": 1000,
        "elapsed_ns": 10000,
        "background_bytes": 5000,
        "share_cap": 0.5 if "capped50" in run else 1.0,
        "congestion_control": False,
        "incast": 0,
        "trace_hash": "0123456789abcdef",
        **changes,
    }
    if ours:
        made["settings"] = settings or SETTINGS
        made.setdefault("bound_ns", [[2 * took] * hosts for took in took_ns])
        made.setdefault("changed_at", 0)
        made.setdefault("jobs_ended_ns", [[0, 10, 20]] * 2)
    return made


def best_effort(run, squared_error):
    return {"run": run, "ops": 200, "squared_error": squared_error, "trace_hash": "0123456789abcdef"}


def live_outcomes():
    took = {f"live.{load}.{who}": nanos for load in plan.LIVE_LOADS
            for who, nanos in (("ring", 1100), ("gloo", 1000), ("ours", 500))}
    took["live.tail30.ours.capped50"] = 800
    return {run: outcome(run, [nanos] * 4, hosts=4) for run, nanos in took.items()}


def swept_outcomes(constants):
    """The first value of each takes 1000 ns, the second 2000, and so on."""
    made = {}
    for constant in constants:
        for place, value in enumerate(constant.values()):
            for run in sweep.runs(constant, value, plan.Options()):
                made[run.name] = {**outcome(f"{run.name}.ours", [1000 * (place + 1)], missing=0.25), "run": run.name}
    return made


def outcomes(options=plan.Options()):
    """Of all runs of `bench.sh sim`: ours takes 1000 ns, the baselines 2500, the tree 2000."""
    took = {"ring": 2500, "bcube": 2500, "tar": 2500, "tree": 2000}
    made = {}
    for run in plan.runs(options):
        if run.command == "mse":
            made[run.name] = best_effort(run.name, [2, 4] if run.flags["algorithm"] == "ring" else [1, 0])
        else:
            made[run.name] = outcome(run.name, [took.get(run.name.split(".")[1], 1000)] * 4)
    return made
