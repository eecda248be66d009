"""The JVM of a driver: how it is started, and what is said when it cannot be."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from statefulspark import errors
from statefulspark.engine import gateway
from statefulspark.sparkinternals import releases

pytestmark = pytest.mark.slow

_FAKE_JAVA = """#!/bin/bash
printf '%s\\n' "$@" > "$(dirname "$0")/arguments"
while [ "$1" != --properties-file ]; do shift; done
cat "$2" > "$(dirname "$0")/properties"
stat -c %a "$(dirname "$2")" > "$(dirname "$0")/mode"
{ANSWER}
"""
_ANSWERS = r"""printf '\x00\x00\x30\x39\x00\x00\x00\x06secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.tmp"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.tmp" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a `java` that writes down how it was called and answers as Spark's gateway does."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv(gateway.ENV_ARCHIVE, raising=False)
    _install(tmp_path, _ANSWERS)
    started = gateway._Started()
    monkeypatch.setattr(gateway, "_started", started)
    yield tmp_path / "bin"
    if started.launch is not None:
        started.launch.stop()


def _install(home: Path, answer: str) -> None:
    program = home / "bin" / "java"
    program.write_text(_FAKE_JAVA.replace("{ANSWER}", answer))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def _arguments(java: Path) -> list[str]:
    return (java / "arguments").read_text().splitlines()


def test_credentials_are_in_a_private_file_and_not_on_the_command_line(java: Path) -> None:
    launched = gateway.launch({"spark.hadoop.fs.s3a.secret.key": "hush=hush\\", "spark.app.name": " a: b"})
    gateway.wait(launched)
    assert not any("hush" in argument for argument in _arguments(java))
    properties = (java / "properties").read_text().splitlines()
    assert properties == ["spark.hadoop.fs.s3a.secret.key=hush=hush\\\\", "spark.app.name=\\ a: b"]
    assert (java / "mode").read_text().strip() == "700"
    assert not launched.folder.exists()
    launched.stop()


def test_pyspark_finds_the_jvm_that_answered_and_later_processes_do_not(java: Path) -> None:
    gateway.start({"spark.driver.memory": "2g"})
    with gateway.connect({"spark.driver.memory": "3g"}):
        assert (os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]) == ("12345", "secret")
    assert not [variable for variable in os.environ if variable.startswith("PYSPARK_GATEWAY_")]
    assert "-Xmx2g" in _arguments(java), "the second call must not start a second JVM"


def test_a_jvm_that_ends_is_an_error_at_once(java: Path) -> None:
    _install(java.parent, "exit 3")
    with pytest.raises(errors.InternalError, match="ended with code 3") as raised:
        gateway.wait(gateway.launch({}))
    assert raised.value.reason == "JvmNotStarted"


def test_a_jvm_that_ended_does_not_fail_the_next_run_of_a_notebook(java: Path) -> None:
    """Settings that the JVM refused were corrected, and the corrected run failed with the JVM of the first."""
    _install(java.parent, "exit 3")
    with pytest.raises(errors.InternalError, match="ended with code 3"), gateway.connect({"spark.driver.memory": "1"}):
        pass
    _install(java.parent, _ANSWERS)

    with gateway.connect({"spark.driver.memory": "2g"}):
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "12345"

    assert "-Xmx2g" in _arguments(java)


def test_without_java_the_error_names_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(errors.InternalError, match="Java 17"):
        gateway.launch({})


@pytest.mark.parametrize("version", ["1.8.0_442", "11.0.26"])
def test_an_older_java_is_refused_before_it_starts(java: Path, version: str) -> None:
    (java.parent / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{version}"\n')
    refusal = (
        rf"{java.parent} has Java {version.split('.')[0]}, and Spark needs Java 17 or newer; set JAVA_HOME to one\."
    )

    with pytest.raises(errors.InternalError, match=refusal) as refused:
        gateway.launch({})

    assert refused.value.reason == "JavaUnsupported"


@pytest.mark.parametrize("version", ["17", "21.0.8", "25.0.1"])
def test_a_newer_java_starts(java: Path, version: str) -> None:
    (java.parent / "release").write_text(f'JAVA_VERSION="{version}"\n')

    gateway.launch({}).stop()


def test_the_jvm_leaves_the_process_group_and_ends_with_its_input(java: Path) -> None:
    launched = gateway.launch({})
    gateway.wait(launched)
    assert os.getpgid(launched.process.pid) == launched.process.pid != os.getpgrp()
    assert launched.process.stdin is not None
    launched.process.stdin.close()
    assert launched.process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("release", "is_used"),
    [
        pytest.param(releases.version(), True, id="an archive of the installed PySpark is used"),
        pytest.param("4.0.5", False, id="one of another PySpark is not"),
        pytest.param(None, False, id="one that is absent is not"),
    ],
)
def test_the_archive_of_the_image(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, is_used: bool
) -> None:
    archive = tmp_path / "jvm.jsa"
    if release is not None:
        archive.touch()
        gateway.archive_release(archive).write_text(release)
    monkeypatch.setenv(gateway.ENV_ARCHIVE, str(archive))
    launched = gateway.launch({"spark.driver.extraJavaOptions": "-Da=b '-Dc=d e'"})
    gateway.wait(launched)
    arguments = _arguments(java)
    assert (f"-XX:SharedArchiveFile={archive}" in arguments) is is_used
    assert arguments[arguments.index("-Da=b") + 1] == "-Dc=d e"
    launched.stop()


def test_the_class_path_names_each_jar_once_in_a_fixed_order() -> None:
    jars = gateway.class_path()
    common, of_release = ([jar for jar in jars if Path(jar).parent == folder] for folder in gateway.jar_folders())
    own = [*sorted(common), *sorted(of_release)]
    assert len(jars) == len(set(jars))
    assert jars[: len(own)] == own
    assert Path(jars[len(own)]).name.startswith("slf4j-api-")
    assert not any("*" in jar for jar in jars)


def test_the_module_options_are_those_of_sparks_own_launcher() -> None:
    home = releases.home()
    main = ["java", "-Xmx64m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    printed = subprocess.run(
        [*main, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    command = [part.strip() for part in printed.split("\0") if part.strip()]
    between = command[command.index("-cp") + 2 : command.index("org.apache.spark.deploy.SparkSubmit")]
    assert tuple(option for option in between if not option.startswith("-Xmx")) == gateway.MODULE_OPTIONS


def test_a_start_returns_before_the_jvm_answers(java: Path) -> None:
    _install(java.parent, "sleep 5\n" + _ANSWERS)
    began = time.monotonic()
    gateway.start({})
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("version", ["3.5.8", "4.0.5", "4.4.0", "4.20.0", "5.1.0", "of an unknown release"])
def test_another_release_of_spark_is_refused_before_its_jvm_starts(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "version", lambda: version)

    with pytest.raises(errors.InternalError, match=rf"PySpark {version} is installed") as refused:
        gateway.launch({})

    assert refused.value.reason == "SparkUnsupported"
    assert "runs on PySpark 4.1 to 4.3" in refused.value.message
    assert "pip install 'pyspark>=4.1,<4.4'" in refused.value.message
