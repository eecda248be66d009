"""Whether the installed Spark reads the state as the Spark that wrote it meant it; asked before Spark opens any of it.

Spark reads state of an older release, and does not notice state of a newer one that has another form
(`sparkinternals.stateformats`). The offset log of each restored query says which forms its state has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from statefulspark import errors
from statefulspark.checkpoint import plans, sparklog
from statefulspark.contract.manifest import Manifest, QueryEntry
from statefulspark.recovery.plan import StartPlan
from statefulspark.sparkinternals import releases, stateformats


def require_readable(start_plan: StartPlan) -> None:
    """Refuse state that the installed Spark would take for something else.

    A canonical savepoint is no way around: the state of Spark's own operators keeps its form in it.
    Cost: a small file of each restored query, which the start has read before.

    Args:
        start_plan: The state that is restored.

    Raises:
        SpecRejectedError: `SparkOlderThanState`.
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    for query, pinned in _pinned(start_plan, start_plan.queries):
        for form, operator in stateformats.unreadable(pinned, stored_operators(query)):
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


def require_spreadable(start_plan: StartPlan, changed: Mapping[str, int]) -> None:
    """Refuse another number of partitions for state that Spark's rewriter would write in a form that no query reads.

    Args:
        start_plan: The state that is restored.
        changed: The new number of partitions, by uid of the query.

    Raises:
        SpecRejectedError: `PartitionsChanged`.
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    for query, pinned in _pinned(start_plan, [query for query in start_plan.queries if query.uid in changed]):
        for form, operator in stateformats.rewritten_wrongly(pinned, stored_operators(query)):
            raise errors.SpecRejectedError(
                "PartitionsChanged",
                f"The state of {operator.uid!r} in query {query.uid!r} has {form.what} "
                f"({form.setting}={pinned[form.setting]}), which Spark cannot spread over another number of partitions. "
                f"Leave spark.sql.shuffle.partitions={changed[query.uid]} out; or give the query another uid, and name "
                "the old one in restore.dropState, to start it empty.",
            )


def stored_operators(query: QueryEntry) -> list[stateformats.StoredOperator]:
    """Return what decides about the form of the state of each operator."""
    return [
        stateformats.StoredOperator(entry.uid, entry.name, entry.key, is_own=not plans.has_generated_uid(entry))
        for entry in query.operators
    ]


def _pinned(start_plan: StartPlan, queries: Iterable[QueryEntry]) -> Iterator[tuple[QueryEntry, Mapping[str, str]]]:
    """Yield each of some restored queries that has committed a batch, with the settings that its offsets pin."""
    origin = start_plan.source or start_plan.head
    for query in queries:
        if origin is not None and query.batch_id >= 0:
            key = origin.location.key(query, f"offsets/{query.batch_id}")
            body = origin.location.reader.read(key)
            yield query, sparklog.pinned_settings(body, f"{origin.location.store.uri}/{key}")


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
