"""What the library's status values are in Python."""

OK = 0
PARTIAL = 1
PENDING = 2
ERR_TIMEOUT = -6
ERR_NO_MEMORY = -12


class Error(RuntimeError):
    """Anything that went wrong. `report` is the operation's account, if it has one."""

    def __init__(self, message, report=None):
        super().__init__(message)
        self.report = report

    @property
    def missing_ranks(self):
        """The ranks that the operation lacked."""
        return self.report.missing_ranks if self.report else []


class InvalidArgumentError(Error, ValueError):
    """The call is wrong as it stands."""


class DaemonUnreachableError(Error, ConnectionError):
    """No daemon answered within the limit."""


class DaemonLostError(Error, ConnectionError):
    """The daemon died or no longer answers: connect again."""


class RefusedError(Error):
    """The daemon said no."""


class VersionError(Error):
    """Library and daemon (or this package) do not understand each other."""


class WaitTimeoutError(Error, TimeoutError):
    """The call's limit passed; nothing has changed, the call may be repeated."""


class HardLimitError(Error, TimeoutError):
    """The operation's hard limit passed; see missing_ranks."""


class PeerLostError(Error):
    """A rank died or left: form a new group."""


class MismatchError(Error):
    """Ranks submitted different operations."""


class ExpiredError(Error):
    """Submitted so late that the result is gone."""


class CancelledError(Error):
    """The group was left while the operation was in flight."""


class OutOfMemoryError(Error, MemoryError):
    """The segment, a quota or the process is out of memory."""


class BusyError(Error):
    """The buffer is in flight, or too many operations are."""


class NotInheritedError(Error):
    """The session belongs to the parent of this process: connect again here."""


class UnsupportedError(Error):
    """This dtype, op, mode and codec do not go together."""


class ClosedError(Error):
    """The session was closed, or the group left."""


class SystemCallError(Error, OSError):
    """The system refused something."""


class FormationError(Error):
    """The group did not form."""


_BY_STATUS = {
    -1: InvalidArgumentError,
    -2: DaemonUnreachableError,
    -3: DaemonLostError,
    -4: RefusedError,
    -5: VersionError,
    ERR_TIMEOUT: WaitTimeoutError,
    -7: HardLimitError,
    -8: PeerLostError,
    -9: MismatchError,
    -10: ExpiredError,
    -11: CancelledError,
    ERR_NO_MEMORY: OutOfMemoryError,
    -13: BusyError,
    -14: NotInheritedError,
    -15: UnsupportedError,
    -16: ClosedError,
    -17: SystemCallError,
    -18: FormationError,
}


def make_error(status, message, report=None):
    return _BY_STATUS.get(status, Error)(message, report)
