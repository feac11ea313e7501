"""Tables and figures of a measurement, for a document.

What a document says between its two marks is replaced; the figures lie in a folder
beside it.
"""

import pathlib
import re

import figures
import files
import sweep
import text
from errors import BenchError

BEGIN = "<!-- made by bench.sh report: begin -->"
END = "<!-- made by bench.sh report: end -->"
# Those of a sweep: a document may have both.
SWEEP_BEGIN = "<!-- made by bench.sh report of a sweep: begin -->"
SWEEP_END = "<!-- made by bench.sh report of a sweep: end -->"
LABELS = {"tar": "tar_reliable", "ours.capped50": "ours, capped at 50 %"}
MS = 1e6  # nanoseconds
SHARES = [10 ** (-place / 20) for place in range(1, 61)]  # of the figure's curves: 0.9 to 0.001


def of_load(outcomes, load):
    """{label: outcome} of the runs under a load."""
    prefix = load + "."
    return {LABELS.get(name[len(prefix):], name[len(prefix):]): outcome
            for name, outcome in sorted(outcomes.items()) if name.startswith(prefix)}


def times_table(outcomes):
    """Every run with times: how long its ops took, what was missing, what the others got through."""
    lines = ["| run | ops | mean | p50 | p99 | p99/p50 | missing | others | trace |", "|" + "---|" * 9]
    for name, outcome in outcomes.items():
        if "took_ns" in outcome:
            lines.append(f"| `{name}` | {outcome['ops']} | {' | '.join(cells(outcome))} |")
    return "\n".join(lines)


def cells(outcome):
    """Milliseconds and Gb/s. Real packets have no trace."""
    value = {key: figures.FIGURES[key](outcome) for key in ("mean", "p50", "p99", "p99_over_p50")}
    times = [f"{value[key] / MS:.1f}" for key in ("mean", "p50", "p99")] + [f"{value['p99_over_p50']:.2f}"]
    lacked = f"{figures.missing(outcome):.4f}" if "missing" in outcome else ""
    others = figures.FIGURES["background_goodput"](outcome) * 8
    trace = f"`{outcome['trace_hash']}`" if "trace_hash" in outcome else ""
    return [*times, lacked, f"{others:.2f}", trace]


def draw(path, outcomes):
    """How many ops take longer than so long, under both loads."""
    import matplotlib  # here, as only this needs it, and Debian's takes a second to load

    matplotlib.use("Agg")
    # The same file each time, with letters as letters.
    matplotlib.rcParams.update({"svg.hashsalt": "optireduce", "svg.fonttype": "none"})
    from matplotlib import pyplot

    plot, areas = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for area, load in zip(areas, ("tail15", "tail30")):
        for label, outcome in of_load(outcomes, load).items():
            times = [figures.percentile(figures.times(outcome), 1 - share) / MS for share in SHARES]
            area.plot(times, SHARES, label=label, linewidth=2 if label.startswith("ours") else 1)
        area.set(title=f"background {load}", xlabel="time of an op, ms", yscale="log")
        area.grid(alpha=0.3)
    areas[0].set_ylabel("share of ops that take longer")
    areas[1].legend()
    plot.tight_layout()
    plot.savefig(path, metadata={"Date": None})
    pyplot.close(plot)


def sweep_value(constant, value, outcomes):
    """[(time over the ideal, missing)] under each load; None where it was not measured."""
    cells = []
    for case, (_, figure) in sweep.CASES.items():
        outcome = outcomes.get(sweep.run_name(constant, value, case))
        cells.append(outcome and (figures.FIGURES[figure](outcome) / outcome["ideal_ns"], figures.missing(outcome)))
    return cells


def swept(outcomes):
    """{constant: {value: cells}} of the constants that were swept."""
    made = {}
    for constant in sweep.CONSTANTS:
        values = {value: sweep_value(constant, value, outcomes) for value in constant.values()}
        if all(None not in values[value] for value in values):
            made[constant] = values
    return made


def sweep_table(outcomes):
    """For each value the time over the ideal, and what is missing, under each load."""
    lines = [f"| constant | value | {' | '.join(sweep.CASES)} |", "|" + "---|" * (2 + len(sweep.CASES))]
    for constant, values in swept(outcomes).items():
        for value, cells in values.items():
            shown = [f"{time:.2f}, {lacked:.4f}" for time, lacked in cells]
            name, value = (f"`{constant.name}`", f"**{value}**") if value == constant.shipped else ("", value)
            lines.append(f"| {name} | {value} | {' | '.join(shown)} |")
    return "\n".join(lines)


def draw_sweep(path, outcomes):
    """Of each constant the times above, and what is missing below, over its values."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "optireduce", "svg.fonttype": "none"})
    from matplotlib import pyplot

    made = swept(outcomes)
    plot, areas = pyplot.subplots(2, len(made), figsize=(2 + 2 * len(made), 6), sharey="row", squeeze=False)
    for column, (constant, values) in enumerate(made.items()):
        for row in range(2):
            area = areas[row][column]
            for place, case in enumerate(sweep.CASES):
                area.plot(list(values), [cells[place][row] for cells in values.values()], marker="o", label=case)
            area.axvline(constant.values().index(constant.shipped), color="gray", linewidth=0.5)
            area.grid(alpha=0.3)
        areas[0][column].set(title=constant.name)
    areas[0][0].set(ylabel="time / ideal", yscale="log")
    most = max(lacked for values in made.values() for cells in values.values() for _, lacked in cells)
    areas[1][0].set_yscale("symlog", linthresh=1e-4)  # nothing missing has a place, too
    areas[1][0].set(ylabel="missing", ylim=(0, 2 * most or 1))
    areas[0][0].legend()
    plot.tight_layout()
    plot.savefig(path, metadata={"Date": None})
    pyplot.close(plot)


def replace_marked(document, content, begin=BEGIN, end=END):
    """The document's text with the content between its marks."""
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    replaced, times = pattern.subn(lambda _: f"{begin}\n{content}\n{end}", document)
    if times != 1:
        raise BenchError(f"The document has not once the marks {begin} and {end}.")
    return replaced


def report(json_path, document, figure):
    """Prints the tables, or puts them into the document."""
    written = files.read_rows(json_path)
    if not written:
        raise BenchError(f"{json_path} has no rows.")
    options, outcomes = files.read_samples(files.named_samples(json_path, written[0]))
    if any(run.startswith("sweep.") for run in outcomes):
        content, marks, drawn = sweep_table(outcomes), (SWEEP_BEGIN, SWEEP_END), draw_sweep
    else:
        content, marks, drawn = f"{text.markdown(written, options)}\n\n{times_table(outcomes)}", (BEGIN, END), draw
    if document:
        files.write(document, replace_marked(files.read(document), content, *marks))
    else:
        print(content)
    if figure:
        drawn(pathlib.Path(figure), outcomes)
