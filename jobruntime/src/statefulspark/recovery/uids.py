"""Queries are matched by uid: what a snapshot holds must have a place in the job. Pure.

Known before the queries are built, so it is asked first; operators and sources are compared in `evolution`.
"""

from __future__ import annotations

from collections.abc import Collection

from statefulspark import errors
from statefulspark.contract.manifest import QueryEntry


def require_place(queries: Collection[QueryEntry], label: str, *, query_uids: Collection[str]) -> None:
    """Refuse a start that would silently drop the state of a query (Flink A.167).

    Args:
        queries: What is to be restored.
        label: Names it in the error.
        query_uids: Queries of the job.

    Raises:
        SpecRejectedError: `NonRestoredState`: names every query without a place, and the way out.
    """
    lost = lost_queries(queries, query_uids=query_uids)
    if lost:
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"{label} holds state of {', '.join(lost)}, which the job does not have. Give the job back those uids, or set "
            "allowNonRestoredState to start without that state; it stays in the snapshot.",
        )


def lost_queries(queries: Collection[QueryEntry], *, query_uids: Collection[str]) -> tuple[str, ...]:
    """Name the queries with state that have no place in the job, for example `query 'delays'`.

    A query that has not committed anything has no state to lose.
    """
    return tuple(f"query {query.uid!r}" for query in queries if query.uid not in query_uids and query.batch_id >= 0)
