"""Broadcast variables, which Spark sends once to each of its workers; processes share them by the names of their files."""

from __future__ import annotations

from pyspark.core import broadcast

Files = dict[str, str]
"""The file of each variable, by its id; the ids are text, as JSON has them."""


def registered() -> Files:
    """Return the variables of this process, without those that Spark has encrypted, which have no file."""
    return {str(number): variable._path for number, variable in _registry().items() if hasattr(variable, "_path")}


def replace(files: Files) -> None:
    """Register exactly these variables; those that were registered before keep their loaded values."""
    registry, current = _registry(), registered()
    for stale in [number for number in registry if current.get(str(number)) != files.get(str(number))]:
        del registry[stale]
    for number, file in files.items():
        if int(number) not in registry:
            registry[int(number)] = broadcast.Broadcast(path=file)


def _registry() -> dict[int, broadcast.Broadcast[object]]:
    return broadcast._broadcastRegistry
