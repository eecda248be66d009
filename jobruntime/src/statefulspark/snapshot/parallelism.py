"""The number of key groups of each operator: fixed for the life of its state, and written into every manifest. Pure.

A key is found in its group; with another number of groups the same key would be looked for elsewhere and its state would
seem to be gone (Flink A.66, A.67). Storage does not tell the number, so manifests carry it from start to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from statefulspark import errors
from statefulspark.contract.manifest import QueryEntry


def annotate(entry: QueryEntry, declared: Mapping[str, int]) -> QueryEntry:
    """Write the number of key groups into a query's operators.

    Args:
        entry: The query, as closing over it found it.
        declared: Key groups by operator uid; operators that are not named stay as they are.
    """
    operators = tuple(
        operator.model_copy(update={"max_parallelism": declared.get(operator.uid, operator.max_parallelism)})
        for operator in entry.operators
    )
    return entry.model_copy(update={"operators": operators})


def inherit(entries: Iterable[QueryEntry], previous: Iterable[QueryEntry]) -> tuple[QueryEntry, ...]:
    """Carry the numbers of an earlier manifest over to queries that were closed over without a driver."""
    known = declared_in(previous)
    return tuple(annotate(entry, known.get(entry.uid, {})) for entry in entries)


def declared_in(entries: Iterable[QueryEntry]) -> dict[str, dict[str, int]]:
    """Return the key groups by operator uid by query uid, as far as they are known."""
    return {
        entry.uid: {one.uid: one.max_parallelism for one in entry.operators if one.max_parallelism is not None}
        for entry in entries
    }


def require_unchanged(restored: Iterable[QueryEntry], declared: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse a job that looks for its keys in other key groups than the state has.

    Args:
        restored: What is restored.
        declared: Key groups by operator uid by query uid, as the job declares them.

    Raises:
        SpecRejectedError: `MaxParallelismChanged`, naming the operator and both numbers.
    """
    for query, operators in declared_in(restored).items():
        for uid, groups in operators.items():
            wanted = declared.get(query, {}).get(uid, groups)
            if wanted != groups:
                raise errors.SpecRejectedError(
                    "MaxParallelismChanged",
                    f"The state of operator {uid!r} of query {query!r} has {groups} key groups and the job declares "
                    f"{wanted}; set max_parallelism={groups} again. The number is fixed for the life of the state.",
                )
