"""What is pruned: only what the schedule made, and never the newest good one."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark_operator.api.savepoint_schedule import SavepointRetention
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.lifecycle.savepoints import retention
from statefulspark_operator.lifecycle.savepoints.retention import KeptSavepoint, Pruned

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_kept_savepoint(name: str, age_h: int, **changes: object) -> KeptSavepoint:
    savepoint = KeptSavepoint(name, SavepointOrigin.SCHEDULED, NOON - timedelta(hours=age_h), 100)
    return dataclasses.replace(savepoint, **changes)  # type: ignore[arg-type]


NEW, MIDDLE, OLD = a_kept_savepoint("new", 1), a_kept_savepoint("middle", 2), a_kept_savepoint("old", 3)
ALL = (MIDDLE, OLD, NEW)
MANUAL = {"origin": SavepointOrigin.MANUAL}


@pytest.mark.parametrize(
    ("savepoints", "limits", "pruned"),
    [
        pytest.param(ALL, {}, (), id="no limits"),
        pytest.param(
            ALL,
            {"count": 1},
            (Pruned("old", "1 newer ones are kept"), Pruned("middle", "1 newer ones are kept")),
            id="by count, the oldest first",
        ),
        pytest.param(ALL, {"maxAge": "150m"}, (Pruned("old", "it is older than 2h30m"),), id="by age"),
        pytest.param(
            ALL,
            {"maxAge": "1m"},
            (Pruned("old", "it is older than 1m"), Pruned("middle", "it is older than 1m")),
            id="all are too old: the newest stays",
        ),
        pytest.param(
            ALL, {"maxBytes": 250}, (Pruned("old", "with newer ones it is more than 250 bytes"),), id="by bytes"
        ),
        pytest.param(
            (dataclasses.replace(NEW, size_bytes=900), OLD),
            {"maxBytes": 250},
            (Pruned("old", "with newer ones it is more than 250 bytes"),),
            id="the newest alone is too large: it stays",
        ),
        pytest.param(
            (dataclasses.replace(NEW, is_good=False), MIDDLE, OLD),
            {"count": 1},
            (Pruned("old", "1 newer ones are kept"),),
            id="the newest is damaged: the newest good one stays, too",
        ),
        pytest.param(
            (NEW, MIDDLE, dataclasses.replace(OLD, is_named=True)),
            {"count": 1},
            (Pruned("middle", "1 newer ones are kept"),),
            id="one that a restore names stays",
        ),
        pytest.param(
            (NEW, a_kept_savepoint("hand", 2, **MANUAL), OLD),
            {"count": 1},
            (Pruned("old", "1 newer ones are kept"),),
            id="a person's is not touched",
        ),
        pytest.param(
            (a_kept_savepoint("hand", 0, **MANUAL), OLD),
            {"maxAge": "1h"},
            (Pruned("old", "it is older than 1h"),),
            id="a person's newer one is the newest good one",
        ),
    ],
)
def test_pruned_are(
    savepoints: tuple[KeptSavepoint, ...], limits: dict[str, object], pruned: tuple[Pruned, ...]
) -> None:
    assert retention.prune(savepoints, SavepointRetention.model_validate(limits), now=NOON) == pruned


SAVEPOINTS = st.lists(
    st.builds(
        KeptSavepoint,
        name=st.text("abcdefgh", min_size=1, max_size=4),
        origin=st.sampled_from([SavepointOrigin.SCHEDULED, SavepointOrigin.SCHEDULED, SavepointOrigin.MANUAL]),
        completed_at=st.integers(0, 100).map(lambda hours: NOON - timedelta(hours=hours)),
        size_bytes=st.integers(0, 1000),
        is_good=st.booleans(),
        is_named=st.sampled_from([False, False, True]),
    ),
    max_size=10,
    unique_by=lambda savepoint: savepoint.name,
)
LIMITS = st.builds(
    SavepointRetention,
    count=st.none() | st.integers(1, 5),
    max_age=st.none() | st.integers(0, 100).map(lambda hours: timedelta(hours=hours)),
    max_bytes=st.none() | st.integers(1, 3000),
)


@given(savepoints=SAVEPOINTS, limits=LIMITS, data=st.data())
def test_what_may_be_needed_stays_and_what_stays_is_within_the_limits(
    savepoints: list[KeptSavepoint], limits: SavepointRetention, data: st.DataObject
) -> None:
    pruned = {one.name for one in retention.prune(savepoints, limits, now=NOON)}
    kept = [one for one in savepoints if one.name not in pruned]
    good = [one for one in savepoints if one.is_good]

    assert not good or max(good, key=lambda one: (one.completed_at, one.name)) in kept
    assert all(one in kept for one in savepoints if one.is_named or one.origin is not SavepointOrigin.SCHEDULED)
    assert retention.prune(kept, limits, now=NOON) == ()
    shuffled = data.draw(st.permutations(savepoints))
    assert {one.name for one in retention.prune(shuffled, limits, now=NOON)} == pruned
    newest = max(good, key=lambda one: (one.completed_at, one.name), default=None)
    free = [one for one in kept if one.origin is SavepointOrigin.SCHEDULED and not one.is_named and one != newest]
    assert limits.count is None or len(free) <= limits.count
    assert limits.max_bytes is None or sum(one.size_bytes for one in free) <= limits.max_bytes
    assert all(limits.max_age is None or NOON - one.completed_at <= limits.max_age for one in free)
