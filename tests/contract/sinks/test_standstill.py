"""A driver that stands still or dies while its transaction is open: whoever follows gets through, and rows are there once.

The process is stopped and not killed, so its kernel goes on answering the server of the sink, as it does for a container
that is frozen, and as a proxy does for a node that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import processes
import psycopg
import pytest
import sinkworlds
from s3server import S3Server
from sinkworlds import Drivers, SinkProcess, World
from statefulspark import errors
from statefulspark.sinks import base
from statefulspark.sinks.postgres import transactions

IDS = list(range(1, 2001))
UPSERT = {"upsert_by": ["id"]}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with processes.serving(Drivers(tmp_path_factory.mktemp("drivers"))) as started:
        yield started


@pytest.fixture
def world(postgres_database: str, s3: S3Server) -> World:
    return sinkworlds.postgres_world(postgres_database, s3)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LOCK_TIMEOUT", "500ms")


def standing(
    drivers: Drivers,
    world: World,
    at: str,
    prepared: bytes,
    *,
    epoch: int = 1,
    given: Mapping[str, object] | None = None,
) -> SinkProcess:
    """Start a driver that stands still in the commit of batch 0, before or after it calls what `at` names."""
    when, name = at.split()
    steps: Sequence[Mapping[str, object]] = [
        {"open": epoch},
        {"stop": name, "when": when},
        {"commit": prepared, "epoch": epoch},
    ]
    return drivers.fork({**world.recipe, **(given or {})}, world.at(0), steps)


@contextmanager
def a_transaction(dsn: str, statement: str) -> Iterator[psycopg.Connection]:
    """Have somebody else keep a transaction open while the block runs."""
    with psycopg.connect(dsn, application_name="psql") as connection:
        connection.execute(statement.encode())
        yield connection


@pytest.mark.parametrize(
    ("at", "given"),
    [
        pytest.param("after write_row", {}, id="in COPY"),
        pytest.param("after write_row", UPSERT, id="in COPY, for an upsert"),
        pytest.param("before _update_marker", {}, id="between two statements"),
        pytest.param("after _update_marker", UPSERT, id="before the commit"),
    ],
)
def test_a_driver_that_stands_still_keeps_its_successor_out_for_as_long_as_a_lock_is_waited_for(
    world: World, drivers: Drivers, at: str, given: Mapping[str, object]
) -> None:
    with psycopg.connect(str(world.recipe["dsn"])) as connection:
        connection.execute("ALTER TABLE words ADD PRIMARY KEY (id)")
    second, prepared = world.at(0, epoch=2), world.prepared(world.at(0), IDS)
    still = standing(drivers, world, at, prepared, given=given)
    with still.standing_still():
        world.sink.open(second)
        world.sink.commit(prepared, second)
        shown = world.read()
    assert (shown, still.last_word(), world.read()) == (IDS, "PostgresUnavailable", IDS)


def test_an_attempt_of_the_driver_itself_that_hangs_does_not_keep_its_next_one_out(
    world: World, drivers: Drivers
) -> None:
    """A proxy keeps the connection of an attempt that the driver has given up."""
    prepared = world.prepared(world.at(0), IDS)
    hangs = standing(drivers, world, "after write_row", prepared)
    with hangs.standing_still():
        world.sink.commit(prepared, world.at(0))
    hangs.last_word()
    assert world.read() == IDS


def test_a_driver_that_was_replaced_does_not_end_the_transaction_of_the_newer_one(
    world: World, drivers: Drivers
) -> None:
    prepared = world.prepared(world.at(0), IDS)
    newer = standing(drivers, world, "after write_row", prepared, epoch=2)
    with newer.standing_still():
        for call in (lambda: world.sink.open(world.at(0)), lambda: world.sink.commit(prepared, world.at(0))):
            with pytest.raises(errors.FencedError, match="Epoch 2"):
                call()
    assert (newer.last_word(), world.read()) == ("done", IDS)


def test_a_driver_of_another_user_is_named_where_the_server_does_not_let_it_be_ended(
    world: World, drivers: Drivers
) -> None:
    dsn = str(world.recipe["dsn"])
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP ROLE IF EXISTS successor")
        connection.execute("CREATE ROLE successor LOGIN PASSWORD 'right'")
    prepared = world.prepared(world.at(0), IDS)
    still = standing(drivers, world, "after write_row", prepared)
    with still.standing_still():
        with psycopg.connect(dsn) as connection:
            connection.execute("GRANT ALL ON words, statefulspark_sinks TO successor")
        other = sinkworlds.build({**world.recipe, "dsn": dsn.replace("user=writer", "user=successor")})
        with pytest.raises(errors.TransientError) as locked:
            other.open(world.at(0, epoch=2))
        with psycopg.connect(dsn) as connection:
            connection.execute("DROP OWNED BY successor; DROP ROLE successor")
    assert locked.value.reason == "PostgresLocked"
    assert "the transaction of statefulspark epoch 1 claim of epoch 1 of the user writer (pid " in locked.value.message
    assert still.last_word() == "done"


ROW = "SELECT * FROM statefulspark_sinks FOR UPDATE"


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(ROW, id="the sink's row"),
        pytest.param("LOCK TABLE words IN SHARE MODE", id="the sink's table"),
        pytest.param("LOCK TABLE statefulspark_sinks", id="the marker table"),
    ],
)
def test_a_transaction_of_somebody_else_is_named_and_left_alone(world: World, statement: str) -> None:
    world.sink.open(world.at(0))
    prepared = world.prepared(world.at(0), IDS)
    with a_transaction(str(world.recipe["dsn"]), statement) as holding:
        with pytest.raises(errors.TransientError) as locked:
            world.sink.commit(prepared, world.at(0))
        pid = holding.info.backend_pid
        assert locked.value.reason == "PostgresLocked"
        assert f"it waited 500ms for the transaction of psql of the user writer at 127.0.0.1 (pid {pid}), since 20" in (
            locked.value.message
        )
        assert locked.value.message.endswith(f"end it: SELECT pg_terminate_backend({pid}).")
    world.sink.commit(prepared, world.at(0))
    assert world.read() == IDS


def test_who_keeps_a_sink_from_being_opened_for_the_first_time_is_named(world: World) -> None:
    first: base.SinkContext = world.at(0)
    lock = f"SELECT pg_advisory_xact_lock(hashtext('{first.transactional_id}'))"
    with (
        a_transaction(str(world.recipe["dsn"]), lock),
        pytest.raises(errors.TransientError, match=r"PostgresLocked.* the transaction of psql of the user writer"),
    ):
        world.sink.open(first)


def test_a_transaction_that_nobody_can_name_is_said_to_be_one(world: World) -> None:
    """Another writer has the same key, uncommitted: PostgreSQL tells who that is only while it is waited for."""
    with psycopg.connect(str(world.recipe["dsn"])) as connection:
        connection.execute("ALTER TABLE words ADD PRIMARY KEY (id)")
    sink = sinkworlds.build({**world.recipe, **UPSERT})
    sink.open(world.at(0))
    with (
        a_transaction(str(world.recipe["dsn"]), "INSERT INTO words VALUES (7, 'mine')"),
        pytest.raises(errors.TransientError, match=r'relation "words"; it waited 500ms for another transaction\. If'),
    ):
        sink.commit(world.prepared(world.at(0), IDS), world.at(0))
