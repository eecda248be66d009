"""Operator (non-keyed) state: lists, unions and broadcasts of a function that runs as several subtasks on the driver.

Everything here is pure: what is kept, how it is dealt out to another number of subtasks, how it is written down, and the
functions that a user writes. The engine and the storage are reached from `statefulspark.operators.functions` only.
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
from statefulspark.operatorstate.sink import FunctionSink
from statefulspark.operatorstate.store import BroadcastHandle, OperatorListHandle, OperatorStateStore

__all__ = [
    "BroadcastHandle",
    "BroadcastSinkFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSink",
    "FunctionSnapshotContext",
    "ListCheckpointed",
    "OperatorListHandle",
    "OperatorStateStore",
    "SinkFunction",
    "SourceCancelledError",
    "SourceContext",
    "SourceFunction",
]
