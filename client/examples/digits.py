#!/usr/bin/python3
"""Trains a small network on scikit-learn's handwritten digits, data-parallel.

Every rank computes a gradient on its own part of the data; the gradients are
averaged over all ranks before each update. What averages them is handed in, an
object with

    allocate(count) -> array            a float32 buffer to put a gradient in
    all_reduce(array, step) -> Report   replaces it by the average
    close_step(step, parameters) -> bool
                                        late parts of it are in, it is ours again;
                                        false: no rank is to use it
    resync(array)                       replaces it by rank 0's, without loss

so that the same loop runs alone, without any exchange, or over a daemon.

An exchange may lose some of an average: what a rank misses counts as zero, and
comes with the average of a later step. A rank that was away for so long that
nobody keeps its results any more loses them for good, so that its network departs
from the others'; so every RESYNC_STEPS steps all ranks take over rank 0's
parameters.

With --min-fraction the ranks agree after each step whether it is good: one of
which any rank has got less than that share is used by none, and neither is one in
which a rank had a value that is not finite. So every rank waits for the slowest
one. After too many bad steps in a row all ranks stop.

The split is as unkind as it can be: a rank of four sees only two or three of
the ten digits. Without exchange it cannot know the others.

    digits.py --alone                   one machine with all the data
    digits.py --rank=0 --world=4        rank 0's part of the data, no exchange
    digits.py --rank=0 --world=4 --socket=PATH --rendezvous=FOLDER
                                        the same with exchange over the daemon at
                                        PATH; the ranks meet in FOLDER
"""

import argparse
import dataclasses
import json
import os
import sys
import time

# The matrices are small, and several ranks may share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy
from sklearn import datasets

CLASSES = 10
PIXELS = 64
HIDDEN = (256, 128)
TEST_IMAGES = 500
IMAGES_PER_RANK = 32  # in each step
STEPS = 300
RESYNC_STEPS = 75
BUCKET = 1  # of the gradient, which is one buffer
TEST_STEPS = 10  # so often the network is tried on the test images
MOMENTUM = 0.9
PEAK_RATE = 0.05


# ---- data ----------------------------------------------------------------


@dataclasses.dataclass
class Images:
    pixels: numpy.ndarray  # (n, 64) float32, 0 to 1
    labels: numpy.ndarray  # (n,) int

    def where(self, mask):
        return Images(self.pixels[mask], self.labels[mask])


def load_images():
    """The data set, split into images to learn from and images to test with."""
    digits = datasets.load_digits()
    order = numpy.random.default_rng(0).permutation(len(digits.target))
    images = Images((digits.data[order] / 16).astype(numpy.float32), digits.target[order])
    test = numpy.arange(len(order)) < TEST_IMAGES
    return images.where(~test), images.where(test)


def digits_of_rank(rank, world):
    """The digits that a rank gets to see: every digit has one rank."""
    return numpy.array_split(numpy.arange(CLASSES), world)[rank]


# ---- the network ---------------------------------------------------------


class Network:
    """Fully connected layers with ReLU and a softmax at the end.

    All parameters lie in one float32 vector, and so does the gradient: it can
    be exchanged as one buffer.
    """

    def __init__(self, seed):
        sizes = (PIXELS, *HIDDEN, CLASSES)
        self.shapes = list(zip(sizes, sizes[1:]))
        self.parameters = numpy.zeros(sum(i * o + o for i, o in self.shapes), numpy.float32)
        rng = numpy.random.default_rng(seed)
        for weights, _ in self.layers(self.parameters):
            weights[:] = rng.normal(0, numpy.sqrt(2 / weights.shape[0]), weights.shape)

    def layers(self, vector):
        """Views of (weights, biases) of each layer into such a vector."""
        start = 0
        for inputs, outputs in self.shapes:
            middle = start + inputs * outputs
            end = middle + outputs
            yield vector[start:middle].reshape(inputs, outputs), vector[middle:end]
            start = end

    def forward(self, pixels):
        """The activations of all layers; the last are the classes' log odds."""
        activations = [pixels]
        for weights, biases in self.layers(self.parameters):
            if len(activations) > 1:
                activations[-1] = numpy.maximum(activations[-1], 0)
            activations.append(activations[-1] @ weights + biases)
        return activations

    def loss_and_gradient(self, images, gradient):
        """Mean cross entropy; its gradient is written to `gradient`."""
        activations = self.forward(images.pixels)
        odds = activations.pop()
        odds -= odds.max(axis=1, keepdims=True)
        log_probability = odds - numpy.log(numpy.exp(odds).sum(axis=1, keepdims=True))
        count = len(images.labels)
        chosen = (numpy.arange(count), images.labels)
        loss = -log_probability[chosen].mean()
        delta = numpy.exp(log_probability)
        delta[chosen] -= 1
        delta /= count
        views = zip(self.layers(self.parameters), self.layers(gradient))
        for (weights, _), (weights_out, biases_out) in reversed(list(views)):
            inputs = activations.pop()
            weights_out[:] = inputs.T @ delta
            biases_out[:] = delta.sum(axis=0)
            delta = (delta @ weights.T) * (inputs > 0)
        return float(loss)

    def accuracy(self, images):
        return float((self.forward(images.pixels)[-1].argmax(axis=1) == images.labels).mean())


# ---- exchange ------------------------------------------------------------


@dataclasses.dataclass
class Report:
    """What an exchange says about one operation."""

    status: str = "complete"
    missing_fraction: float = 0.0  # share of the average that did not come
    op_ms: float = 0.0  # how long the operation took
    deadline_ms: float = 0.0  # when it would have ended with what was there
    late_ms: float = 0.0  # how long after that it ended
    used: bool = True  # whether the step was used, as close_step has told


class Halt(Exception):
    """Going on makes no sense; the same on all ranks."""


class NoExchange:
    """A rank on its own: the average over itself."""

    def allocate(self, count):
        return numpy.zeros(count, numpy.float32)

    def all_reduce(self, array, step):
        return Report()

    def close_step(self, step, parameters):
        return True

    def resync(self, array):
        pass

    def close(self):
        pass


class DaemonExchange:
    """The exchange over this host's optireduced."""

    def __init__(self, rank, world, socket, rendezvous, soft_ms, min_fraction=None):
        import optireduce  # needs liboptireduce.so; the other exchanges do not

        self.session = optireduce.connect(socket)
        self.group = self.session.create_group(
            rank, world, rendezvous_dir=rendezvous, name="digits", soft_ms=soft_ms, timeout_s=60.0,
            min_fraction=min_fraction
        )
        self.judges = min_fraction is not None
        self.expired = optireduce.ExpiredError

    def allocate(self, count):
        return self.group.allocate(count, "float32")

    def all_reduce(self, array, step):
        try:
            report = self.group.all_reduce(array, op="avg", mode="bounded", bucket=BUCKET, step=step).wait()
        except self.expired as error:
            # This rank was away for so long that nobody keeps the result any more.
            array[:] = 0
            report = error.report
        return Report(
            status=report.status,
            missing_fraction=report.missing_fraction,
            op_ms=report.duration_us / 1000,
            # Negative where the submit came after the deadline, as after a stop:
            # then the result is there already.
            deadline_ms=max(report.deadline_us or 0, 0) / 1000,
            late_ms=report.wall_late_us / 1000,
        )

    def close_step(self, step, parameters):
        if not self.judges:
            self.group.close_step(step)
            return True
        verdict = self.group.judge_step(step, parameters)
        self.group.close_step(step, used=verdict.good)
        if verdict.halt_advised:
            raise Halt(f"{verdict.bad_steps} bad steps in a row, the last one: {verdict}")
        return verdict.good

    def resync(self, array):
        shared = self.allocate(len(array))
        shared[:] = array
        self.group.broadcast(shared, root=0).wait()
        array[:] = shared

    def close(self):
        self.group.leave()
        self.session.close()


# ---- training ------------------------------------------------------------


def rate(step, steps):
    """Learning rate: a short climb, then down to zero along a cosine."""
    climb = min(1.0, (step + 1) / 20)
    return PEAK_RATE * climb * 0.5 * (1 + numpy.cos(numpy.pi * step / steps))


def train(network, images, batch, exchange, rng, steps=STEPS):
    """Yields (loss, report) of each step."""
    gradient = exchange.allocate(len(network.parameters))
    velocity = numpy.zeros_like(network.parameters)
    for step in range(steps):
        number = step + 1  # as the exchange counts: 0 would be no step
        chosen = rng.integers(len(images.labels), size=batch)
        loss = network.loss_and_gradient(images.where(chosen), gradient)
        report = exchange.all_reduce(gradient, number)
        report.used = exchange.close_step(number, network.parameters)
        if report.used:
            velocity *= MOMENTUM
            velocity += gradient
            network.parameters -= rate(step, steps).astype(numpy.float32) * velocity
        if (step + 1) % RESYNC_STEPS == 0 and step + 1 < steps:
            exchange.resync(network.parameters)
        yield loss, report


def train_rank(rank, world, exchange, steps=STEPS):
    """One rank's run; yields (network, loss, report). World 1 sees all the data."""
    learn, _ = load_images()
    mine = learn.where(numpy.isin(learn.labels, digits_of_rank(rank, world)))
    network = Network(seed=1)  # the same start on all ranks
    rng = numpy.random.default_rng([2, rank])
    for loss, report in train(network, mine, IMAGES_PER_RANK, exchange, rng, steps):
        yield network, loss, report


def train_alone(ranks=4, steps=STEPS):
    """The reference: one machine with all the data, as many images a step as `ranks`."""
    learn, test = load_images()
    network = Network(seed=1)
    rng = numpy.random.default_rng(3)
    for _ in train(network, learn, ranks * IMAGES_PER_RANK, NoExchange(), rng, steps):
        pass
    return network.accuracy(test)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", action="store_true", help="train on all the data, on one machine")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--socket", help="control socket of this host's daemon")
    parser.add_argument("--rendezvous", help="folder that all ranks see")
    parser.add_argument("--soft-ms", type=float, help="an average ends that long after most ranks began")
    parser.add_argument("--min-fraction", type=float, help="no rank uses a step of which one has got less, 0 to 1")
    args = parser.parse_args()
    if args.alone:
        print(json.dumps({"accuracy": train_alone(args.world, args.steps)}))
        return
    exchange = NoExchange()
    if args.socket:
        exchange = DaemonExchange(args.rank, args.world, args.socket, args.rendezvous, args.soft_ms, args.min_fraction)
    try:
        print_steps(train_rank(args.rank, args.world, exchange, args.steps), args.steps)
    except Halt as halt:
        sys.exit(f"digits.py: {halt}")
    exchange.close()


def print_steps(run, steps):
    """A line of JSON for each step of a rank's run."""
    _, test = load_images()
    for step, (network, loss, report) in enumerate(run):
        record = {"step": step, "at": time.monotonic(), "loss": loss, **dataclasses.asdict(report)}
        # Testing takes longer than a step of training.
        if step % TEST_STEPS == 0 or step == steps - 1:
            accuracy = network.accuracy(test)
        print(json.dumps({**record, "accuracy": accuracy}), flush=True)


if __name__ == "__main__":
    main()
