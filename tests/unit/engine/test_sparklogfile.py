"""Where Spark's log goes: to a file while a person looks on, and nowhere else with JSON logs or --verbose."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from statefulspark import errors, telemetry
from statefulspark.engine import gateway, sparklogfile


@pytest.fixture(autouse=True)
def no_jvm_begun() -> Iterator[None]:
    gateway.abandon()  # a test before may have left a JVM that it started and never asked for
    yield
    gateway.abandon()


def test_a_person_is_told_the_file_of_spark_s_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = io.StringIO()
    telemetry.configure(telemetry.LogFormat.TEXT, stream)

    configuration, file = sparklogfile.java_options("default/words")

    path = Path(file.removeprefix("-Dstatefulspark.spark.log="))
    assert configuration == f"-Dlog4j2.configurationFile={sparklogfile.FOR_PEOPLE}"
    assert sparklogfile.FOR_PEOPLE.is_file()
    assert path.name.startswith("spark-default-words-")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert f"file={path}" in stream.getvalue()


def test_prints_of_a_job_s_functions_are_shown_and_chatter_is_not() -> None:
    shown = io.StringIO()
    lines = (
        b"WARNING: Using incubator modules: jdk.incubator.vector\n",
        b"Starting Streaming TransformWithStateInPandas Python worker.\n",
        b"\n",
        b"looked at key a\n",
        b"\n",
        b"Streaming TransformWithStateInPandas Python worker Completed execution of UDF: <x>.\n",
        b"\n",
    )

    sparklogfile.forward(io.BytesIO(b"".join(lines)), shown)

    assert shown.getvalue() == "looked at key a\n\n"


@pytest.mark.parametrize(
    ("log_format", "detail", "is_in_file"),
    [
        (telemetry.LogFormat.TEXT, telemetry.Detail.BRIEF, True),
        (telemetry.LogFormat.TEXT, telemetry.Detail.VERBOSE, False),
        (telemetry.LogFormat.JSON, telemetry.Detail.BRIEF, False),
    ],
    ids=["for a person", "verbose", "in a pod"],
)
def test_spark_s_log_is_in_a_file_for_a_person_only(
    log_format: telemetry.LogFormat,
    detail: telemetry.Detail,
    is_in_file: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments.new\nmv {tmp_path}/arguments.new {tmp_path}/arguments\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    telemetry.configure(log_format, io.StringIO(), detail=detail)

    sparklogfile.start_jvm({"spark.app.name": "default/words"})
    with pytest.raises(errors.InternalError, match="ended with code 0"), gateway.connect({}):
        pass

    assert ("-Dstatefulspark.spark.log=" in (tmp_path / "arguments").read_text()) is is_in_file


def test_a_folder_of_another_user_s_making_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    usual = sparklogfile.path_of("w").parent
    usual.rmdir()
    usual.symlink_to(tmp_path / "elsewhere")

    assert sparklogfile.path_of("w").parent not in (usual, tmp_path / "elsewhere")
