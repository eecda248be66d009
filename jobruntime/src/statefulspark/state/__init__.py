"""Keyed state: the states a user declares, key groups, and the chunks they are stored as.

```
valuestate, aggregatingstate, liststate, mapstate, timers   a kind of state each: handle, descriptor, rows, changes, bytes
kinds    what a kind brings along, and the current key     cells, entries, many    what kinds share
tables   rows and changes of one key group                 numbers                 numbers as arrays
store    a key group in a batch: load, commit              grouptables, views      its rows: as tables, or as columns
cache    key groups between batches, in memory and on disk
columns  rows by hash, and their buffers in a chunk       merging, timerindex     joined, and when timers are due
chunks   the stored form (docs/formats.md)                 heads                   which chunks a group has
types    values as bytes, user-defined types               evolution               stored state against declared state
declaring  how a function declares states
functionmetrics  what a function counts
context  KeyedContext       functions  base classes        ttl   time to live      keygroups   from key to key group
```
Nothing in this package depends on Spark; `statefulspark.operators.keyed` connects it to Spark.
"""

from statefulspark.state.aggregatingstate import (
    AggregateFunction,
    AggregatingState,
    ReducingState,
)
from statefulspark.state.functionmetrics import FunctionMetrics, MetricCounter, MetricGauge
from statefulspark.state.functions import InputRow, KeyedContext, KeyedProcessFunction, VectorizedProcessFunction
from statefulspark.state.liststate import ListState
from statefulspark.state.mapstate import MapState
from statefulspark.state.timers import MAX_WATERMARK, Timers
from statefulspark.state.ttl import Ttl, TtlChange, TtlUpdate, TtlVisibility
from statefulspark.state.types.conversions import Codec, CodecCompatibility, CodecVersion
from statefulspark.state.valuestate import ValueState

__all__ = [
    "MAX_WATERMARK",
    "AggregateFunction",
    "AggregatingState",
    "Codec",
    "CodecCompatibility",
    "CodecVersion",
    "FunctionMetrics",
    "InputRow",
    "KeyedContext",
    "KeyedProcessFunction",
    "ListState",
    "MapState",
    "MetricCounter",
    "MetricGauge",
    "ReducingState",
    "Timers",
    "Ttl",
    "TtlChange",
    "TtlUpdate",
    "TtlVisibility",
    "ValueState",
    "VectorizedProcessFunction",
]
