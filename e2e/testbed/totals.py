"""The truth about `jobs/totals.py`, from arithmetic alone, and the comparison with what was committed."""

from __future__ import annotations

from oracle import results

ROWS_PER_BATCH = 300
KEYS = 3

Row = tuple[int, int, int]
"""Key, how many values of it have been seen, their sum."""


def expected(position: int) -> frozenset[Row]:
    """Return the rows that the batch at a position must have written, however often anything was killed before it."""
    values = (position + 1) * ROWS_PER_BATCH
    return frozenset((key, len(range(key, values, KEYS)), sum(range(key, values, KEYS))) for key in range(KEYS))


def committed(store: results.ReadableStore) -> int:
    """Return the number of the last committed batch, -1 before the first."""
    return results.last_batch(store)


def differences(store: results.ReadableStore) -> list[str]:
    """Compare everything that was committed with the truth; an empty list means nothing lost, nothing repeated.

    A batch is known by its position: state that is repartitioned takes the number of a batch without output.

    Args:
        store: Rooted at the sink's folder.
    """
    batches = results.read_batches(store)
    found = [batch.batch_id for batch in batches]
    problems = [] if found == sorted(set(found)) else [f"The committed batches are {found}."]
    for position, batch in enumerate(batches):
        rows = sorted((int(str(row["key"])), int(str(row["count"])), int(str(row["total"]))) for row in batch.rows)
        if rows != sorted(expected(position)):
            problems.append(f"Batch {batch.batch_id} has {rows}; it must have {sorted(expected(position))}.")
    return problems
