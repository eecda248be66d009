"""Every value of every type in real PostgreSQL, in a real Iceberg table and in files; or refused before a query starts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import icebergshop
import psycopg
import pyarrow as pa
import pytest
from machines import files_sink, postgres_sink
from psycopg import sql
from pyarrow import parquet
from pyspark.sql import types
from sinkcontexts import a_sink_context
from statefulspark import errors, rowvalues
from statefulspark.sinks import base
from statefulspark.sinks.files import commits
from statefulspark.storage import StorageOptions, open_store
from typematrix import kinds, printed, reading

NO_UTF_8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
LOCAL = StorageOptions(allow_local_files=True)
POSTGRES_TYPES = {
    types.StringType: "text",
    types.BinaryType: "bytea",
    types.BooleanType: "boolean",
    types.DateType: "date",
    types.TimeType: "time",
    types.TimestampType: "timestamptz",
    types.TimestampNTZType: "timestamp",
    types.DecimalType: "numeric",
    types.DoubleType: "double precision",
    types.FloatType: "real",
    types.ByteType: "smallint",
    types.ShortType: "smallint",
    types.IntegerType: "integer",
    types.LongType: "bigint",
    types.DayTimeIntervalType: "interval",
}


@pytest.fixture
def context(tmp_path: Path) -> base.SinkContext:
    return a_sink_context(
        staging_uri=(tmp_path / "staged").as_uri(), notes_uri=(tmp_path / "notes").as_uri(), options=LOCAL
    )


def committed(sink: base.TwoPhaseSink, context: base.SinkContext, table: pa.Table) -> None:
    """Write a batch, and commit it."""
    if isinstance(sink, base.ChecksSchema):
        sink.check_schema(table.schema, context.options)
    sink.open(replace(context, batch_id=-1))
    part = sink.write_part(iter(table.to_batches()), context)
    assert part is not None
    transaction = sink.prepare((part,), context)
    assert transaction is not None
    sink.commit(transaction, context)


def without_nul(table: pa.Table) -> pa.Table:
    """Return a table without the rows that PostgreSQL never stores, those with the character NUL."""
    rows = [
        row
        for row in range(table.num_rows)
        if "\\u0000" not in json.dumps(table.slice(row, 1).to_pylist(), default=str)
    ]
    return table.take(rows)


def of_columns(columns: Iterable[kinds.Column]) -> pa.Table:
    """Return columns with a column of numbers before them, which orders the rows."""
    table = kinds.frame(tuple(columns))
    return table.add_column(0, "n", pa.array(range(table.num_rows), pa.int64()))


def postgres_type(kind: types.DataType) -> str:
    if isinstance(kind, types.ArrayType):
        return f"{postgres_type(kind.elementType)}[]"
    return POSTGRES_TYPES.get(type(kind), "jsonb")


def test_postgres_has_every_value_in_a_column_of_its_type(postgres_database: str, context: base.SinkContext) -> None:
    listed = [column for column in kinds.columns() if not isinstance(column.kind, types.NullType | types.MapType)]
    listed = [
        column for column in listed if not isinstance(column.kind, types.StructType) and "void" not in column.name
    ]
    table = without_nul(of_columns(listed))
    columns = [sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(postgres_type(c.kind))) for c in listed]
    with psycopg.connect(postgres_database) as connection:
        connection.execute(sql.SQL("CREATE TABLE kinds (n bigint, {})").format(sql.SQL(", ").join(columns)))

    committed(postgres_sink("kinds", dsn=postgres_database), context, table)

    with psycopg.connect(postgres_database) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        read = connection.execute("SELECT * FROM kinds ORDER BY n").fetchall()
    for position, column in enumerate(listed, 1):
        if "<map" not in column.name:  # Those are jsonb; see below.
            expected = rowvalues.shortest(table.column(column.name), column.name)
            assert shown([row[position] for row in read]) == shown(expected), column.name


def shown(values: list[object]) -> str:
    """Return the text of values; Arrow and psycopg have objects of different types for UTC."""
    return repr(values).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


def test_postgres_has_every_value_as_json(postgres_database: str, context: base.SinkContext) -> None:
    nested = types.ArrayType | types.MapType | types.StructType
    listed = [column for column in kinds.columns() if isinstance(column.kind, nested)]
    names = {column.name: f"c{number}" for number, column in enumerate(listed)}
    whole = of_columns(listed)
    table = without_nul(whole).rename_columns(["n", *names.values()])
    columns = sql.SQL(", ").join(sql.SQL("{} jsonb").format(sql.Identifier(name)) for name in names.values())
    with psycopg.connect(postgres_database) as connection:
        connection.execute(sql.SQL("CREATE TABLE kinds (n bigint, {})").format(columns))

    committed(postgres_sink("kinds", dsn=postgres_database), context, table)

    with psycopg.connect(postgres_database) as connection:
        read = connection.execute("SELECT * FROM kinds ORDER BY n").fetchall()
    for position, column in enumerate(listed, 1):
        texts = printed.recorded()[column.name]
        for row in read:
            expected = reading.SPARK.read(column.kind, texts[row[0]] if row[0] < len(texts) else "{}")
            found = reading.OURS.value(column.kind, json.loads(json.dumps(row[position])))
            assert as_jsonb(found) == as_jsonb(expected), (column.name, row[0])


def as_jsonb(value: object) -> object:
    """Return a value as PostgreSQL keeps it: entries in an order of its own, and no -0.0."""
    if isinstance(value, list):
        parts = [as_jsonb(part) for part in value]
        return sorted(parts, key=repr) if parts and isinstance(value[0], tuple) else parts
    if isinstance(value, dict):
        return {name: as_jsonb(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(as_jsonb, value))
    return value.replace("-0.0", "0.0") if value in ("-0.0", "np.float32(-0.0)") else value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(pa.array(["a\0b"]), id="text"),
        pytest.param(pa.array([["a\0b"]]), id="in an array"),
        pytest.param(pa.array([[("k", "a\0b")]], pa.map_(pa.string(), pa.string())), id="in a map"),
        pytest.param(pa.array([[("a\0b", 1)]], pa.map_(pa.string(), pa.int32())), id="as a key"),
        pytest.param(pa.array([{"s": ["a\0b"]}]), id="in a struct"),
        pytest.param(NO_UTF_8, id="no UTF-8"),
    ],
)
def test_postgres_gets_no_text_that_it_never_stores(context: base.SinkContext, value: pa.Array) -> None:
    with pytest.raises(errors.SpecRejectedError, match="The column 'made at'") as refused:
        postgres_sink("kinds", dsn="").write_part(
            iter([pa.RecordBatch.from_arrays([value], names=["made at"])]), context
        )
    assert refused.value.reason == "RowUnsupported"


def test_an_iceberg_table_has_every_value(tmp_path: Path, context: base.SinkContext) -> None:
    listed = [column for column in kinds.columns() if "void" not in column.name and "interval" not in column.name]
    table = of_columns(listed)
    with ExitStack() as stack:
        shop = icebergshop.Shop(tmp_path, "sql", stack)
        shop.catalog.create_table("shop.kinds", in_microseconds(table.schema))
        committed(base.machine_of(replace(shop.sink.settings, table="shop.kinds")), context, table)
        (file,) = shop.catalog.load_table("shop.kinds").scan().plan_files()
        read = parquet.read_table(file.file.file_path.removeprefix("file://"))  # pyiceberg 0.12 loses nulls on reading.
    for position, name in enumerate(table.column_names):
        found = repr(read.column(position).to_pylist()).replace("B_x20c", "B c")
        assert found == repr(table.column(name).to_pylist()), name


def in_microseconds(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the times of day of Iceberg."""

    def of(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_time(kind):
            return pa.time64("us")
        if pa.types.is_list(kind):
            return pa.list_(of(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(of(kind.key_type), of(kind.item_type))
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(of(field.type)) for field in kind])
        return kind

    return pa.schema([field.with_type(of(field.type)) for field in schema])


def test_iceberg_gets_no_time_that_its_library_has_no_form_of(tmp_path: Path, context: base.SinkContext) -> None:
    beyond = [column.batch(column.beyond) for column in kinds.leaves() if column.beyond is not None]
    with ExitStack() as stack:
        shop = icebergshop.Shop(tmp_path, "sql", stack)
        for number, batch in enumerate([*beyond, pa.RecordBatch.from_arrays([NO_UTF_8], names=["made at"])]):
            shop.catalog.create_table(f"shop.kinds{number}", batch.schema)
            sink = base.machine_of(replace(shop.sink.settings, table=f"shop.kinds{number}"))
            with pytest.raises(errors.SpecRejectedError, match=f"The column '{batch.schema.names[0]}'") as refused:
                sink.write_part(iter([batch]), context)
            assert refused.value.reason == "RowUnsupported"


def test_files_have_every_value(tmp_path: Path, context: base.SinkContext) -> None:
    table = of_columns(kinds.columns())
    sink = files_sink((tmp_path / "out").as_uri())
    committed(sink, context, table)
    (commit,) = commits.read_commits(open_store(sink.settings.uri, LOCAL))
    (part,) = commit.files
    read = parquet.read_table(tmp_path / "out" / part.path)
    for name in table.column_names:
        assert repr(read.column(name).to_pylist()) == repr(table.column(name).to_pylist()), name
