"""`named_source`: names a streaming source, so that its position is found again after the query has changed.

Spark stores positions in the order of the plan. (Since 4.2 it has experimental source names, which change the format of the
offset log and which all sources must then have.) Here the name is a subquery alias in the plan, which all operations on the
DataFrame preserve and which changes no column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame

from statefulspark import errors
from statefulspark.declaration import require_uid

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

PREFIX = "statefulspark source "


def named_source(df: DataFrame, *, uid: str) -> DataFrame:
    """Name the streaming source that a DataFrame reads.

    Without a name a source is recognised by what it reads (its format, topic or path). A name is needed when two sources
    read the same, and it allows to change what a source reads without losing its position.

    Args:
        df: What `spark.readStream...load()` returned; columns may be selected and filtered already.
        uid: Unique among the sources of the query. State and position follow it.

    Returns:
        The same stream.

    Raises:
        InvalidArgumentError: `SourceNotSingle`: it reads no stream, or several. `UidInvalid`.

    Example:
        ```python
        clicks = ss.named_source(spark.readStream.schema("url string").json("s3a://bucket/clicks"), uid="clicks")
        ```
    """
    require_uid(uid, "a source")
    leaves = cast("JavaObject", df._jdf.queryExecution().analyzed().collectLeaves())
    streams = sum(bool(leaves.apply(index).isStreaming()) for index in range(leaves.size()))
    if streams != 1:
        raise errors.InvalidArgumentError(
            "SourceNotSingle",
            f"ss.named_source(..., uid={uid!r}) was given a DataFrame that reads {streams} streams; name each stream where "
            "it is read, before it is joined or united with another.",
        )
    return df.alias(f"{PREFIX}{uid}")
