"""The rule that selects the retained checkpoints, for the driver's coordinator and for pruning. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from statefulspark.contract.manifest import QueryEntry


def retained(ids: Collection[int], untried: Collection[int], number: int) -> tuple[int, ...]:
    """Return the newest checkpoints, and as many that count, newest first.

    A checkpoint counts when the driver that completed it has loaded the state of every query (`Manifest.untried`). Spark
    loads a query's state with its first batch, which may be long after the start of a query without input, or of a slow one.
    Until then the others complete checkpoints that all share the state that was restored; if that cannot be loaded, none of
    them can be used. So the checkpoints of before the start stay until every query has committed a batch.

    Args:
        ids: All that are complete, in any order.
        untried: Those that do not count.
        number: How many to retain, at least 1.
    """
    newest_first = sorted(ids, reverse=True)
    counted = [checkpoint_id for checkpoint_id in newest_first if checkpoint_id not in untried]
    kept = {*newest_first[:number], *counted[:number]}
    return tuple(checkpoint_id for checkpoint_id in newest_first if checkpoint_id in kept)


def restored_batches(queries: Sequence[QueryEntry]) -> Mapping[str, int]:
    """Return the batch of each query with state, by uid: Spark loads that state with the first batch after a start."""
    return {query.uid: query.batch_id for query in queries if query.operators and query.files}


def untried(restored: Mapping[str, int], batches: Mapping[str, int]) -> tuple[str, ...]:
    """Return the queries whose restored state nobody has loaded yet, sorted: they have not committed a batch since.

    Args:
        restored: See `restored_batches`.
        batches: The batches of a snapshot, by query; those of other participants may be among them.
    """
    return tuple(sorted(uid for uid, batch in restored.items() if batches.get(uid, batch) <= batch))
