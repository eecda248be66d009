"""Functions of Spark's older operator `applyInPandasWithState`, unchanged, on our keyed state.

```
operator    what a job calls                  timeouts  the timeout of a key, as a timer
function    a function of Spark's as ours     frames    rows as Spark's operator gives them, by key
processor   by key group, on Spark
```
It stands on `operators.transform`: values are stored, late rows dropped and key groups worked on as there. Names are looked
up when they are used, for Python workers need no operator.
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
