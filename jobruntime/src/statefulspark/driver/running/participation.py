"""The acknowledgements and declines of a snapshot's participants, as events of the coordinator.

A participant is a query, or a function or sink whose part is durable with the query's batches. It acknowledges with the last
batch that its query has committed. It declines when its query does not run, when its part of a batch could not be prepared
while the snapshot waited for that batch, or when its acknowledged state turns out to be unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statefulspark.coordinator import model
from statefulspark.driver.running.queries import RunningQuery


def answers(
    snapshot_id: int,
    now_s: float,
    *,
    participants: Mapping[str, str],
    running: Sequence[RunningQuery],
    is_ending: bool,
) -> tuple[model.Acknowledged | model.Declined, ...]:
    """Return the acknowledgement or decline of every participant.

    Args:
        snapshot_id: The snapshot.
        now_s: The monotonic time.
        participants: Their names, each with the query whose batches make it durable.
        running: The queries.
        is_ending: Whether the job is about to end, so that the snapshot could not be announced.
    """
    queries = {query.uid: query for query in running}
    return tuple(
        _answer(snapshot_id, now_s, name, queries[query_uid], is_ending=is_ending)
        for name, query_uid in participants.items()
    )


def _answer(
    snapshot_id: int, now_s: float, participant: str, query: RunningQuery, *, is_ending: bool
) -> model.Acknowledged | model.Declined:
    if is_ending or query.error is not None:
        why = f"the query {query.uid!r} is ending"
        reason = model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING
        return model.Declined(now_s, snapshot_id, participant, why, reason)
    if query.is_starting:
        why = f"the query {query.uid!r} is being restarted and does not run yet"
        reason = model.AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY
        return model.Declined(now_s, snapshot_id, participant, why, reason)
    return model.Acknowledged(now_s, snapshot_id, participant, query.committed_batch)
