"""A group of ranks and the operations among them."""

import ctypes
import dataclasses
import time

import numpy

from optireduce import _library, _memory, _verdict
from optireduce._errors import PENDING, BusyError, InvalidArgumentError, OutOfMemoryError
from optireduce._library import byref, check, library, nanoseconds
from optireduce._operation import Operation

# Numbers of optireduce.h.
_ALL_REDUCE, _REDUCE_SCATTER, _ALL_GATHER, _BROADCAST, _BARRIER = range(1, 6)
_OPS = {"sum": 1, "avg": 2, "min": 3, "max": 4}
_MODES = {"bounded": 1, "exact": 2}
_CODECS = {"none": 0, "hadamard": 1, "bfloat16": 2, "float16": 3}
_STEP_USED, _STEP_SKIPPED = 1, 2
_STATE_RETRY_S = 0.01
_EVENTS = {1: "suspect", 2: "healthy", 3: "lost"}


@dataclasses.dataclass(frozen=True)
class Event:
    """`rank` is "suspect" (silent), "healthy" again, or "lost" for good."""

    kind: str
    rank: int


def _choose(what, value, choices):
    if value not in choices:
        raise InvalidArgumentError(f"{what} {value!r} is none of {', '.join(choices)}")
    return choices[value]


class Group:
    """One rank of a group; made by Session.create_group. Usable in `with`.

    All ranks submit the same operations in the same order. Arrays come from
    allocate(), or are contiguous parts of such.

    `mode`: "bounded" ends by the soft limit with what has arrived; "exact" is
    complete and has the same bits on all ranks, or is an error. None: bounded
    for sum and avg of floating types, else exact. `soft_ms` and `hard_ms` count
    from the submit; None is the group's.
    """

    def __init__(self, session, number, rank, world, name):
        self._session = session
        self._number = number
        self.rank = rank
        self.world = world
        self.name = name
        self._open = {}  # step -> arrays that the daemon may still write into

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.leave()

    def __repr__(self):
        return f"<optireduce.Group {self.name!r} rank {self.rank} of {self.world}>"

    def allocate(self, shape, dtype="float32"):
        """An array in shared memory. dtype "bfloat16" gives its bits as uint16."""
        return self._session.allocate(shape, dtype)

    def all_reduce(self, array, op="avg", mode=None, *, output=None, soft_ms=None, hard_ms=None, bucket=None,
                   step=None, loss_scale=1.0, codec="none"):
        """Reduces `array` over all ranks, in place or into `output`.

        bucket: the key of a gradient bucket, a number from 1. What it loses now
        comes with later operations of the same bucket. None: a one-shot
        operation, what it loses is lost.
        step: the number of the training step, from 1: to be closed by close_step
        before the result is read. None: closed at its end.
        loss_scale: what the gradients were multiplied by.
        codec: "bfloat16" or "float16" halve the bytes that float32 takes on the
        network, and keep what the rounding takes for later if there is a bucket;
        "hadamard" spreads what is missing over the array.
        """
        output = array if output is None else output
        return self._submit(_ALL_REDUCE, array, output, array, op=op, mode=mode, soft_ms=soft_ms, hard_ms=hard_ms,
                            bucket=bucket, step=step, loss_scale=loss_scale, codec=codec)

    def reduce_scatter(self, array, output, op="avg", mode=None, *, soft_ms=None, hard_ms=None, bucket=None,
                       step=None):
        """Rank r gets part r of the reduced `array` (world equal parts) in `output`.

        bucket, step: as in all_reduce.
        """
        self._check_parts(array, output)
        return self._submit(_REDUCE_SCATTER, array, output, array, op=op, mode=mode, soft_ms=soft_ms,
                            hard_ms=hard_ms, bucket=bucket, step=step)

    def all_gather(self, array, output, *, hard_ms=None):
        """`output` is the arrays of all ranks, by rank. Exact."""
        self._check_parts(output, array)
        return self._submit(_ALL_GATHER, array, output, output, mode="exact", hard_ms=hard_ms)

    def broadcast(self, array, root=0, *, hard_ms=None):
        """`array` becomes what it is at rank `root`. Exact."""
        return self._submit(_BROADCAST, array, array, array, mode="exact", root=root, hard_ms=hard_ms)

    def barrier(self, *, hard_ms=None):
        """Ends when all ranks have submitted it."""
        return self._submit(_BARRIER, None, None, None, mode="exact", hard_ms=hard_ms)

    def close_step(self, step, used=True, timeout_s=5.0):
        """Closes a training step and returns of how many operations.

        Until then results that come late are put in place, from then on they
        come with later operations. So wait for the step's operations, close it,
        and only then read their arrays.

        used=False: the results are thrown away, on all ranks alike (see judge_step);
        what is owed is as if the step had never been.
        WaitTimeoutError: the daemon will still do it; call again.
        """
        outcome = _STEP_USED if used else _STEP_SKIPPED
        closed = ctypes.c_uint64()
        check(library().or_step_close(self._session._handle.pointer, self._number, step, outcome,
                                      nanoseconds(timeout_s, 10**9), byref(closed)))
        self._open.pop(step, None)
        return closed.value

    def submit_verdict(self, step, parameters=None):
        """Starts the verdict on a step whose operations have all ended.

        By it all ranks learn alike whether the step is good, as one of them alone
        cannot know: PendingVerdict.wait. All ranks do it at the same place among
        their operations. Of a group there is one at a time: read the last one first.

        parameters: the model's, an array or several, of floating types and in any
        memory: then the verdict tells how far the replicas are apart.
        """
        sketch = None if parameters is None else byref(_verdict.sketch(parameters))
        number = ctypes.c_uint64()
        check(library().or_verdict_submit(self._session._handle.pointer, self._number, step, sketch, byref(number)))
        return _verdict.PendingVerdict(self._session, number.value)

    def judge_step(self, step, parameters=None):
        """The verdict on a step, as soon as all ranks have asked for it.

            if not group.judge_step(step).good: ...

        See submit_verdict. Between the waits for the step's operations and
        close_step(step, used=verdict.good).
        """
        return self.submit_verdict(step, parameters).wait()

    def state_dict(self, timeout_s=5.0):
        """What the group's buckets lost and have not got back yet, as bytes.

        For a checkpoint of this rank, beside the parameters and the optimizer's
        state of the same moment. Between steps: while operations are open, or
        wait for what they lost, it is tried again; BusyError after the timeout.
        """
        end = time.monotonic() + timeout_s
        state = self.allocate(4096, "uint8")
        while True:
            try:
                return bytes(state[: self._submit_state("or_state_save", state).wait().elements])
            except OutOfMemoryError as error:
                if error.report is None or error.report.elements <= state.size:
                    raise
                state = self.allocate(error.report.elements, "uint8")
            except BusyError:
                if time.monotonic() >= end:
                    raise
                time.sleep(_STATE_RETRY_S)

    def load_state_dict(self, state):
        """Takes back what state_dict gave, on the same rank of a group of the same world.

        Before the first operation, on all ranks.
        """
        array = self.allocate(len(state), "uint8")
        array[:] = numpy.frombuffer(state, numpy.uint8)
        self._submit_state("or_state_load", array).wait()

    def events(self):
        """What has happened to the other ranks since the last call."""
        found = []
        event = _library.Event()
        event.struct_size = ctypes.sizeof(event)
        while True:
            status = library().or_group_next_event(self._session._handle.pointer, self._number, byref(event))
            if check(status) == PENDING:
                return found
            found.append(Event(_EVENTS.get(event.kind, "unknown"), event.rank))

    def leave(self, timeout_s=5.0):
        """Ends the membership; operations in flight are cancelled. May be repeated."""
        if not self._session.closed:
            limit = nanoseconds(timeout_s, 10**9)
            check(library().or_group_leave(self._session._handle.pointer, self._number, limit))
        self._open.clear()

    def _check_parts(self, whole, part):
        if getattr(whole, "size", 0) != getattr(part, "size", 0) * self.world:
            raise InvalidArgumentError(
                f"{getattr(whole, 'size', 0)} elements are not {self.world} parts of {getattr(part, 'size', 0)}"
            )

    def _submit_state(self, call, array):
        number = ctypes.c_uint64()
        check(getattr(library(), call)(self._session._handle.pointer, self._number, array.ctypes.data, array.size,
                                       byref(number)))
        return self._started(number.value, (array,), None)

    def _started(self, number, arrays, keep_open):
        operation = Operation(self._session, number, arrays, keep_open)
        self._session._unfinished[number] = operation
        return operation

    def _submit(self, collective, source, output, counted, op="sum", mode=None, soft_ms=None, hard_ms=None,
                bucket=None, step=None, loss_scale=1.0, codec="none", root=0):
        handle = self._session._handle
        c = _library.initialized(_library.Operation)
        c.collective = collective
        c.reduce_op = _choose("op", op, _OPS)
        c.codec = _choose("codec", codec, _CODECS)
        c.root = root
        dtype = "uint8"
        if counted is not None:
            c.input, _, dtype = _memory.locate(handle, source, "the input")
            c.output, _, output_dtype = _memory.locate(handle, output, "the output")
            if dtype != output_dtype:
                raise InvalidArgumentError(f"the input is {dtype}, the output {output_dtype}")
            c.count = counted.size
            if collective == _ALL_REDUCE and output.size != counted.size:
                raise InvalidArgumentError(f"the input has {counted.size} elements, the output {output.size}")
        c.dtype = _memory.DTYPES[dtype]
        if mode is None:
            mode = "bounded" if dtype in _memory.FLOATING and op in ("sum", "avg") else "exact"
        c.mode = _choose("mode", mode, _MODES)
        c.bucket = bucket or 0
        c.step = step or 0
        if not loss_scale > 0:
            raise InvalidArgumentError(f"loss_scale {loss_scale} is not positive")
        c.loss_scale = loss_scale
        c.soft_limit_ns = nanoseconds(soft_ms, 10**6)
        c.hard_limit_ns = nanoseconds(hard_ms, 10**6)
        number = ctypes.c_uint64()
        check(library().or_submit(handle.pointer, self._number, byref(c), byref(number)))
        return self._started(number.value, (source, output),
                             lambda: self._open.setdefault(step, []).append(output))
