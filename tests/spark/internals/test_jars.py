"""The jars fit the installed release: ours was compiled for another one, and those of its own are its own."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from statefulspark.engine import gateway
from statefulspark.sparkinternals import releases

pytestmark = pytest.mark.slow  # it starts Java

SOURCES = Path(__file__).resolve().parents[3] / "jobruntime" / "jvm" / "src" / "main" / "java"
NEEDED_FOR_REWRITING = {"io/statefulspark/state/StateImport.java", "io/statefulspark/state/StateReader.java"}
"""Not compiled for a release that cannot rewrite state: the driver does not use these classes there."""


def test_hadoop_aws_is_of_the_hadoop_client_of_pyspark() -> None:
    assert _version(gateway.jar_folders()[-1], "hadoop-aws") == _version(releases.home() / "jars", "hadoop-client-api")


def test_no_class_is_in_two_of_our_jars() -> None:
    names = [jar.name for folder in gateway.jar_folders() for jar in folder.glob("*.jar")]
    artifacts = [re.sub(r"-[0-9][^-]*\.jar$", "", name) for name in names]
    assert len(artifacts) == len(set(artifacts))


def test_our_classes_are_the_same_if_they_are_compiled_for_this_release(tmp_path: Path) -> None:
    """A class that differs calls something that has moved; `io.statefulspark.internals` is where that belongs."""
    can_rewrite = releases.has(releases.REPARTITION)
    files = [
        file
        for file in sorted(SOURCES.rglob("*.java"))
        if can_rewrite or file.relative_to(SOURCES).as_posix() not in NEEDED_FOR_REWRITING
    ]
    class_path = f"{releases.home()}/jars/*:{gateway.own_class_path()}"
    compiled = subprocess.run(
        ["javac", "--release", "17", "-nowarn", "-cp", class_path, "-d", tmp_path, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr[-4000:]
    with zipfile.ZipFile(gateway.JARS / "statefulspark-checkpoint.jar") as jar:
        shipped = {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
    now = {file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in tmp_path.rglob("*.class")}
    assert [name for name, body in now.items() if shipped.get(name) != body] == []


def _version(folder: Path, artifact: str) -> str:
    (version,) = (
        match[1] for jar in folder.glob("*.jar") if (match := re.fullmatch(rf"{artifact}-([0-9.]+)\.jar", jar.name))
    )
    return version
