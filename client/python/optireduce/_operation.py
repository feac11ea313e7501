"""An operation in flight, and the account of one that has ended."""

import ctypes
import dataclasses

from optireduce import _library
from optireduce._errors import ERR_TIMEOUT, OK, PARTIAL, PENDING, make_error

_CAUSES = {0: "all in", 1: "early", 2: "deadline", 3: "error"}
# A wait is cut into pieces, so that Ctrl-C is seen.
_SLICE_NS = 100_000_000


@dataclasses.dataclass(frozen=True)
class Report:
    """How an operation ended at this rank. Shares are of its elements."""

    status: str  # "complete", "partial" or "error"
    cause: str  # "all in", "early", "deadline" or "error"
    op_seq: int  # its number in the group, the same on all ranks
    world: int
    elements: int
    absent: int  # elements whose result did not arrive: they are 0
    contributions: int
    min_contributors: int
    missing_ranks: list  # ranks that were late or silent
    stage1_loss: float  # share of contributions that were not summed
    stage2_loss: float  # share of elements that are absent
    missing_fraction: float
    # From the submit, in microseconds. None: there was none.
    quorum_us: float
    deadline_us: float
    duration_us: float
    # How much later than its deadline, or its submit if that was later, it ended:
    # by the clock, and not counting time in which the daemon had no processor.
    wall_late_us: float
    decision_late_us: float
    # Results that come late are still put in place: the array is the daemon's
    # until its step is closed.
    step_open: bool
    # Packets that were lost on their first way and came in time when sent again.
    repaired: int


def _microseconds(nanos):
    return None if nanos == _library.NEVER else nanos / 1000


def _make_report(c):
    return Report(
        status={OK: "complete", PARTIAL: "partial"}.get(c.status, "error"),
        cause=_CAUSES.get(c.cause, "error"),
        op_seq=c.op_seq,
        world=c.world,
        elements=c.elements,
        absent=c.absent,
        contributions=c.contributions,
        min_contributors=c.min_contributors,
        missing_ranks=_library.ranks_of(c.missing),
        stage1_loss=c.stage1_loss,
        stage2_loss=c.stage2_loss,
        missing_fraction=c.missing_fraction,
        quorum_us=_microseconds(c.quorum_ns),
        deadline_us=_microseconds(c.deadline_ns),
        duration_us=c.duration_ns / 1000,
        wall_late_us=c.wall_late_ns / 1000,
        decision_late_us=c.decision_late_ns / 1000,
        step_open=c.step_open != 0,
        repaired=c.repaired,
    )


class Operation:
    """A submitted operation. Its arrays are the daemon's until it has ended.

    With a bucket and a step its output stays the daemon's until the step is closed.
    """

    def __init__(self, session, number, arrays, keep_open):
        """keep_open: called at the end if the step is open then."""
        self._session = session
        self._number = number
        self._arrays = arrays  # kept alive while the daemon uses them
        self._keep_open = keep_open
        self._status = PENDING
        self._message = "the operation goes on: wait again"
        self._report = None

    def poll(self):
        """The report if the operation has ended, else None. Does not wait."""
        self._ask(0)
        return None if self._status == PENDING else self._result()

    def wait(self, timeout_s=None):
        """Waits for the end and returns the report; raises if it is an error.

        Without a timeout the operation's hard limit bounds the wait, also when
        the daemon is dead or stopped. WaitTimeoutError means that it goes on.
        """
        left_ns = None if timeout_s is None else max(int(timeout_s * 1e9), 0)
        while self._status == PENDING:
            piece = _SLICE_NS if left_ns is None else min(left_ns, _SLICE_NS)
            self._ask(piece)
            if left_ns is None or self._status != PENDING:
                continue
            left_ns -= piece
            if left_ns <= 0:
                raise make_error(ERR_TIMEOUT, self._message)
        return self._result()

    def _ask(self, limit_ns):
        if self._status != PENDING:
            return
        report = _library.Report()
        report.struct_size = ctypes.sizeof(report)
        lib = _library.library()
        if limit_ns == 0:
            status = lib.or_poll(self._session._handle.pointer, self._number, ctypes.byref(report))
        else:
            status = lib.or_wait(self._session._handle.pointer, self._number, limit_ns, ctypes.byref(report))
        if status in (PENDING, ERR_TIMEOUT):
            return
        self._message = _library.last_error()
        self._status = status
        self._report = _make_report(report)
        if self._report.step_open:
            self._keep_open()
        self._arrays = self._keep_open = None
        self._session._unfinished.pop(self._number, None)

    def _result(self):
        if self._status < 0:
            raise make_error(self._status, self._message, self._report)
        return self._report
