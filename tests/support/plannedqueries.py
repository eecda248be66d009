"""Builders of the plans of queries, as the probe of a start finds them."""

from __future__ import annotations

from collections.abc import Sequence

from manifests import TRANSFORM_WITH_STATE
from statefulspark.checkpoint import plans


def a_planned_query(
    *operators: plans.PlannedOperator,
    uid: str = "q",
    sources: Sequence[plans.PlannedSource] = (),
    time_zone: str = "UTC",
    partitions: int | None = None,
) -> plans.PlannedQuery:
    """Build the plan of a query."""
    return plans.PlannedQuery(uid, operators, tuple(sources), time_zone, partitions)


def a_planned_operator(uid: str | None, place: int = 0, **known: object) -> plans.PlannedOperator:
    """Build an operator of a plan; `name` is that of our own operator unless it is known."""
    name = str(known.pop("name", TRANSFORM_WITH_STATE))
    return plans.PlannedOperator(place, name, uid=uid, **known)  # type: ignore[arg-type]
