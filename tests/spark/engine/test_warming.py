"""What a start does early: nothing waits for it, it writes nothing, and its failure is a warning."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from statefulspark.engine import warming


def _wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "warming":
            thread.join(60)
            assert not thread.is_alive()


def test_storage_is_read_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = tmp_path / "epochs" / "00000001.json"
    record.parent.mkdir()
    record.write_text("{}")

    warming.read_storage(spark, f"file:{record}")
    _wait()

    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [record]
    assert caplog.records == []


def test_storage_that_cannot_be_read_is_one_warning(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "statefulspark"):
        warming.read_storage(spark, f"file:{tmp_path}/epochs/00000001.json")
        _wait()

    assert [record.getMessage() for record in caplog.records] == ["storage could not be read early"]
    assert "FileNotFoundException" in str(vars(caplog.records[0])["why"])
    assert spark.range(3).count() == 3
