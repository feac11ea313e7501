"""The connection of this process to its host's daemon."""

import ctypes
import time

from optireduce import _library, _memory
from optireduce._errors import InvalidArgumentError
from optireduce._group import Group, _choose
from optireduce._library import byref, check, library, nanoseconds, text

_MS = 10**6
_S = 10**9
_FILLS = {"zero": 1, "own": 2}


def connect(socket_path=None, timeout_s=5.0, *, segment_bytes=None, name=None):
    """Connects to the daemon of this host.

    socket_path: None is $OPTIREDUCE_SOCKET, or else /run/optireduce/control.sock.
    timeout_s: how long to try while there is no daemon.
    segment_bytes: room for all arrays; None is 64 MiB.
    name: what optictl calls this process.
    """
    options = _library.initialized(_library.ConnectOptions)
    options.socket_path = text(socket_path)
    options.client_name = text(name)
    options.segment_bytes = segment_bytes or 0
    options.limit_ns = nanoseconds(timeout_s, _S)
    pointer = ctypes.c_void_p()
    check(library().or_connect(byref(options), byref(pointer)))
    return Session(_memory.Handle(pointer))


class Session:
    """Made by connect(). Usable in `with`. Not inherited by forked children."""

    def __init__(self, handle):
        self._handle = handle
        self._unfinished = {}  # operations, by number
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        """Ends the connection. Arrays stay readable. May be repeated."""
        if not self.closed:
            check(library().or_disconnect(self._handle.pointer))
            self.closed = True
            self._unfinished.clear()

    def allocate(self, shape, dtype="float32"):
        """An array in shared memory; it is freed with its last reference."""
        return _memory.allocate(self._handle, shape, dtype)

    def create_group(self, rank, world, *, rendezvous_dir=None, exchange=None, name="default", timeout_s=10.0,
                     soft_ms=None, stage1_ms=None, early_wait_ms=None, hard_ms=None, window=None,
                     quorum_permille=None, fill=None, mtu=None, memory_budget_bytes=None, heartbeat_ms=None,
                     suspect_after_ms=None, dead_after_ms=None, min_fraction=None, halt_after=None,
                     owed_budget_bytes=None):
        """Joins ranks 0..world-1 to a group; returns when all have answered.

        The ranks meet in `rendezvous_dir`, a directory that all of them see, or
        by `exchange`: a function that hands this rank's bytes to all ranks and
        returns everybody's, by rank (an all-gather of MPI, a torch Store).
        Groups that form at the same time in one directory need different names.

        What is None is the daemon's default; optireduce.h says what it means.
        """
        settings = _library.initialized(_library.GroupSettings)
        settings.name = text(name)
        settings.rank = rank
        settings.world = world
        settings.soft_limit_ns = nanoseconds(soft_ms, _MS)
        settings.stage1_limit_ns = nanoseconds(stage1_ms, _MS)
        settings.early_wait_ns = nanoseconds(early_wait_ms, _MS)
        settings.hard_limit_ns = nanoseconds(hard_ms, _MS)
        settings.window = window or 0
        settings.quorum_permille = quorum_permille or 0
        settings.fill = 0 if fill is None else _choose("fill", fill, _FILLS)
        settings.mtu = mtu or 0
        settings.memory_budget_bytes = memory_budget_bytes or 0
        settings.owed_budget_bytes = owed_budget_bytes or 0
        settings.heartbeat_ns = nanoseconds(heartbeat_ms, _MS)
        settings.suspect_after_ns = nanoseconds(suspect_after_ms, _MS)
        settings.dead_after_ns = nanoseconds(dead_after_ms, _MS)
        settings.formation_limit_ns = nanoseconds(timeout_s, _S)
        settings.min_fraction = min_fraction or 0
        settings.halt_after = halt_after or 0
        if (rendezvous_dir is None) == (exchange is None):
            raise InvalidArgumentError("create_group needs either rendezvous_dir or exchange")
        if exchange is not None:
            number = self._form_by_exchange(settings, exchange, timeout_s)
        else:
            number = self._form_in_directory(settings, rendezvous_dir, name)
        return Group(self, number, rank, world, name)

    def _form_in_directory(self, settings, directory, name):
        rendezvous = _library.Rendezvous(text(directory), text(name))
        group = ctypes.c_uint64()
        check(
            library().or_group_create_in_directory(self._handle.pointer, byref(settings), byref(rendezvous), byref(group))
        )
        return group.value

    def _form_by_exchange(self, settings, exchange, timeout_s):
        end = time.monotonic() + timeout_s
        group = ctypes.c_uint64()
        own = _library.Member()
        limit = nanoseconds(timeout_s, _S)
        check(library().or_group_prepare(self._handle.pointer, byref(settings), limit, byref(group), byref(own)))
        formed = False
        try:
            blobs = list(exchange(bytes(own.data[: own.size])))
            members = (_library.Member * settings.world)()
            if len(blobs) != settings.world:
                raise InvalidArgumentError(f"the exchange returned {len(blobs)} members for {settings.world} ranks")
            for member, blob in zip(members, blobs):
                if len(blob) > _library.MEMBER_BYTES:
                    raise InvalidArgumentError(f"the exchange returned a member of {len(blob)} bytes")
                member.size = len(blob)
                ctypes.memmove(member.data, bytes(blob), len(blob))
            left = nanoseconds(max(end - time.monotonic(), 0), _S)
            check(library().or_group_form(self._handle.pointer, group.value, members, left))
            formed = True
            return group.value
        finally:
            if not formed:
                library().or_group_leave(self._handle.pointer, group.value, 0)
