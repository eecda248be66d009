"""Optional client packages: installed by an extra, imported when a sink is used."""

from __future__ import annotations

import importlib.util

from statefulspark import errors


def require(module: str, *, extra: str, needed_by: str) -> None:
    """Check that an optional package is installed.

    Args:
        module: The module to import.
        extra: The extra of this distribution that installs it.
        needed_by: The feature that needs it.

    Raises:
        SpecRejectedError: `ExtraMissing`.
    """
    if importlib.util.find_spec(module) is None:
        raise errors.SpecRejectedError(
            "ExtraMissing",
            f"{needed_by} needs the Python package {module}, which is not installed; install statefulspark[{extra}].",
        )
