"""The example does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa
from pyspark.sql import types as spark_types
from statefulengine import Engine
from statefulspark.operators.groupstate import frames, function, timeouts
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import processor as transform_processor
from transformworld import schema

_EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "transform_with_state" / "sessions.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sessions", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _engine(example: ModuleType) -> Engine:
    event_time = timeouts.Timeout.EVENT_TIME
    columns = [
        spark_types.StructField("id", spark_types.StringType()),
        spark_types.StructField("at_ms", spark_types.LongType()),
    ]
    given = frames.StateFrames(spark_types.StructType(columns), ["id"], pandas_options=frames.PandasOptions("UTC"))
    settings = keyed_processor.OperatorSettings(
        uid="sessions",
        key=("id",),
        key_type="string",
        schema=schema(example.SESSIONS),
        timezone="UTC",
        disk_bytes=0,
        domains=event_time.mode.domains,
    )

    def make() -> function.GroupStateProcessor:
        wrapped = function.GroupStateFunction(
            example.track,
            timeout=event_time,
            schema=schema(example.OPEN_SESSION),
            width=4,
            given=given,
            has_watermark=True,
        )
        return function.GroupStateProcessor(
            wrapped, settings, transform_processor.RowHandling(given, None, frames=True, late=None)
        )

    return Engine(make, event_time.mode.value)


def _clicks(*moments_ms: int) -> pa.Table:
    columns = {"id": ["u"] * len(moments_ms), "at_ms": pa.array(moments_ms), "key_group": [0] * len(moments_ms)}
    return pa.table(columns).cast(pa.schema([("id", pa.string()), ("at_ms", pa.int64()), ("key_group", pa.int32())]))


def test_a_session_is_reported_when_nothing_came_for_a_minute() -> None:
    engine = _engine(_load())
    assert engine.batch(_clicks(1000, 3000), watermark_ms=0) == []
    assert engine.batch(_clicks(50_000, 2000), watermark_ms=1000) == []
    assert engine.batch(None, watermark_ms=110_000) == []
    session = {"id": "u", "clicks": 4, "start_ms": 1000, "end_ms": 50_000}
    assert engine.batch(None, watermark_ms=110_001) == [session]
    assert engine.batch(None, watermark_ms=999_999) == []
