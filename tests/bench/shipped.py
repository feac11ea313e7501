"""The settings that OptiReduce is shipped with, and what a run had instead.

Those of a group are the defaults in proto/config.proto. A row's `config` is a
hash of the settings of the runs behind it: equal to shipped_hash() if they are the
shipped ones.
"""

import hashlib
import json
import pathlib
import re

CONFIG_PROTO = pathlib.Path(__file__).absolute().parents[2] / "proto/config.proto"
# A setting that 0 stands for a share of the result bound.
SHARES = {"group_stage1_bound_us": 0.6, "group_early_wait_us": 0.1}
# Not in the configuration: the share of its line that a host may use, whether rates follow
# the network, how many ranks send to one at a time (0: all others).
OF_RUNS = {"share_cap": 1.0, "congestion_control": False, "incast": 0}


def parse_defaults(text):
    """{name: default} of the settings of groups in the text of config.proto."""
    values = {}
    for name, value in re.findall(r"optional \w+ (group_\w+) = \d+\s*\[\s*default = ([^,\]\s]+)", text):
        values[name] = json.loads(value)
    for name, share in SHARES.items():
        if values[name] == 0:
            values[name] = round(values["group_result_bound_us"] * share)
    return values


def shipped_settings():
    return {**parse_defaults(CONFIG_PROTO.read_text()), **OF_RUNS}


def settings_of(outcome):
    """None for a baseline, which has none."""
    if "settings" not in outcome:
        return None
    return {**outcome["settings"], **{name: outcome[name] for name in OF_RUNS}}


def digest(settings):
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shipped_hash():
    return digest(shipped_settings())


def config_hash(outcomes):
    """Of the settings of our runs among these; of different ones, of all together."""
    distinct = {digest(settings): settings for settings in map(settings_of, outcomes) if settings}
    if len(distinct) > 1:
        return digest(sorted(distinct))
    return next(iter(distinct), shipped_hash())


def differences(outcome):
    """In words, or empty."""
    settings = settings_of(outcome)
    if not settings:
        return ""
    usual = shipped_settings()
    changed = [f"{name} = {json.dumps(value)}" for name, value in sorted(settings.items()) if usual.get(name) != value]
    return "not as shipped: " + ", ".join(changed) if changed else ""
