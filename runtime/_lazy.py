"""Modules that are slow to import and seldom needed, imported on first use."""

from __future__ import annotations


def package_version(package: str) -> str:
    """The installed version of a package, "" where it is missing."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
