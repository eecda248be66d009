"""Functions of Spark's older operator `applyInPandasWithState`, unchanged, on our keyed state.

```
operator    entry point of a job              timeouts  the timeout of a key, as a timer
function    runs a function of Spark's        frames    frames by key, as Spark's operator has them
```
It uses `operators.transform`: values are stored, late rows dropped and key groups processed as there. Names are imported
lazily, because Python workers do not need the operator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statefulspark.operators.groupstate.operator import apply_in_pandas_with_state

__all__ = ["apply_in_pandas_with_state"]


def __getattr__(name: str) -> object:
    """Import the operator when its name is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.operator"), name)
