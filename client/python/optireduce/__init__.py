"""Collectives that end on time, on NumPy arrays, through the host's optireduced.

    import optireduce

    with optireduce.connect() as session:
        with session.create_group(rank, world, rendezvous_dir="/shared/run1") as group:
            gradients = group.allocate(1_000_000)          # float32, in shared memory
            for step in range(1, steps + 1):
                gradients[:] = ...
                report = group.all_reduce(gradients, op="avg", soft_ms=50, bucket=1, step=step).wait()
                print(report.missing_fraction, report.missing_ranks)
                group.close_step(step)                     # before the gradients are read
                ...

Everything that can go wrong is an optireduce.Error; its text names the rank and
says what to do. Needs NumPy and liboptireduce.so, no compiler.
"""

from optireduce._errors import (
    BusyError,
    CancelledError,
    ClosedError,
    DaemonLostError,
    DaemonUnreachableError,
    Error,
    ExpiredError,
    FormationError,
    HardLimitError,
    InvalidArgumentError,
    MismatchError,
    NotInheritedError,
    OutOfMemoryError,
    PeerLostError,
    RefusedError,
    SystemCallError,
    UnsupportedError,
    VersionError,
    WaitTimeoutError,
)
from optireduce._group import Event, Group
from optireduce._library import library_version
from optireduce._operation import Operation, Report
from optireduce._session import Session, connect
from optireduce._verdict import PendingVerdict, Verdict

__all__ = [
    "BusyError",
    "CancelledError",
    "ClosedError",
    "DaemonLostError",
    "DaemonUnreachableError",
    "Error",
    "Event",
    "ExpiredError",
    "FormationError",
    "Group",
    "HardLimitError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInheritedError",
    "Operation",
    "OutOfMemoryError",
    "PeerLostError",
    "PendingVerdict",
    "RefusedError",
    "Report",
    "Session",
    "SystemCallError",
    "UnsupportedError",
    "Verdict",
    "VersionError",
    "WaitTimeoutError",
    "connect",
    "library_version",
]
