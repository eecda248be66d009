"""Keyed state on Spark: `keyed_process` and its shortcuts, and the registry of the operators that a job declared.

Only this package connects `statefulspark.state` with Spark. Its names are imported lazily: Python workers import
`packing` and `processor` from it at every start, and do not need the modules that declare a job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statefulspark.operators.keyed.operator import flat_map_with_state, keyed_process, map_with_state
    from statefulspark.operators.keyed.registry import Operator, OperatorRegistry, collecting

__all__ = ["Operator", "OperatorRegistry", "collecting", "flat_map_with_state", "keyed_process", "map_with_state"]

_MODULE_OF = {
    **dict.fromkeys(("flat_map_with_state", "keyed_process", "map_with_state"), "operator"),
    **dict.fromkeys(("Operator", "OperatorRegistry", "collecting"), "registry"),
}


def __getattr__(name: str) -> object:
    """Import a public name's module when the name is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
