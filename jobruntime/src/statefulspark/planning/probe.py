"""Reads from a query's plan what state it has: plans the query as Spark would, without running it.

Spark numbers stateful operators top down while it plans a batch (IncrementalExecution). Planning the same
DataFrame gives the same numbers; no source is opened, no sink called, no Python function started. Sources are counted as
Spark counts them at the start of a query: one line per streaming relation in the analyzed plan, top down; equal relations
share one folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from statefulspark.checkpoint import plans
from statefulspark.engine import session as spark_session
from statefulspark.operators.keyed import packing
from statefulspark.planning import declared, source_names
from statefulspark.sparkinternals import batchplan

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import DataFrame, SparkSession

_OPERATION_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_FILES = re.compile(r"^FileSource\[(.*)\]$")
RELATIONS = frozenset({"StreamingRelation", "StreamingRelationV2"})
"""Nodes of a logical plan that represent a source."""
_IDENTIFYING_OPTIONS = ("subscribe", "subscribepattern", "assign", "path", "topic", "table", "stream")
"""Options that identify what is read; all others define how it is read."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query as Spark plans it, without the declarations that only the job knows.

    Attributes:
        operators: Stateful operators by id.
        sources: Sources in the order of the offset log.
    """

    operators: tuple[plans.PlannedOperator, ...]
    sources: tuple[plans.PlannedSource, ...]


def plan(frame: DataFrame, mode: str) -> QueryPlan:
    """Plan a streaming DataFrame.

    Cost: the time that Spark needs to plan the query once, 0.1 to 0.2 s when its classes are loaded.

    Args:
        frame: The DataFrame that the query writes.
        mode: Output mode: `append`, `update` or `complete`.

    Raises:
        AnalysisException: Spark cannot run this as a stream in that mode; the start of the query would raise the same.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    spark_session.activate(frame.sparkSession)
    jvm = spark_session.jvm_view(frame.sparkSession)
    # Spark checks this at the start of a query, and not before (ResolveWriteToStream).
    if frame.sparkSession.conf.get(_OPERATION_CHECK) == "true":
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(analyzed, _output_mode(jvm, mode))
    incremental = execution(frame.sparkSession, analyzed, mode, "<none>", partitions=None)
    planned = incremental.state().apply(incremental.sparkPlan())
    operators = {}
    for node in nodes(planned):
        kind = str(node.getClass().getSimpleName())
        if kind in STATEFUL:  # Otherwise it is no stateful operator, or the reading part of an aggregation.
            operator = _describe(node, kind)
            operators[operator.operator_id] = operator
    return QueryPlan(tuple(operators[number] for number in sorted(operators)), tuple(_sources(analyzed)))


def _output_mode(jvm: JVMView, mode: str) -> JavaObject:
    return cast("JavaObject", getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())())


def execution(
    session: SparkSession,
    analyzed: JavaObject,
    mode: str,
    state_root: str,
    *,
    partitions: int | None,
    engine: JavaObject | None = None,
) -> JavaObject:
    """Return Spark's plan of a batch.

    Args:
        session: The session.
        analyzed: The analyzed logical plan.
        mode: Output mode.
        state_root: Hadoop URI of the folder `state`.
        partitions: Number of state partitions for the first batch of a new query; None plans a later batch, for which
            Spark reads no file.
        engine: The JVM's session that plans and runs the batch; the session's own when omitted.
    """
    jvm = spark_session.jvm_view(session)
    on = engine or session._jsparkSession
    return batchplan.plan_batch(jvm, on, analyzed, _output_mode(jvm, mode), state_root, partitions=partitions)


def nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """Yield the nodes of a plan, top down, as Spark's `transform` and `collect` visit them."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


STATEFUL = frozenset(
    {
        "StateStoreSaveExec", "SessionWindowStateStoreSaveExec", "StreamingDeduplicateExec",
        "StreamingDeduplicateWithinWatermarkExec", "StreamingSymmetricHashJoinExec", "StreamingGlobalLimitExec",
        "FlatMapGroupsWithStateExec", "FlatMapGroupsInPandasWithStateExec", "TransformWithStateExec",
        "TransformWithStateInPySparkExec",
    }
)  # fmt: skip
"""Spark's stateful operators (IncrementalExecution.StateOpIdRule), by the class of the node."""


def _describe(node: JavaObject, kind: str) -> plans.PlannedOperator:
    """Return a stateful operator, with what its class of node says of its state."""
    operator = plans.PlannedOperator(int(node.stateInfo().get().operatorId()), str(node.shortName()))
    match kind:
        case "StateStoreSaveExec":
            key, output = _types(node.keyExpressions()), _types(node.child().output())
            definition = declared.describe_aggregation(node, node.keyExpressions())
            return replace(operator, key=key, value=output, definition=definition)
        case "SessionWindowStateStoreSaveExec":
            keys = node.keyWithoutSessionExpressions()
            return replace(operator, key=_types(keys), definition=declared.describe_aggregation(node, keys))
        case "StreamingDeduplicateExec" | "StreamingDeduplicateWithinWatermarkExec":
            keys = node.keyExpressions()
            return replace(operator, key=_types(keys), definition=declared.describe_keys(node, keys))
        case "StreamingSymmetricHashJoinExec":
            return replace(operator, key=_types(node.leftKeys()), definition=declared.describe_join(node))
        case "TransformWithStateInPySparkExec":
            attributes = node.groupingAttributes()
            uid = None
            if attributes.size() == 1:
                metadata = attributes.apply(0).metadata()
                uid = str(metadata.getString(packing.UID_METADATA)) if metadata.contains(packing.UID_METADATA) else None
            clock = str(node.timeMode().toString())
            mode = str(node.outputMode().toString()).lower() + ("" if clock == "NoTime" else f", {clock}")
            # The key of the library's keyed operators is in the rows; the job's registry has its type.
            return replace(operator, uid=uid, key=None if uid else _types(attributes), mode=mode)
        case "StreamingGlobalLimitExec":
            return operator
        case _:
            return replace(operator, key=_types(node.groupingAttributes()))


def _types(expressions: JavaObject) -> str:
    return ", ".join(str(expressions.apply(index).dataType().catalogString()) for index in range(expressions.size()))


def _sources(analyzed: JavaObject) -> Iterator[plans.PlannedSource]:
    relations: list[JavaObject] = []
    for leaf, name in streams(analyzed, None):
        position = next((index for index, other in enumerate(relations) if other.equals(leaf)), None)
        if position is None:
            relations.append(leaf)
        relation = len(relations) - 1 if position is None else position
        yield plans.PlannedSource(_description(leaf), name, relation)


def streams(node: JavaObject, name: str | None) -> Iterator[tuple[JavaObject, str | None]]:
    """Yield streaming relations, top down, each with the closest name above it."""
    kind = str(node.getClass().getSimpleName())
    if kind == "SubqueryAlias" and str(node.alias()).startswith(source_names.PREFIX):
        name = str(node.alias()).removeprefix(source_names.PREFIX)
    if kind in RELATIONS:
        yield node, name
        return
    children = node.children()
    for index in range(children.size()):
        yield from streams(children.apply(index), name)


def _description(relation: JavaObject) -> str:
    name = str(relation.sourceName())
    files = _FILES.match(name)
    if files:
        return f"files({files.group(1)})"
    if str(relation.getClass().getSimpleName()) == "StreamingRelation":
        return name
    options = relation.extraOptions()
    identifying = [f"{key}={options.get(key)}" for key in _IDENTIFYING_OPTIONS if options.containsKey(key)]
    return f"{name}({', '.join(identifying)})" if identifying else name
