"""The numbers by which functions of `foreachBatch` know the batches of a generation, and which rows come again. Pure.

Spark counts the batches of a generation on from those of the cut that it was made from. A generation that begins at an older
batch has other input than the batches that were counted before, so its numbers begin at the time when it was made, in
milliseconds: a batch takes longer than one, so they are above all that a generation before it has told, here or at another
root. The first generation of a job that begins empty has Spark's own numbers.
"""

from __future__ import annotations

from statefulspark.contract import rights
from statefulspark.contract.manifest import GenerationRecord


def offset(record: GenerationRecord, query_uid: str) -> int:
    """Return what is added to Spark's number of a batch.

    Args:
        record: The generation.
        query_uid: The query.
    """
    if _begins_job(record):
        return 0
    began_after = next((query.batch_id for query in record.queries if query.uid == query_uid), -1)
    return int(record.created_at.timestamp() * 1000) - began_after - 1


def may_repeat_rows(record: GenerationRecord) -> bool:
    """Tell whether a sink of Spark's own may have rows that a generation reads again, as far as its record tells.

    It may if the job goes back. It may, too, if the state comes from another root: the job there may have gone on after the
    cut, and nobody here can ask it.

    Args:
        record: The generation.
    """
    if _begins_job(record):
        return False
    return record.goes_back or (record.cut is not None and record.cut.lineage != record.lineage)


def _begins_job(record: GenerationRecord) -> bool:
    """Tell whether a generation is the first one of a job, which nobody has asked to begin anew."""
    asked_for = [key for key in record.carried_out if not rights.is_key(key)]
    return record.generation == 1 and record.source is None and not asked_for
