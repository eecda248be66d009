"""What is measured while a snapshot is written."""

from __future__ import annotations

import pytest
from fakecontrol import a_summary
from manifests import a_query
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver import status


def of_sizes(**sizes: int) -> QueryEntry:
    return a_query("counts", files=sizes)


class _Clock:
    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def _fail_after_a_second(watch: status.Stopwatch, clock: _Clock) -> None:
    with watch.phase("copy"):
        clock.now_s += 1
        raise RuntimeError("the store said no")


def test_phases_are_timed_and_added_up_also_when_they_fail() -> None:
    clock = _Clock()
    watch = status.Stopwatch(clock)

    for _ in range(2):
        with watch.phase("closure"):
            clock.now_s += 0.25
    with pytest.raises(RuntimeError, match="the store said no"):
        _fail_after_a_second(watch, clock)

    assert watch.phases_ms == {"closure": 500, "copy": 1000}


def test_only_files_that_the_checkpoint_before_did_not_have_are_new() -> None:
    growth = status.Growth((of_sizes(a=1, b=2),))

    new = [
        growth.new_bytes((one,))
        for one in (
            of_sizes(b=2, c=4),
            of_sizes(b=2, c=4),
            of_sizes(a=1, c=4),
        )
    ]

    assert new == [4, 0, 1]


def test_without_anything_restored_the_first_checkpoint_is_all_new() -> None:
    assert status.Growth().new_bytes((of_sizes(a=1, b=2), a_query("empty", batch_id=-1))) == 3


def test_a_summary_tells_what_was_measured() -> None:
    watch = status.Stopwatch(_Clock())
    with watch.phase("manifest"):
        pass

    told = status.measured(a_summary(), (of_sizes(a=1, b=2),), 2, watch)

    assert (told.files, told.incremental_size_bytes, told.phases_ms) == (2, 2, {"manifest": 0})
    assert told.model_copy(update={"files": None, "incremental_size_bytes": None, "phases_ms": None}) == a_summary()
