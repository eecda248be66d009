"""Broadcast variables, which Spark sends once to each of its workers, told from one process to another by their files."""

from __future__ import annotations

from pyspark.core import broadcast

Files = dict[str, str]
"""The file of each variable, by its id; the ids are text, as JSON has them."""


def known() -> Files:
    """Return the variables of this process. One that Spark has encrypted has no file and is left out."""
    return {str(number): variable._path for number, variable in _registry().items() if hasattr(variable, "_path")}


def take(files: Files) -> None:
    """Have just these variables; what has been read of them stays."""
    registry, before = _registry(), known()
    for stale in [number for number in registry if before.get(str(number)) != files.get(str(number))]:
        del registry[stale]
    for number, file in files.items():
        if int(number) not in registry:
            registry[int(number)] = broadcast.Broadcast(path=file)


def _registry() -> dict[int, broadcast.Broadcast[object]]:
    return broadcast._broadcastRegistry
