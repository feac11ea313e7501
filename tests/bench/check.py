"""Whether a file of rows is what its samples say."""

import files
import rows as tables


def recomputed(json_path, names):
    """{row name: row} from the samples files of these names."""
    made = {}
    for name in names:
        options, outcomes = files.read_samples(json_path.parent / name)
        for row in tables.evaluate_all(outcomes, options, name):
            made[row["name"]] = row
    return made


def differences(json_path):
    """Sentences; none if every row is right and none was left out."""
    written = files.read_rows(json_path)
    names = dict.fromkeys(files.named_samples(json_path, row).name for row in written)
    made = recomputed(json_path, names)
    found = []
    for row in written:
        right = made.pop(row["name"], None)
        if right is None:
            found.append(f"{row['name']}: there is no such row, or its runs are not in {row['samples']}.")
            continue
        for key in sorted(right.keys() | row.keys()):
            if row.get(key) != right.get(key):
                found.append(f"{row['name']}: {key} is {row.get(key)!r}, the samples say {right.get(key)!r}.")
    found += [f"{name}: the samples have it, the file has not." for name in made]
    return found
