"""The numbers by which functions of `foreachBatch` know the batches of a generation. Pure.

Spark counts the batches of a generation on from those of the cut that it was made from. A generation that begins at an older
batch has other input than the batches that were counted before, so its numbers begin at the time when it was made, in
milliseconds: a batch takes longer than one, so they are above all that a generation before it has told, here or at another
root. The first generation of a job that begins empty has Spark's own numbers.
"""

from __future__ import annotations

from statefulspark.contract.config import SINKS_WORD
from statefulspark.contract.manifest import GenerationRecord


def offset(record: GenerationRecord, query_uid: str) -> int:
    """Return what is added to Spark's number of a batch.

    Args:
        record: The generation.
        query_uid: The query.
    """
    asked_for = [key for key in record.carried_out if not key.startswith(SINKS_WORD)]
    if record.generation == 1 and record.source is None and not asked_for:
        return 0
    began_after = next((query.batch_id for query in record.queries if query.uid == query_uid), -1)
    return int(record.created_at.timestamp() * 1000) - began_after - 1
