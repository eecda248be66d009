"""Views of several key groups in turn: only the one in use is mapped, and none that rests is used."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark.state import cache, functions, heads

GROUPS, KEYS = 4, 400
POLICY = heads.Policy(fan_in=4, max_size_amplification=0.5, small_run_bytes=64)
NEVER_MERGED = heads.Policy(fan_in=1000, max_size_amplification=1000.0)
IN_FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)
ENOUGH = 1 << 30


class Texts:
    """A function with one text of some length for each key."""

    def declare(self, context: functions.BatchContext) -> None:
        self.text = context.value_state("text", str)


class Partition:
    """Key groups that one worker has in turn, and what their state should be."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self.texts, self.logs = Texts(), [MemoryLog() for _ in range(GROUPS)]
        self.truth: list[dict[int, str]] = [{} for _ in range(GROUPS)]
        self.disk = cache.DiskViews(folder)
        ids = new_ids()
        filler = Worker(self.texts.declare, ids)
        self.worker = Worker(self.texts.declare, ids, disk=self.disk, memory_bytes=memory_bytes)
        for group in range(GROUPS):
            self.batch(group, {key: f"{key:030}" for key in range(KEYS)}, by=filler)

    def batch(
        self,
        group: int,
        changes: dict[int, str],
        *,
        by: Worker | None = None,
        policy: heads.Policy = POLICY,
    ) -> None:
        """Run a batch that first reads the keys that it changes."""
        before, log = self.truth[group], self.logs[group]

        def work(context: functions.BatchContext) -> None:
            for key, text in changes.items():
                context.enter(key)
                assert self.texts.text.get() == before.get(key)
                self.texts.text.update(text)

        attempt = log.attempt()
        (by or self.worker).run(attempt, work, group=group, keys=list(changes), policy=policy)
        log.adopt(attempt)
        self.truth[group] = before | changes


@pytest.mark.parametrize("memory_bytes", [0, ENOUGH], ids=["on disk", "in memory"])
def test_key_groups_in_turn_are_each_read_as_they_were_left(tmp_path: Path, memory_bytes: int) -> None:
    partition, chance = Partition(tmp_path / "views", memory_bytes), random.Random(7)
    for number in range(60):
        for group in chance.sample(range(GROUPS), GROUPS):
            keys = chance.sample(range(KEYS + 5), 5)
            partition.batch(group, {key: f"{key:030} in {number}" for key in keys})


def test_views_that_come_back_into_memory_never_rest_again(tmp_path: Path) -> None:
    partition, chance = Partition(tmp_path / "views", memory_bytes=0), random.Random(8)
    for limit_bytes in (0, ENOUGH, 0, ENOUGH):
        partition.worker.cache.limit(limit_bytes)
        for number in range(3):
            for group in range(GROUPS):
                keys = chance.sample(range(KEYS), 5)
                partition.batch(group, {key: f"{key:030} in {number}" for key in keys})


def test_views_are_read_as_they_were_left_when_their_files_have_been_replaced(tmp_path: Path) -> None:
    partition, chance = Partition(tmp_path / "views", memory_bytes=0), random.Random(9)
    sizes = []
    for number in range(80):
        for group in range(2):
            keys = chance.sample(range(KEYS), 200)
            partition.batch(group, {key: f"{key:030} in {number}" for key in keys}, policy=NEVER_MERGED)
        sizes.append(partition.disk.used_bytes)
    assert any(after < before / 2 for before, after in itertools.pairwise(sizes)), "a file has been replaced"


def test_what_a_batch_wrote_in_full_is_beside_what_was_there_until_the_next_one(tmp_path: Path) -> None:
    partition = Partition(tmp_path / "views", memory_bytes=0)
    partition.batch(0, {1: "one"})
    before = partition.disk.used_bytes
    partition.batch(0, {2: "two"}, policy=IN_FULL)
    in_full = partition.disk.used_bytes
    partition.batch(0, {1: "three"})

    assert in_full > 1.7 * before
    assert partition.disk.used_bytes < 1.5 * before


def test_address_space_is_taken_by_the_view_in_use_alone(tmp_path: Path) -> None:
    partition = Partition(tmp_path / "views", memory_bytes=0)
    for number in range(3):
        for group in range(GROUPS):
            partition.batch(group, {1: f"{number:030}"})
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    assert len(mapped) <= 1
    assert partition.disk.used_bytes > GROUPS * KEYS * 30
