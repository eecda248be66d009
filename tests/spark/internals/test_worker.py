"""What is relied on in PySpark's own modules: names, arguments, and what Spark sends to a worker."""

from __future__ import annotations

import importlib
import inspect

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from statefulspark.sparkinternals import arrowtypes, releases, streamreaders

_STREAMING = "pyspark.sql.streaming"
RELIED_ON = {
    "pyspark.core.broadcast": ("_broadcastRegistry", "Broadcast"),
    "pyspark.core.context": (
        "launch_gateway",
        "SparkContext._ensure_initialized",
        "SparkContext._active_spark_context",
    ),
    "pyspark.daemon": ("worker", "manager"),
    "pyspark.java_gateway": ("launch_gateway",),
    "pyspark.sql.classic.dataframe": ("DataFrame",),
    "pyspark.sql.pandas.types": ("to_arrow_schema", "to_arrow_type"),
    "pyspark.util": (
        "PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_UDF",
        "PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_INIT_STATE_UDF",
        "PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF",
        "PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_INIT_STATE_UDF",
    ),
    f"{_STREAMING}.stateful_processor": ("ExpiredTimerInfo", "StatefulProcessorHandle", "TimerValues"),
    f"{_STREAMING}.stateful_processor_api_client": (
        "StatefulProcessorHandleState.PRE_INIT",
        "StatefulProcessorApiClient.set_implicit_key",
        "StatefulProcessorApiClient.remove_implicit_key",
        "StatefulProcessorApiClient._parse_string_schema",
    ),
}
"""Names by module that the product reads or replaces, and that are no public API of PySpark."""
ARGUMENTS = {
    "pyspark.daemon.worker": ("sock", "authenticated"),
    "pyspark.core.broadcast.Broadcast.__init__": ("self", "sc", "value", "pickle_registry", "path", "sock_file"),
    f"{_STREAMING}.stateful_processor_api_client.StatefulProcessorApiClient.set_implicit_key": ("self", "key"),
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in RELIED_ON.items() for name in names])
def test_pyspark_has_the_name(module: str, name: str) -> None:
    assert _member(f"{module}.{name}") is not None or name.endswith("_active_spark_context")


@pytest.mark.parametrize("function", ARGUMENTS)
def test_a_function_takes_these_arguments(function: str) -> None:
    given = _member(function)
    assert callable(given)
    assert tuple(inspect.signature(given).parameters) == ARGUMENTS[function]


def test_a_streaming_reader_is_told_the_position_where_stateful_sources_are_allowed() -> None:
    from pyspark.sql import datasource

    takes = tuple(inspect.signature(datasource.DataSourceStreamReader.latestOffset).parameters)
    assert ("start" in takes) is releases.has(releases.STATEFUL_SOURCES)
    assert streamreaders.SupportsTriggerAvailableNow.__module__.startswith("pyspark") is ("start" in takes)


def test_an_arrow_type_has_the_time_zone_that_is_named() -> None:
    moment = spark_types.TimestampType()
    nested = spark_types.ArrayType(spark_types.StructType([spark_types.StructField("at", moment)]))
    zoned = pa.timestamp("us", "Europe/Vienna")
    schema = spark_types.StructType(
        [
            spark_types.StructField("nested", nested),
            spark_types.StructField("map", spark_types.MapType(spark_types.StringType(), moment)),
            spark_types.StructField("local", spark_types.TimestampNTZType()),
        ]
    )

    arrow = arrowtypes.to_arrow_schema(schema, timezone="Europe/Vienna")

    assert arrow.field("nested").type == pa.list_(pa.struct([("at", zoned)]))
    assert (arrow.field("map").type.item_type, arrow.field("local").type) == (zoned, pa.timestamp("us"))
    assert arrowtypes.to_arrow_type(moment, timezone="UTC") == pa.timestamp("us", "UTC")


def _member(name: str) -> object:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            member: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            member = getattr(member, part)
        return member
    raise AssertionError(name)
