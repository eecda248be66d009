"""A sink meets a root of state that it does not know: what every sink does about it, in front of the real system."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sinkworlds
from s3server import S3Server
from sinkcontexts import at
from sinkworlds import World
from statefulspark import errors
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.standing import SinkLineage

KINDS = ("files", "kafka", "postgres", "iceberg")
OLD, NEW = "0ld", "new"
TAKING = frozenset({SinkRight.REPEAT})


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> World:
    return sinkworlds.of_kind(request.param, request, s3, tmp_path)


def in_old(world: World, batch: int, *, epoch: int = 1) -> SinkContext:
    """Return the context of a batch of the old root, in its driver."""
    own = SinkLineage(OLD, root="s3://state/old")
    return replace(world.at(batch, epoch=epoch), lineage=OLD, descent=own, claim=f"old claim {epoch}")


def in_new(world: World, batch: int, *, cut: int | None = None, epoch: int = 1, **descent: object) -> SinkContext:
    """Return the context of a batch of a root that began with a cut of the old one, or with nothing."""
    cuts = () if cut is None else (at(1, cut, OLD),)
    own = SinkLineage(NEW, root="s3://state/new", cuts=cuts, **descent)  # type: ignore[arg-type]
    notes = world.context.notes_uri.replace("/sinks/", "/new/")
    return replace(world.at(batch, epoch=epoch), lineage=NEW, descent=own, notes_uri=notes)


def inherited(batch: int, *, by: SinkContext) -> SinkContext:
    """Return the context in which the new root commits what the old one had prepared, with the rows that came with it."""
    return replace(by, batch_id=batch, lineage=OLD)


def an_old_root(world: World, *, committed: int) -> list[bytes]:
    """Let the old root prepare three batches of one row, and commit the first ones."""
    world.sink.open(replace(in_old(world, -1)))
    prepared = [world.prepared(in_old(world, batch), [batch]) for batch in range(3)]
    for batch in range(committed):
        world.sink.commit(prepared[batch], in_old(world, batch))
    return prepared


@pytest.mark.parametrize("committed", [0, 1, 2], ids=["nothing committed", "a batch is missing", "all committed"])
def test_a_root_that_descends_from_the_old_one_goes_on(world: World, committed: int) -> None:
    prepared = an_old_root(world, committed=committed)

    for epoch in (1, 2):
        start = in_new(world, epoch, cut=1, epoch=epoch)
        world.sink.open(start)
        for batch in (0, 1):
            world.sink.commit(prepared[batch], inherited(batch, by=start))
        if epoch == 1:
            own = in_new(world, 2, cut=1)
            world.sink.commit(world.prepared(own, [100]), own)

    assert world.read() == [0, 1, 100]
    with pytest.raises(errors.FencedError):
        world.sink.commit(prepared[2], in_old(world, 2))
    with pytest.raises(errors.SpecRejectedError, match="does not descend"):
        world.sink.open(in_old(world, 1, epoch=7))
    assert world.read() == [0, 1, 100]


def test_rows_of_a_root_that_the_sink_does_not_know_are_never_taken_for_committed(world: World) -> None:
    an_old_root(world, committed=3)

    with pytest.raises(errors.SpecRejectedError, match=r"s3://state/old .*--restore-repeat-output-of") as refused:
        world.sink.open(in_new(world, -1))
    assert refused.value.reason == "SinkTaken"
    assert world.read() == [0, 1, 2]

    for epoch in (1, 2):
        world.sink.open(in_new(world, epoch - 2, epoch=epoch, rights=TAKING if epoch == 1 else frozenset()))
        own = in_new(world, epoch - 1, epoch=epoch)
        world.sink.commit(world.prepared(own, [100 + epoch]), own)

    kept = [] if withdraws(world) else [0, 1, 2]
    assert world.read() == [*kept, 101, 102]


def test_a_sink_that_is_ahead_of_the_cut_withdraws_or_refuses(world: World) -> None:
    an_old_root(world, committed=3)

    if not withdraws(world):
        with pytest.raises(
            errors.SpecRejectedError, match=r"has batch 2 .*after batch 0.*--restore-repeat-output-of"
        ) as refused:
            world.sink.open(in_new(world, 0, cut=0))
        assert refused.value.reason == "SinkAhead"
    start = in_new(world, 0, cut=0, rights=frozenset() if withdraws(world) else TAKING)
    world.sink.open(start)
    own = replace(start, batch_id=1)
    world.sink.commit(world.prepared(own, [100]), own)

    assert world.read() == ([0, 100] if withdraws(world) else [0, 1, 2, 100])


def test_a_sink_that_is_new_leaves_prepared_rows_to_the_root_that_prepared_them(world: World) -> None:
    prepared = [world.prepared(in_old(world, batch), [batch]) for batch in range(2)]
    start = in_new(world, 1, cut=1)
    world.sink.open(start)

    for batch in (0, 1):
        world.sink.commit(prepared[batch], inherited(batch, by=start))
    own = replace(start, batch_id=2)
    world.sink.commit(world.prepared(own, [100]), own)

    assert world.read() == [100]


def withdraws(world: World) -> bool:
    return world.recipe["kind"] == "files"
