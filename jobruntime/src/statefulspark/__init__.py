"""Stateful Spark: PySpark streaming jobs that keep their state through crashes and upgrades, exactly once.

`import statefulspark as ss` gives a job file everything it needs. Names are resolved when first used, so that tools which
only read storage (the operator, the command line) start without an engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from statefulspark._version import __version__ as __version__

if TYPE_CHECKING:
    from statefulspark.declaration import Output, QueryContext, write
    from statefulspark.hooks import MasterHook
    from statefulspark.job import Job
    from statefulspark.opstate import (
        BroadcastHandle,
        BroadcastSinkFunction,
        CheckpointedFunction,
        CheckpointListener,
        FunctionInitializationContext,
        FunctionSink,
        FunctionSnapshotContext,
        ListCheckpointed,
        OperatorListHandle,
        OperatorStateStore,
        SinkFunction,
        SourceCancelledError,
        SourceContext,
        SourceFunction,
    )
    from statefulspark.sinks.files import FilesSink
    from statefulspark.sinks.iceberg import IcebergSink
    from statefulspark.sinks.kafka import KafkaSink
    from statefulspark.sinks.kafka_rows import JsonRows, KafkaRecord
    from statefulspark.sinks.postgres import PostgresSink
    from statefulspark.sinks.secret import Secret
    from statefulspark.spark.evolution import source
    from statefulspark.spark.functions import from_source
    from statefulspark.spark.groupstate import apply_in_pandas_with_state
    from statefulspark.spark.keyed import flat_map_with_state, keyed_process, map_with_state
    from statefulspark.spark.transform import transform_with_state, transform_with_state_in_pandas
    from statefulspark.state import (
        MAX_WATERMARK,
        NO_WATERMARK,
        AggregateFunction,
        AggregatingState,
        Codec,
        FoldingState,
        InputRow,
        KeyedContext,
        KeyedProcessFunction,
        ListState,
        MapState,
        Outcome,
        ReducingState,
        StoredCodec,
        TimeDomain,
        TimerService,
        Ttl,
        TtlChange,
        TtlUpdate,
        TtlVisibility,
        ValueState,
        VectorizedProcessFunction,
    )
    from statefulspark.state_reading import read_state


__all__ = [
    "MAX_WATERMARK",
    "NO_WATERMARK",
    "AggregateFunction",
    "AggregatingState",
    "BroadcastHandle",
    "BroadcastSinkFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "Codec",
    "FilesSink",
    "FoldingState",
    "FunctionInitializationContext",
    "FunctionSink",
    "FunctionSnapshotContext",
    "IcebergSink",
    "InputRow",
    "Job",
    "JsonRows",
    "KafkaRecord",
    "KafkaSink",
    "KeyedContext",
    "KeyedProcessFunction",
    "ListCheckpointed",
    "ListState",
    "MapState",
    "MasterHook",
    "OperatorListHandle",
    "OperatorStateStore",
    "Outcome",
    "Output",
    "PostgresSink",
    "QueryContext",
    "ReducingState",
    "Secret",
    "SinkFunction",
    "SourceCancelledError",
    "SourceContext",
    "SourceFunction",
    "StoredCodec",
    "TimeDomain",
    "TimerService",
    "Ttl",
    "TtlChange",
    "TtlUpdate",
    "TtlVisibility",
    "ValueState",
    "VectorizedProcessFunction",
    "apply_in_pandas_with_state",
    "flat_map_with_state",
    "from_source",
    "keyed_process",
    "map_with_state",
    "read_state",
    "source",
    "transform_with_state",
    "transform_with_state_in_pandas",
    "write",
]

_HOME = {
    "Job": "statefulspark.job",
    "Output": "statefulspark.declaration",
    "QueryContext": "statefulspark.declaration",
    "write": "statefulspark.declaration",
    "MasterHook": "statefulspark.hooks",
    "FilesSink": "statefulspark.sinks.files",
    "IcebergSink": "statefulspark.sinks.iceberg",
    "JsonRows": "statefulspark.sinks.kafka_rows",
    "KafkaRecord": "statefulspark.sinks.kafka_rows",
    "KafkaSink": "statefulspark.sinks.kafka",
    "PostgresSink": "statefulspark.sinks.postgres",
    "Secret": "statefulspark.sinks.secret",
    "apply_in_pandas_with_state": "statefulspark.spark.groupstate",
    "from_source": "statefulspark.spark.functions",
    "read_state": "statefulspark.state_reading",
    **dict.fromkeys(("flat_map_with_state", "keyed_process", "map_with_state"), "statefulspark.spark.keyed"),
    **dict.fromkeys(("transform_with_state", "transform_with_state_in_pandas"), "statefulspark.spark.transform"),
    "source": "statefulspark.spark.evolution",
    **dict.fromkeys(
        (
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
        ),
        "statefulspark.opstate",
    ),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type of a lazily imported name is known to checkers from above
    if name not in __all__:
        raise AttributeError(f"module 'statefulspark' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME.get(name, "statefulspark.state")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
