"""Measures OptiReduce and what it is compared with; docs/EXPERIMENTS.md explains.

    bench.sh sim --json FILE     the experiments in the simulator
    bench.sh live --json FILE    OptiReduce and Gloo's ring on real packets, and the simulated ring
    bench.sh sweep --json FILE   the same, with other values of the core's constants
    bench.sh check FILE          whether the rows of FILE are what its samples say
    bench.sh report FILE         its rows and figures, for a document

`bench.sh COMMAND --help` has the flags of each.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import build
import check
import files
import live
import measure
import plan
import report
import rows as tables
import sweep as sweeps
import text
import variants
from errors import BenchError


class Parser(argparse.ArgumentParser):
    """Errors are one sentence."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help explains.\n")


def share(word):
    value = float(word)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("is from 0 to below 1")
    return value


def whole(least, most):
    def parse(word):
        value = int(word)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"is from {least} to {most}")
        return value

    parse.__name__ = "whole number"
    return parse


def parse_arguments(arguments):
    parser = Parser(prog="bench.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    sim = commands.add_parser("sim", help="the experiments in the simulator",
                              description="Runs the experiments in the simulator: about ten minutes on two cores, "
                              "and with --full hours. Prints the rows; writes them to FILE and, beside it, "
                              "every single time that they are made of.")
    sim.add_argument("--json", required=True, type=pathlib.Path, metavar="FILE")
    sim.add_argument("--full", action="store_true", help="1,000 ops under load instead of 150, up to 256 hosts instead of 64")
    sim.add_argument("--hosts", type=whole(4, 1024), default=plan.Options.hosts, metavar="N", help="%(default)s")
    sim.add_argument("--loss", type=share, default=plan.Options.loss, metavar="P",
                     help="share of all packets that is lost, whoever's: %(default)s")
    sim.add_argument("--size", type=whole(4, 1 << 32), default=plan.Options.size, metavar="BYTES",
                     help="of the buffer: %(default)s")
    sim.add_argument("--seed", type=whole(0, (1 << 63) - 1), default=plan.Options.seed, metavar="S", help="%(default)s")
    sim.add_argument("--ops", type=whole(0, 10**6), default=plan.Options.ops, metavar="K",
                     help="at most so many in each run; 0: as planned")
    sim.add_argument("--twice", action="store_true", help="makes each run twice; an error if their traces differ")

    real = commands.add_parser("live", help="OptiReduce and Gloo's ring on real packets, and the simulated ring",
                               description="Runs OptiReduce and Gloo's ring all-reduce on hosts in network "
                               "namespaces, and the simulator's ring under the same load: twenty minutes on a machine "
                               "that does nothing else.")
    real.add_argument("--json", required=True, type=pathlib.Path, metavar="FILE")
    real.add_argument("--seed", type=whole(0, (1 << 63) - 1), default=plan.Options.seed, metavar="S", help="%(default)s")
    real.add_argument("--ops", type=whole(0, 10**6), default=plan.Options.ops, metavar="K",
                      help=f"in each run; 0: {plan.LIVE_OPS}")

    tried = commands.add_parser("sweep", help="experiments with other values of the core's constants",
                                description="Builds the simulator anew for each value of each constant of "
                                "tests/bench/sweep.py, and runs small ops under several loads: an hour on two cores.")
    tried.add_argument("--json", required=True, type=pathlib.Path, metavar="FILE")
    tried.add_argument("--seed", type=whole(0, (1 << 63) - 1), default=plan.Options.seed, metavar="S", help="%(default)s")
    tried.add_argument("--ops", type=whole(0, 10**6), default=plan.Options.ops, metavar="K",
                       help=f"in each run; 0: {sweeps.OPS}")
    tried.add_argument("--only", nargs="+", metavar="NAME", choices=[constant.name for constant in sweeps.CONSTANTS],
                       default=[constant.name for constant in sweeps.CONSTANTS], help="these constants alone")

    verify = commands.add_parser("check", help="whether the rows of FILE are what its samples say",
                                 description="Computes every row of FILE anew from its samples.")
    verify.add_argument("file", type=pathlib.Path, metavar="FILE")

    tables_of = commands.add_parser("report", help="its rows and figures, for a document",
                                    description="Tables of FILE and its samples in Markdown.")
    tables_of.add_argument("file", type=pathlib.Path, metavar="FILE")
    tables_of.add_argument("--document", type=pathlib.Path, metavar="FILE.md",
                           help="put the tables there, between the marks, instead of printing them")
    tables_of.add_argument("--figure", type=pathlib.Path, metavar="FILE.svg", help="draw the times of all ops there")
    return parser.parse_args(arguments)


def optisim():
    return build.built("//dataplane/sim:optisim", "dataplane/sim/optisim")


def check_writable(path):
    """Before anything is run for hours."""
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise BenchError(f"{path} cannot be written.")


def sim(args):
    if args.size % 4:
        raise BenchError("--size is a multiple of 4.")
    check_writable(args.json)
    options = plan.Options(args.hosts, args.loss, args.size, args.seed, args.full, args.ops)
    conclude(args.json, options, measure.make_all(optisim(), plan.runs(options), args.twice, say))
    return 0


def measure_live(args):
    check_writable(args.json)
    live.hosts.enter_namespaces()
    options = plan.Options(seed=args.seed, ops=args.ops)
    program = build.built("//tests/bench:gloo_ring", "tests/bench/gloo_ring")
    build.built("//control:optireduced", "control/optireduced")
    build.built("//client:liboptireduce.so.0", "client/liboptireduce.so.0")
    simulated = measure.make_all(optisim(), plan.live_runs(options), say=say)
    real = []
    for measure_one in live.experiments(program, options):  # one after the other, with the machine to themselves
        real.append(measure_one())
        say(f"{real[-1]['run']}: {real[-1]['ops']} ops, {real[-1]['elapsed_ns'] / 1e9:.0f} s, "
            f"load average {real[-1]['load_average']:.1f}")
    conclude(args.json, options, simulated + real)
    return 0


def sweep(args):
    check_writable(args.json)
    options = plan.Options(seed=args.seed, ops=args.ops)
    constants = [constant for constant in sweeps.CONSTANTS if constant.name in args.only]
    usual = optisim()
    outcomes = measure.make_all(usual, sweeps.runs(constants[0], constants[0].shipped, options), say=say)
    with tempfile.TemporaryDirectory(prefix="optireduce-sweep-") as folder:
        workshop = variants.Workshop(folder)
        try:
            for constant in constants:
                for value in constant.others:
                    program = workshop.optisim(constant, value) if constant.file else usual
                    outcomes += measure.make_all(program, sweeps.runs(constant, value, options), say=say)
        finally:
            workshop.close()
    conclude(args.json, options, outcomes)
    return 0


def say(line):
    print(line, flush=True)


def conclude(json_path, options, outcomes):
    """Writes both files and prints the rows."""
    samples = files.samples_path(json_path)
    files.write_samples(samples, options, outcomes)
    made = tables.evaluate_all({outcome["run"]: outcome for outcome in outcomes}, options, samples.name)
    files.write_rows(json_path, made)
    say(f"\n{text.terminal(made, options)}\n\nThe rows are in {json_path}, what they are made of in {samples}.")


def check_file(args):
    found = check.differences(args.file)
    for sentence in found:
        print(f"bench.sh: {sentence}", file=sys.stderr)
    if not found:
        print(f"{len(files.read_rows(args.file))} rows of {args.file} are what their samples say.")
    return 1 if found else 0


def report_file(args):
    report.report(args.file, args.document, args.figure)
    return 0


COMMANDS = {"sim": sim, "live": measure_live, "sweep": sweep, "check": check_file, "report": report_file}


def main(arguments):
    args = parse_arguments(arguments)
    try:
        return COMMANDS[args.command](args)
    except BenchError as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
