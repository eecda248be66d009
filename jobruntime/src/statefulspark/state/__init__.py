"""Keyed state: the states a user declares, key groups, and the chunks they are stored as.

```
descriptors   what is declared: kind, name, type            ttl              time to live       typetext    types as text
kinds         the table of kinds, one row each              kindtypes        fields of a row    shapes      what kinds share
functions     base classes for users                        context          KeyedContext       scope       the current key
cells, entries, converting   the handles                    timers           timer service      expiry      cleanup
conversions   values of user-defined types                  evolution        stored state against declared state
tables        values and changes of one state in one key group                valuetypes       checks of value types
chunks        their stored form (docs/formats.md)             codec            values as bytes
store         versions, validation      compaction            cache            tables between batches
keygroups     from key to key group
```
Nothing in this package depends on Spark; `statefulspark.operators.keyed` connects it to Spark.
"""

from statefulspark.state.functions import InputRow, KeyedContext, KeyedProcessFunction, VectorizedProcessFunction
from statefulspark.state.handles.cellhandles import AggregatingHandle, ReducingHandle, ValueHandle
from statefulspark.state.handles.descriptors import (
    AggregateFunction,
    AggregatingState,
    FoldingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from statefulspark.state.handles.entries import ListHandle, MapHandle
from statefulspark.state.memory.ttl import Ttl, TtlChange, TtlUpdate, TtlVisibility
from statefulspark.state.timers import MAX_WATERMARK, NO_WATERMARK, TimeDomain, TimerService
from statefulspark.state.types.conversions import Codec, Outcome, StoredCodec

__all__ = [
    "MAX_WATERMARK",
    "NO_WATERMARK",
    "AggregateFunction",
    "AggregatingHandle",
    "AggregatingState",
    "Codec",
    "FoldingState",
    "InputRow",
    "KeyedContext",
    "KeyedProcessFunction",
    "ListHandle",
    "ListState",
    "MapHandle",
    "MapState",
    "Outcome",
    "ReducingHandle",
    "ReducingState",
    "StoredCodec",
    "TimeDomain",
    "TimerService",
    "Ttl",
    "TtlChange",
    "TtlUpdate",
    "TtlVisibility",
    "ValueHandle",
    "ValueState",
    "VectorizedProcessFunction",
]
