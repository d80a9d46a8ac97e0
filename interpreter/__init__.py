"""The reference: what every operation means, in NumPy."""
