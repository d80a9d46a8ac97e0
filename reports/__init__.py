"""The reports: from stored benchmark and fuzzing results to tables, plots and pages."""

__all__: list[str] = []
