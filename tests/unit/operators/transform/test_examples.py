"""The examples do what they say."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path
from types import ModuleType

import pandas as pd
from pyspark.sql import Row
from statefulspark.operators.transform import modes
from transformworld import World

_EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "transform_with_state"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _payment(second: int, amount: float) -> Row:
    return Row(card="c", amount=amount, place="here", time=datetime.datetime.fromtimestamp(second, datetime.UTC))


def test_a_large_payment_within_a_minute_of_a_small_one_is_reported() -> None:
    world = World(_load("fraud").Fraud(), modes.TimeMode.EVENT_TIME)
    assert world.batch({"c": [_payment(1, 0.5)]}, watermark_ms=0) == []
    assert world.batch({"c": [_payment(30, 700.0)]}, watermark_ms=1000, new_worker=True) == [
        Row(card="c", amount=700.0, place="here", spent=700.5, places=["here", "here"])
    ]


def test_a_large_payment_after_that_minute_is_not() -> None:
    world = World(_load("fraud").Fraud(), modes.TimeMode.EVENT_TIME)
    world.batch({"c": [_payment(1, 0.5)]}, watermark_ms=0)
    world.batch({}, watermark_ms=61_000)
    assert world.batch({"c": [_payment(62, 700.0)]}, watermark_ms=61_000) == []


def test_a_sensor_starts_from_what_was_known_and_is_reported_silent() -> None:
    world = World(_load("sensors").Violations(), modes.TimeMode.PROCESSING_TIME)
    known = {"s": [pd.DataFrame({"id": ["s"], "violations": [2]})]}
    hot = {"s": [pd.DataFrame({"id": ["s", "s"], "temperature": [101, 100]})]}
    reports = world.batch(hot, now_ms=1000, initial=known)
    assert [frame.to_dict("records") for frame in reports] == [[{"id": "s", "violations": 3, "silent": False}]]
    silent = world.batch({}, now_ms=61_000)
    assert [frame.to_dict("records") for frame in silent] == [[{"id": "s", "violations": 3, "silent": True}]]


def test_a_sensor_is_forgotten_ten_minutes_after_its_last_violation() -> None:
    world = World(_load("sensors").Violations(), modes.TimeMode.PROCESSING_TIME)
    world.batch({"s": [pd.DataFrame({"temperature": [200]})]}, now_ms=0)
    reports = world.batch({}, now_ms=600_000)
    assert [frame["violations"].tolist() for frame in reports] == [[0]]
