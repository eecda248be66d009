"""The numbers that functions of foreachBatch are told: one never stands for two inputs, and they only grow."""

from __future__ import annotations

from datetime import timedelta

import pytest
from manifests import NEW_YEAR, a_generation, a_query
from statefulspark.contract.manifest import GenerationRecord
from statefulspark.recovery import numbers

NOW_MS = int(NEW_YEAR.timestamp() * 1000)


def begun(number: int, *, after: int | None = None, source: str | None = None, **more: object) -> GenerationRecord:
    """Build a generation that was made at New Year, with a query that goes on after a batch."""
    queries = () if after is None else (a_query(uid="delays", batch_id=after),)
    return a_generation(number, source=source, queries=queries, created_at=NEW_YEAR, **more)


@pytest.mark.parametrize(
    ("generation", "first", "told"),
    [
        pytest.param(begun(1), 0, 0, id="a new job has Spark's numbers"),
        pytest.param(begun(1, carried_out=("fresh",)), 0, NOW_MS, id="a fresh start at a root whose state was deleted"),
        pytest.param(
            begun(1, carried_out=("repeatOutputOf start delays/out",)), 0, 0, id="a new job that has used a right"
        ),
        pytest.param(begun(1, after=4, source="s3://b/sp"), 5, NOW_MS, id="a savepoint at another root"),
        pytest.param(begun(2, after=4, source="checkpoint:1"), 5, NOW_MS, id="an older checkpoint"),
        pytest.param(begun(3, carried_out=("fresh",)), 0, NOW_MS, id="a fresh start"),
        pytest.param(begun(2, after=-1, source="checkpoint:1"), 0, NOW_MS, id="a query without a commit"),
    ],
)
def test_the_first_batch_of_a_generation_is_told(generation: GenerationRecord, first: int, told: int) -> None:
    assert first + numbers.offset(generation, "delays") == told


def test_a_query_that_was_added_later_has_numbers_above_those_before() -> None:
    assert numbers.offset(begun(2, after=4, source="checkpoint:1"), "added") == NOW_MS


def test_numbers_are_above_all_that_the_generation_before_has_told() -> None:
    first = begun(2, after=4, source="checkpoint:1")
    second = first.model_copy(update={"generation": 3, "created_at": NEW_YEAR + timedelta(hours=1)})
    batches_of_an_hour = 3_600_000

    assert 5 + numbers.offset(second, "delays") >= 5 + batches_of_an_hour + numbers.offset(first, "delays")
