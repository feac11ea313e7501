"""What all ranks of a group come to about a training step, alike."""

import ctypes
import dataclasses

from optireduce import _library, _memory
from optireduce._errors import ERR_TIMEOUT, InvalidArgumentError
from optireduce._library import byref, check, library

# A wait is cut into pieces, so that Ctrl-C is seen.
_SLICE_NS = 100_000_000


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The same on all ranks."""

    step: int
    below_floor: bool  # a rank had less of an operation's results than min_fraction
    non_finite_ranks: list  # ranks that had NaN or an infinity in their inputs
    bad_steps: int  # so many were bad (one of the above) in a row up to this one; 0: it is good
    halt_advised: bool  # as many as halt_after
    least_present: float  # the least share of an operation's results, and the rank that had it
    least_present_rank: int
    lacking_ranks: list  # ranks whose arrays lack elements that others may have
    absent: int  # such elements, of all ranks
    # How far the replicas are apart: the greatest distance of a rank's parameters
    # from the mean of all, as a share of the length of that, right within a factor
    # of about 1.5. None if not all ranks have given theirs.
    divergence: float
    divergent_rank: int
    min_fraction: float  # the settings in force
    halt_after: int

    @property
    def good(self):
        """Whether the step is to be used; else it is to be skipped, on all ranks."""
        return self.bad_steps == 0


def _make_verdict(c):
    known = c.divergence >= 0
    return Verdict(
        step=c.step,
        below_floor=c.below_floor != 0,
        non_finite_ranks=_library.ranks_of(c.non_finite),
        bad_steps=c.bad_steps,
        halt_advised=c.halt_advised != 0,
        least_present=c.least_present,
        least_present_rank=c.least_present_rank,
        lacking_ranks=_library.ranks_of(c.lacking),
        absent=c.absent,
        divergence=c.divergence if known else None,
        divergent_rank=c.divergent_rank if known else None,
        min_fraction=c.min_fraction,
        halt_after=c.halt_after,
    )


def sketch(parameters):
    """A summary of an array or of several, by which replicas are compared."""
    result = _library.Sketch()
    for array in [parameters] if hasattr(parameters, "dtype") else parameters:
        if not array.flags.c_contiguous:
            raise InvalidArgumentError("the parameters are not C-contiguous")
        dtype = _memory.DTYPES[_memory.dtype_name_of(array.dtype)]
        check(library().or_sketch_add(byref(result), dtype, array.ctypes.data, array.size))
    return result


class PendingVerdict:
    """A verdict on its way. The next one of its group begins when it has been read."""

    def __init__(self, session, number):
        self._session = session
        self._number = number
        self._verdict = None

    def poll(self):
        """The verdict if it is there, else None. Does not wait."""
        return self._verdict if self._ask(0) else None

    def wait(self, timeout_s=None):
        """Waits for the verdict; an error at the latest by the group's hard limit.

        WaitTimeoutError means that it goes on. After any other error this rank does
        not know what the others know: form the group anew and broadcast the
        parameters before going on.
        """
        left_ns = None if timeout_s is None else max(int(timeout_s * 1e9), 0)
        while True:
            piece = _SLICE_NS if left_ns is None else min(left_ns, _SLICE_NS)
            if self._ask(piece):
                return self._verdict
            if left_ns is not None:
                left_ns -= piece
                if left_ns <= 0:
                    check(ERR_TIMEOUT)

    def _ask(self, limit_ns):
        if self._verdict is not None:
            return True
        verdict = _library.Verdict()
        verdict.struct_size = ctypes.sizeof(verdict)
        status = library().or_verdict_wait(self._session._handle.pointer, self._number, limit_ns, byref(verdict))
        if status == ERR_TIMEOUT:
            return False
        check(status)
        self._verdict = _make_verdict(verdict)
        return True
