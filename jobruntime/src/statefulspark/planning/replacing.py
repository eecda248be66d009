"""A query's plan with other streams in the place of its sources; everything above them is the query's own.

A rehearsal reads samples in their place, a test rows of its own. The columns keep the identities that the plan above
them refers to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.types import StructType

from statefulspark.engine import session as spark_session
from statefulspark.planning import probe

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession


def sources(frame: DataFrame) -> tuple[JavaObject, ...]:
    """Return the sources that a query reads, in the order in which Spark visits them."""
    analyzed = frame._jdf.queryExecution().analyzed()
    return tuple(node for node in probe.nodes(analyzed) if str(node.getClass().getSimpleName()) in probe.RELATIONS)


def schema_of(source: JavaObject) -> StructType:
    """Return the columns of a source."""
    return StructType.fromJson(json.loads(source.schema().json()))


def replace_sources(frame: DataFrame, streams: Sequence[DataFrame]) -> DataFrame:
    """Return a query that reads other streams.

    Args:
        frame: What the query writes.
        streams: A stream for each of its `sources`, with the same columns.
    """
    spark = frame.sparkSession
    given = iter(streams)

    plan = _replaced(spark, frame._jdf.queryExecution().analyzed(), lambda leaf: _as_leaf(spark, next(given), leaf))
    jvm = spark_session.jvm_view(spark)
    dataset = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def _as_leaf(spark: SparkSession, stream: DataFrame, leaf: JavaObject) -> JavaObject:
    """Return the plan of a stream under the identities of a leaf's columns, which the plan above it refers to."""
    jvm = spark_session.jvm_view(spark)
    catalyst = jvm.org.apache.spark.sql.catalyst
    plan = stream._jdf.queryExecution().analyzed()
    none = jvm.PythonUtils.toSeq([])
    aliases = []
    for index in range(leaf.output().size()):
        old, new = leaf.output().apply(index), plan.output().apply(index)
        metadata = jvm.scala.Option.apply(old.metadata())
        aliases.append(catalyst.expressions.Alias(new, old.name(), old.exprId(), none, metadata, none))
    return cast("JavaObject", catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(aliases), plan))


def _replaced(spark: SparkSession, node: JavaObject, stream_for: Callable[[JavaObject], JavaObject]) -> JavaObject:
    if str(node.getClass().getSimpleName()) in probe.RELATIONS:
        return stream_for(node)
    children = [node.children().apply(index) for index in range(node.children().size())]
    new = [_replaced(spark, child, stream_for) for child in children]
    if all(after is before for after, before in zip(new, children, strict=True)):
        return node
    jvm = spark_session.jvm_view(spark)
    return cast("JavaObject", node.withNewChildren(jvm.PythonUtils.toSeq(new)))
