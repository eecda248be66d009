"""What would be lost if the driver ended now, in sentences and numbers. Pure.

A driver that ends is followed by one that completes what was committed as a checkpoint and goes on after it
(docs/recovery.md), so state is never as old as the latest checkpoint. It does not read storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from statefulspark.contract import api, observations
from statefulspark.contract.observations import LossVerdict


def tell(status: api.JobStatus, batches: observations.Batches) -> observations.Losses:
    """Return what would be lost now.

    Args:
        status: The status of the job.
        batches: The newest batches of its queries.
    """
    checkpoint = status.last_checkpoint
    reported = {query.uid: query.batches for query in batches.queries}
    covered = checkpoint.batches if checkpoint is not None else {}
    queries = []
    for query in status.queries:
        checkpointed = covered.get(query.uid, -1)
        count = max(0, query.batch_id - checkpointed)
        newer = [batch for batch in reported.get(query.uid, ()) if checkpointed < batch.batch_id <= query.batch_id]
        queries.append(
            observations.QuerySinceCheckpoint(
                uid=query.uid,
                batches=count,
                rows=sum(batch.input_rows for batch in newer) if len(newer) == count else None,
                running_batch=query.batch_id + 1 if query.batch_since is not None else None,
            )
        )
    return observations.Losses(
        verdict=LossVerdict.UNKNOWN if status.state is api.JobState.STARTING else LossVerdict.NOTHING,
        sentences=tuple(_sentences(status)),
        checkpoint=checkpoint.id if checkpoint is not None else None,
        checkpoint_at=checkpoint.completed_at if checkpoint is not None else None,
        queries=tuple(queries),
        pending_transactions=_pending(status),
    )


def _sentences(status: api.JobStatus) -> Iterator[str]:
    match status.state:
        case api.JobState.STANDBY:
            yield "Nothing: a standby has no state of its own and writes nothing. The driver keeps the job's state."
        case api.JobState.STARTING:
            yield (
                "The driver writes nothing before its start is complete. Another start continues from the state on storage, "
                "which this driver is still reading."
            )
        case api.JobState.FENCED:
            yield "Nothing: a newer driver owns the job, and goes on after the newest committed batch."
        case api.JobState.STOPPED:
            yield "Nothing: all queries have ended, and everything they committed is in the snapshot of the stop."
        case api.JobState.RUNNING | api.JobState.STOPPING | api.JobState.FAILED:
            yield from _driver_sentences(status)
        case _:
            assert_never(status.state)


def _driver_sentences(status: api.JobStatus) -> Iterator[str]:
    committed = sorted(f"{query.uid} {query.batch_id}" for query in status.queries if query.batch_id >= 0)
    named = f" ({', '.join(committed)}, or later)" if committed else ""
    yield (
        f"No state: the next driver goes on after the newest committed batch{named}. Only a running batch is done again, "
        "from the same rows of its sources."
    )
    if not status.sinks:
        return
    checkpoint, pending = status.last_checkpoint, _pending(status)
    if pending:
        counted = "1 prepared transaction waits" if pending == 1 else f"{pending} prepared transactions wait"
        yield f"No output: {counted} for the next checkpoint; if this driver ends, the next one commits what is prepared."
    elif checkpoint is not None:
        yield f"No output: sinks have shown everything up to checkpoint {checkpoint.id}."
    if checkpoint is None:
        yield "No checkpoint has completed yet, so sinks that show output at checkpoints have shown none."


def _pending(status: api.JobStatus) -> int:
    return sum(sink.pending_transactions for sink in status.sinks)
