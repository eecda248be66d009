"""Spark's own `StatefulProcessor`, unchanged, on our keyed state.

```
operator    what a job calls             grouping   what groupBy groups by     modes     time modes
function    a processor as a function    handle     what init gets             states    value, list, map
firing      timers as Spark fires them   forms      values as Spark keeps them
processor   by key group, on Spark       inputs     Rows and frames by key     lateness  late rows
deleting    states that init deletes     outputs    Rows and frames that come out
wrapping    what `processor` runs; `operators.groupstate` has another
```
Names are looked up when they are used: Python workers import `processor` and what it needs, and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statefulspark.operators.transform.operator import transform_with_state, transform_with_state_in_pandas

__all__ = ["transform_with_state", "transform_with_state_in_pandas"]


def __getattr__(name: str) -> object:
    """Import the operator when one of its names is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.operator"), name)
