"""A worker refuses a value if, and only if, the real table refuses it at the commit."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
import sinkworlds
from machines import postgres_sink
from s3server import S3Server
from sinkworlds import World
from statefulspark import errors
from statefulspark.sinks.postgres.sink import PostgresMachine

CASES: dict[str, tuple[pa.DataType, tuple[object, ...]]] = {
    "varchar(5)": (pa.string(), ("", "12345", "123456", "12345   ", "12345  6", "äöüßé", "äöüßéx", "😀😀😀😀😀", None)),
    "char(3)": (pa.string(), ("", "abc", "abc  ", "abcd", "日本語", "日本語版")),
    "varchar": (pa.string(), ("x" * 100_000,)),
    "text NOT NULL": (pa.string(), ("", None)),
    "bigint NOT NULL DEFAULT 7": (pa.int64(), (1, None)),
    "numeric(5,2)": (
        pa.decimal128(12, 4),
        tuple(map(Decimal, ("0", "999.99", "999.994", "999.995", "-999.995", "1000", "-999.99", "12345678.9"))),
    ),
    "numeric(3,0)": (pa.int64(), (0, 999, 1000, -999, -1000, 2**62)),
    "numeric(4,1)": (pa.float64(), (999.94, 999.95, -999.96, 1e300, float("nan"), float("inf"), float("-inf"), 5e-324)),
    "numeric(2,-3)": (pa.int64(), (99_499, 99_500, -99_499, -99_501, 1)),
    "numeric": (pa.float64(), (1e300, float("inf"), float("nan"))),
    "uuid": (
        pa.string(),
        (
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "no",
            "",
            None,
        ),
    ),
    "jsonb": (
        pa.string(),
        (
            '{"a": 1}',
            "1",
            "null",
            '"x"',
            "",
            "{",
            "NaN",
            "{'a': 1}",
            "[1,]",
            None,
            r'"\u0000"',
            r'"\ud83d"',
            r'"\\u0000"',
        ),
    ),
    "json": (pa.string(), ('{"a": 1, "a": 2}', "Infinity", "{} {}", r'"\u0000"', r'"\ud83d"')),
    "mood": (pa.string(), ("sad", "ok", "happy", "Sad", "", None)),
    "varchar(3)[]": (pa.list_(pa.string()), (["abc", None], ["abcd"], [], None)),
    "numeric(2,1)[]": (pa.list_(pa.float64()), ([9.9], [9.95], [None], None)),
}


@pytest.fixture
def world(postgres_database: str, s3: S3Server) -> World:
    return sinkworlds.postgres_world(postgres_database, s3)


@pytest.mark.parametrize("upsert_by", [(), ("id",)], ids=["append", "upsert"])
@pytest.mark.parametrize("column", CASES)
def test_a_worker_refuses_what_the_table_refuses_and_nothing_else(
    world: World, column: str, upsert_by: tuple[str, ...]
) -> None:
    kind, values = CASES[column]
    dsn = str(world.recipe["dsn"])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.execute(f"CREATE TABLE limited (id bigint PRIMARY KEY, a {column})".encode())
        for position, value in enumerate(values):
            rows = pa.RecordBatch.from_arrays([pa.array([position]), pa.array([value], kind)], names=["id", "a"])
            knowing, unknowing = (
                postgres_sink("limited", dsn=dsn, upsert_by=upsert_by),
                postgres_sink("limited", dsn=dsn, upsert_by=upsert_by),
            )
            knowing.check_schema(rows.schema, world.context.options)

            assert _is_staged(knowing, rows, world) is _is_stored(unknowing, rows, world, position), (column, value)


def _is_staged(sink: PostgresMachine, rows: pa.RecordBatch, world: World) -> bool:
    try:
        sink.write_part(iter([rows]), world.at(0))
    except errors.SpecRejectedError as error:
        return (error.reason, "The column 'a' has" in error.message) != ("RowUnsupported", True)
    return True


def _is_stored(sink: PostgresMachine, rows: pa.RecordBatch, world: World, batch_id: int) -> bool:
    context = world.at(batch_id)
    part = sink.write_part(iter([rows]), context)
    assert part is not None
    prepared = sink.prepare((part,), context)
    assert prepared is not None
    sink.open(context)
    try:
        sink.commit(prepared, context)
    except errors.SpecRejectedError as error:
        return error.reason != "PostgresRefused"
    return True
