"""`statefulspark init`: each file of the folder works, under the name of the job."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from statefulspark import launch
from statefulspark.cli import init, main, options
from statefulspark_operator.api import spec

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as a new user makes it, in a folder that was empty."""
    monkeypatch.chdir(tmp_path)
    assert main.main(["init", "web-orders"]) == 0
    return tmp_path / "web-orders"


def test_a_folder_with_everything_is_made_and_the_next_steps_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    main.main(["init", "web-orders"])

    told = capsys.readouterr()
    assert {file.name for file in (tmp_path / "web-orders").iterdir()} == set(init.FILES)
    assert all(name in told.out for name in init.FILES)
    assert told.err.endswith("cd web-orders\n  statefulspark run job.py --dev\n")


def test_every_file_has_the_name_of_the_job(project: Path) -> None:
    assert [file.name for file in project.iterdir() if "my-job" in file.read_text()] == []
    assert options.declared_name(project / "job.py") == "web-orders"


def test_importing_the_job_file_runs_nothing(project: Path) -> None:
    last = launch.parse(project / "job.py").body[-1]

    assert ast.unparse(last) == "if __name__ == '__main__':\n    job.run()"


def test_the_tests_of_the_projects_function_are_green_without_spark(project: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-k",
        "not job_is_killed",
    ]

    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_the_manifest_is_what_the_operator_takes(project: Path) -> None:
    secret, resource = yaml.safe_load_all((project / "job.yaml").read_text())
    [crd] = (ROOT / "crds").glob("*statefulsparkjobs*.yaml")
    [version] = yaml.safe_load(crd.read_text())["spec"]["versions"]

    strict = _without_unknown_fields(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    jsonschema.validate(resource["spec"], strict)
    assert resource["metadata"]["name"] == "web-orders"
    assert resource["spec"]["storage"]["s3"]["credentialsSecretRef"]["name"] == secret["metadata"]["name"]
    assert spec.StatefulSparkJobSpec.model_validate(resource["spec"]).job.file == "/opt/job/job.py"


def _without_unknown_fields(schema: dict[str, object]) -> dict[str, object]:
    """Return the schema of an object that refuses fields of its own that it does not know, as `kubectl` does."""
    return schema if "additionalProperties" in schema else {**schema, "additionalProperties": False}


def test_the_image_has_the_job_where_the_manifest_looks_for_it(project: Path) -> None:
    dockerfile = (project / "Dockerfile").read_text()
    _, resource = yaml.safe_load_all((project / "job.yaml").read_text())

    assert f"--tag {resource['spec']['image']} ." in dockerfile
    [copied] = re.findall(r"^COPY --chmod=0644 (\S+) (\S+)$", dockerfile, re.MULTILINE)
    assert copied[1] + copied[0] == resource["spec"]["job"]["file"]
    assert (project / copied[0]).is_file()


def test_the_image_is_built_as_the_examples_are_on_the_image_that_the_readme_builds(project: Path) -> None:
    def steps(path: Path) -> list[str]:
        return [line.split()[0] for line in path.read_text().splitlines() if not line.startswith("#")]

    [base] = re.findall(r"^ARG BASE=(\S+)$", (project / "Dockerfile").read_text(), re.MULTILINE)
    assert steps(project / "Dockerfile") == steps(ROOT / "examples" / "flights" / "Dockerfile")
    assert f"docker build -f jobruntime/Dockerfile -t {base} ." in (ROOT / "README.md").read_text()


def test_the_values_are_those_of_the_chart(project: Path) -> None:
    chart = ROOT / "charts" / "statefulspark-operator"
    values = yaml.safe_load((project / "values.yaml").read_text())

    jsonschema.validate(yaml.safe_load((chart / "values.yaml").read_text()) | values, _schema(chart))
    assert f"{values['image']['repository']}:{values['image']['tag']} ." in (ROOT / "README.md").read_text()


def _schema(chart: Path) -> dict[str, object]:
    schema: dict[str, object] = json.loads((chart / "values.schema.json").read_text())
    return schema


@pytest.mark.parametrize(
    "name",
    ["Web", "web_orders", "1st", "-a", "a-", "a" * 46, "ä", "a.b"],
)
def test_a_name_that_kubernetes_refuses_is_refused_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main.main(["init", "--", name]) == 2
    assert f"The folder {name!r} cannot name a job" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a" * 45, "web-orders-2"])
def test_a_name_that_kubernetes_takes_is_taken(name: str) -> None:
    assert f'ss.Job("{name}")' in init.render(name)["job.py"]


def test_nothing_that_is_there_is_replaced(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "job.py").write_text("mine")

    assert main.main(["init", "web-orders"]) == 2
    assert "error: The folder web-orders is not empty, and nothing in it is replaced" in capsys.readouterr().err
    assert (project / "job.py").read_text() == "mine"


def test_a_file_of_that_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").touch()

    assert main.main(["init", "orders"]) == 2
    assert "error: The folder orders cannot be written: File exists; name another folder." in capsys.readouterr().err
