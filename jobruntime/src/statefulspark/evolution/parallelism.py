"""Key groups and partitions: the number of key groups is fixed for the life of the state, partitions may change. Pure.

A key is stored in its key group; with another number of groups the same key would be searched in another group, and its
state would seem to be lost (Flink A.67). Spark's files do not contain the number, so manifests do. Partitions hold whole
key groups, so more partitions than groups are refused (A.66).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.state import keygroups

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of state partitions of a query that has none yet."""


def require_same_groups(query_uid: str, restored: OperatorEntry, declared: int | None) -> None:
    """Refuse an operator with another number of key groups than its state.

    Args:
        query_uid: Uid of its query.
        restored: The restored operator.
        declared: The declared number of key groups; None for Spark's own operators.

    Raises:
        SpecRejectedError: `MaxParallelismChanged`, naming the operator and both numbers.
    """
    groups = restored.max_parallelism
    if groups is not None and declared is not None and declared != groups:
        raise errors.SpecRejectedError(
            "MaxParallelismChanged",
            f"The state of operator {restored.uid!r} of query {query_uid!r} has {groups} key groups and the job declares "
            f"{declared}; leave max_parallelism out, which keeps that number, or set max_parallelism={groups}. The "
            "number is fixed for the life of the state; a canonical savepoint can be restored with another.",
        )


def changed_partitions(query: QueryEntry, planned: plans.PlannedQuery) -> int | None:
    """Return the new number of partitions if the state must be repartitioned; None if it stays unchanged.

    Args:
        query: The restored query.
        planned: The query as it would run, with the requested number.
    """
    present = plans.partitions_of(query)
    return planned.partitions if planned.partitions is not None and present not in (0, planned.partitions) else None


def require_enough_groups(planned: plans.PlannedQuery, restored: QueryEntry | None) -> None:
    """Refuse more partitions than an operator has key groups.

    Args:
        planned: The query as it would run, with the requested number.
        restored: The restored query; None if it has no state.

    Raises:
        SpecRejectedError: `MaxParallelismExceeded`; the message says whether the state or the job sets the number.
    """
    stated = (
        {operator.uid: operator for operator in restored.operators}
        if restored is not None and restored.batch_id >= 0
        else {}
    )
    partitions = planned.partitions
    for operator in planned.operators:
        groups, old = operator.max_parallelism, stated.get(operator.entry_uid)
        if old is not None and old.max_parallelism not in (None, groups):
            continue  # Refused by `require_same_groups`, since the state has another number.
        if groups is not None and partitions is not None and partitions > groups:
            name = f"operator {operator.entry_uid!r} of query {planned.uid!r}"
            default = keygroups.default_max_parallelism(partitions)
            if old is None:
                advice = (
                    f"Leave max_parallelism out, which makes it {default}, or set" if default >= partitions else "Set"
                )
                message = (
                    f"The job gives {name} max_parallelism={groups} and asks for {SHUFFLE_PARTITIONS}={partitions}; a "
                    f"partition holds whole key groups. {advice} {SHUFFLE_PARTITIONS} to {groups} or less."
                )
            else:
                message = (
                    f"The state of {name} can not be restored with {SHUFFLE_PARTITIONS}={partitions}: its maximum "
                    f"parallelism is {groups}, and a partition holds whole key groups. Set {SHUFFLE_PARTITIONS} to {groups} "
                    "or less"
                )
                if old.max_parallelism is None and default >= partitions:
                    message += f", or max_parallelism={default}, which a canonical savepoint can be restored with"
                message += "."
            raise errors.SpecRejectedError("MaxParallelismExceeded", message)


def requested_partitions(settings: Mapping[str, str]) -> int | None:
    """Return the number of partitions that the user set; None if it is not set.

    Args:
        settings: The user's Spark settings.

    Raises:
        SpecRejectedError: `PartitionsInvalid`.
    """
    text = settings.get(SHUFFLE_PARTITIONS)
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text.strip()) is None or int(text) < 1:
        raise errors.SpecRejectedError(
            "PartitionsInvalid", f"{SHUFFLE_PARTITIONS}={text!r} must be a whole number, 1 or more."
        )
    return int(text)
