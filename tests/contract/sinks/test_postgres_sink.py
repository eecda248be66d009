"""What is the PostgreSQL sink's own: refusals before anything is written, upserts, types, and failures in mid-commit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pagecode
import psycopg
import pyarrow as pa
import pytest
import sinkworlds
from machines import postgres_sink
from postgresserver import Postgres
from s3server import S3Server
from sinkworlds import SCHEMA, World
from statefulspark import errors
from statefulspark.sinks.postgres import client as postgres_client
from statefulspark.sinks.postgres import transactions
from statefulspark.sinks.postgres.sink import PostgresMachine
from statefulspark.storage import StorageOptions


@pytest.fixture
def world(postgres_database: str, s3: S3Server) -> World:
    return sinkworlds.postgres_world(postgres_database, s3)


@pytest.fixture
def dsn(world: World) -> str:
    return str(world.recipe["dsn"])


def run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def commit(sink: PostgresMachine, world: World, batch_id: int, *batches: pa.RecordBatch) -> None:
    context = world.at(batch_id)
    part = sink.write_part(iter(batches), context)
    assert part is not None
    prepared = sink.prepare((part,), context)
    assert prepared is not None
    sink.commit(prepared, context)


def words(rows: dict[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(rows), "word": list(rows.values())}, schema=SCHEMA)


def test_a_missing_table_is_refused_when_the_sink_is_opened(world: World, dsn: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="Could not find the table") as refused:
        postgres_sink("shop.nowhere", dsn=dsn).open(world.at(0))
    assert refused.value.reason == "PostgresTableMissing"


def test_a_wrong_password_is_named_as_such_and_not_shown(world: World, postgres: Postgres) -> None:
    with pytest.raises(
        errors.SpecRejectedError, match=r"PostgresAccessDenied.*password authentication failed"
    ) as refused:
        postgres_sink("words", dsn=postgres.dsn(password="hunter2")).open(world.at(0))
    assert "hunter2" not in str(refused.value)


def test_an_unreachable_server_is_a_failure_that_may_pass(world: World) -> None:
    with pytest.raises(errors.TransientError, match=r"PostgresUnavailable.*table words of shop at 127.0.0.1:1"):
        postgres_sink("words", dsn="host=127.0.0.1 port=1 dbname=shop password=hunter2").open(world.at(0))


def test_a_transaction_that_the_server_has_ended_is_a_failure_that_may_pass(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver stood still between two statements; the server's error is one of the class of a program's mistakes."""
    monkeypatch.setitem(transactions._SETTINGS, "idle_in_transaction_session_timeout", "50ms")
    sink = postgres_client.PostgresClient(dsn, "words", ())

    def stand_still() -> None:
        with sink._connected("commit batch 7 to") as connection, transactions.begun(connection, "standing still"):
            while ("standing still",) in run(dsn, "SELECT application_name FROM pg_stat_activity"):
                pass
            connection.execute("SELECT 1")

    with pytest.raises(errors.TransientError, match=r"PostgresUnavailable: Could not commit batch 7 .* idle-in-trans"):
        stand_still()


def test_a_stream_that_does_not_fit_is_refused_column_by_column(dsn: str) -> None:
    schema = pa.schema([("id", pa.string()), ("extra", pa.int64())])
    with pytest.raises(errors.SpecRejectedError) as refused:
        postgres_sink("words", dsn=dsn).check_schema(schema, StorageOptions())
    assert refused.value.reason == "SinkSchemaMismatch"
    assert "id is string in the stream and int8 in the table; extra is not in the table" in refused.value.message


def test_a_stream_that_fits_is_taken(dsn: str) -> None:
    postgres_sink("words", dsn=dsn).check_schema(SCHEMA, StorageOptions())
    postgres_sink("public.words", dsn=dsn).check_schema(SCHEMA, StorageOptions())


def test_an_upsert_needs_a_unique_index_of_exactly_its_columns(dsn: str) -> None:
    sink = postgres_sink("words", dsn=dsn, upsert_by="id")
    with pytest.raises(errors.SpecRejectedError, match="PostgresKeyMissing"):
        sink.check_schema(SCHEMA, StorageOptions())
    run(dsn, "CREATE UNIQUE INDEX ON words (id)")
    sink.check_schema(SCHEMA, StorageOptions())


def test_an_upsert_replaces_rows_and_the_last_of_a_batch_counts(world: World, dsn: str) -> None:
    run(dsn, "ALTER TABLE words ADD PRIMARY KEY (id)")
    sink = postgres_sink("words", dsn=dsn, upsert_by="id")
    sink.open(world.at(0))
    commit(sink, world, 0, words({1: "one", 2: "two"}))
    commit(sink, world, 1, words({2: "zwei", 3: "drei"}), words({3: "three"}))
    assert run(dsn, "SELECT * FROM words ORDER BY id") == [(1, "one"), (2, "zwei"), (3, "three")]


def test_an_upsert_refuses_a_null_in_its_key_unless_the_index_takes_nulls_for_equal(world: World, dsn: str) -> None:
    run(dsn, "CREATE UNIQUE INDEX plain ON words (word)")
    nulls = pa.RecordBatch.from_pydict({"id": [1, 2], "word": [None, None]}, schema=SCHEMA)
    sink = postgres_sink("words", dsn=dsn, upsert_by="word")
    sink.check_schema(SCHEMA, StorageOptions())
    with pytest.raises(errors.SpecRejectedError, match="RowUnsupported: The column 'word' has a null, and upsert_by"):
        sink.write_part(iter([nulls]), world.at(0))

    run(dsn, "DROP INDEX plain")
    run(dsn, "CREATE UNIQUE INDEX matching ON words (word) NULLS NOT DISTINCT")
    sink = postgres_sink("words", dsn=dsn, upsert_by="word")
    sink.check_schema(SCHEMA, StorageOptions())
    sink.open(world.at(0))
    commit(sink, world, 0, nulls)
    commit(sink, world, 1, nulls)
    assert run(dsn, "SELECT * FROM words") == [(2, None)]


def test_values_arrive_as_they_are(world: World, dsn: str) -> None:
    run(
        dsn,
        "CREATE TABLE kinds (b boolean, n numeric(10,2), f real, at timestamptz, local timestamp, day date, raw bytea, "
        "tags text[], point jsonb, quoted text)",
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([True, None]),
            pa.array([Decimal("1.50"), None]),
            pa.array([1.5, None], pa.float32()),
            pa.array([datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
            pa.array([datetime(2026, 1, 2), None], pa.timestamp("us")),
            pa.array([date(2026, 1, 2), None]),
            pa.array([b"\x00\xff", None]),
            pa.array([["a", 'b"\\,{}'], None]),
            pa.array([{"x": 1.5}, None]),
            pa.array(["tab\tline\nback\\slash", None]),
        ],
        names=["b", "n", "f", "at", "local", "day", "raw", "tags", "point", "quoted"],
    )
    sink = postgres_sink("kinds", dsn=dsn)
    sink.check_schema(rows.schema, StorageOptions())
    sink.open(world.at(0))
    commit(sink, world, 0, rows)
    first, second = run(dsn, "SELECT * FROM kinds")
    assert first == (
        True,
        Decimal("1.50"),
        1.5,
        datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC),
        datetime(2026, 1, 2),
        date(2026, 1, 2),
        b"\x00\xff",
        ["a", 'b"\\,{}'],
        {"x": 1.5},
        "tab\tline\nback\\slash",
    )
    assert second == (None,) * 10


def test_a_row_that_the_table_refuses_leaves_nothing_of_its_batch(world: World, dsn: str) -> None:
    run(dsn, "ALTER TABLE words ADD CHECK (id < 100)")
    sink = postgres_sink("words", dsn=dsn)
    sink.open(world.at(0))
    with pytest.raises(errors.SpecRejectedError, match=r"PostgresRefused.*words_id_check"):
        commit(sink, world, 0, words({1: "one", 100: "hundred"}))
    run(dsn, "ALTER TABLE words DROP CONSTRAINT words_id_check")
    commit(sink, world, 0, words({1: "one", 100: "hundred"}))
    assert world.read() == [1, 100]


def test_a_row_of_the_marker_table_that_is_gone_is_never_guessed_at(world: World) -> None:
    world.sink.open(world.at(0))
    world.forget()
    with pytest.raises(errors.StateUnknownError, match="SinkMarkerMissing"):
        world.sink.commit(world.prepared(world.at(0), [1]), world.at(0))


def test_two_sinks_share_a_marker_table_and_nothing_else(world: World, dsn: str, s3: S3Server) -> None:
    run(dsn, "CREATE TABLE others (id bigint, word text)")
    other = postgres_sink("others", dsn=dsn)
    context = sinkworlds._context(s3)
    world.sink.open(world.at(0))
    world.sink.commit(world.prepared(world.at(0), [1]), world.at(0))
    other.open(context)
    part = other.write_part(iter([words({2: "two"})]), context)
    assert part is not None
    prepared = other.prepare((part,), context)
    assert prepared is not None
    other.commit(prepared, context)
    assert (world.read(), run(dsn, "SELECT id FROM others")) == ([1], [(2,)])


def test_the_tables_in_the_pages_are_those_that_a_sink_takes(world: World, dsn: str) -> None:
    columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
    described = f"{columns} WHERE table_name = '{{}}' ORDER BY 1"
    of_markers = described.format("statefulspark_sinks")
    postgres_sink("words", dsn=dsn).open(world.at(0))
    made = run(dsn, of_markers)
    run(dsn, "DROP TABLE statefulspark_sinks")

    run(dsn, pagecode.block("docs/sinks.md", 1, language="sql"))
    run(dsn, pagecode.block("examples/sinks/README.md", 1, language="sql"))

    assert run(dsn, of_markers) == made
    postgres_sink("words", dsn=dsn).open(world.at(0, epoch=2))
    assert run(dsn, described.format("totals")) == [("customer", "text", "NO"), ("total", "double precision", "YES")]


def test_nested_values_arrive_as_json(world: World, dsn: str) -> None:
    run(dsn, "CREATE TABLE nested (s jsonb, m jsonb, l jsonb, ls jsonb[], words json, day_counts jsonb)")
    attributes, point = pa.map_(pa.string(), pa.string()), pa.struct([("x", pa.float64()), ("raw", pa.binary())])
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([{"id": 1, "attrs": [("k", "v")]}], pa.struct([("id", pa.int32()), ("attrs", attributes)])),
            pa.array([[("o", [("i", "1")])]], pa.map_(pa.string(), attributes)),
            pa.array([[{"x": float("nan"), "raw": b"\xff\x00"}]], pa.list_(point)),
            pa.array([[{"x": 0.5, "raw": None}, None]], pa.list_(point)),
            pa.array([["a", 'b"\\,{}']], pa.list_(pa.string())),
            pa.array([[(date(2026, 1, 2), 1)]], pa.map_(pa.date32(), pa.int64())),
        ],
        names=["s", "m", "l", "ls", "words", "day_counts"],
    )
    sink = postgres_sink("nested", dsn=dsn)
    sink.check_schema(rows.schema, StorageOptions())
    sink.open(world.at(0))
    commit(sink, world, 0, rows)
    (row,) = run(
        dsn, "SELECT s->'attrs'->>'k', m->'o'->>'i', l, ls[1]->>'x', ls[2] IS NULL, words, day_counts FROM nested"
    )
    assert row == (
        "v",
        "1",
        [{"x": "NaN", "raw": "/wA="}],
        "0.5",
        True,
        ["a", 'b"\\,{}'],
        {"2026-01-02": 1},
    )


@pytest.mark.parametrize(
    ("created", "named"),
    [
        ('"Shop"."Totals.2026"', 'Shop."Totals.2026"'),
        ('"T22Q"', "T22Q"),
        ('"T22Q"', '"T22Q"'),
        ('"say ""hi"""', '"say ""hi"""'),
    ],
)
def test_a_table_of_any_name_is_found(world: World, dsn: str, created: str, named: str) -> None:
    run(dsn, f'CREATE SCHEMA IF NOT EXISTS "Shop"; CREATE TABLE {created} (id bigint, word text)')
    sink = postgres_sink(named, dsn=dsn)
    sink.open(world.at(0))
    commit(sink, world, 0, words({1: "one"}))
    assert run(dsn, f"SELECT * FROM {created}") == [(1, "one")]  # noqa: S608 -- our own name


def test_a_unique_index_that_includes_other_columns_is_one_of_its_keys(world: World, dsn: str) -> None:
    run(dsn, "CREATE TABLE with_included (id bigint, word text, UNIQUE (id) INCLUDE (word))")
    sink = postgres_sink("with_included", dsn=dsn, upsert_by="id")
    sink.check_schema(SCHEMA, StorageOptions())
    sink.open(world.at(0))
    commit(sink, world, 0, words({1: "one"}))
    commit(sink, world, 1, words({1: "eins"}))
    assert run(dsn, "SELECT * FROM with_included") == [(1, "eins")]


def test_a_sink_that_moves_to_another_table_of_the_schema_begins_there(world: World) -> None:
    with psycopg.connect(str(world.recipe["dsn"])) as connection:
        connection.execute("CREATE TABLE others (id bigint NOT NULL, word text)")
    world.sink.open(world.at(0))
    world.sink.commit(world.prepared(world.at(0), [1]), world.at(0))
    beside = sinkworlds.build({**world.recipe, "table": "others"})
    assert isinstance(beside, PostgresMachine)
    assert beside.stored_marker(world.at(0)) is None


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("Orders", '"Orders"'),
        ("My Shop.Order Lines", '"My Shop"."Order Lines"'),
        ('"My.Shop"."a ""b"""', '"My.Shop"."a ""b"""'),
        ("select", '"select"'),
        ("заказы", '"заказы"'),
    ],
)
def test_a_table_may_be_called_anything(world: World, dsn: str, name: str, quoted: str) -> None:
    if "." in quoted:
        run(dsn, f"CREATE SCHEMA {quoted.rpartition('.' + chr(34))[0]}")
    run(dsn, f"CREATE TABLE {quoted} (id bigint, word text)")
    sink = postgres_sink(name, dsn=dsn)
    sink.check_schema(SCHEMA, StorageOptions())
    sink.open(world.at(0))
    commit(sink, world, 0, words({1: "one"}))
    assert run(dsn, f"TABLE {quoted}") == [(1, "one")]
