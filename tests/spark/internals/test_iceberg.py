"""Iceberg's own runtime for Spark reads and changes what `IcebergSink` has written, and the sink goes on after it.

Iceberg 1.11 has a runtime for Spark 4.1, and none for newer releases. `make compat SPARK=4.1` fetches it.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import icebergshop
import processes
import pyarrow as pa
import pytest
import sinkcontexts
from machines import iceberg_sink

RUNTIME = os.environ.get("STATEFULSPARK_TEST_ICEBERG")
"""The jar of Iceberg's runtime for the installed Spark."""
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not RUNTIME, reason="`make compat SPARK=4.1` has the runtime")]

PATIENCE_S = 240
_AT = datetime.datetime(2026, 1, 1, 12, 30, 0, 123456)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("ratio", pa.float64()),
        ("is_paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("blob", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("floor", pa.int32())])),
    ]
)
FULL = {
    "id": 1,
    "small": -7,
    "name": "Ärger, \U0001f600",
    "price": decimal.Decimal("-1234567890.12"),
    "ratio": 0.1,
    "is_paid": True,
    "day": datetime.date(1969, 12, 31),
    "at": _AT.replace(tzinfo=datetime.UTC),
    "local": _AT,
    "blob": b"\x00\xff",
    "tags": ["a", None, ""],
    "place": {"city": "Bonn", "floor": None},
}
EMPTY = {**dict.fromkeys(FULL), "id": 2}
READ = "SELECT * FROM jvm.shop.sales ORDER BY id"
MERGE = """
MERGE INTO jvm.shop.sales AS target USING (SELECT 2L AS id, 'two' AS name UNION ALL SELECT 3L, 'three') AS source
ON target.id = source.id
WHEN MATCHED THEN UPDATE SET name = source.name
WHEN NOT MATCHED THEN INSERT (id, name) VALUES (source.id, source.name)
"""
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

settings, *statements = json.loads(sys.argv[1])
builder = SparkSession.builder
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for statement in statements:
    print(json.dumps([row.asDict(recursive=True) for row in spark.sql(statement).collect()], default=repr))
"""


def run_in_the_jvm(url: str, *statements: str) -> list[list[dict[str, object]]]:
    """Run statements in a Spark with Iceberg's runtime and a REST catalog, and return the rows of each.

    Values that JSON does not have are what `repr` makes of them.
    """
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.jars": str(RUNTIME),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.jvm": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.jvm.type": "rest",
        "spark.sql.catalog.jvm.uri": url,
        "spark.sql.catalog.jvm.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "spark.sql.catalog.jvm.rest-metrics-reporting-enabled": "false",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([settings, *statements])],
        env={**os.environ, "SPARK_LOCAL_IP": processes.LOOPBACK, "TZ": "UTC", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def as_printed(row: dict[str, object]) -> dict[str, object]:
    """Return a row as `run_in_the_jvm` returns it: Spark gives moments in the local time zone, which is UTC."""
    at = row["at"]
    local = {"at": at.replace(tzinfo=None)} if isinstance(at, datetime.datetime) else {}
    printed: dict[str, object] = json.loads(json.dumps({**row, **local}, default=repr))
    return printed


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[icebergshop.Shop]:
    with ExitStack() as stack:
        shop = icebergshop.Shop(tmp_path, "rest", stack)
        shop.catalog.create_table("shop.sales", SCHEMA)
        yield shop


def test_the_jvm_reads_and_merges_what_the_sink_has_written_and_the_sink_goes_on(shop: icebergshop.Shop) -> None:
    url = shop.gateway.endpoint
    sink = iceberg_sink("shop.sales", catalog={"type": "rest", "uri": url})

    def commit(batch_id: int, *rows: dict[str, object]) -> None:
        context = sinkcontexts.a_sink_context(batch_id=batch_id)
        part = sink.write_part(iter([pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)]), context)
        assert part is not None
        transaction = sink.prepare((part,), context)
        assert transaction is not None
        sink.commit(transaction, context)

    sink.open(sinkcontexts.a_sink_context(batch_id=-1))
    commit(0, FULL, EMPTY)
    read, _, merged = run_in_the_jvm(url, READ, MERGE, READ)
    assert read == [as_printed(FULL), as_printed(EMPTY)]
    assert merged == [
        as_printed(FULL),
        as_printed({**EMPTY, "name": "two"}),
        as_printed({**EMPTY, "id": 3, "name": "three"}),
    ]

    commit(0, FULL, EMPTY)  # A batch that runs again after the merge is not committed twice.
    commit(1, {**EMPTY, "id": 4})
    (last,) = run_in_the_jvm(url, READ)
    assert last == [*merged, as_printed({**EMPTY, "id": 4})]
