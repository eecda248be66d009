"""The session that reads a native snapshot: the one of this process, if there is one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession
from statefulspark import errors
from statefulspark.engine.canonical import offline


class _Running:
    """A session that a job runs in."""

    def __init__(self, reader: object) -> None:
        state = SimpleNamespace(StateReader=reader)
        self._jvm = SimpleNamespace(io=SimpleNamespace(statefulspark=SimpleNamespace(state=state)))
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def test_a_session_that_another_thread_has_built_is_used_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """`read_state` on another thread than that of the session changed its settings, and ended it with its queries."""
    running = _Running(reader=object())
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", cast("SparkSession", running))

    with offline.engine() as session:
        assert session is cast("SparkSession", running)

    assert not running.is_stopped


def test_a_session_without_the_classes_of_this_product_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook with plain PySpark, a `TypeError` about a JavaPackage was raised."""
    running = _Running(JavaPackage("io.statefulspark.state.StateReader", None, None))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: cast("SparkSession", running))

    with pytest.raises(errors.InvalidArgumentError, match="has not started Spark") as refused, offline.engine():
        pass

    assert refused.value.reason == "EngineMissing"
