"""What every two-phase sink keeps, in front of the real system: each record once for a reader of committed data.

The sink's driver is killed with SIGKILL at the calls that matter, in a process of its own; afterwards a new driver opens the
sink and commits the same prepared batch, as a recovery does (A.48: prepared transactions of the restored snapshot are
committed again, and committing again changes nothing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import processes
import pytest
import sinkworlds
from s3server import S3Server
from sinkcontexts import OWN, by_epoch
from sinkworlds import Drivers, World
from statefulspark import errors
from statefulspark.sinks.standing import SinkLineage

MARKED = ("kafka", "postgres", "iceberg")
KINDS = ("files", *MARKED)
IDS = list(range(1, 101))

When = Literal["before", "after"]
POINTS: Mapping[str, tuple[tuple[str, When], ...]] = {
    "files": (("publish", "before"), ("create", "before"), ("create", "after"), ("publish", "after")),
    "kafka": (
        ("begin_transaction", "before"),
        ("produce", "after"),
        ("send_offsets_to_transaction", "before"),
        ("commit_transaction", "before"),
        ("commit_transaction", "after"),
        ("_write_note", "after"),
    ),
    "postgres": (
        ("_lock_marker", "before"),
        ("write_row", "after"),
        ("_update_marker", "before"),
        ("_update_marker", "after"),
        ("commit", "after"),
    ),
    "iceberg": (
        ("set_properties", "before"),
        ("append_data_file", "after"),
        ("commit_transaction", "before"),
        ("commit_table", "before"),
        ("commit_table", "after"),
    ),
}
CRASHES = [pytest.param(kind, *point, id=f"{kind}: {point[1]} {point[0]}") for kind in KINDS for point in POINTS[kind]]


@pytest.fixture
def world(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> World:
    return sinkworlds.of_kind(request, s3, tmp_path)


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with processes.serving(Drivers(tmp_path_factory.mktemp("drivers"))) as started:
        yield started


every_sink = pytest.mark.parametrize("world", KINDS, indirect=True)
every_marked_sink = pytest.mark.parametrize("world", MARKED, indirect=True)
"""Those with a marker in another system: it fences, and a batch without rows needs no transaction."""


@every_sink
def test_rows_are_invisible_until_the_commit_and_there_once_after_it(world: World) -> None:
    first = world.at(0)
    world.sink.open(first)
    prepared = world.prepared(first, IDS)
    before = world.read()
    world.sink.commit(prepared, first)
    assert (before, world.read(), world.left()) == ([], IDS, ())


@every_sink
def test_committing_again_changes_nothing_in_this_driver_nor_in_the_next(world: World) -> None:
    first, again = world.at(0), world.at(0, epoch=2)
    world.sink.open(first)
    prepared = world.prepared(first, IDS)
    world.sink.commit(prepared, first)
    world.sink.commit(prepared, first)
    world.sink.open(again)
    world.sink.commit(prepared, again)
    assert world.read() == IDS


@every_sink
def test_an_earlier_batch_is_not_repeated_after_a_later_one(world: World) -> None:
    world.sink.open(world.at(0))
    earlier, later = world.prepared(world.at(0), [1, 2]), world.prepared(world.at(1), [3, 4])
    for prepared, batch in ((earlier, 0), (later, 1), (earlier, 0), (later, 1)):
        world.sink.commit(prepared, world.at(batch))
    assert world.read() == [1, 2, 3, 4]


@every_sink
def test_an_aborted_batch_is_never_seen_and_leaves_nothing_behind(world: World) -> None:
    first = world.at(0)
    world.sink.open(first)
    prepared = world.prepared(first, IDS)
    world.sink.abort(prepared, first)
    world.sink.abort(prepared, first)
    assert (world.read(), world.left()) == ([], ())


@every_sink
def test_giving_up_an_attempt_leaves_the_attempt_that_was_committed(world: World) -> None:
    world.sink.open(world.at(0))
    lost, won = world.prepared(world.at(3), [1, 2]), world.prepared(world.at(3, epoch=2), [1, 2])
    world.sink.open(world.at(0, epoch=2))
    world.sink.commit(won, world.at(3, epoch=2))
    world.sink.abort(lost, by_epoch(world.at(3), 2))
    world.sink.abort(won, world.at(3, epoch=2))
    assert (world.read(), world.left()) == ([1, 2], ())


@every_marked_sink
def test_what_a_left_generation_had_prepared_is_given_up_after_the_new_one_went_on(world: World) -> None:
    left, taken = world.prepared(world.at(9), [1, 2]), world.at(1, generation=2)
    world.sink.open(taken)
    world.sink.commit(world.prepared(taken, [3]), taken)
    world.sink.abort(left, world.at(9))
    assert (world.read(), world.left()) == ([3], ())


@every_marked_sink
def test_a_batch_without_rows_has_no_transaction(world: World) -> None:
    first = world.at(0)
    assert world.sink.write_part(iter(()), first) is None
    assert world.sink.prepare((), first) is None


@every_marked_sink
def test_what_a_left_generation_had_prepared_is_committed_if_its_driver_says_so(world: World) -> None:
    """A savepoint of the left future names it; what the newer generation has committed meanwhile does not count for it."""
    world.sink.open(world.at(0))
    left = world.prepared(world.at(5), [1, 2])
    world.sink.commit(world.prepared(world.at(4), [3, 4]), world.at(4))
    taken = replace(world.at(7, generation=2, epoch=2), descent=SinkLineage(OWN, 2, went_back=2))
    world.sink.open(replace(taken, batch_id=6))
    world.sink.commit(world.prepared(taken, [5, 6]), taken)
    for _ in range(2):
        world.sink.commit(left, world.at(5, epoch=2))
    assert world.read() == [1, 2, 3, 4, 5, 6]


@every_marked_sink
def test_a_driver_that_was_replaced_commits_nothing(world: World, drivers: Drivers) -> None:
    first, second = world.at(0), world.at(0, epoch=2)
    prepared = world.prepared(first, IDS)
    steps: list[dict[str, object]] = [{"open": 1}, {"say": "open"}, {"wait": True}, {"commit": prepared, "epoch": 1}]
    zombie = drivers.fork(world.recipe, first, steps)
    zombie.until("open")
    world.sink.open(second)
    said = zombie.go_on()
    fenced = world.read()
    world.sink.commit(prepared, second)
    assert (said, fenced, world.read()) == ("Fenced", [], IDS)


@every_marked_sink
def test_a_driver_that_was_replaced_cannot_open_the_sink_again(world: World) -> None:
    world.sink.open(world.at(0, epoch=2))
    with pytest.raises(errors.FencedError, match="Epoch 2"):
        world.sink.open(world.at(0, epoch=1))


@pytest.mark.parametrize(("world", "name", "when"), CRASHES, indirect=["world"])
def test_each_record_is_there_once_when_the_driver_is_killed(
    world: World, drivers: Drivers, name: str, when: When
) -> None:
    first, second = world.at(1), world.at(1, epoch=2)
    earlier, prepared = world.prepared(world.at(0), [1000]), world.prepared(first, IDS)
    steps: list[dict[str, object]] = [
        {"open": 1},
        {"commit": earlier, "batch": 0},
        {"kill": name, "when": when},
        {"commit": prepared, "batch": 1},
    ]
    assert not drivers.fork(world.recipe, first, steps).last_word()
    world.sink.open(second)
    world.sink.commit(earlier, world.at(0, epoch=2))
    world.sink.commit(prepared, second)
    assert world.read() == [*IDS, 1000]


@every_marked_sink
def test_without_the_marker_a_repeated_commit_would_show_each_record_twice(world: World) -> None:
    """Shows that the others can fail: the marker is what keeps them true."""
    first = world.at(0)
    world.sink.open(first)
    world.sink.commit(world.prepared(first, IDS), first)
    world.forget()
    world.sink.open(first)
    world.sink.commit(world.prepared(first, IDS), first)
    assert world.read() == sorted([*IDS, *IDS])
