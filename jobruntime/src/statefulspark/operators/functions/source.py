"""`from_source`: a stream whose rows a function of the user's produces on the driver, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from statefulspark import errors
from statefulspark.declaration import require_uid
from statefulspark.operators.functions import datasource, registry
from statefulspark.operatorstate import sink
from statefulspark.operatorstate.functions import SourceFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUFFER_ROWS = 10_000
"""Rows that a subtask may be ahead of the stream, unless it is told otherwise."""


def from_source(
    spark: SparkSession,
    *,
    function: SourceFunction[object],
    schema: str | StructType,
    uid: str,
    parallelism: int = 1,
    buffer_rows: int = BUFFER_ROWS,
) -> DataFrame:
    """Read a stream from a function that runs on the driver, as `parallelism` subtasks in threads.

    What a subtask emits and the state it has after that are stored together, in one object, before a batch is planned
    that reads it; a batch that runs again reads the same rows. Restored at any batch, the function goes on with the
    state of that batch, with another parallelism too.

    Args:
        spark: The session that the query function was given.
        function: A prototype; every subtask works on a deep copy of it.
        schema: Of the rows, as in `"n bigint, text string"`.
        uid: Name under which its state is kept; unique in the job and never changed afterwards.
        parallelism: Number of subtasks.
        buffer_rows: How many rows a subtask may be ahead of the stream before it has to wait.

    Raises:
        SpecRejectedError: `UidInvalid`, `OperatorUidTaken`, `FunctionInvalid`, `ParallelismInvalid`, `SchemaInvalid`,
            `BufferInvalid`, or `NoQuery` outside a query function.
    """
    building = registry.building()
    require_uid(uid, "a source")
    sink.require_parallelism(parallelism)
    if not isinstance(function, SourceFunction):
        raise errors.SpecRejectedError(
            "FunctionInvalid",
            f"from_source takes an instance of a class that extends SourceFunction, not {function!r}.",
        )
    if isinstance(buffer_rows, bool) or buffer_rows < 1:
        raise errors.SpecRejectedError(
            "BufferInvalid", f"The source {uid!r} cannot have a buffer of {buffer_rows!r} rows; use 1 or more."
        )
    columns = _struct(schema, uid)
    declared = registry.DeclaredSource(
        uid=uid,
        query_uid=building.query_uid,
        function=function,
        parallelism=parallelism,
        schema=arrow_types.to_arrow_schema(columns, timezone="UTC"),
        buffer_rows=buffer_rows,
    )
    building.registry.add(declared)
    spark.dataSource.register(datasource.StatefulSource)
    meeting = building.registry.rendezvous
    reader = spark.readStream.format(datasource.FORMAT).schema(columns).option(datasource.FEED, declared.feed_id)
    return reader.option(datasource.PORT, str(meeting.port)).option(datasource.TOKEN, meeting.token).load()


def _struct(schema: str | StructType, uid: str) -> StructType:
    try:
        found = schema if isinstance(schema, StructType) else cast("StructType", StructType.fromDDL(schema))
    except Exception as error:
        raise errors.SpecRejectedError(
            "SchemaInvalid", f"The schema {schema!r} of source {uid!r} is not readable: {error}"
        ) from error
    if not found.fields:
        raise errors.SpecRejectedError("SchemaInvalid", f"The source {uid!r} has no column; give it one at least.")
    return found
