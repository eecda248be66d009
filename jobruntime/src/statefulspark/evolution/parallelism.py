"""Key groups and partitions: the first are fixed for the life of the state, the second may change at any restore. Pure.

A key is found in its group; with another number of groups the same key would be looked for elsewhere and its state would
seem to be gone (Flink A.67). Storage does not tell the number, so manifests carry it from start to start. Partitions hold
whole key groups, so more partitions than groups are refused (A.66).
"""

from __future__ import annotations

from collections.abc import Mapping

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.state import keygroups

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
            f"{declared}; leave max_parallelism out, which keeps what the state has, or set max_parallelism={groups}. The "
            "number is fixed for the life of the state; a canonical savepoint can be restored with another.",
        )


def wanted_partitions(query: QueryEntry, planned: plans.PlannedQuery) -> int | None:
    """Return the number of partitions that the state has to be spread over anew; None if it may stay as it is.

    Args:
        query: What is restored.
        planned: The query as it would run; it says what was asked for.
    """
    has = max((operator.partitions for operator in query.operators), default=0)
    return planned.partitions if planned.partitions is not None and has not in (0, planned.partitions) else None


def require_enough_groups(planned: plans.PlannedQuery, restored: QueryEntry | None) -> None:
    """Refuse more partitions than an operator has key groups.

    Args:
        planned: The query as it would run; it says what was asked for.
        restored: What is restored of it; None if nothing is.

    Raises:
        SpecRejectedError: `MaxParallelismExceeded`; the message tells state that has a number from a job that gives one.
    """
    stated = {one.uid: one for one in restored.operators} if restored is not None and restored.batch_id >= 0 else {}
    partitions = planned.partitions
    for operator in planned.operators:
        groups, old = operator.max_parallelism, stated.get(operator.entry_uid)
        if old is not None and old.max_parallelism not in (None, groups):
            continue  # refused for that: what was asked for is no number of this state
        if groups is not None and partitions is not None and partitions > groups:
            name = f"operator {operator.entry_uid!r} of query {planned.uid!r}"
            told = _new_exceeded(name, groups, partitions) if old is None else _exceeded(name, old, groups, partitions)
            raise errors.SpecRejectedError("MaxParallelismExceeded", told)


def _exceeded(name: str, old: OperatorEntry, groups: int, partitions: int) -> str:
    sentence = (
        f"The state of {name} can not be restored with {SHUFFLE_PARTITIONS}={partitions}: its maximum parallelism is "
        f"{groups}, and a partition holds whole key groups. Set {SHUFFLE_PARTITIONS} to {groups} or less"
    )
    wanted = keygroups.default_max_parallelism(partitions)
    if old.max_parallelism is None and wanted >= partitions:
        return f"{sentence}, or max_parallelism={wanted}, which a canonical savepoint can be restored with."
    return f"{sentence}."


def _new_exceeded(name: str, groups: int, partitions: int) -> str:
    wanted = keygroups.default_max_parallelism(partitions)
    way_out = f"Leave max_parallelism out, which makes it {wanted}, or set" if wanted >= partitions else "Set"
    return (
        f"The job gives {name} max_parallelism={groups} and asks for {SHUFFLE_PARTITIONS}={partitions}; a partition holds "
        f"whole key groups. {way_out} {SHUFFLE_PARTITIONS} to {groups} or less."
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
