"""What would be lost if the driver ended now, in sentences. Pure.

A driver that ends is followed by one that completes what was committed as a checkpoint and goes on after it
(docs/recovery.md), so state is never as old as the latest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark.contract.exit_codes import ExitCode

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import Phase
from statefulspark_operator.kubectl import text
from statefulspark_operator.kubectl.view import View


def tell(view: View) -> tuple[str, ...]:
    """Return what would be lost now.

    Args:
        view: The job.

    Returns:
        One sentence for each thing that could be lost, the state of the job first; never empty.
    """
    if view.spec is not None and view.spec.deletion_policy is DeletionPolicy.DELETE:
        deletion = "Everything, including its savepoints, if the job is deleted: deletionPolicy is Delete."
        return (*_state(view), deletion)
    return tuple(_state(view))


def _state(view: View) -> Iterator[str]:
    phase, driver = view.status.phase, view.status.driver
    exit_code = driver.exit_code if driver is not None else None
    if view.says(ConditionType.STORAGE_REACHABLE, ConditionStatus.FALSE):
        condition = view.status.condition(ConditionType.STORAGE_REACHABLE)
        since = f" for {text.elapsed(view.now, condition.last_transition_time)}" if condition is not None else ""
        yield f"Unknown: storage has not been readable{since}. The operator starts no driver until it is."
    elif phase is Phase.STALLED and exit_code in (ExitCode.STATE_UNKNOWN, ExitCode.SNAPSHOT_NOT_FOUND):
        yield "Unknown: the last driver could not read the state. It changed nothing."
    elif phase is Phase.STALLED and driver is not None and driver.end_reason == "StateOwnedByAnother":
        yield "Nothing: the state there belongs to another resource, and this job starts no driver until you decide."
    elif phase is None:
        yield "Nothing: the job has not been started."
    elif view.live_driver is None and phase in (Phase.SUSPENDED, Phase.STOPPED):
        restore, checkpoint = view.status.restore, view.status.last_checkpoint
        source = f"checkpoint {checkpoint.id}" if checkpoint is not None else "what is on storage"
        if restore is not None and restore.starts_empty:
            source = "empty state, as the spec requests"
        elif restore is not None and restore.snapshot is not None:
            source = restore.snapshot
        yield f"Nothing: no driver runs. A start continues from {source}."
    else:
        yield from _running(view)


def _running(view: View) -> Iterator[str]:
    committed = {query.uid: query.batch for query in view.status.queries if query.batch >= 0}
    batches = ", ".join(f"{query} {batch}" for query, batch in sorted(committed.items()))
    named = f" ({batches}, or later)" if committed else ""
    yield f"No state: the next driver continues after the newest committed batch{named}. It repeats only a running batch."
    checkpoint, savepoint = view.status.last_checkpoint, view.status.last_savepoint
    if checkpoint is None:
        yield "No checkpoint has completed yet, so sinks that show output at checkpoints have shown none."
        return
    yield (
        f"Output of sinks that show it at checkpoints is as old as checkpoint {checkpoint.id} "
        f"({text.ago(view.now, checkpoint.completed_at)}); it is kept, not lost."
    )
    if savepoint is not None:
        age = text.elapsed(view.now, savepoint.completed_at)
        behind = {query: batch - savepoint.batches.get(query, batch) for query, batch in sorted(committed.items())}
        undone = ", ".join(f"{count} batches of {query}" for query, count in behind.items() if count > 0)
        yield f"Going back to savepoint {savepoint.id} would undo {age}{f': {undone}' if undone else ''}."
