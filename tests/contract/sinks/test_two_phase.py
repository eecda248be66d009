"""What every two-phase sink keeps, in front of the real system: each record once for a reader of committed data.

What one process can show is the contract that authors of sinks get, too (`statefulspark.testing`).

The sink's driver is killed with SIGKILL at the calls that matter, in a process of its own; afterwards a new driver opens the
sink and commits the same prepared batch, as a recovery does (A.48: prepared transactions of the restored snapshot are
committed again, and committing again changes nothing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import processes
import pytest
import sinkworlds
from s3server import S3Server
from sinkworlds import Drivers, World
from statefulspark.sinks import base
from statefulspark.testing import TwoPhaseSinkContract

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
    return sinkworlds.of_kind(request.param, request, s3, tmp_path)


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with processes.serving(Drivers(tmp_path_factory.mktemp("drivers"))) as started:
        yield started


every_marked_sink = pytest.mark.parametrize("world", MARKED, indirect=True)
"""Those with a marker in another system: it fences, and a batch without rows needs no transaction."""


class _InFrontOfItsSystem(TwoPhaseSinkContract):
    kind: ClassVar[str]

    @pytest.fixture(autouse=True)
    def world(self, request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> None:
        self._world = sinkworlds.of_kind(self.kind, request, s3, tmp_path)

    def make_sink(self) -> base.TwoPhaseSink:
        return self._world.sink

    def visible_ids(self) -> list[int]:
        return self._world.read()

    def leftovers(self) -> list[str]:
        return list(self._world.left())

    def context(self) -> base.SinkContext:
        return self._world.context


class TestFilesSink(_InFrontOfItsSystem):
    kind = "files"
    has_marker = False


class TestKafkaSink(_InFrontOfItsSystem):
    kind = "kafka"


class TestPostgresSink(_InFrontOfItsSystem):
    kind = "postgres"


class TestIcebergSink(_InFrontOfItsSystem):
    kind = "iceberg"


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
