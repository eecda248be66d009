"""`read_function`: a stream of rows that a user function produces on the driver, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import StructType

from statefulspark import errors
from statefulspark.declaration import require_uid
from statefulspark.operators import columns
from statefulspark.operators.functions import datasource, registry
from statefulspark.operatorstate import sink
from statefulspark.operatorstate.functions import SourceFunction
from statefulspark.sparkinternals import arrowtypes, releases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUFFER_ROWS = 10_000
"""Default of `buffer_rows`."""


def read_function(
    spark: SparkSession,
    *,
    function: SourceFunction[Any],
    schema: str | StructType,
    uid: str,
    parallelism: int = 1,
    buffer_rows: int = BUFFER_ROWS,
) -> DataFrame:
    """Read a stream from a function that runs on the driver, as `parallelism` subtasks in threads.

    The rows of a subtask and its state after them are stored together in one object before a batch that reads them is
    planned; a batch that runs again reads the same rows. Restored at any batch, the function continues with the state of
    that batch, also with another parallelism.

    Args:
        spark: The session that was passed to the query function.
        function: A prototype; every subtask gets a deep copy of it.
        schema: The schema of the rows, as in `"n bigint, text string"`.
        uid: Name under which its state is kept; unique in the job and never changed afterwards.
        parallelism: Number of subtasks.
        buffer_rows: Maximum number of rows that a subtask may be ahead of the stream before it waits.

    Raises:
        InvalidArgumentError: `UidInvalid`, `OperatorUidTaken`, `FunctionInvalid`, `ParallelismInvalid`, `SchemaInvalid`,
            `BufferInvalid`, or `NoQuery` outside a query function.
        SpecRejectedError: `SparkTooOld`.
    """
    building = registry.building()
    releases.require(releases.STATEFUL_SOURCES)
    require_uid(uid, "a source")
    sink.require_parallelism(parallelism)
    if not isinstance(function, SourceFunction):
        raise errors.InvalidTypeError(
            "FunctionInvalid",
            f"read_function takes an instance of a class that extends SourceFunction, not {function!r}.",
        )
    if isinstance(buffer_rows, bool) or buffer_rows < 1:
        raise errors.InvalidArgumentError(
            "BufferInvalid", f"The source {uid!r} cannot have a buffer of {buffer_rows!r} rows; use 1 or more."
        )
    rows_schema = _struct(schema, uid)
    declared = registry.DeclaredSource(
        uid=uid,
        query_uid=building.query_uid,
        function=function,
        parallelism=parallelism,
        schema=arrowtypes.to_arrow_schema(rows_schema, timezone="UTC"),
        buffer_rows=buffer_rows,
    )
    building.registry.add(declared)
    spark.dataSource.register(datasource.StatefulSource)
    rendezvous = building.registry.rendezvous
    reader = spark.readStream.format(datasource.FORMAT).schema(rows_schema).option(datasource.FEED, declared.feed_id)
    return reader.option(datasource.PORT, str(rendezvous.port)).option(datasource.TOKEN, rendezvous.token).load()


def _struct(schema: str | StructType, uid: str) -> StructType:
    try:
        struct = schema if isinstance(schema, StructType) else cast("StructType", StructType.fromDDL(schema))
    except Exception as error:
        raise errors.InvalidArgumentError(
            "SchemaInvalid", f"The schema {schema!r} of source {uid!r} cannot be parsed: {error}"
        ) from error
    if not struct.fields:
        raise errors.InvalidArgumentError("SchemaInvalid", f"The source {uid!r} has no columns; it needs at least one.")
    columns.require_forms(struct, f"The source {uid!r}")
    return struct
