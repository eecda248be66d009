"""Operator (non-keyed) state: lists, unions and broadcasts of a function that runs as several subtasks on the driver.

Everything here is pure: the state, its redistribution to another number of subtasks, its stored form, and the base classes
of user functions. Only `statefulspark.operators.functions` connects it to Spark and the storage.
"""

from statefulspark.operatorstate.functions import (
    BroadcastSinkFunction,
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    SinkFunction,
    SourceCancelledError,
    SourceContext,
    SourceFunction,
)
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.operatorstate.store import BroadcastState, OperatorListState, OperatorStateStore

__all__ = [
    "BroadcastSinkFunction",
    "BroadcastState",
    "CheckpointListener",
    "CheckpointedFunction",
    "DriverSink",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "ListCheckpointed",
    "OperatorListState",
    "OperatorStateStore",
    "SinkFunction",
    "SourceCancelledError",
    "SourceContext",
    "SourceFunction",
]
