"""Keyed state: the states a user declares, key groups, and the chunks they are stored as.

```
descriptors   what is declared: kind, name, type, time to live
functions     what a user writes, and the context it gets     cells, entries   the handles      scope   the current key
tables        values and changes of one state in one key group
chunks        their stored form (docs/formats.md)             codec            values as bytes
store         versions, validation      compaction            cache            tables between batches
keygroups     from key to key group
```
Nothing here knows the engine; `statefulspark.spark.keyed` connects it to Spark.
"""

from statefulspark.state.cells import AggregatingHandle, ReducingHandle, ValueHandle
from statefulspark.state.descriptors import (
    AggregateFunction,
    AggregatingState,
    FoldingState,
    ListState,
    MapState,
    ReducingState,
    Ttl,
    TtlUpdate,
    TtlVisibility,
    ValueState,
)
from statefulspark.state.entries import ListHandle, MapHandle
from statefulspark.state.functions import InputRow, KeyedContext, KeyedProcessFunction

__all__ = [
    "AggregateFunction",
    "AggregatingHandle",
    "AggregatingState",
    "FoldingState",
    "InputRow",
    "KeyedContext",
    "KeyedProcessFunction",
    "ListHandle",
    "ListState",
    "MapHandle",
    "MapState",
    "ReducingHandle",
    "ReducingState",
    "Ttl",
    "TtlUpdate",
    "TtlVisibility",
    "ValueHandle",
    "ValueState",
]
