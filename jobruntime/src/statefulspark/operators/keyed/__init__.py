"""Keyed state on Spark: `keyed_process` and its short forms, and the record of the operators that a job declared.

This package is the only one that connects `statefulspark.state` with the engine. Its names are looked up when they are used:
Python workers import `packing` and `processor` from it, at every start, and need nothing of what declares a job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statefulspark.operators.keyed.mapping import flat_map_with_state, map_with_state
    from statefulspark.operators.keyed.operator import keyed_process
    from statefulspark.operators.keyed.registry import Operator, OperatorRegistry, collecting

__all__ = ["Operator", "OperatorRegistry", "collecting", "flat_map_with_state", "keyed_process", "map_with_state"]

_HOME = {
    **dict.fromkeys(("flat_map_with_state", "map_with_state"), "mapping"),
    "keyed_process": "operator",
    **dict.fromkeys(("Operator", "OperatorRegistry", "collecting"), "registry"),
}


def __getattr__(name: str) -> object:
    """Import a public name's module when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
