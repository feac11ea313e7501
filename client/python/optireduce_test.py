"""The Python package on the real library, against a daemon that answers as it
is told (client/testing/fake_daemon.h)."""

import ctypes
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).absolute().parent
CLIENT = HERE.parent
os.environ["OPTIREDUCE_LIBRARY"] = str(CLIENT / "liboptireduce.so.0")
sys.path.insert(0, str(HERE))

import numpy

import optireduce
from optireduce import _library

# Values of a bucket that the fake understands.
HOLD = 1001
GOODBYE = 1002
SUSPECT = 1003
PEER_LOST = 1004
PARTIAL = 1101
HARD_LIMIT = 1102
UNSUPPORTED = 1211
SCALE = 1006
# Of a step.
HOLD_STEP = 2001
LATER_STEP = 2002
# Of a step, for its verdict.
NON_FINITE_STEP = 3001
ABSENT_STEP = 3002
HOLD_VERDICT = 3004
FAIL_VERDICT = 3005


class Fake:
    """The fake daemon in a process of its own."""

    def __init__(self, path):
        self.process = subprocess.Popen([CLIENT / "testing" / "fake_daemon", path], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class FakeTest(unittest.TestCase):
    def start_daemon(self):
        self.fake = Fake(self.path)
        self.addCleanup(self.fake.kill)

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.path = os.path.join(self.directory, "s")
        self.start_daemon()
        self.session = optireduce.connect(self.path, segment_bytes=1 << 20)
        self.addCleanup(self.session.close)
        self.group = self.session.create_group(0, 1, rendezvous_dir=self.directory, name="g", hard_ms=30_000)


class OperationTest(FakeTest):
    def test_all_reduce_in_place_and_into_another(self):
        array = self.group.allocate((3, 5))
        array[:] = numpy.arange(15).reshape(3, 5)
        report = self.group.all_reduce(array).wait()
        self.assertEqual(report.status, "complete")
        self.assertEqual((report.elements, report.missing_fraction, report.missing_ranks), (15, 0, []))
        self.assertGreater(report.duration_us, 0)
        self.assertEqual(report.deadline_us, 100_000)
        output = self.group.allocate((3, 5))
        self.group.all_reduce(array, "sum", "exact", output=output).wait()
        numpy.testing.assert_array_equal(output, array)

    def test_every_dtype(self):
        for name in ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                     "uint64"):
            array = self.group.allocate(7, name)
            output = self.group.allocate(7, getattr(numpy, name))
            array[:] = numpy.arange(7)
            self.group.all_reduce(array, "sum", output=output).wait()
            numpy.testing.assert_array_equal(output, numpy.arange(7, dtype=name))

    def test_bfloat16_is_a_flag_on_its_bits(self):
        array = self.group.allocate(4, "bfloat16")
        self.assertEqual(array.dtype, numpy.uint16)
        # Only floating types have an average: the flag went along, with parts too.
        self.group.all_reduce(array, "avg").wait()
        self.group.all_reduce(array[1:3], "avg").wait()
        with self.assertRaisesRegex(optireduce.HardLimitError, "avg bfloat16, 3 elements"):
            self.group.all_reduce(array[1:], bucket=HARD_LIMIT).wait()

    def test_other_collectives(self):
        whole = self.group.allocate(6)
        part = self.group.allocate(6)
        whole[:] = 3
        self.group.reduce_scatter(whole, part).wait()
        numpy.testing.assert_array_equal(part, 3)
        part[:] = 4
        self.group.all_gather(part, whole).wait()
        numpy.testing.assert_array_equal(whole, 4)
        self.group.broadcast(whole).wait()
        self.assertEqual(self.group.barrier().wait().elements, 0)
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "6 elements are not 1 parts of 2"):
            self.group.all_gather(part[:2], whole)

    def test_parts_of_arrays(self):
        array = self.group.allocate(10)
        array[:] = 1
        self.group.all_reduce(array[3:7]).wait()
        for bad, words in (
            (numpy.zeros(3, numpy.float32), "shared memory"),
            (array[::2], "not C-contiguous"),
            ([1.0], "not a NumPy array"),
            (array.view(">f4"), "byte order"),
            (array.view("c8"), "complex64"),
        ):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, words):
                self.group.all_reduce(bad)

    def test_codecs(self):
        array = self.group.allocate(8)
        for codec in ("none", "hadamard", "bfloat16", "float16"):
            words = "8 elements, bounded, bucket" if codec == "none" else f"bounded, .*{codec}, bucket"
            with self.assertRaisesRegex(optireduce.HardLimitError, words):
                self.group.all_reduce(array, bucket=HARD_LIMIT, codec=codec).wait()

    def test_words_that_are_no_choice(self):
        array = self.group.allocate(1)
        for arguments in ({"op": "mean"}, {"mode": "Exact"}, {"codec": "fwht"}):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, list(arguments)[0]):
                self.group.all_reduce(array, **arguments)

    def test_empty_arrays(self):
        self.assertEqual(self.group.all_reduce(self.group.allocate((0, 3))).wait().elements, 0)

    def test_partial_is_no_error(self):
        report = self.group.all_reduce(self.group.allocate(16), bucket=PARTIAL, step=3).wait()
        self.assertEqual((report.status, report.cause), ("partial", "deadline"))
        self.assertEqual(report.missing_ranks, [1, 65])
        self.assertAlmostEqual(report.stage2_loss, 0.25)
        self.assertAlmostEqual(report.missing_fraction, 1 - 0.75 * 20 / 24)
        self.assertEqual(report.decision_late_us, 1.234)
        self.assertEqual(report.wall_late_us, 56.789)

    def test_errors_name_the_ranks(self):
        with self.assertRaisesRegex(optireduce.HardLimitError, "rank 0 of 1.*missing: rank 1, 65") as caught:
            self.group.all_reduce(self.group.allocate(16), bucket=HARD_LIMIT).wait()
        self.assertEqual(caught.exception.missing_ranks, [1, 65])
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertIsInstance(caught.exception, TimeoutError)
        with self.assertRaises(optireduce.UnsupportedError):
            self.group.all_reduce(self.group.allocate(16), bucket=UNSUPPORTED).wait()

    def test_poll_and_wait_with_limits(self):
        operation = self.group.all_reduce(self.group.allocate(4), bucket=HOLD)
        self.assertIsNone(operation.poll())
        start = time.monotonic()
        with self.assertRaisesRegex(optireduce.WaitTimeoutError, "wait again"):
            operation.wait(0.15)
        self.assertGreaterEqual(time.monotonic() - start, 0.149)
        with self.assertRaises(TimeoutError):
            operation.wait(0)
        done = self.group.all_reduce(self.group.allocate(4))
        self.assertIs(done.wait(), done.wait())
        self.assertIs(done.poll(), done.wait())

    def test_a_buffer_in_flight_is_refused(self):
        array = self.group.allocate(8)
        self.group.all_reduce(array, bucket=HOLD)
        with self.assertRaisesRegex(optireduce.BusyError, "in flight"):
            self.group.all_reduce(array[2:3])

    def test_other_threads_run_during_a_wait(self):
        operation = self.group.all_reduce(self.group.allocate(4), bucket=HOLD)
        waiting = threading.Thread(target=lambda: self.assertRaises(optireduce.ClosedError, operation.wait))
        waiting.start()
        self.session.close()  # would not get here if the wait held the interpreter
        waiting.join()

    def test_a_wait_can_be_interrupted(self):
        operation = self.group.all_reduce(self.group.allocate(4), bucket=HOLD)
        main = threading.get_ident()
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            operation.wait(30)
        timer.join()

    def test_steps(self):
        array = self.group.allocate(16)
        self.assertEqual(self.group.close_step(3), 0)
        self.assertFalse(self.group.all_reduce(array, bucket=1).wait().step_open)
        self.assertTrue(self.group.all_reduce(array, bucket=1, step=3).wait().step_open)
        with self.assertRaisesRegex(optireduce.BusyError, "step 3, which is open"):
            self.group.all_reduce(array, bucket=1, step=4)
        self.assertEqual(self.group.close_step(4), 0)
        self.assertEqual(self.group.close_step(3), 1)
        self.group.all_reduce(array, bucket=1, step=4).wait()
        self.assertEqual(self.group.close_step(4, used=False), 1)
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "step 0"):
            self.group.close_step(0)

    def test_a_step_that_is_not_closed_in_time(self):
        array = self.group.allocate(16)
        self.group.all_reduce(array, bucket=1, step=LATER_STEP).wait()
        start = time.monotonic()
        with self.assertRaisesRegex(optireduce.WaitTimeoutError, f"step {HOLD_STEP}.*call again"):
            self.group.close_step(HOLD_STEP, timeout_s=0.1)
        self.assertGreaterEqual(time.monotonic() - start, 0.099)
        with self.assertRaises(optireduce.WaitTimeoutError):
            self.group.close_step(LATER_STEP, timeout_s=0.01)
        with self.assertRaises(optireduce.BusyError):
            self.group.all_reduce(array)
        self.group.close_step(LATER_STEP)
        self.group.all_reduce(array).wait()

    def test_state(self):
        self.assertEqual(self.group.state_dict(), b"")
        state = bytes(range(256)) * 100  # more than is tried at first
        self.group.load_state_dict(state)
        self.assertEqual(self.group.state_dict(), state)
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "loading its state.*damaged"):
            self.group.load_state_dict(b"damaged")
        self.group.all_reduce(self.group.allocate(4), bucket=1, step=3).wait()
        with self.assertRaisesRegex(optireduce.BusyError, "saving its state.*close their steps"):
            self.group.state_dict(timeout_s=0.05)
        closer = threading.Timer(0.05, lambda: self.group.close_step(3))
        closer.start()
        self.group.state_dict()
        closer.join()

    def test_loss_scale(self):
        array = self.group.allocate(4)
        self.group.all_reduce(array, bucket=SCALE, loss_scale=1024).wait()
        self.assertEqual(array[0], 1024)
        for wrong in (0, -1, float("nan"), float("inf"), 1e300):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, "loss_scale"):
                self.group.all_reduce(array, bucket=SCALE, loss_scale=wrong)

    def test_events(self):
        self.assertEqual(self.group.events(), [])
        array = self.group.allocate(1)
        self.group.all_reduce(array, bucket=SUSPECT).wait()
        self.group.all_reduce(array, bucket=PEER_LOST).wait()
        self.assertEqual(self.group.events(), [optireduce.Event("suspect", 1), optireduce.Event("lost", 1)])


class VerdictTest(FakeTest):
    """In a group of two, of which the fake makes up rank 1."""

    def setUp(self):
        super().setUp()
        self.pair = self.create(0)

    def create(self, min_fraction, halt_after=None):
        return self.session.create_group(
            0, 2, exchange=lambda own: [own, own.replace(b"rank 0", b"rank 1")], name="pair", hard_ms=30_000,
            min_fraction=min_fraction, halt_after=halt_after
        )

    def reduce(self, step, value=1, bucket=None):
        array = self.pair.allocate(16)
        array[:] = value
        self.pair.all_reduce(array, bucket=bucket, step=step).wait()
        self.pair.close_step(step)

    def test_a_good_step(self):
        self.reduce(1)
        verdict = self.pair.judge_step(1)
        self.assertTrue(verdict.good)
        self.assertEqual((verdict.step, verdict.bad_steps, verdict.least_present), (1, 0, 1))
        self.assertEqual((verdict.non_finite_ranks, verdict.lacking_ranks, verdict.absent), ([], [], 0))
        self.assertEqual((verdict.below_floor, verdict.halt_advised, verdict.halt_after), (False, False, 20))
        self.assertIsNone(verdict.divergence)

    def test_a_step_below_the_floor(self):
        self.pair = self.create(0.7)
        self.reduce(1, bucket=PARTIAL)
        verdict = self.pair.judge_step(1)
        self.assertFalse(verdict.good)
        self.assertEqual((verdict.below_floor, verdict.least_present, verdict.min_fraction), (True, 0.625, 0.7))
        self.reduce(ABSENT_STEP)
        verdict = self.pair.judge_step(ABSENT_STEP)
        self.assertEqual((verdict.least_present, verdict.least_present_rank), (0, 1))
        self.assertEqual((verdict.lacking_ranks, verdict.absent, verdict.bad_steps), ([1], 10, 2))
        for wrong in (-0.5, 1.5):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, "min_fraction"):
                self.create(wrong)

    def test_values_that_are_not_finite(self):
        self.pair = self.create(None, halt_after=2)
        self.reduce(1, value=numpy.nan)
        verdict = self.pair.judge_step(1)
        self.assertEqual((verdict.non_finite_ranks, verdict.halt_advised), ([0, 1], False))
        self.reduce(NON_FINITE_STEP)
        verdict = self.pair.judge_step(NON_FINITE_STEP)
        self.assertEqual((verdict.non_finite_ranks, verdict.halt_advised), ([1], True))

    def test_parameters(self):
        parameters = [numpy.arange(100, dtype=numpy.float32), numpy.ones((3, 5), numpy.float16), numpy.zeros(0)]
        self.reduce(1)
        self.assertEqual(self.pair.judge_step(1, parameters).divergence, 0)
        self.reduce(2)
        self.assertEqual(self.pair.judge_step(2, parameters[0]).divergence, 0)
        self.reduce(3)
        self.assertEqual(self.pair.judge_step(3, [parameters[0] * numpy.inf]).divergence, numpy.inf)
        self.reduce(4)
        for wrong, words in ((numpy.arange(3), "no floating"), (parameters[0][::2], "not C-contiguous")):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, words):
                self.pair.judge_step(4, wrong)

    def test_waiting(self):
        self.reduce(HOLD_VERDICT)
        pending = self.pair.submit_verdict(HOLD_VERDICT)
        self.assertIsNone(pending.poll())
        start = time.monotonic()
        with self.assertRaisesRegex(optireduce.WaitTimeoutError, f"step {HOLD_VERDICT}.*wait again"):
            pending.wait(0.15)
        self.assertGreaterEqual(time.monotonic() - start, 0.149)
        self.reduce(5)
        with self.assertRaisesRegex(optireduce.BusyError, "or_verdict_wait"):
            self.pair.judge_step(5)
        self.pair = self.create(0)
        self.reduce(5)
        pending = self.pair.submit_verdict(5)
        self.assertIs(pending.wait(), pending.poll())
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "step 6"):
            self.pair.judge_step(6)
        self.reduce(FAIL_VERDICT)
        with self.assertRaisesRegex(optireduce.HardLimitError, "missing: rank 1"):
            self.pair.judge_step(FAIL_VERDICT)


class LifeTest(FakeTest):
    def test_memory_is_freed_with_the_last_reference(self):
        for _ in range(100):  # more than the segment holds at once
            array = self.group.allocate(100_000)
            array[-1] = 1
            part = array[5:]
            del array
            self.group.all_reduce(part).wait()
        with self.assertRaisesRegex(optireduce.OutOfMemoryError, "segment_bytes"):
            self.group.allocate(1 << 20)

    def test_memory_in_reference_cycles_is_found(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(10):
            cycle = [self.group.allocate(100_000)]
            cycle.append(cycle)

    def test_arrays_in_flight_are_kept(self):
        self.group.all_reduce(self.group.allocate(100_000), bucket=HOLD)
        gc.collect()
        first = self.group.allocate(100_000)  # not the same memory
        self.group.all_reduce(first).wait()

    def test_arrays_of_open_steps_are_kept(self):
        for step in range(1, 100):  # more than the segment holds at once
            array = self.group.allocate(100_000)
            self.group.all_reduce(array, bucket=1, step=step).wait()
            address = array.ctypes.data
            del array
            gc.collect()
            other = self.group.allocate(100_000)
            self.assertNotEqual(other.ctypes.data, address)
            del other
            self.group.close_step(step)
        self.group.all_reduce(self.group.allocate(100_000), bucket=1, step=100).wait()
        self.group.leave()
        self.session.allocate(200_000)

    def test_arrays_outlive_the_session(self):
        array = self.group.allocate(1000)
        array[:] = 7
        self.session.close()
        self.session.close()
        self.group.leave()
        del self.session, self.group
        gc.collect()
        numpy.testing.assert_array_equal(array, 7)
        array[:] = 8

    def test_with_statements(self):
        with optireduce.connect(self.path) as session:
            with session.create_group(0, 1, rendezvous_dir=self.directory, name="h") as group:
                array = group.allocate(3)
                group.all_reduce(array).wait()
            with self.assertRaises(optireduce.ClosedError):
                group.all_reduce(array)
        with self.assertRaises(optireduce.ClosedError):
            session.allocate(1)

    def test_no_daemon(self):
        path = os.path.join(self.directory, "nobody")
        start = time.monotonic()
        with self.assertRaisesRegex(optireduce.DaemonUnreachableError, path) as caught:
            optireduce.connect(path, timeout_s=0.2)
        self.assertGreaterEqual(time.monotonic() - start, 0.19)
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_the_socket_of_the_environment(self):
        os.environ["OPTIREDUCE_SOCKET"] = self.path
        try:
            optireduce.connect().close()
        finally:
            del os.environ["OPTIREDUCE_SOCKET"]

    def test_a_killed_daemon(self):
        operation = self.group.all_reduce(self.group.allocate(4), bucket=HOLD)
        self.fake.kill()
        with self.assertRaisesRegex(optireduce.DaemonLostError, "connect again"):
            operation.wait()
        self.start_daemon()
        with optireduce.connect(self.path) as session:
            session.allocate(1)

    def test_a_goodbye(self):
        with self.assertRaisesRegex(optireduce.DaemonLostError, "had enough"):
            self.group.all_reduce(self.group.allocate(4), bucket=GOODBYE).wait()

    def test_a_forked_child_is_told(self):
        array = self.group.allocate(4)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.group.all_reduce(array)
            except optireduce.NotInheritedError as error:
                code = 0 if "not inherited" in str(error) else 2
            os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.group.all_reduce(array).wait()

    def test_exchange(self):
        group = self.session.create_group(
            0, 2, exchange=lambda own: [own, own.replace(b"rank 0", b"rank 1")], name="x"
        )
        self.assertEqual(group.all_reduce(group.allocate(1)).wait().status, "complete")
        for exchange, words in ((lambda own: [own], "1 members for 2"), (lambda own: [own, bytes(300)], "300 bytes")):
            with self.assertRaisesRegex(optireduce.InvalidArgumentError, words):
                self.session.create_group(0, 2, exchange=exchange, name="x")
        with self.assertRaises(optireduce.FormationError):
            self.session.create_group(0, 2, exchange=lambda own: [own, own], name="x")
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "either"):
            self.session.create_group(0, 2)

    def test_settings_are_checked(self):
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "rank 5 is not below world 2"):
            self.session.create_group(5, 2, rendezvous_dir=self.directory)
        with self.assertRaisesRegex(optireduce.InvalidArgumentError, "fill"):
            self.session.create_group(0, 1, rendezvous_dir=self.directory, fill="Zero")
        with self.assertRaises(TypeError):
            self.session.create_group(0, 1, rendezvous_dir=self.directory, sofft_ms=3)


class LibraryTest(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        structs = {
            "or_connect_options": _library.ConnectOptions,
            "or_group_settings": _library.GroupSettings,
            "or_member": _library.Member,
            "or_rendezvous": _library.Rendezvous,
            "or_event": _library.Event,
            "or_operation": _library.Operation,
            "or_report": _library.Report,
            "or_sketch": _library.Sketch,
            "or_verdict": _library.Verdict,
        }
        layout = subprocess.run([HERE / "layout"], check=True, capture_output=True, text=True).stdout
        seen = 0
        for line in layout.splitlines():
            name, number = line.split()
            struct, _, field = name.partition(".")
            ours = getattr(structs[struct], field).offset if field else ctypes.sizeof(structs[struct])
            self.assertEqual(ours, int(number), name)
            seen += 1
        fields = sum(len(struct._fields_) + 1 for struct in structs.values())
        # Each struct's first field, at 0, is left out, but not that of or_rendezvous.
        self.assertEqual(seen, fields - len(structs) + 1)

    def test_a_library_that_is_not_there(self):
        code = "import optireduce; optireduce.connect()"
        environment = dict(os.environ, OPTIREDUCE_LIBRARY="/nonexistent.so", PYTHONPATH=str(HERE))
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertIn("set OPTIREDUCE_LIBRARY", done.stderr)
        self.assertIn("/nonexistent.so", done.stderr)

    def test_version(self):
        self.assertRegex(optireduce.library_version(), r"^0\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
