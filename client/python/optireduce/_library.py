"""liboptireduce.so by ctypes: its structs and calls as optireduce.h has them."""

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

from optireduce._errors import Error, VersionError, make_error

_NAME = "liboptireduce.so.0"
_MAJOR = 0
MEMBER_BYTES = 256
MAX_WORLD = 1024
NEVER = 2**63 - 1


class ConnectOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("socket_path", c_char_p),
        ("client_name", c_char_p),
        ("segment_bytes", c_uint64),
        ("limit_ns", c_int64),
    ]


class GroupSettings(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("soft_limit_ns", c_int64),
        ("stage1_limit_ns", c_int64),
        ("early_wait_ns", c_int64),
        ("hard_limit_ns", c_int64),
        ("quorum_permille", c_uint32),
        ("window", c_uint32),
        ("fill", c_int32),
        ("mtu", c_uint32),
        ("memory_budget_bytes", c_uint64),
        ("heartbeat_ns", c_int64),
        ("suspect_after_ns", c_int64),
        ("dead_after_ns", c_int64),
        ("formation_limit_ns", c_int64),
        ("min_fraction", c_double),
        ("halt_after", c_uint32),
        ("owed_budget_bytes", c_uint64),
    ]


class Member(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("data", c_uint8 * MEMBER_BYTES)]


class Rendezvous(ctypes.Structure):
    _fields_ = [("directory", c_char_p), ("name", c_char_p)]


class Event(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("rank", c_uint32)]


class Operation(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("collective", c_int32),
        ("reduce_op", c_int32),
        ("dtype", c_int32),
        ("mode", c_int32),
        ("codec", c_int32),
        ("root", c_uint32),
        ("count", c_uint64),
        ("input", c_void_p),
        ("output", c_void_p),
        ("bucket", c_uint64),
        ("step", c_uint64),
        ("soft_limit_ns", c_int64),
        ("hard_limit_ns", c_int64),
        ("loss_scale", c_float),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int32),
        ("cause", c_int32),
        ("op_seq", c_uint32),
        ("world", c_uint32),
        ("elements", c_uint64),
        ("absent", c_uint64),
        ("contributions", c_uint64),
        ("min_contributors", c_uint32),
        ("missing_count", c_uint32),
        ("missing", c_uint64 * (MAX_WORLD // 64)),
        ("stage1_loss", c_double),
        ("stage2_loss", c_double),
        ("missing_fraction", c_double),
        ("quorum_ns", c_int64),
        ("deadline_ns", c_int64),
        ("duration_ns", c_int64),
        ("wall_late_ns", c_int64),
        ("decision_late_ns", c_int64),
        ("mismatch_rank", c_uint32),
        ("step_open", c_uint32),
        ("repaired", c_uint64),
    ]


class Sketch(ctypes.Structure):
    _fields_ = [("elements", c_uint64), ("sums", c_double * 16)]


class Verdict(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_uint64),
        ("world", c_uint32),
        ("bad_steps", c_uint32),
        ("below_floor", c_uint32),
        ("halt_advised", c_uint32),
        ("min_fraction", c_double),
        ("halt_after", c_uint32),
        ("least_present_rank", c_uint32),
        ("least_present", c_double),
        ("absent", c_uint64),
        ("lacking", c_uint64 * (MAX_WORLD // 64)),
        ("non_finite", c_uint64 * (MAX_WORLD // 64)),
        ("lacking_count", c_uint32),
        ("non_finite_count", c_uint32),
        ("divergence", c_double),
        ("divergent_rank", c_uint32),
        ("reserved", c_uint32),
    ]


# Name -> (result, arguments). A session is a void pointer, groups and
# operations are 64-bit numbers.
_CALLS = {
    "or_version": (c_uint32, []),
    "or_last_error": (c_char_p, []),
    "or_connect_options_init": (None, [POINTER(ConnectOptions), c_size_t]),
    "or_connect": (c_int, [POINTER(ConnectOptions), POINTER(c_void_p)]),
    "or_disconnect": (c_int, [c_void_p]),
    "or_close": (c_int, [POINTER(c_void_p)]),
    "or_allocate": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "or_free": (c_int, [c_void_p, c_void_p]),
    "or_group_settings_init": (None, [POINTER(GroupSettings), c_size_t]),
    "or_group_prepare": (c_int, [c_void_p, POINTER(GroupSettings), c_int64, POINTER(c_uint64), POINTER(Member)]),
    "or_group_form": (c_int, [c_void_p, c_uint64, POINTER(Member), c_int64]),
    "or_group_create_in_directory": (
        c_int,
        [c_void_p, POINTER(GroupSettings), POINTER(Rendezvous), POINTER(c_uint64)],
    ),
    "or_group_leave": (c_int, [c_void_p, c_uint64, c_int64]),
    "or_group_next_event": (c_int, [c_void_p, c_uint64, POINTER(Event)]),
    "or_operation_init": (None, [POINTER(Operation), c_size_t]),
    "or_submit": (c_int, [c_void_p, c_uint64, POINTER(Operation), POINTER(c_uint64)]),
    "or_poll": (c_int, [c_void_p, c_uint64, POINTER(Report)]),
    "or_wait": (c_int, [c_void_p, c_uint64, c_int64, POINTER(Report)]),
    "or_state_save": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64, POINTER(c_uint64)]),
    "or_state_load": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64, POINTER(c_uint64)]),
    "or_sketch_add": (c_int, [POINTER(Sketch), c_int32, c_void_p, c_uint64]),
    "or_verdict_submit": (c_int, [c_void_p, c_uint64, c_uint64, POINTER(Sketch), POINTER(c_uint64)]),
    "or_verdict_wait": (c_int, [c_void_p, c_uint64, c_int64, POINTER(Verdict)]),
    "or_step_close": (c_int, [c_void_p, c_uint64, c_uint64, c_int32, c_int64, POINTER(c_uint64)]),
}


def _candidates():
    """Where the library may be, best first."""
    chosen = os.environ.get("OPTIREDUCE_LIBRARY")
    if chosen:
        return [chosen]
    package = pathlib.Path(__file__).resolve().parent
    beside = [folder / _NAME for folder in (package, package.parent)]
    return [str(path) for path in beside if path.exists()] + [_NAME]


def _open():
    failures = []
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(str(error))
    raise Error(
        "liboptireduce is not to be found: install it, or set OPTIREDUCE_LIBRARY to its path. "
        + "Tried: " + "; ".join(failures)
    )


@functools.lru_cache(maxsize=None)
def library():
    """The library, opened at the first use."""
    opened = _open()
    for name, (result, arguments) in _CALLS.items():
        call = getattr(opened, name)
        call.restype = result
        call.argtypes = arguments
    version = opened.or_version()
    if version // 1_000_000 != _MAJOR:
        raise VersionError(
            f"this optireduce package is for liboptireduce {_MAJOR}.x, the installed one is "
            f"{version // 1_000_000}.{version // 1000 % 1000}: install both from one release"
        )
    return opened


def library_version():
    """The version of liboptireduce, as "major.minor.patch"."""
    version = library().or_version()
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"


def last_error():
    return library().or_last_error().decode(errors="replace")


def check(status):
    """Raises what a negative status means; hands on every other one."""
    if status < 0:
        raise make_error(status, last_error())
    return status


def initialized(struct_type):
    """A struct with the library's defaults."""
    struct = struct_type()
    init = {
        ConnectOptions: "or_connect_options_init",
        GroupSettings: "or_group_settings_init",
        Operation: "or_operation_init",
    }[struct_type]
    getattr(library(), init)(byref(struct), ctypes.sizeof(struct))
    return struct


def nanoseconds(value, unit):
    """`value` times `unit` ns; None is 0, the default."""
    return 0 if value is None else max(round(value * unit), 1)


def ranks_of(bits):
    """The ranks of a set, in order."""
    return [r for r in range(MAX_WORLD) if bits[r // 64] >> (r % 64) & 1]


def text(value):
    return None if value is None else os.fsencode(value)
