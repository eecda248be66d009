"""Key groups and partitions: the first are fixed for the life of the state, the second may change at any restore. Pure.

A key is found in its group; with another number of groups the same key would be looked for elsewhere and its state would
seem to be gone (Flink A.67). Storage does not tell the number, so manifests carry it from start to start. Partitions hold
whole key groups, so more partitions than groups are refused (A.66).
"""

from __future__ import annotations

from collections.abc import Mapping

from statefulspark import errors
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.snapshot import plans

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of state partitions of a query that has none yet."""


def require_same_groups(query_uid: str, restored: OperatorEntry, declared: int | None) -> None:
    """Refuse an operator that looks for its keys in other key groups than its state has.

    Args:
        query_uid: Its query.
        restored: What is restored.
        declared: Key groups as the job declares them; None if it is not an operator of ours.

    Raises:
        SpecRejectedError: `MaxParallelismChanged`, naming the operator and both numbers.
    """
    groups = restored.max_parallelism
    if groups is not None and declared is not None and declared != groups:
        raise errors.SpecRejectedError(
            "MaxParallelismChanged",
            f"The state of operator {restored.uid!r} of query {query_uid!r} has {groups} key groups and the job declares "
            f"{declared}; set max_parallelism={groups} again. The number is fixed for the life of the state; a canonical "
            "savepoint can be restored with another.",
        )


def wanted_partitions(query: QueryEntry, planned: plans.PlannedQuery) -> int | None:
    """Return the number of partitions that the state has to be spread over anew; None if it may stay as it is.

    Args:
        query: What is restored.
        planned: The query as it would run; it says what was asked for.

    Raises:
        SpecRejectedError: `MaxParallelismExceeded`: more than an operator has key groups.
    """
    require_enough_groups(planned, planned.partitions)
    has = max((operator.partitions for operator in query.operators), default=0)
    return planned.partitions if planned.partitions is not None and has not in (0, planned.partitions) else None


def require_enough_groups(planned: plans.PlannedQuery, partitions: int | None) -> None:
    """Refuse more partitions than an operator has key groups.

    Raises:
        SpecRejectedError: `MaxParallelismExceeded`.
    """
    for operator in planned.operators:
        groups = operator.max_parallelism
        if groups is not None and partitions is not None and partitions > groups:
            raise errors.SpecRejectedError(
                "MaxParallelismExceeded",
                f"The state of operator {operator.entry_uid!r} of query {planned.uid!r} can not be restored with "
                f"{SHUFFLE_PARTITIONS}={partitions}: its maximum parallelism is {groups}, and a partition holds whole key "
                f"groups. Set it to {groups} or less.",
            )


def asked_for(settings: Mapping[str, str]) -> int | None:
    """Return the number of partitions that a user set; None if nobody did.

    Args:
        settings: The user's Spark settings.

    Raises:
        SpecRejectedError: `PartitionsInvalid`.
    """
    text = settings.get(SHUFFLE_PARTITIONS)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise errors.SpecRejectedError(
            "PartitionsInvalid", f"{SHUFFLE_PARTITIONS}={text!r} must be a whole number, 1 or more."
        )
    return int(text)
