"""What a start is asked to restore, in the fewest words."""

from __future__ import annotations

from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig


def a_restore(snapshot: str | None = None, *, empty: bool = False, **words: object) -> RestoreConfig:
    """Return the request for a snapshot, for empty state, or for neither.

    Args:
        snapshot: URI of a savepoint, or `checkpoint:<id>`.
        empty: Whether empty state is requested.
        words: Other fields of the request.
    """
    source: dict[str, object] | None = {"empty": {}} if empty else None
    if snapshot is not None and snapshot.startswith(layout.CHECKPOINT_REFERENCE):
        source = {"checkpointID": int(snapshot.removeprefix(layout.CHECKPOINT_REFERENCE))}
    elif snapshot is not None:
        source = {"uri": snapshot}
    return RestoreConfig.model_validate({"source": source, **words})
