"""The rows are what the samples say, and whoever changes one is found out."""

import contextlib
import dataclasses
import io
import json
import pathlib
import tempfile
import unittest

import bench
import build
import check
import figures
import files
import plan
import report
import rows
import shipped
import sweep
import testing
import text
from errors import BenchError


def by_name(made):
    return {row["name"]: row for row in made}


def evaluate(outcomes, options=plan.Options()):
    return by_name(rows.evaluate_all(outcomes, options, "x.samples.jsonl"))


class FiguresTest(unittest.TestCase):

    def test_percentiles_are_samples(self):
        self.assertEqual(figures.percentile(range(1, 201), 0.5), 100)
        self.assertEqual(figures.percentile(range(1, 201), 0.99), 198)
        self.assertEqual(figures.percentile([7], 0.01), 7)

    def test_all_ranks_of_all_ops_count(self):
        outcome = {"took_ns": [[1, 2], [3, 6]], "missing": [[0.5, 0.0], [0.0, 0.5]]}
        self.assertEqual(figures.FIGURES["mean"](outcome), 3)
        self.assertEqual(figures.FIGURES["p99_over_p50"](outcome), 3)
        self.assertEqual(figures.FIGURES["others_p99"](outcome), 6)
        self.assertEqual(figures.FIGURES["missing"](outcome), 0.25)

    def test_loss_is_back_in_its_band_after_the_last_ten_ops_that_lack_too_much(self):
        lacked = [[0.5, 0.5]] * 5 + [[0.0, 0.0]] * 3 + [[0.01, 0.03]] + [[0.0, 0.0]] * 21
        outcome = {"missing": lacked, "changed_at": 5}
        self.assertEqual(figures.FIGURES["ops_until_in_band"](outcome), 3 + 10)
        self.assertEqual(figures.FIGURES["ops_until_in_band"]({**outcome, "changed_at": 9}), 0)
        outcome["missing"][8] = [0.005, 0.01]
        self.assertEqual(figures.FIGURES["ops_until_in_band"](outcome), 0)

    def test_bounds_are_near_after_the_last_one_that_is_not(self):
        outcome = {"took_ns": [[400, 400]] * 2 + [[150, 150]] * 2 + [[100, 100]] * 4, "changed_at": 2,
                   "bound_ns": [[800, 800]] * 3 + [[200, 201], [200, 199]] + [[190, 190]] * 3}
        self.assertEqual(figures.FIGURES["ops_until_bound_is_near"](outcome), 2)
        self.assertEqual(figures.FIGURES["settled_p50"](outcome), 100)

    def test_jobs_are_compared_while_both_run(self):
        outcome = {"jobs_ended_ns": [[0, 100, 200, 300, 301, 302], [90, 290, 490]]}
        self.assertAlmostEqual(figures.FIGURES["jobs_ratio"](outcome), 200 / (202 / 4))

    def test_background_is_bytes_over_time(self):
        self.assertEqual(figures.FIGURES["background_goodput"]({"background_bytes": 30, "elapsed_ns": 10}), 3)


class RowsTest(unittest.TestCase):

    def test_names_are_unique(self):
        for options in (plan.Options(), plan.Options(hosts=64, full=True)):
            names = [row.name for row in rows.all_rows(options)]
            self.assertEqual(len(names), len(set(names)))

    def test_the_plan_has_the_runs_of_all_rows(self):
        options = plan.Options(full=True)
        outcomes = {**testing.outcomes(options), **testing.live_outcomes(),
                    **testing.swept_outcomes(sweep.CONSTANTS)}
        self.assertEqual(list(evaluate(outcomes, options)), [row.name for row in rows.all_rows(options)])

    def test_a_ratio_is_the_peers_over_ours(self):
        made = evaluate(testing.outcomes())
        self.assertEqual(made["sim.n8.tail30.ring_over_ours.mean.uncapped"]["value"], 2.5)
        self.assertEqual(made["sim.n8.tail30.ring_over_ours.mean.uncapped"]["peer"], "ring")
        self.assertEqual(made["sim.n8.quiet.ours_over_ideal.p50"]["value"], 1)

    def test_nccl_like_is_the_better_one_of_ring_and_tree(self):
        outcomes = testing.outcomes()
        self.assertEqual(evaluate(outcomes)["sim.n8.tail30.nccl_like_over_ours.mean.uncapped"]["value"], 2.0)
        outcomes["tail30.tree"] = testing.outcome("tail30.tree", [9000])
        self.assertEqual(evaluate(outcomes)["sim.n8.tail30.nccl_like_over_ours.mean.uncapped"]["value"], 2.5)

    def test_the_best_static_incast_is_that_of_the_least_mean(self):
        outcomes = testing.outcomes()
        outcomes["incast.ours.i1"] = testing.outcome("incast.ours.i1", [2000])
        outcomes["incast.ours.i2"] = testing.outcome("incast.ours.i2", [800])
        made = evaluate(outcomes)
        self.assertEqual(made["sim.incast.dynamic_over_best_static.mean"]["value"], 1.25)
        self.assertEqual(made["sim.incast.dynamic_over_i1.mean"]["value"], 0.5)

    def test_rates_after_a_change_are_compared_with_the_new_ideal(self):
        made = evaluate(testing.outcomes())
        self.assertEqual(made["sim.rate.ours_over_ideal_after_quarter_rate.p50"]["value"], 0.25)
        self.assertEqual(made["sim.rate.ours_over_ideal_after_fourfold_rate.p50"]["value"], 4)

    def test_a_switch_has_no_value(self):
        run = plan.Run("fair.ours", {"congestion-control": True, "jobs": 2}, 5)
        self.assertEqual(run.arguments("x"), ["baseline", "--congestion-control", "--jobs=2", "--ops=5", "--samples=x"])

    def test_errors_are_compared_by_half_of_the_hosts(self):
        made = evaluate(testing.outcomes())
        self.assertEqual(made["sim.mse.ring_over_tar_per_half_n.n8"]["value"], 3 / 0.5 / 4)
        self.assertEqual(made["sim.mse.ring_over_tar_per_half_n.n64"]["value"], 3 / 0.5 / 32)
        self.assertEqual(made["sim.mse.ps_over_tar.equal_drop"]["value"], 1)

    def test_the_spread_is_the_largest_over_the_smallest(self):
        options = plan.Options(full=True)
        outcomes = testing.outcomes(options)
        outcomes["n64.tail30.ours"] = testing.outcome("n64.tail30.ours", [1000] * 9 + [1500])
        self.assertEqual(evaluate(outcomes, options)["sim.scale.p99_over_p50_max_over_min"]["value"], 1.5)

    def test_live_rows_compare_the_simulated_ring_with_the_real_one(self):
        outcomes = testing.live_outcomes()
        self.assertEqual(sorted(run.name for run in plan.live_runs(plan.Options())),
                         sorted(run for run in outcomes if run.endswith(".ring")))
        outcomes["live.quiet.gloo"]["load_average"] = 1.25
        made = evaluate(outcomes)
        self.assertEqual(len(made), 5 * len(plan.LIVE_LOADS) + 6)
        row = made["live.ring.quiet.simulated_over_gloo.p50"]
        self.assertEqual((row["value"], row["better"], row["peer"]), (1.1, "one", "gloo"))
        self.assertIn("load average 1.2", row["note"])

    def test_a_load_is_the_same_on_real_packets_and_in_the_simulator(self):
        load = plan.LiveLoad(2, (0.5, 1.0), (0.25, 2.0))
        self.assertEqual(load.traffic(), ["--flows=2", "--pause=0.5-1.0", "--burst=0.25-2.0"])
        self.assertEqual(load.optisim(), "2:500000-1000000:250000-2000000")

    def test_capped_rows_are_of_capped_runs(self):
        outcomes = testing.outcomes()
        outcomes["tail30.ours.capped50"] = testing.outcome("tail30.ours.capped50", [5000], missing=0.25)
        made = evaluate(outcomes)
        self.assertEqual(made["sim.n8.tail30.ring_over_ours.mean.capped50"]["value"], 0.5)
        self.assertEqual(made["sim.n8.tail30.ours.missing_fraction.capped50"]["value"], 0.25)
        self.assertEqual(made["sim.n8.tail30.ours.missing_fraction.uncapped"]["value"], 0)

    def test_what_was_not_measured_is_not_there(self):
        outcomes = testing.outcomes()
        del outcomes["tail30.ring"]
        outcomes["tail15.ring"]["background_bytes"] = 0
        made = evaluate(outcomes)
        self.assertNotIn("sim.n8.tail30.ring_over_ours.mean.uncapped", made)
        self.assertNotIn("sim.n8.tail30.nccl_like_over_ours.mean.uncapped", made)
        self.assertIn("sim.n8.tail30.tree_over_ours.mean.uncapped", made)

    def test_other_hosts_give_other_names(self):
        options = plan.Options(hosts=4)
        row = evaluate(testing.outcomes(options), options)["sim.n4.quiet.ours_over_ideal.p50"]
        self.assertIn("hosts = 4", row["note"])

    def test_targets(self):
        row = rows.Row("a", rows.Part("b", "mean"), at_least=1, at_most=2)
        self.assertEqual(row.target(), "1 to 2")
        self.assertEqual([row.reached(value) for value in (0.9, 1, 2, 2.1)], [False, True, True, False])
        self.assertIsNone(rows.Row("a", rows.Part("b", "mean")).reached(1))
        self.assertEqual(dataclasses.replace(row, at_most=None).target(), ">= 1")

    def test_the_table_says_what_is_reached(self):
        made = rows.evaluate_all(testing.outcomes(), plan.Options(), "x")
        lines = {line.split()[0]: line.split() for line in text.terminal(made, plan.Options()).split("\n")}
        self.assertEqual(lines["sim.n8.tail30.ring_over_ours.mean.uncapped"][1:], ["2.5", ">=", "2", "yes"])
        self.assertEqual(lines["sim.n8.tail30.ring_over_ours.p99.uncapped"][-1], "no")
        self.assertEqual(lines["sim.n8.tail15.ring_over_ours.mean.capped50"][1:], ["2.5", "reported"])


class ShippedTest(unittest.TestCase):

    def test_defaults_are_those_of_the_configuration(self):
        settings = shipped.shipped_settings()
        self.assertEqual(settings["group_result_bound_us"], 100000)
        self.assertEqual(settings["group_stage1_bound_us"], 60000)  # 0 there: 6/10
        self.assertEqual(settings["group_fill"], "zero")
        self.assertIs(settings["group_adaptive_bounds"], True)

    def test_shipped_settings_have_the_shipped_hash(self):
        settings = shipped.shipped_settings()
        for name in shipped.OF_RUNS:
            del settings[name]
        outcome = testing.outcome("quiet.ours", [1], settings=settings)
        self.assertEqual(shipped.config_hash([outcome]), shipped.shipped_hash())
        self.assertEqual(shipped.differences(outcome), "")
        self.assertEqual(shipped.config_hash([testing.outcome("tail30.ring", [1]), outcome]), shipped.shipped_hash())

    def test_every_setting_changes_the_hash_and_is_named(self):
        for name in shipped.shipped_settings():
            settings = shipped.shipped_settings()
            changed = {of_runs: settings.pop(of_runs) for of_runs in shipped.OF_RUNS}
            (changed if name in changed else settings)[name] = 0.25
            outcome = testing.outcome("quiet.ours", [1], settings=settings, **changed)
            self.assertNotEqual(shipped.config_hash([outcome]), shipped.shipped_hash(), name)
            self.assertEqual(shipped.differences(outcome), f"not as shipped: {name} = 0.25")

    def test_runs_with_different_settings_have_a_hash_of_their_own(self):
        one, other = testing.outcome("tail30.ours", [1]), testing.outcome("tail30.ours.capped50", [1])
        hashes = {shipped.config_hash(runs) for runs in ([one], [other], [one, other])}
        self.assertEqual(len(hashes), 3)
        self.assertEqual(shipped.config_hash([one, other]), shipped.config_hash([other, one]))


class CheckTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = pathlib.Path(folder.name) / "bench.json"
        self.samples = files.samples_path(self.json)
        outcomes = testing.outcomes()
        files.write_samples(self.samples, plan.Options(), outcomes.values())
        files.write_rows(self.json, rows.evaluate_all(outcomes, plan.Options(), self.samples.name))

    def change_row(self, **changes):
        written = files.read_rows(self.json)
        written[0].update(changes)
        files.write_rows(self.json, written)

    def test_finds_nothing_wrong(self):
        self.assertEqual(check.differences(self.json), [])

    def test_every_key_counts(self):
        right = files.read_rows(self.json)[0]
        for key, value in {"value": right["value"] * (1 + 1e-12), "unit": "ms", "better": "lower", "peer": "tree",
                           "note": "", "config": "0", "seed": 2, "more": 1}.items():
            self.change_row(**{key: value})
            found = check.differences(self.json)
            self.assertEqual(len(found), 1, key)
            self.assertIn(f"{right['name']}: {key} is {value!r}", found[0])
            files.write_rows(self.json, [right, *files.read_rows(self.json)[1:]])

    def test_finds_a_changed_sample(self):
        lines = self.samples.read_text().splitlines()
        place = next(i for i, line in enumerate(lines) if '"run":"tail15.ring"' in line)
        self.samples.write_text("\n".join([*lines[:place], lines[place].replace("2500", "2501", 1), *lines[place + 1:]]))
        self.assertIn("sim.n8.tail15.ring_over_ours.mean.uncapped: value", "\n".join(check.differences(self.json)))

    def test_finds_an_unknown_row_and_one_left_out(self):
        self.change_row(name="sim.luck")
        self.assertEqual(check.differences(self.json), [
            f"sim.luck: there is no such row, or its runs are not in {self.samples.name}.",
            "sim.n8.tail30.ring_over_ours.mean.uncapped: the samples have it, the file has not.",
        ])

    def test_missing_samples_are_a_sentence(self):
        self.samples.unlink()
        with self.assertRaisesRegex(BenchError, r"^The samples are missing: there is no .*bench\.samples\.jsonl\.$"):
            check.differences(self.json)
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            self.assertEqual(bench.main(["check", str(self.json)]), 1)
        self.assertRegex(error.getvalue(), r"^bench\.sh: The samples are missing.*\n$")

    def test_what_is_no_file_of_rows_is_a_sentence(self):
        for content in ("", "[]", "{}", '{"rows": [1]}', '{"rows": [{"value": 1}]}', '{"rows": [{"name": "a"}]}'):
            self.json.write_text(content)
            with self.assertRaises(BenchError, msg=content):
                check.differences(self.json)
        for content in ("", "[]", '{"hosts": 8, "host": 1}', "{}\n{}"):
            self.json.write_text(json.dumps({"rows": [{"name": "a", "samples": self.samples.name}]}))
            self.samples.write_text(content)
            with self.assertRaises(BenchError, msg=content):
                check.differences(self.json)


class ReportTest(unittest.TestCase):

    def test_what_stands_between_the_marks_is_replaced(self):
        document = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        replaced = report.replace_marked(document, "new \\1")
        self.assertEqual(replaced, f"before\n{report.BEGIN}\nnew \\1\n{report.END}\nafter\n")
        for wrong in ("", document * 2, report.BEGIN):
            with self.assertRaises(BenchError):
                report.replace_marked(wrong, "new")

    def test_every_run_has_a_line(self):
        lines = report.times_table(testing.outcomes()).split("\n")
        self.assertEqual(len(lines), 2 + len([run for run in plan.runs(plan.Options()) if run.command == "baseline"]))
        self.assertIn("| `tail30.ring` | 4 | 0.0 | 0.0 | 0.0 | 1.00 | 0.0000 | 4.00 | `0123456789abcdef` |", lines)


class SweepTest(unittest.TestCase):

    def test_every_constant_is_where_it_is_said_to_be(self):
        for constant in sweep.CONSTANTS:
            if not constant.file:
                continue
            source = (build.ROOT / constant.file).read_text()
            for value in constant.others:
                changed = constant.applied_to(source, value)
                self.assertNotEqual(changed, source)
                self.assertEqual(len(changed.splitlines()), len(source.splitlines()))
            with self.assertRaises(ValueError):
                constant.applied_to(source.replace(constant.shipped, ""), constant.others[0])

    def test_the_shipped_values_are_those_of_the_configuration(self):
        [quorum] = [constant for constant in sweep.CONSTANTS if constant.name == "quorum"]
        self.assertEqual(int(quorum.shipped), shipped.shipped_settings()["group_quorum_permille"])

    def test_there_are_rows_of_what_was_swept_alone(self):
        quorum = sweep.CONSTANTS[0]
        made = evaluate(testing.swept_outcomes([quorum]))
        self.assertEqual(len(made), len(quorum.values()) * len(sweep.CASES) * 2)
        self.assertEqual(made["sweep.quorum.1000.late.others_p99_over_ideal"]["value"], 5)
        self.assertIn("quorum = 1000, not 750", made["sweep.quorum.1000.late.missing"]["note"])

    def test_the_table_has_a_line_for_each_value(self):
        lines = report.sweep_table(testing.swept_outcomes([sweep.CONSTANTS[1]])).split("\n")
        self.assertEqual(lines[2:4], ["|  | 5 |" + " 1.00, 0.2500 |" * 4, "|  | 6 |" + " 2.00, 0.2500 |" * 4])
        self.assertEqual(len(lines), 2 + len(sweep.CONSTANTS[1].values()))


class ArgumentsTest(unittest.TestCase):

    def refusal(self, *arguments):
        error = io.StringIO()
        with contextlib.redirect_stderr(error), self.assertRaises(SystemExit) as raised:
            bench.parse_arguments(arguments)
        self.assertEqual(raised.exception.code, 2)
        self.assertEqual(error.getvalue().count("\n"), 1)
        return error.getvalue()

    def test_errors_are_one_line(self):
        self.assertIn("--json: expected one argument", self.refusal("sim", "--json"))
        self.assertIn("required: --json", self.refusal("sim"))
        self.assertIn("--hosts: is from 4 to 1024", self.refusal("sim", "--json=a", "--hosts=3"))
        self.assertIn("--loss: is from 0 to below 1", self.refusal("sim", "--json=a", "--loss=1"))
        self.assertIn("--loss: invalid share value: 'much'", self.refusal("sim", "--json=a", "--loss=much"))
        self.assertIn("--seed: invalid whole number value: 'x'", self.refusal("sim", "--json=a", "--seed=x"))
        self.assertIn("required: FILE", self.refusal("check"))

    def test_nothing_runs_for_a_file_that_cannot_be_written(self):
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            self.assertEqual(bench.main(["sim", "--json", "/nowhere/bench.json"]), 1)
        self.assertEqual(error.getvalue(), "bench.sh: /nowhere/bench.json cannot be written.\n")


if __name__ == "__main__":
    unittest.main()
