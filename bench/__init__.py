"""The benchmark suite: real kernels, their checks, their byte and flop counts, and the peers they are timed against."""

__all__: list[str] = []
