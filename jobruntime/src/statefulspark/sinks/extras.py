"""Clients that only some jobs need: installed by an extra, imported when a sink is used."""

from __future__ import annotations

import importlib.util

from statefulspark import errors


def require(module: str, *, extra: str, needed_by: str) -> None:
    """Refuse to go on without an optional package.

    Args:
        module: What will be imported.
        extra: The extra of this distribution that brings it.
        needed_by: What the user asked for.

    Raises:
        SpecRejectedError: `ExtraMissing`.
    """
    if importlib.util.find_spec(module) is None:
        raise errors.SpecRejectedError(
            "ExtraMissing",
            f"{needed_by} needs the Python package {module}, which is not installed; install statefulspark[{extra}].",
        )
