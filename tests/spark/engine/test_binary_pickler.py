"""Binary values come from the JVM to Python as the bytes that they are, and not as text that both sides convert."""

from __future__ import annotations

import pickletools
from pathlib import Path

import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from statefulspark.engine import session as spark_session

pytestmark = pytest.mark.spark

_ALL_BYTES = bytes(range(256))
_AS_BYTES = "spark.sql.execution.pyspark.binaryAsBytes"


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """A session whose JVM has made a checkpoint file manager, as every JVM with state has."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}")
    jvm.io.statefulspark.checkpoint.ConditionalCheckpointFileManager(path, spark._jsc.hadoopConfiguration())
    return spark


def _as_state(session: SparkSession, columns: str) -> bytes:
    """Return a row as Spark's state server sends it, with the settings of this session."""
    spark_session.activate(session)
    sent: bytes = session._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.toPyRow(
        session.sql(f"select {columns}")._jdf.head()
    )
    return sent


def test_a_megabyte_of_state_is_a_megabyte_on_its_way_to_python(session: SparkSession) -> None:
    sent = _as_state(session, f"'id' as id, unhex(repeat('{_ALL_BYTES.hex()}', 4096)) as blob")
    assert tuple(CPickleSerializer().loads(sent)) == ("id", _ALL_BYTES * 4096)
    assert len(sent) < (1 << 20) + 1024
    assert "BINBYTES" in {operation.name for operation, _, _ in pickletools.genops(sent)}


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_536])
def test_bytes_of_every_length_are_bytes_in_python(session: SparkSession, size: int) -> None:
    blob = (_ALL_BYTES * 256)[:size]
    (received,) = CPickleSerializer().loads(_as_state(session, f"X'{blob.hex()}' as blob"))
    assert (type(received), received) == (bytes, blob)


def test_bytes_within_lists_maps_and_records_and_absent_ones_are_equal(session: SparkSession) -> None:
    columns = (
        "array(X'00', X'00', null) as many, map('a', X'FF') as named, struct(X'80' as inner) as record, null as none"
    )
    many, named, record, none = CPickleSerializer().loads(_as_state(session, columns))
    assert (many, named, tuple(record), none) == ([b"\x00", b"\x00", None], {"a": b"\xff"}, (b"\x80",), None)


def test_where_spark_is_asked_for_bytearrays_they_stay_bytearrays(session: SparkSession) -> None:
    session.conf.set(_AS_BYTES, "false")
    try:
        (received,) = CPickleSerializer().loads(_as_state(session, f"X'{_ALL_BYTES.hex()}' as blob"))
    finally:
        session.conf.unset(_AS_BYTES)
    assert (type(received), received) == (bytearray, _ALL_BYTES)
