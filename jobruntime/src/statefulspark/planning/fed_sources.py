"""A query whose sources are folders, into which a test puts rows: each file is a batch, with the columns of the source.

Every source that Spark reads is replaced, whatever system it is in; nothing is asked of that system. A function of the job
(`ss.read_function`) is refused: nobody can tell when it has given everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from statefulspark.operators.functions import datasource
from statefulspark.planning import probe, replacing
from statefulspark.sparkinternals import arrowtypes

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

_FOLDER_OF_FILES = re.compile(r"^FileSource\[(?P<path>.*)\]$")
_OPTIONS_THAT_NAME = ("subscribe", "topic", "table", "stream", "path")


class UnfeedableError(Exception):
    """A query whose rows cannot be given by a test."""


@dataclass(frozen=True, slots=True)
class FedSource:
    """A source that reads the files of a folder.

    Attributes:
        query: Uid of the query that reads it.
        name: What `ss.named_source` has named it; else the topic, table or folder that it would read; else its format.
        folder: The folder.
        schema: Its columns.
    """

    query: str
    name: str
    folder: Path
    schema: pa.Schema


def replace(frame: DataFrame, query: str, folder_of: Callable[[str], Path]) -> tuple[DataFrame, tuple[FedSource, ...]]:
    """Return a query that reads folders, one file in a batch, and its sources.

    Args:
        frame: What the query writes.
        query: Its uid.
        folder_of: The folder of a source, by its name; it exists.

    Raises:
        UnfeedableError: It reads a function of the job.
    """
    spark = frame.sparkSession
    streams: list[DataFrame] = []
    fed: dict[str, FedSource] = {}
    for leaf, given in probe.streams(frame._jdf.queryExecution().analyzed(), None):
        if str(leaf.sourceName()) == datasource.FORMAT:
            raise UnfeedableError(
                f"The query {query!r} reads a function of the job (ss.read_function), whose end a test cannot see. Test the "
                "function by itself, and the job with `statefulspark run --dev`."
            )
        name, schema = given or _name(leaf), replacing.schema_of(leaf)
        folder = folder_of(name)
        fed[name] = FedSource(query, name, folder, arrowtypes.to_arrow_schema(schema, timezone="UTC"))
        streams.append(spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(folder.as_uri()))
    return replacing.replace_sources(frame, streams), tuple(fed.values())


def _name(leaf: JavaObject) -> str:
    source = str(leaf.sourceName())
    files = _FOLDER_OF_FILES.match(source)
    if files:
        return files["path"].rstrip("/").rpartition("/")[2]
    if str(leaf.getClass().getSimpleName()) == "StreamingRelation":
        return source
    options = leaf.extraOptions()
    named = (str(options.get(key)) for key in _OPTIONS_THAT_NAME if options.containsKey(key))
    return next(named, source)
