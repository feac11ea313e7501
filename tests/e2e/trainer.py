"""A rank that averages for ever, for tests that kill it.

    trainer.py SOCKET RANK WORLD DIRECTORY NAME [SETTING=VALUE ...]

Prints "ready" when its group is formed.
"""

import sys

import optireduce


def main():
    socket, rank, world, directory, name, *settings = sys.argv[1:]
    settings = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    session = optireduce.connect(socket)
    group = session.create_group(int(rank), int(world), rendezvous_dir=directory, name=name, timeout_s=30, **settings)
    array = group.allocate(100_000)
    print("ready", flush=True)
    while True:
        array[:] = 1
        group.all_reduce(array).wait()


if __name__ == "__main__":
    main()
