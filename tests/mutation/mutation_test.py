"""The list of mutants is sound, and nothing that goes wrong passes for a kill."""

import pathlib
import tempfile
import unittest

import mutation

ENTRY = {"name": "a", "file": "room/a.cc", "old": "x < y\n", "new": "x <= y\n", "why": "it matters", "tests": ["//room:a_test"]}


def outcomes(*results):
    return [mutation.Outcome(mutation.Mutant(ENTRY), result, 1.0, []) for result in results]


class MutantTest(unittest.TestCase):
    def test_changes_the_one_place(self):
        self.assertEqual(mutation.Mutant(ENTRY).applied_to("if (x < y) {"), "if (x <= y) {")

    def test_the_place_must_be_there_once(self):
        for text in ("", "if (x > y) {", "x < y; x < y;"):
            with self.assertRaisesRegex(mutation.Unusable, "mutants.toml"):
                mutation.Mutant(ENTRY).applied_to(text)

    def test_bad_entries(self):
        for change in ({"why": ""}, {"tests": []}, {"new": ENTRY["old"]}, {"sampel": True}):
            with self.assertRaises(mutation.Unusable):
                mutation.Mutant({**ENTRY, **change})

    def test_every_outgrown_mutant_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            pathlib.Path(root, "room").mkdir()
            pathlib.Path(root, "room/a.cc").write_text("nothing of the kind")
            mutants = [mutation.Mutant(ENTRY), mutation.Mutant({**ENTRY, "name": "b", "file": "room/b.cc"})]
            with self.assertRaisesRegex(mutation.Unusable, "(?s)mutant a.*mutant b"):
                mutation.check_applicable(mutants, root)

    def test_the_list(self):
        mutants = mutation.load(pathlib.Path(__file__).parent / "mutants.toml")
        self.assertGreaterEqual(len(mutants), 40)
        self.assertGreaterEqual(sum(m.sample for m in mutants.values()), 20)
        for mutant in mutants.values():
            for test in mutant.tests:
                self.assertRegex(test, r"^//[a-z_/]+:[a-z0-9_]+_test$")


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "root")
        for path in ("room/a.cc", "bazel-bin/b", ".git/c", "third_party/bazel-x/d"):
            (self.root / path).parent.mkdir(parents=True)
            (self.root / path).write_text("if (x < y) {")
        self.bench = mutation.Bench(self.root, pathlib.Path(folder.name, "work"))

    def run_with(self, code):
        def test(targets):
            self.assertEqual(targets, ENTRY["tests"])
            self.assertEqual((self.bench.tree / "room/a.cc").read_text(), "if (x <= y) {")
            return code, ""

        self.bench.test = test
        return self.bench.try_mutant(mutation.Mutant(ENTRY))[0]

    def test_copies_the_code_only(self):
        found = sorted(p.relative_to(self.bench.tree).as_posix() for p in self.bench.tree.rglob("*") if p.is_file())
        self.assertEqual(found, ["room/a.cc", "third_party/bazel-x/d"])

    def test_results(self):
        self.assertEqual(self.run_with(0), mutation.SURVIVED)
        self.assertEqual(self.run_with(1), mutation.NOT_BUILT)
        self.assertEqual(self.run_with(3), mutation.KILLED)
        with self.assertRaises(mutation.Unusable):  # Bazel itself failed
            self.run_with(37)

    def test_every_break_is_taken_back(self):
        self.run_with(3)
        with self.assertRaises(mutation.Unusable):
            self.run_with(37)
        for tree in (self.bench.tree, self.root):
            self.assertEqual((tree / "room/a.cc").read_text(), "if (x < y) {")


class ReportTest(unittest.TestCase):
    def test_who_noticed(self):
        output = """
//room:a_test                     PASSED in 0.1s
//room:b_test                     FAILED in 0.1s
//room:c_test           (cached) PASSED in 0.1s
//room:d_test                     TIMEOUT in 60.0s
"""
        self.assertEqual(mutation.failed_targets(output), ["//room:b_test", "//room:d_test"])

    def test_95_percent(self):
        self.assertTrue(mutation.good_enough(outcomes(*[mutation.KILLED] * 19, mutation.SURVIVED)))
        self.assertFalse(mutation.good_enough(outcomes(*[mutation.KILLED] * 18, mutation.SURVIVED)))

    def test_what_does_not_build_is_not_killed(self):
        self.assertFalse(mutation.good_enough(outcomes(*[mutation.KILLED] * 18, mutation.NOT_BUILT)))

    def test_summary(self):
        numbers = mutation.summary(outcomes(mutation.KILLED, mutation.SURVIVED, mutation.NOT_BUILT, mutation.KILLED))
        self.assertEqual((numbers["killed"], numbers["survived"], numbers["not_built"]), (2, 1, 1))
        self.assertEqual(numbers["killed_percent"], 50.0)
        self.assertEqual(numbers["mutants"][1]["result"], "survived")


if __name__ == "__main__":
    unittest.main()
