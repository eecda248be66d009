"""No wheel of the runtime without the jars that a driver needs."""

import importlib.util
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from statefulspark.sparkinternals import releases

RUNTIME = Path(__file__).resolve().parents[3] / "jobruntime"
_MAVEN = "{http://maven.apache.org/POM/4.0.0}"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", RUNTIME / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_jar_that_the_build_names_is_required(hook: ModuleType) -> None:
    dependencies = ElementTree.parse(RUNTIME / "jvm" / "pom.xml").getroot().iter(f"{_MAVEN}dependency")  # noqa: S314 - our own file
    shipped = {
        dependency.findtext(f"{_MAVEN}artifactId")
        for dependency in dependencies
        if dependency.findtext(f"{_MAVEN}scope", "compile") == "compile"
    }

    assert {*hook.REQUIRED, *hook.OF_A_RELEASE} == {"statefulspark-checkpoint", *shipped}


def test_every_supported_release_of_spark_has_jars(hook: ModuleType) -> None:
    assert tuple(map(releases.text, releases.SUPPORTED)) == hook.RELEASES


@pytest.mark.parametrize("absent", ["statefulspark-checkpoint", "s3", "spark-4.1/hadoop-aws", "kafka-clients"])
def test_a_jar_that_is_missing_is_named(hook: ModuleType, tmp_path: Path, absent: str) -> None:
    jars = tmp_path / "src" / "statefulspark" / "jars"
    jars.mkdir(parents=True)
    of_releases = [f"spark-{release}/{name}" for release in hook.RELEASES for name in hook.OF_A_RELEASE]
    for name in [*hook.REQUIRED, *of_releases]:
        path = jars / (f"{name}.jar" if name.startswith("statefulspark") else f"{name}-2.35.4.jar")
        path.parent.mkdir(exist_ok=True)
        if name != absent:
            path.touch()

    assert hook.missing_jars(tmp_path) == [absent]


def test_a_source_tree_without_jars_builds_no_wheel(tmp_path: Path) -> None:
    tree = _tree_without_jars(tmp_path)

    outcome = _build(tree, tmp_path / "dist", {})

    assert outcome.returncode != 0
    assert "run `make jars` first" in outcome.stdout + outcome.stderr
    assert not list((tmp_path / "dist").glob("*.whl"))


def test_a_place_that_never_starts_spark_asks_for_a_wheel_without(tmp_path: Path) -> None:
    tree = _tree_without_jars(tmp_path)

    outcome = _build(tree, tmp_path / "dist", {"STATEFULSPARK_WITHOUT_JARS": "1"})

    assert outcome.returncode == 0, outcome.stderr
    assert list((tmp_path / "dist").glob("*.whl"))


def _tree_without_jars(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("jars", "jvm", "__pycache__")
    return Path(shutil.copytree(RUNTIME, folder / "jobruntime", ignore=ignored))


def _build(tree: Path, out: Path, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    return subprocess.run(command, env=os.environ | extra, capture_output=True, text=True, check=False)
