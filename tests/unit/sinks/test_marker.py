"""How far a sink has committed, and when a lost marker leaves a batch in doubt: pure rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sinkcontexts import a_sink_context
from statefulspark import errors
from statefulspark.sinks.kafka import sink as kafka
from statefulspark.sinks.marker import Marker, require_newest
from statefulspark.testing import stores

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DAY = timedelta(days=1)
CONTEXT = a_sink_context(generation=2, batch_id=5, epoch=3, committing_epoch=4, staging_uri="file:///tmp/staging")


@pytest.mark.parametrize(
    ("generation", "batch_id", "covered"),
    [
        pytest.param(2, 4, False, id="the batch before"),
        pytest.param(2, 5, True, id="the batch itself"),
        pytest.param(2, 6, True, id="a later batch"),
        pytest.param(1, 9, False, id="a later batch of the generation before"),
        pytest.param(3, -1, True, id="a newer generation without a batch"),
        pytest.param(0, -1, False, id="nothing"),
    ],
)
def test_positions_are_compared_by_generation_and_then_by_batch(generation: int, batch_id: int, covered: bool) -> None:
    assert Marker(generation=generation, batch_id=batch_id).covers(CONTEXT) is covered


def test_a_commit_moves_the_position_and_never_lowers_the_epoch() -> None:
    assert Marker(generation=1, batch_id=8, epoch=6).after(CONTEXT) == Marker(generation=2, batch_id=5, epoch=6)


def test_an_older_epoch_is_refused_and_the_same_one_is_not() -> None:
    require_newest(Marker(epoch=4), CONTEXT, "the topic clicks")
    with pytest.raises(errors.FencedError, match="Epoch 5 writes to the topic clicks now, so epoch 4 must not"):
        require_newest(Marker(epoch=5), CONTEXT, "the topic clicks")


@pytest.mark.parametrize(
    ("found", "noted", "expected"),
    [
        pytest.param(None, None, None, id="neither: the first start"),
        pytest.param(Marker(batch_id=3), None, Marker(batch_id=3), id="Kafka's alone"),
        pytest.param(
            Marker(batch_id=4), Marker(batch_id=3), Marker(batch_id=4), id="both: Kafka's, the note may be late"
        ),
        pytest.param(
            None, Marker(batch_id=3), Marker(batch_id=3, lost_at=NOW), id="the note alone: the marker was lost"
        ),
    ],
)
def test_the_marker_is_kafkas_or_else_the_notes(
    found: Marker | None, noted: Marker | None, expected: Marker | None
) -> None:
    assert kafka.recovered_marker(found, noted, NOW) == expected


@pytest.mark.parametrize(
    ("lost_at", "staged_at", "in_doubt"),
    [
        pytest.param(None, NOW - 30 * DAY, False, id="the marker was never lost"),
        pytest.param(NOW, NOW - 2 * DAY, True, id="staged so early that its commit may be forgotten"),
        pytest.param(NOW, NOW - DAY / 2, False, id="staged so late that its commit would be remembered"),
        pytest.param(NOW, NOW + DAY, False, id="staged after the loss"),
    ],
)
def test_only_a_batch_whose_commit_may_be_forgotten_is_in_doubt(
    lost_at: datetime | None, staged_at: datetime, in_doubt: bool
) -> None:
    assert kafka.is_in_doubt(Marker(lost_at=lost_at), staged_at, DAY) is in_doubt


def test_names_in_other_systems_keep_jobs_apart_whose_names_run_together() -> None:
    first, second = replace(CONTEXT, job="a-b/c"), replace(CONTEXT, job="a/b-c")
    assert first.transactional_id != second.transactional_id


def test_a_note_of_a_driver_that_was_replaced_does_not_take_the_position_back() -> None:
    store = stores.MemoryStore()
    newer = Marker(generation=1, batch_id=8, epoch=3)
    kafka.write_note(store, Marker(generation=1, batch_id=4, epoch=2))
    kafka.write_note(store, newer)

    kafka.write_note(store, Marker(generation=1, batch_id=5, epoch=2))

    assert Marker.model_validate_json(store.read(kafka.NOTE)) == newer


def test_a_note_of_a_later_release_stays_and_is_told_by_its_version() -> None:
    store = stores.MemoryStore()
    store.write(kafka.NOTE, b'{"formatVersion":2,"position":"elsewhere"}')

    with pytest.raises(errors.FormatVersionError, match=f"{kafka.NOTE} has format version 2"):
        kafka.write_note(store, Marker(generation=1, batch_id=5, epoch=2))

    assert store.read(kafka.NOTE) == b'{"formatVersion":2,"position":"elsewhere"}'


def test_a_note_that_is_overtaken_between_the_look_and_the_write_stays_away() -> None:
    store = stores.MemoryStore()
    kafka.write_note(store, Marker(generation=1, batch_id=4, epoch=2))
    newer = Marker(generation=1, batch_id=8, epoch=3)

    class Overtaken(stores.FaultyStore):
        def replace(self, key: str, body: bytes, *, etag: str) -> None:
            kafka.write_note(store, newer)
            super().replace(key, body, etag=etag)

    kafka.write_note(Overtaken(store), Marker(generation=1, batch_id=5, epoch=2))

    assert Marker.model_validate_json(store.read(kafka.NOTE)) == newer
