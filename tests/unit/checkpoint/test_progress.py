"""How work is counted for somebody who waits: from zero to the end, in the order in which it is done."""

from __future__ import annotations

from statefulspark.checkpoint import progress
from statefulspark.contract.api import Progress


def test_files_are_counted_in_any_order_with_their_bytes() -> None:
    told: list[Progress] = []
    count = progress.FileCount([10, 20, 30], told.append)

    count.add((30,))
    count.add((10, 20))

    assert [(one.done, one.done_bytes) for one in told] == [(0, 0), (1, 30), (3, 60)]
    assert {(one.unit, one.total, one.total_bytes) for one in told} == {("files", 3, 60)}


def test_copies_are_counted_by_their_number() -> None:
    told: list[Progress] = []

    on_files = progress.count_files([10, 20], told.append)
    on_files(1)
    on_files(2)

    assert [(one.done, one.done_bytes) for one in told] == [(0, 0), (1, 10), (2, 30)]


def test_units_without_a_size_are_counted_one_by_one() -> None:
    told: list[Progress] = []

    is_done = progress.count_units("queries", 2, told.append)
    is_done()
    is_done()

    assert told == [Progress(unit="queries", done=done, total=2) for done in range(3)]


def test_what_nobody_waits_for_is_told_to_nobody() -> None:
    progress.FileCount([10], progress.ignore_steps("Verifying")).add((10,))
