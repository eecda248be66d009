"""The session that reads a native snapshot: the one of this process, if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession
from statefulspark.engine.canonical import offline

if TYPE_CHECKING:
    import pytest


class _Running:
    """A session that a job runs in."""

    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def test_a_session_that_another_thread_has_built_is_used_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """`read_state` on another thread than that of the session changed its settings, and ended it with its queries."""
    running = _Running()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", cast("SparkSession", running))

    with offline.engine() as session:
        assert session is cast("SparkSession", running)

    assert not running.is_stopped
