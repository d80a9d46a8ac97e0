"""Kernel sources. They are loaded by `bench/sources.py` under a system of choice, and not imported."""
