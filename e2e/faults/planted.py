"""Faults that are planted into what a job has written, to see that the checker finds each of them, and nothing else by them.

That is done when all events are out, and while the driver sleeps, so that every difference is the plant's. Everything is put
back before it wakes up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
from confluent_kafka import Producer
from load import outputs
from load.compare import Fault
from pyarrow import parquet

from faults import local
from faults.loaded import ScenarioError
from faults.scenario import Scenario
from faults.world import World

Named = tuple[Fault, str, str, int]
"""Fault, output, key and number of a finding."""
_FLUSHED_WITHIN_S = 30.0


def everything_is_found(world: World) -> None:
    """Nothing happens, and at the end one fault after the other is planted into the outputs, and taken back."""
    local.calm(world)
    world.look_at_the_end(_plant_each)


def _plant_each(world: World) -> None:
    world.driver.pause()
    try:
        for plant in (_window_lost, _window_repeated, _window_changed, _files_lost):
            _plant(world, plant)
        _nothing_of_an_aborted_transaction(world)
    finally:
        world.driver.resume()


def _plant(world: World, plant: Callable[[World], AbstractContextManager[set[Named]]]) -> None:
    with plant(world) as planted:
        found = _findings(world)
    if found != planted:
        missed, others = sorted(planted - found), sorted(found - planted)
        raise ScenarioError(f"of what was planted {missed} was not found, and beside it {others}")


@contextmanager
def _window_lost(world: World) -> Iterator[set[Named]]:
    row = _windows(world)[0]
    _execute(world, "DELETE FROM windows WHERE key = %s AND begin_ms = %s", row[:2])
    try:
        yield {(Fault.LOST, "windows", *row[:2])}
    finally:
        _execute(world, "INSERT INTO windows VALUES (%s, %s, %s, %s)", row)


@contextmanager
def _window_repeated(world: World) -> Iterator[set[Named]]:
    row = _windows(world)[0]
    _execute(world, "INSERT INTO windows VALUES (%s, %s, %s, %s)", row)
    try:
        yield {(Fault.REPEATED, "windows", *row[:2])}
    finally:
        _execute(world, "DELETE FROM windows WHERE key = %s AND begin_ms = %s", row[:2])
        _execute(world, "INSERT INTO windows VALUES (%s, %s, %s, %s)", row)


@contextmanager
def _window_changed(world: World) -> Iterator[set[Named]]:
    row = _windows(world)[0]
    _execute(world, "UPDATE windows SET total = total + 1 WHERE key = %s AND begin_ms = %s", row[:2])
    try:
        yield {(Fault.DIFFERENT, "windows", *row[:2])}
    finally:
        _execute(world, "UPDATE windows SET total = total - 1 WHERE key = %s AND begin_ms = %s", row[:2])


@contextmanager
def _files_lost(world: World) -> Iterator[set[Named]]:
    """The newest commit of the files is away, with all of its rows."""
    commit = _commits(world)[-1]
    rows = [row for file in _files_of(commit) for row in parquet.read_table(file).to_pylist()]
    away = world.folder / commit.name
    commit.rename(away)
    try:
        yield {(Fault.LOST, "confirmed", str(row["key"]), int(row["number"])) for row in rows}
    finally:
        away.rename(commit)


def _nothing_of_an_aborted_transaction(world: World) -> None:
    """A copy of a row in a transaction that is aborted is there for nobody who reads committed records."""
    row = outputs.read_ledger(world.places)[0]
    producer = Producer({"bootstrap.servers": world.places.servers, "transactional.id": "a-stranger"})
    producer.init_transactions(_FLUSHED_WITHIN_S)
    producer.begin_transaction()
    producer.produce(world.places.rows, json.dumps(row).encode(), str(row["key"]).encode())
    producer.flush(_FLUSHED_WITHIN_S)
    producer.abort_transaction(_FLUSHED_WITHIN_S)
    if found := _findings(world):
        raise ScenarioError(f"a row of an aborted transaction was read: {sorted(found)}")


def _execute(world: World, statement: str, values: Sequence[object]) -> None:
    with psycopg.connect(world.places.dsn) as connection:
        connection.execute(statement, values)


def _commits(world: World) -> list[Path]:
    """Return the commits of the files that have rows, the oldest first."""
    return [path for path in sorted(world.shown_files.glob("confirmed/_commits/*.json")) if _files_of(path)]


def _files_of(commit: Path) -> list[Path]:
    document = json.loads(commit.read_text())
    folder = commit.parents[1]
    return [] if document.get("withdrawn") else [folder / file["path"] for file in document["files"]]


def _findings(world: World) -> set[Named]:
    return {(one.fault, one.output, one.key, one.number) for one in world.visible().findings}


def _windows(world: World) -> list[tuple[str, int, int, int]]:
    with psycopg.connect(world.places.dsn) as connection:
        return connection.execute("SELECT key, begin_ms, events, total FROM windows ORDER BY begin_ms, key").fetchall()


SCENARIOS: tuple[Scenario[World], ...] = (local.scenario("planted-faults-are-found", everything_is_found),)
