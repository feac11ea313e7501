"""Tables and figures of a measurement, for a document.

What a document says between its two marks is replaced; the figures lie in a folder
beside it.
"""

import pathlib
import re

import figures
import files
import text
from errors import BenchError

BEGIN = "<!-- made by bench.sh report: begin -->"
END = "<!-- made by bench.sh report: end -->"
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


def replace_marked(document, content):
    """The document's text with the content between its marks."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    replaced, times = pattern.subn(lambda _: f"{BEGIN}\n{content}\n{END}", document)
    if times != 1:
        raise BenchError(f"The document has not once the marks {BEGIN} and {END}.")
    return replaced


def report(json_path, document, figure):
    """Prints the tables, or puts them into the document."""
    written = files.read_rows(json_path)
    if not written:
        raise BenchError(f"{json_path} has no rows.")
    options, outcomes = files.read_samples(files.named_samples(json_path, written[0]))
    content = f"{text.markdown(written, options)}\n\n{times_table(outcomes)}"
    if document:
        files.write(document, replace_marked(files.read(document), content))
    else:
        print(content)
    if figure:
        draw(pathlib.Path(figure), outcomes)
