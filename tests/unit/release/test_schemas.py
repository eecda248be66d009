"""An editor completes and checks a manifest as the API server would: by a schema that each of ours names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jobspecs
import jsonschema
import pytest
import yaml
from statefulspark_operator.api import base

from release import schemas

ROOT = Path(__file__).resolve().parents[3]
LINE = "# yaml-language-server: $schema="
KINDS = (base.KIND, base.SAVEPOINT_KIND)
TEMPLATE = ROOT / "jobruntime" / "src" / "statefulspark" / "template"
FILES = schemas.files()
JOB_SCHEMA = json.loads(FILES["statefulspark.io/statefulsparkjob_v1alpha1.json"])
SAVEPOINT_SCHEMA = json.loads(FILES["statefulspark.io/sparksavepoint_v1alpha1.json"])


def manifests_of(file: Path) -> Iterator[tuple[list[str], dict[str, object]]]:
    """Yield each resource of ours in a file: the lines of its document, and its content."""
    for text in file.read_text().split("\n---\n"):
        document = yaml.safe_load(text)
        if isinstance(document, dict) and document.get("kind") in KINDS:
            yield text.splitlines(), document


EXAMPLES = [
    (file, lines, document)
    for folder in ("examples", "docs", "charts", "jobruntime/src")
    for file in sorted((ROOT / folder).rglob("*.yaml"))
    if "templates" not in file.parts
    for lines, document in manifests_of(file)
]


def a_job_manifest(**spec: object) -> dict[str, object]:
    """The least that a resource needs, and what a case adds."""
    least: dict[str, object] = {"image": "i", "job": {"file": "/j.py"}, "storage": {"uri": "s3://bucket/state"}}
    head: dict[str, object] = {"apiVersion": base.API_VERSION, "kind": base.KIND, "metadata": {"name": "orders"}}
    return {**head, "spec": {**least, **spec}}


def complaints(document: dict[str, object], schema: dict[str, object] = JOB_SCHEMA) -> list[str]:
    """Return where the schema finds something."""
    return [error.json_path for error in jsonschema.Draft7Validator(schema).iter_errors(document)]


def test_examples_and_what_init_writes_are_looked_at() -> None:
    assert {file.name for file, *_ in EXAMPLES} == {"job.yaml"}
    assert len(EXAMPLES) == len({file for file, *_ in EXAMPLES}) == 3


@pytest.mark.parametrize(("file", "lines", "document"), EXAMPLES, ids=[file.parent.name for file, *_ in EXAMPLES])
def test_every_manifest_begins_with_its_schema_and_fits_it(
    file: Path, lines: list[str], document: dict[str, object]
) -> None:
    named = file.parent / lines[0].removeprefix(LINE)
    committed = named.parent / named.name.removeprefix(".") if file.parent == TEMPLATE else named

    assert lines[0].startswith(LINE)
    assert committed.name == f"{str(document['kind']).lower()}_v1alpha1.json"
    assert complaints(document, json.loads(committed.read_text())) == []


def test_the_values_of_the_chart_begin_with_their_schema() -> None:
    values = ROOT / "charts" / "statefulspark-operator" / "values.yaml"
    first = values.read_text().splitlines()[0]

    assert first.startswith(LINE)
    assert (values.parent / first.removeprefix(LINE)).is_file()


def test_the_schemas_in_the_repository_are_those_of_the_crds() -> None:
    assert {path: (schemas.PUBLISHED / path).read_text() for path in FILES} == FILES
    assert json.loads((TEMPLATE / "statefulsparkjob_v1alpha1.json").read_text()) == JOB_SCHEMA


def test_both_are_schemas_that_editors_read() -> None:
    for schema in (JOB_SCHEMA, SAVEPOINT_SCHEMA):
        jsonschema.Draft7Validator.check_schema(schema)
        assert "x-kubernetes" not in json.dumps(schema)


def test_a_job_that_sets_something_of_every_kind_is_right() -> None:
    assert complaints(a_job_manifest(**jobspecs.FULL)) == []


RIGHT: dict[str, dict[str, object]] = {
    "nothing more": a_job_manifest(),
    "a number where Kubernetes reads a quantity": a_job_manifest(
        driver={"podTemplate": {"spec": {"containers": [{"name": "log", "resources": {"limits": {"cpu": 2}}}]}}}
    ),
    "null removes a field of a pod": a_job_manifest(
        podTemplate={"spec": {"tolerations": None, "securityContext": None}}
    ),
    "labels of pods": a_job_manifest(
        podTemplate={"metadata": {"labels": {"team": "orders"}, "annotations": {"a": "b"}}}
    ),
    "a resource as the API server shows it": {**a_job_manifest(), "status": {"phase": "Running", "conditions": []}},
}


@pytest.mark.parametrize("document", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_not_marked(document: dict[str, object]) -> None:
    assert complaints(document) == []


POD = "$.spec.driver.podTemplate.spec"
MISTAKES: dict[str, tuple[dict[str, object], str]] = {
    "another API version": ({**a_job_manifest(), "apiVersion": "statefulspark.io/v1"}, "$.apiVersion"),
    "another kind": ({**a_job_manifest(), "kind": "SparkJob"}, "$.kind"),
    "a name that is no name of a Service": ({**a_job_manifest(), "metadata": {"name": "1st"}}, "$.metadata.name"),
    "a field that does not exist": (a_job_manifest(checkpoint={"intervall": "1s"}), "$.spec.checkpoint"),
    "a field of a pod that does not exist": (a_job_manifest(driver={"podTemplate": {"spec": {"nodeSelctor": {}}}}), POD),
    "a field of a container that does not exist": (
        a_job_manifest(driver={"podTemplate": {"spec": {"containers": [{"name": "log", "imag": "i"}]}}}),
        f"{POD}.containers[0]",
    ),
    "a label that is a number": (
        a_job_manifest(podTemplate={"metadata": {"labels": {"version": 2}}}),
        "$.spec.podTemplate.metadata.labels.version",
    ),
    "a word that is none": (a_job_manifest(upgrade={"strategy": "Hot"}), "$.spec.upgrade.strategy"),
    "a length of time that is none": (a_job_manifest(checkpoint={"interval": "soon"}), "$.spec.checkpoint.interval"),
    "two places to restore from": (
        a_job_manifest(restore={"source": {"uri": "s3://bucket/savepoint", "empty": {}}}),
        "$.spec.restore.source",
    ),
    "no place to restore from": (a_job_manifest(restore={"source": {}}), "$.spec.restore.source"),
    "no file": (a_job_manifest(job={"parameters": {}}), "$.spec.job"),
    "a setting of Spark that the product makes": (a_job_manifest(sparkConf={"spark.master": "local"}), "$.spec.sparkConf"),
    "a group of such settings": (a_job_manifest(sparkConf={"spark.kubernetes.driver.pod.name": "x"}), "$.spec.sparkConf"),
    "no bucket": (a_job_manifest(storage={"uri": "/state"}), "$.spec.storage.uri"),
}  # fmt: skip


@pytest.mark.parametrize(("document", "where"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_marked_where_it_is(document: dict[str, object], where: str) -> None:
    assert set(complaints(document)) == {where}


def test_a_savepoint_that_is_taken_and_adopted_is_a_mistake() -> None:
    spec = {"jobName": "orders", "source": {"uri": "s3://bucket/savepoint"}, "location": "s3://bucket/elsewhere"}
    document: dict[str, object] = {
        "apiVersion": base.API_VERSION, "kind": base.SAVEPOINT_KIND, "metadata": {"name": "nightly"}, "spec": spec
    }  # fmt: skip

    assert complaints(document, SAVEPOINT_SCHEMA) == ["$.spec"]
