"""State is matched by uid: what a snapshot holds must have a place in the job. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from statefulspark import errors
from statefulspark.contract.manifest import Manifest, QueryEntry

_WAY_OUT = (
    "Give the job back those uids, or set allowNonRestoredState to start without that state; it stays in the snapshot."
)


def check_uids(
    manifest: Manifest,
    *,
    query_uids: Collection[str],
    operator_uids: Mapping[str, Collection[str]] | None = None,
    allow_non_restored_state: bool = False,
) -> None:
    """Refuse a start that would silently drop state.

    Args:
        manifest: What is to be restored.
        query_uids: Queries of the job.
        operator_uids: Stateful operators of the job by query uid, as far as they are known; None checks queries only.
        allow_non_restored_state: The explicit word that state without a place is to be dropped.

    Raises:
        SpecRejectedError: `NonRestoredState`: names every uid without a place, and the way out.
    """
    if not allow_non_restored_state:
        require_place(manifest.queries, f"The {manifest.label}", query_uids=query_uids, operator_uids=operator_uids)


def require_place(
    queries: Collection[QueryEntry],
    label: str,
    *,
    query_uids: Collection[str],
    operator_uids: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Refuse queries and operators that the job does not have; see `check_uids`.

    Args:
        queries: What is to be restored.
        label: Names it in the error.
        query_uids: Queries of the job.
        operator_uids: See `check_uids`.

    Raises:
        SpecRejectedError: `NonRestoredState`.
    """
    lost = lost_uids(queries, query_uids=query_uids, operator_uids=operator_uids)
    if lost:
        raise errors.SpecRejectedError(
            "NonRestoredState", f"{label} holds state of {', '.join(lost)}, which the job does not have. {_WAY_OUT}"
        )


def lost_uids(
    queries: Collection[QueryEntry],
    *,
    query_uids: Collection[str],
    operator_uids: Mapping[str, Collection[str]] | None = None,
) -> tuple[str, ...]:
    """Name the state without a place in the job, for example `query 'delays'`, `operator 'mean' of query 'delays'`."""
    kept = [query for query in queries if query.uid in query_uids]
    lost = [query.uid for query in queries if query.uid not in query_uids and query.batch_id >= 0]
    operators = [
        f"operator {operator.uid!r} of query {query.uid!r}"
        for query in kept
        if operator_uids is not None and query.uid in operator_uids and query.batch_id >= 0
        for operator in query.operators
        if operator.uid not in operator_uids[query.uid]
    ]
    return (*(f"query {uid!r}" for uid in lost), *operators)
