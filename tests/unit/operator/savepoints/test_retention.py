"""What is pruned: only what the operator made by itself, and never the newest good one."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark_operator.api.savepoint_schedule import SavepointRetention
from statefulspark_operator.api.spark_savepoint import AUTOMATIC, SavepointOrigin
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
        pytest.param(ALL, {}, (), id="fewer than by default"),
        pytest.param(
            tuple(a_kept_savepoint(f"{age:02}", age) for age in range(12)),
            {},
            (Pruned("11", "10 newer ones are kept"), Pruned("10", "10 newer ones are kept")),
            id="more than by default",
        ),
        pytest.param(
            tuple(
                a_kept_savepoint(origin.value, age, origin=origin)
                for age, origin in enumerate(sorted(SavepointOrigin, key=lambda origin: (origin in AUTOMATIC, origin)))
            ),
            {"count": 1},
            tuple(Pruned(name, "1 newer ones are kept") for name in ("Upgrade", "Stop", "Scheduled")),
            id="of each origin: what people asked for or adopted stays, and is not counted",
        ),
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
        pytest.param(ALL, {"maxSize": 250}, (Pruned("old", "with newer ones it is more than 250"),), id="by size"),
        pytest.param(
            (dataclasses.replace(NEW, size_bytes=900), OLD),
            {"maxSize": "0.25k"},
            (Pruned("old", "with newer ones it is more than 0.25k"),),
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
            id="one that a start or a rollback may go back to stays",
        ),
        pytest.param(
            (NEW, MIDDLE, dataclasses.replace(OLD, is_reachable=False)),
            {"count": 1},
            (Pruned("middle", "1 newer ones are kept"),),
            id="one that is where the job keeps none stays",
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
        origin=st.sampled_from([*AUTOMATIC, SavepointOrigin.MANUAL, SavepointOrigin.ADOPTED]),
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
    count=st.integers(1, 5),
    max_age=st.none() | st.integers(0, 100).map(lambda hours: timedelta(hours=hours)),
    max_size=st.none() | st.integers(1, 3000).map(str),
)


@given(savepoints=SAVEPOINTS, limits=LIMITS, data=st.data())
def test_what_may_be_needed_stays_and_what_stays_is_within_the_limits(
    savepoints: list[KeptSavepoint], limits: SavepointRetention, data: st.DataObject
) -> None:
    pruned = {one.name for one in retention.prune(savepoints, limits, now=NOON)}
    kept = [one for one in savepoints if one.name not in pruned]
    good = [one for one in savepoints if one.is_good]

    assert not good or max(good, key=lambda one: (one.completed_at, one.name)) in kept
    assert all(one in kept for one in savepoints if one.is_named or one.origin not in AUTOMATIC)
    assert retention.prune(kept, limits, now=NOON) == ()
    shuffled = data.draw(st.permutations(savepoints))
    assert {one.name for one in retention.prune(shuffled, limits, now=NOON)} == pruned
    newest = max(good, key=lambda one: (one.completed_at, one.name), default=None)
    free = [one for one in kept if one.origin in AUTOMATIC and not one.is_named and one != newest]
    assert len(free) <= limits.count
    assert limits.max_size is None or sum(one.size_bytes for one in free) <= int(limits.max_size)
    assert all(limits.max_age is None or NOON - one.completed_at <= limits.max_age for one in free)
