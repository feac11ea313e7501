"""Tables of rows, for the terminal and for documents."""

import rows as tables

HEADINGS = ("row", "value", "target", "reached")


def cells(row, by_name, options):
    """Of a row as in the file. Targets are those of the published experiments."""
    known = by_name[row["name"]]
    value = f"{row['value']:.4g}"
    if options.moved():
        return row["name"], value, "", ""
    reached = known.reached(row["value"])
    return row["name"], value, known.target(), {None: "", True: "yes", False: "no"}[reached]


def all_cells(rows, options):
    by_name = {row.name: row for row in tables.all_rows(options)}
    return [cells(row, by_name, options) for row in rows]


def terminal(rows, options):
    table = [HEADINGS, *all_cells(rows, options)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table)


def markdown(rows, options):
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    for name, *others in all_cells(rows, options):
        lines.append(f"| `{name}` | {' | '.join(others)} |")
    return "\n".join(lines)
