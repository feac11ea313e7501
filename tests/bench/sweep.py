"""The constants of deadlines and repair, and the values that each is tried with.

One at a time has another value than the shipped one, under each of a few loads on a
network that is small enough for many runs. To try another constant, add it here.
"""

import dataclasses

import plan

# Of the text in which a value stands.
PLACE = "@"
HOSTS = 8
OPS = 100
COMMON = {"algorithm": "ours", "hosts": HOSTS, "bytes": plan.MIB, "rate": 1}
# Name: (flags, what counts of the times).
CASES = {
    "loaded": ({"background": "tail30"}, "p99"),
    "lossy": ({"loss": 0.01}, "p99"),
    # Rank 0 late by ten times the op with every 20th: how long it is for the others.
    "late": ({"period": 2, "late": 10}, "others_p99"),
    # Everybody late by up to twice the op.
    "ragged": ({"period": 4, "jitter": 2}, "p99"),
}
SHIPPED = "shipped"


@dataclasses.dataclass(frozen=True)
class Constant:
    name: str
    meaning: str
    shipped: str
    others: tuple
    file: str = ""  # with the text once; empty: `text` is a flag of optisim
    text: str = ""

    def values(self):
        """All of them, in order."""
        return sorted((self.shipped, *self.others), key=float)

    def flags(self, value):
        return {} if self.file else {self.text: value}

    def applied_to(self, source, value):
        """The source with the value in its place, which must be unmistakable."""
        old = self.text.replace(PLACE, self.shipped)
        if source.count(old) != 1:
            raise ValueError(f"{self.name}: {old!r} is {source.count(old)} times in {self.file}")
        return source.replace(old, self.text.replace(PLACE, value))


BOUNDS = "dataplane/core/bound_controller.cc"
REPAIR = "dataplane/core/repair.h"

CONSTANTS = (
    Constant("quorum", "thousandths of the ranks, at which clocks start", "750", ("500", "625", "875", "1000"),
             text="quorum"),
    Constant("headroom", "bounds, in fifths of what stages take", "7", ("5", "6", "10", "15"), BOUNDS,
             "constexpr int64_t kHeadroomTimes = @;"),
    Constant("samples", "the second largest of so many is what a stage takes", "32", ("16", "64"),
             "dataplane/core/bound_controller.h", "static constexpr size_t kSamples = @;"),
    Constant("first_share", "early wait at the start, thousandths of tC", "100", ("20", "300"), BOUNDS,
             "constexpr uint32_t kFirstShare = @;"),
    Constant("band", "middle of the band of what early ends leave out", "0.0004", ("0.0002", "0.002"), BOUNDS,
             "constexpr double kBandMiddle = @;"),
    Constant("grace", "of who has not opened the op: tC over this", "2", ("1", "4"), BOUNDS,
             "std::clamp(of.base / @ + pause_, least_, stage1)"),
    Constant("fading", "of a rank's own lateness, one over this in each op", "128", ("16", "1024"),
             "dataplane/core/lateness.h", "static constexpr int64_t kFading = @;"),
    Constant("window", "for reordered packets, the least round trip over this", "4", ("1", "16"), REPAIR,
             "trip.least() / @, kLeastWindow"),
    Constant("timeout", "of answers, deviations over the smoothed round trip", "4", ("2", "8"),
             "dataplane/core/round_trip.cc", "smoothed_ + deviation_ * @"),
    Constant("patience", "questions without answer before a stage may end", "2", ("1", "4"), REPAIR,
             "static constexpr uint32_t kMostQuestions = @;"),
    Constant("budget", "what may be sent again, of what was sent once, one over this", "4", ("2", "16", "64"), REPAIR,
             "static constexpr uint64_t kShare = @;"),
)


def run_name(constant, value, case):
    if value == constant.shipped:
        return f"sweep.{SHIPPED}.{case}"
    return f"sweep.{constant.name}.{value}.{case}"


def runs(constant, value, options):
    """Of one value under all loads; the shipped ones are the same for all constants."""
    made = []
    for case, (flags, _) in CASES.items():
        all_flags = {**COMMON, **flags, **constant.flags(value), "seed": options.seed}
        made.append(plan.Run(run_name(constant, value, case), all_flags, options.ops or OPS))
    return made
