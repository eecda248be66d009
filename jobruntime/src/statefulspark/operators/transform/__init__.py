"""Spark's `StatefulProcessor`, unchanged, on our keyed state.

```
operator    entry points of a job        grouping   keys of groupBy            modes     time modes
function    a processor as a function    handle     handle for init            states    value, list, map
firing      timers as Spark fires them   forms      stored forms of values     lateness  late rows
processor   by key group, on Spark       inputs     input Rows and frames      outputs   output Rows and frames
deleting    states that init deletes     wrapping   base class of `function`, shared with `operators.groupstate`
```
Names are imported lazily: Python workers import only `processor` and its dependencies.
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
