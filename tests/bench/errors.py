"""What the user is told."""


class BenchError(Exception):
    """A sentence for the user; the exit status is then 1."""
