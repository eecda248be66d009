"""Matches queries by uid: every query with state in a snapshot must exist in the job. Pure.

The uids are known before the queries are built, so this check comes first; `evolution` compares operators and sources.
"""

from __future__ import annotations

from collections.abc import Collection

from statefulspark import errors
from statefulspark.contract.manifest import QueryEntry


def require_no_lost_state(queries: Collection[QueryEntry], label: str, *, query_uids: Collection[str]) -> None:
    """Refuse a start that would silently drop the state of a query (Flink A.167).

    Args:
        queries: The queries to restore.
        label: Name of the snapshot in the error.
        query_uids: Queries of the job.

    Raises:
        SpecRejectedError: `NonRestoredState`: names every query that the job lacks, and what to do.
    """
    lost = lost_queries(queries, query_uids=query_uids)
    if lost:
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"{label} holds state of {', '.join(lost)}, which the job does not have. Give the job back those uids, or set "
            "allowNonRestoredState to start without that state; it stays in the snapshot.",
        )


def lost_queries(queries: Collection[QueryEntry], *, query_uids: Collection[str]) -> tuple[str, ...]:
    """Return the queries with state that the job does not have, for example `query 'delays'`.

    A query that has not committed anything has no state to lose.
    """
    return tuple(f"query {query.uid!r}" for query in queries if query.uid not in query_uids and query.batch_id >= 0)
