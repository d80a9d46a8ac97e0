"""Tilewright: a block-level kernel language for GPUs, with a NumPy reference that defines what kernels mean."""

__all__: list[str] = []
