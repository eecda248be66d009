"""Key groups whose heads name chunks in packs: read as any others, and what leaves the head leaves nothing behind."""

from __future__ import annotations

import dataclasses

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.packs import names, packfile, ranges
from statefulspark.state import functions, heads, store

_IDS = new_ids()
_NEVER = heads.Policy(fan_in=100, max_size_amplification=1000.0)
_ALWAYS = heads.Policy(fan_in=100, max_size_amplification=0.0)
_PAIRS = heads.Policy(fan_in=2, max_size_amplification=1000.0)


class Totals:
    """Declares the state, as a function does when it is opened."""

    def __call__(self, context: functions.BatchContext) -> None:
        self.state = context.value_state("total")


def run(log: MemoryLog, *, policy: heads.Policy = _NEVER, **totals: int) -> None:
    """Set the totals of some keys in a batch of a worker of its own, which has nothing in memory."""
    declared = Totals()

    def work(context: functions.BatchContext) -> None:
        for key, value in totals.items():
            context.enter(key)
            declared.state.update(value)

    attempt = log.attempt()
    Worker(declared, _IDS).run(attempt, work, policy=policy)
    log.adopt(attempt)


def totals_of(log: MemoryLog) -> dict[object, object]:
    loaded = store.load(log, Worker(Totals(), _IDS).cache.for_operator("test", None), 0)
    (table,) = loaded.tables.tables.values()
    return dict(table.rows)


def packed(log: MemoryLog, *versions: int) -> MemoryLog:
    """Move chunks of a log into a pack, as a worker does that writes one."""
    head = log.head()
    assert head is not None
    reference = names.PackName(1, 0, 7, 1, "0123456789abcdef", names.Before(7, 7)).reference
    pack = packfile.build(
        reference, [ranges.PackedChunk(0, version, log.chunks.pop(version)[1]) for version in versions]
    )
    log.packs[reference] = pack.body
    where = dict(zip(versions, pack.ranges, strict=True))
    runs = tuple(dataclasses.replace(run, packed=where.get(run.version)) for run in head.runs)
    log.set_head(dataclasses.replace(head, runs=runs))
    return log


def a_log() -> MemoryLog:
    log = MemoryLog()
    run(log, a=1, b=2)
    run(log, b=3)
    run(log, c=4)
    return log


_TOTALS = {"a": 1, "b": 3, "c": 4}


@pytest.mark.parametrize("versions", [(1,), (2,), (1, 3), (1, 2, 3)], ids=str)
def test_a_group_is_built_from_chunks_in_packs_and_in_the_log(versions: tuple[int, ...]) -> None:
    assert totals_of(packed(a_log(), *versions)) == _TOTALS


@pytest.mark.parametrize("versions", [(1,), (2,), (1, 3), (1, 2, 3)], ids=str)
def test_a_group_that_is_written_in_full_leaves_its_packs(versions: tuple[int, ...]) -> None:
    log = packed(a_log(), *versions)
    run(log, policy=_ALWAYS, d=5)
    head = log.head()

    assert head is not None
    assert [run.packed for run in head.runs] == [None]
    assert (list(log.chunks), totals_of(log)) == ([4], {**_TOTALS, "d": 5})


def test_a_group_that_changes_still_names_what_is_in_packs() -> None:
    log = packed(a_log(), 1, 2)
    before = log.head()
    run(log, d=5)
    after = log.head()

    assert before is not None
    assert after is not None
    assert (after.runs[:3], after.runs[3].packed) == (before.runs, None)
    assert totals_of(log) == {**_TOTALS, "d": 5}


def test_small_runs_are_merged_from_wherever_they_are() -> None:
    log = packed(a_log(), 2)
    run(log, policy=_PAIRS, d=5)
    head = log.head()

    assert head is not None
    assert all(run.packed is None for run in head.runs)
    assert totals_of(log) == {**_TOTALS, "d": 5}


def test_a_damaged_chunk_in_a_pack_is_an_error_that_names_the_chunk() -> None:
    log = packed(a_log(), 1)
    log.packs = {reference: b"\0" * len(body) for reference, body in log.packs.items()}

    with pytest.raises(errors.SnapshotCorruptError, match="1 of key group 0"):
        totals_of(log)
