"""NumPy arrays that live in a session's shared segment."""

import ctypes
import gc
import math
import weakref

import numpy

from optireduce._errors import ERR_NO_MEMORY, InvalidArgumentError
from optireduce._library import check, library

# Numbers of optireduce.h.
DTYPES = {
    "float32": 1,
    "float16": 2,
    "bfloat16": 3,
    "float64": 4,
    "int8": 5,
    "uint8": 6,
    "int16": 7,
    "uint16": 8,
    "int32": 9,
    "uint32": 10,
    "int64": 11,
    "uint64": 12,
}
FLOATING = {"float32", "float16", "bfloat16", "float64"}


class Handle:
    """Owns the C session: it is freed when the last array in it is gone, too."""

    def __init__(self, pointer):
        self.pointer = pointer
        close = weakref.finalize(self, _close, pointer)
        # At the exit of the interpreter arrays may still be in use.
        close.atexit = False


def _close(pointer):
    library().or_close(ctypes.byref(ctypes.c_void_p(pointer.value)))


class _Memory:
    """An allocation; what the arrays on it have as their base."""

    def __init__(self, handle, address, dtype_name, interface):
        self.handle = handle
        self.dtype_name = dtype_name
        self.__array_interface__ = interface
        free = weakref.finalize(self, _free, handle, address)
        free.atexit = False


def _free(handle, address):
    # Fails only in a forked child, whose memory is its own to lose.
    library().or_free(handle.pointer, address)


def dtype_name_of(dtype):
    """"float32" for numpy.float32, "f4", ...; "bfloat16" needs no NumPy type."""
    name = dtype if isinstance(dtype, str) and dtype in DTYPES else numpy.dtype(dtype).name
    if name not in DTYPES:
        raise InvalidArgumentError(f"dtype {name} is none of {', '.join(DTYPES)}")
    return name


def allocate(handle, shape, dtype):
    """A C-contiguous array; zeros, or what was there before."""
    shape = tuple(int(n) for n in shape) if hasattr(shape, "__iter__") else (int(shape),)
    if any(n < 0 for n in shape):
        raise InvalidArgumentError(f"shape {shape} has a negative side")
    name = dtype_name_of(dtype)
    # NumPy has no bfloat16: the bits are there, as integers.
    stored = numpy.dtype(numpy.uint16 if name == "bfloat16" else name)
    address = ctypes.c_void_p()
    bytes_needed = math.prod(shape) * stored.itemsize
    status = library().or_allocate(handle.pointer, bytes_needed, ctypes.byref(address))
    if status == ERR_NO_MEMORY:
        # Arrays that nobody can reach may wait in reference cycles, which an
        # exception's traceback makes easily.
        gc.collect()
        status = library().or_allocate(handle.pointer, bytes_needed, ctypes.byref(address))
    check(status)
    interface = {"version": 3, "data": (address.value, False), "shape": shape, "typestr": stored.str}
    return numpy.asarray(_Memory(handle, address.value, name, interface))


def locate(handle, array, what):
    """(address, number of elements, dtype name) of an array for an operation."""
    if not isinstance(array, numpy.ndarray):
        raise InvalidArgumentError(f"{what} is a {type(array).__name__}, not a NumPy array")
    if not array.dtype.isnative:
        raise InvalidArgumentError(f"{what} has the byte order of another machine")
    if not array.flags.c_contiguous:
        raise InvalidArgumentError(f"{what} is not C-contiguous: copy it to one from allocate()")
    base = array.base
    while isinstance(base, numpy.ndarray):
        base = base.base
    if not isinstance(base, _Memory) or base.handle is not handle:
        raise InvalidArgumentError(f"{what} is not in this session's shared memory: copy it to one from allocate()")
    name = array.dtype.name
    if name == "uint16" and base.dtype_name == "bfloat16":
        name = "bfloat16"
    return array.ctypes.data, array.size, dtype_name_of(name)
