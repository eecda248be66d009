"""The plan of a query as the job declares it: Spark's plan, completed with the declarations of keyed operators."""

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
    """Plan a query and describe its state.

    Args:
        uid: The query's uid.
        stream: The stream that it writes.
        operators: Its keyed operators, as declared.
        partitions: Number of state partitions that the user asked for; None if the user gave none.

    Raises:
        InternalError: `PlanUnreadable`: Spark's plan contains something unknown. If Spark itself refuses the query, its
            error is the same as at the start of the query.
    """
    try:
        query_plan = probe.plan(stream.frame, stream.mode)
    except Py4JJavaError as error:
        first_line = str(error.java_exception.toString()).splitlines()[0]
        raise errors.InternalError(
            "PlanUnreadable", f"The plan of query {uid!r} could not be compared with its state: {first_line}"
        ) from error
    declared = {operator.uid: operator for operator in operators}
    planned_operators = []
    for planned in query_plan.operators:
        operator = declared.get(planned.uid or "")
        if operator is None:
            planned_operators.append(planned)
            continue
        states = operator.states
        entries = None if states is None else tuple(keyed_states.entry_of(state.meta) for state in states)
        planned_operators.append(
            replace(planned, max_parallelism=operator.max_parallelism, key=operator.key_type, states=entries)
        )
    return plans.PlannedQuery(
        uid=uid,
        operators=tuple(planned_operators),
        sources=query_plan.sources,
        time_zone=str(stream.frame.sparkSession.conf.get("spark.sql.session.timeZone")),
        partitions=partitions,
    )


def has_watermark(frame: DataFrame) -> bool:
    """Tell whether a stream has a watermark anywhere in its plan."""
    return "EventTimeWatermark" in str(frame._jdf.queryExecution().analyzed().toString())
