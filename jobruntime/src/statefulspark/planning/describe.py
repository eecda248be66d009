"""The plan of a query as the job declares it: what Spark plans, completed by what only the job knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.evolution import keyed_states
from statefulspark.operators.keyed import registry
from statefulspark.planning import carry, probe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def describe(
    uid: str, stream: carry.Stream, operators: tuple[registry.Operator, ...], *, partitions: int | None
) -> plans.PlannedQuery:
    """Plan a query and say what its state looks like.

    Args:
        uid: The query's uid.
        stream: What it writes.
        operators: Its keyed operators, as declared.
        partitions: How many state partitions the user asked for; None if nobody did.

    Raises:
        InternalError: `PlanUnreadable`: Spark planned something that is not known here. What Spark itself refuses, it
            refuses as it would when the query starts.
    """
    try:
        shape = probe.plan(stream.frame, stream.mode)
    except Py4JJavaError as error:
        first = str(error.java_exception.toString()).splitlines()[0]
        raise errors.InternalError(
            "PlanUnreadable", f"The plan of query {uid!r} could not be compared with its state: {first}"
        ) from error
    declared = {operator.uid: operator for operator in operators}
    return plans.PlannedQuery(
        uid=uid,
        operators=tuple(_completed(operator, declared.get(operator.uid or "")) for operator in shape.operators),
        sources=shape.sources,
        time_zone=str(stream.frame.sparkSession.conf.get("spark.sql.session.timeZone")),
        partitions=partitions,
    )


def _completed(operator: plans.PlannedOperator, declared: registry.Operator | None) -> plans.PlannedOperator:
    if declared is None:
        return operator
    states = declared.states
    entries = None if states is None else tuple(keyed_states.entry_of(state.meta) for state in states)
    return replace(operator, max_parallelism=declared.max_parallelism, key=declared.key_type, states=entries)


def has_watermark(frame: DataFrame) -> bool:
    """Tell whether a stream has a watermark anywhere in its plan."""
    return "EventTimeWatermark" in str(frame._jdf.queryExecution().analyzed().toString())
