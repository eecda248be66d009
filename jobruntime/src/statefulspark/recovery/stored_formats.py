"""Whether the installed Spark reads the state as the Spark that wrote it meant it; asked before Spark opens any of it.

Spark reads state of an older release, and does not notice state of a newer one that has another form
(`sparkinternals.stateformats`). The offset log of each restored query says which forms its state has.
"""

from __future__ import annotations

from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import plans, sparklog
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery.plan import StartPlan
from statefulspark.sparkinternals import releases, stateformats


def require_readable(start_plan: StartPlan) -> None:
    """Refuse native state that the installed Spark would take for something else.

    Cost: a small file of each restored query, which the start has read before.

    Args:
        start_plan: The state that is restored.

    Raises:
        SpecRejectedError: `SparkOlderThanState`.
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    origin = start_plan.source or start_plan.head
    if origin is None or skeleton.is_canonical(origin.manifest):
        return
    for query in start_plan.queries:
        if query.batch_id < 0:
            continue
        key = origin.location.key(query, f"offsets/{query.batch_id}")
        pinned = sparklog.pinned_settings(origin.location.reader.read(key), f"{origin.location.store.uri}/{key}")
        stored = [
            stateformats.StoredOperator(
                operator.uid, operator.name, operator.key, is_own=not plans.has_generated_uid(operator)
            )
            for operator in query.operators
        ]
        for form, operator in stateformats.unreadable(pinned, stored):
            writer = start_plan.restored.versions.get("pyspark") if start_plan.restored else None
            snapshot = start_plan.restored_from or "the state on storage"
            written = f"{snapshot}, written by PySpark {writer}," if writer is not None else snapshot
            since = releases.text(form.since)
            raise errors.SpecRejectedError(
                "SparkOlderThanState",
                f"The state of {operator.uid!r} in query {query.uid!r} of {written} has {form.what}, which began with Spark "
                f"{since} ({form.setting}={pinned[form.setting]}, {form.ticket}). PySpark {releases.version()} is "
                f"installed, and would take it for something else. Start the job with PySpark {since} or newer; or give the "
                "query another uid, and name the old one in restore.dropState, to start it empty.",
            )


def other_spark(restored: Manifest | None) -> str | None:
    """Return which Spark has written a snapshot, as a sentence, if another one is installed."""
    written = restored.versions.get("pyspark") if restored is not None else None
    try:
        installed = releases.version()
    except errors.InternalError:  # Whoever reads storage needs no Spark.
        return None
    if restored is None or written in (None, installed):
        return None
    return f"{restored.label.capitalize()} was written by PySpark {written}, and PySpark {installed} is installed."
