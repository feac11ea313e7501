"""Bulk traffic of one host: what the simulator's background is on real packets.

Started on every host of a lab. It pauses, sends as much as it can to one random
other host over some new connections for a time, whatever gets through, and pauses
again; pauses and times are uniform in their ranges. When it is told to end
(SIGTERM) it prints how many bytes it has received.
"""

import argparse
import random
import selectors
import signal
import socket
import struct
import sys
import threading
import time

PORT = 5100
BLOCK = bytes(1 << 16)
# For live.py's queues: these packets take turns with all others.
PRIORITY = 0x10020
# Closing discards what is not sent yet.
LINGER_NOT = struct.pack("ii", 1, 0)


def address(host):
    return f"10.99.0.{host + 1}"


def bursts(seed, host, hosts, pause, burst):
    """Endless (pause, target, duration); seconds. The first pause begins anywhere."""
    rng = random.Random(f"{seed}/{host}")
    others = [other for other in range(hosts) if other != host]
    first = True
    while True:
        yield rng.uniform(0 if first else pause[0], pause[1]), rng.choice(others), rng.uniform(*burst)
        first = False


class Sink:
    """Takes what others send, on a thread of its own."""

    def __init__(self, host):
        self.received = 0
        self.listener = socket.create_server((address(host), PORT), backlog=64)
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    self.selector.register(connection, selectors.EVENT_READ)
                else:
                    self.take(key.fileobj)

    def take(self, connection):
        try:
            got = len(connection.recv(1 << 18))
        except ConnectionError:
            got = 0
        self.received += got
        if not got:
            self.selector.unregister(connection)
            connection.close()


def send_burst(target, flows, duration):
    """As much as gets through in so many seconds from when the connections are set up."""
    selector = selectors.DefaultSelector()
    for _ in range(flows):
        connection = socket.create_connection((address(target), PORT))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, PRIORITY)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE)
    until = time.monotonic() + duration
    while (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            try:
                key.fileobj.send(BLOCK)
            except BlockingIOError:
                pass
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    selector.close()


def parse_range(text):
    low, high = text.split("-")
    return float(low), float(high)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--flows", type=int, required=True)
    parser.add_argument("--pause", type=parse_range, required=True)
    parser.add_argument("--burst", type=parse_range, required=True)
    args = parser.parse_args()
    sink = Sink(args.host)

    def end(*_):
        print(sink.received, flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    for pause, target, duration in bursts(args.seed, args.host, args.hosts, args.pause, args.burst):
        time.sleep(pause)
        send_burst(target, args.flows, duration)


if __name__ == "__main__":
    main()
