"""Where Spark's log goes: to a file while a person looks on, and nowhere else with JSON logs or --verbose."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from statefulspark import telemetry
from statefulspark.engine import sparklogfile


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    loggers = {name: logging.getLogger(name).level for name in ("statefulspark", "py4j")}
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in loggers.items():
        logging.getLogger(name).setLevel(before)


def test_a_person_is_told_the_file_of_spark_s_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream)

    configuration, file = sparklogfile.java_options("default/words")

    path = Path(file.removeprefix("-Dstatefulspark.spark.log="))
    assert configuration == f"-Dlog4j2.configurationFile={sparklogfile.CONFIGURATION}"
    assert sparklogfile.CONFIGURATION.is_file()
    assert path.name.startswith("spark-default-words-")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert f"file={path}" in stream.getvalue()


@pytest.mark.parametrize(
    ("log_format", "detail"),
    [(telemetry.LogFormat.JSON, telemetry.Detail.BRIEF), (telemetry.LogFormat.TEXT, telemetry.Detail.VERBOSE)],
    ids=["in a pod", "verbose"],
)
def test_spark_s_log_stays_where_it_is(log_format: telemetry.LogFormat, detail: telemetry.Detail) -> None:
    telemetry.configure(log_format, io.StringIO(), detail=detail)

    assert sparklogfile.java_options("default/words") == ()


def test_a_folder_of_another_user_s_making_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    usual = sparklogfile.path_of("w").parent
    usual.rmdir()
    usual.symlink_to(tmp_path / "elsewhere")

    assert sparklogfile.path_of("w").parent not in (usual, tmp_path / "elsewhere")
