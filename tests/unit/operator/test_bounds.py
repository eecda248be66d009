"""No list and no map of a spec is without a limit: the operator keeps a copy of every job in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import JsonValue
from statefulspark_operator.api import crd
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster.resources import Resource, items, section
from statefulspark_operator.engine import validate
from statefulspark_operator.lifecycle.situation import Rejection


def unlimited(schema: Resource, path: str) -> Iterator[str]:
    """Yield the lists and maps of a schema that may be of any length."""
    is_map = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if (schema.get("type") == "array" and "maxItems" not in schema) or (is_map and "maxProperties" not in schema):
        yield path
    for name in section(schema, "properties"):
        yield from unlimited(section(schema, "properties", name), f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from unlimited(section(schema, part), f"{path}[]")


@pytest.mark.parametrize("definition", [crd.build_crd(), crd.build_savepoint_crd()], ids=["job", "savepoint"])
def test_each_list_and_map_of_a_spec_has_a_limit(definition: Resource) -> None:
    versions = items(definition, "spec", "versions")
    assert versions
    for version in versions:
        assert list(unlimited(section(version, "schema", "openAPIV3Schema", "properties", "spec"), "spec")) == []


def a_spec_with(**fields: JsonValue) -> Resource:
    spec: Resource = {"image": "x", "job": {"file": "/f.py"}, "storage": {"uri": "s3://b/p"}, **fields}
    return {"metadata": {"name": "flights", "namespace": "demo"}, "spec": spec}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"driver": {"env": [{"name": f"V{number}", "value": "x"} for number in range(501)]}}, "spec.driver.env"),
        ({"imagePullSecrets": [{"name": f"s{number}"} for number in range(51)]}, "spec.imagePullSecrets"),
        ({"job": {"file": "/f.py", "parameters": {f"p{number}": "" for number in range(201)}}}, "spec.job.parameters"),
        (
            {"driver": {"podTemplate": {"spec": {f"t{number}": 1 for number in range(65)}}}},
            "spec.driver.podTemplate.spec",
        ),
    ],
    ids=["env", "imagePullSecrets", "parameters", "template"],
)
def test_the_operator_refuses_what_an_older_crd_has_let_through(fields: dict[str, JsonValue], path: str) -> None:
    rejected = validate.parse(a_spec_with(**fields))

    assert isinstance(rejected, Rejection)
    assert rejected.reason == "SpecInvalid"
    assert rejected.message.startswith(f"{path}: ")


def test_what_jobs_have_is_accepted() -> None:
    fields: dict[str, JsonValue] = {"driver": {"env": [{"name": f"V{number}", "value": "x"} for number in range(500)]}}

    assert isinstance(validate.parse(a_spec_with(**fields)), StatefulSparkJobSpec)
