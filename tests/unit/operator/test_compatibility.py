"""A CRD that would refuse, or mean otherwise, what a released one accepted is refused before it is released."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue
from statefulspark_operator import cli
from statefulspark_operator.api import compatibility, crd
from statefulspark_operator.cluster.resources import Resource


def a_crd() -> Resource:
    """A small CRD with something of everything."""
    spec: Resource = {
        "type": "object",
        "required": ["image"],
        "x-kubernetes-validations": [{"rule": "self.image != ''", "message": "m"}],
        "properties": {
            "image": {"type": "string", "maxLength": 100, "minLength": 1},
            "mode": {"type": "string", "enum": ["Warm", "Cold"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 10},
            "sum": {"type": "string", "pattern": "^[0-9]+$"},
            "size": {"anyOf": [], "x-kubernetes-int-or-string": True},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
    }
    version: Resource = {
        "name": "v1",
        "served": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names: Resource = {"kind": "Job", "plural": "jobs", "singular": "job", "shortNames": ["j"], "categories": ["all"]}
    return {"spec": {"group": "g", "scope": "Namespaced", "names": names, "versions": [version]}}


def spec_of(definition: Resource) -> Resource:
    found = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]  # type: ignore[index, call-overload]
    assert isinstance(found, dict)
    return found


def field(definition: Resource, name: str) -> Resource:
    found = spec_of(definition)["properties"][name]  # type: ignore[index, call-overload]
    assert isinstance(found, dict)
    return found


def add_rule(definition: Resource, rule: str) -> None:
    spec_of(definition)["x-kubernetes-validations"].append({"rule": rule, "message": "m"})  # type: ignore[union-attr, arg-type]


def put(definition: Resource, name: str, schema: Resource) -> None:
    spec_of(definition)["properties"][name] = schema  # type: ignore[index, call-overload]


def add_version(definition: Resource, **schema: JsonValue) -> None:
    versions = definition["spec"]["versions"]  # type: ignore[index, call-overload]
    newer = copy.deepcopy(versions[0])  # type: ignore[index, call-overload]
    newer.update(name="v2", storage=False)  # type: ignore[union-attr, call-arg]
    newer["schema"]["openAPIV3Schema"].update(schema)  # type: ignore[index, call-overload, union-attr]
    versions.append(newer)  # type: ignore[union-attr]


Change = Callable[[Resource], object]

BREAKS: list[tuple[str, Change, str]] = [
    ("another group", lambda it: it["spec"].update(group="h"), "group was 'g'"),  # type: ignore[union-attr]
    ("another kind", lambda it: it["spec"]["names"].update(kind="Task"), "names.kind"),  # type: ignore[index, call-overload, union-attr]
    ("a short name less", lambda it: it["spec"]["names"].update(shortNames=[]), "names.shortNames"),  # type: ignore[index, call-overload, union-attr]
    ("a version less", lambda it: it["spec"]["versions"][0].update(name="v2"), "version v1 is not served"),  # type: ignore[index, call-overload, union-attr]
    ("a version that differs", lambda it: add_version(it, required=["spec"]), "v1, v2 have different schemas"),
    ("no status of its own", lambda it: it["spec"]["versions"][0].update(subresources={}), "a subresource"),  # type: ignore[index, call-overload, union-attr]
    ("a field less", lambda it: spec_of(it)["properties"].pop("count"), "spec.count is gone"),  # type: ignore[union-attr, arg-type, call-arg]
    (
        "a field of a part less",
        lambda it: field(it, "parts")["items"].update(properties={}),
        "spec.parts[].name is gone",
    ),  # type: ignore[union-attr]
    ("another type", lambda it: field(it, "count").update(type="string"), "spec.count: type was 'integer'"),
    ("only a number", lambda it: field(it, "size").pop("x-kubernetes-int-or-string"), "spec.size"),
    ("a required field more", lambda it: spec_of(it).update(required=["image", "count"]), "spec.count is required"),
    ("a value less", lambda it: field(it, "mode").update(enum=["Warm"]), "['Cold'] are not accepted"),
    ("only some values", lambda it: field(it, "image").update(enum=["a"]), "only ['a']"),
    ("a higher minimum", lambda it: field(it, "count").update(minimum=1), "minimum was 0 and is 1"),
    ("a lower maximum", lambda it: field(it, "count").update(maximum=9), "maximum was 10 and is 9"),
    ("shorter text", lambda it: field(it, "image").update(maxLength=99), "maxLength was 100"),
    ("a limit where none was", lambda it: field(it, "sum").update(maxLength=9), "maxLength was None"),
    ("another pattern", lambda it: field(it, "sum").update(pattern="^[0-9]*$"), "spec.sum: pattern"),
    ("a pattern where none was", lambda it: field(it, "image").update(pattern="a"), "spec.image: pattern"),
    (
        "other values of a map",
        lambda it: field(it, "labels").update(additionalProperties=False),
        "additionalProperties",
    ),
    ("a rule more", lambda it: add_rule(it, "self.count > 1"), "the rule 'self.count > 1' is new"),
    ("a rule about a field of before", lambda it: add_rule(it, "!has(self.count) || self.count > 1"), "is new"),
    ("a rule that asks for what may be absent", lambda it: add_rule(it, "has(self.count) || has(self.x)"), "is new"),
]

FINE: list[tuple[str, Change]] = [
    ("nothing", lambda _: None),
    ("a version with the same schema", add_version),
    ("a field more", lambda it: put(it, "more", {"type": "string", "maxLength": 5})),
    ("a required field that is optional now", lambda it: spec_of(it).pop("required")),
    ("a value more", lambda it: field(it, "mode").update(enum=["Warm", "Cold", "Hot"])),
    ("wider limits", lambda it: field(it, "count").update(minimum=-1, maximum=11)),
    ("a limit less", lambda it: field(it, "image").pop("maxLength")),
    ("a pattern less", lambda it: field(it, "sum").pop("pattern")),
    ("a rule less", lambda it: spec_of(it).pop("x-kubernetes-validations")),
    ("another sentence", lambda it: spec_of(it).update(description="d")),
    ("a short name more", lambda it: it["spec"]["names"].update(shortNames=["j", "k"])),  # type: ignore[index, call-overload, union-attr]
    ("a rule about a new field", lambda it: add_rule(it, "!has(self.more) || self.more != ''")),
    ("a rule that a required field fulfils", lambda it: add_rule(it, "has(self.image) || has(self.more)")),
]


@pytest.mark.parametrize(("change", "why"), [pytest.param(change, why, id=name) for name, change, why in BREAKS])
def test_a_change_that_breaks_a_released_resource_is_named(change: Change, why: str) -> None:
    current = copy.deepcopy(a_crd())
    change(current)

    found = compatibility.breaks(a_crd(), current)

    assert any(why in sentence for sentence in found), found


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in FINE])
def test_a_change_that_every_released_resource_survives_is_none(change: Change) -> None:
    current = copy.deepcopy(a_crd())
    change(current)

    assert compatibility.breaks(a_crd(), current) == ()


def test_the_crds_stay_small_together() -> None:
    """`kubectl apply` keeps a copy in an annotation, which may have 256 KiB; and a chart has them all."""
    assert sum(len(text.encode()) for text in crd.files().values()) < 120_000


def test_the_gate_names_file_and_break(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text = next(iter(crd.files().items()))
    target = tmp_path / "9.9.9" / name
    target.parent.mkdir()
    target.write_text(text)
    assert cli.main(["crds", "--compatible-with", str(tmp_path)]) == 0

    released = yaml.safe_load(text)
    released["spec"]["names"]["shortNames"].append("older")
    target.write_text(yaml.safe_dump(released))

    assert cli.main(["crds", "--compatible-with", str(tmp_path)]) == 1
    assert f"{target}: names.shortNames" in capsys.readouterr().err


def test_the_gate_says_that_there_is_no_release_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["crds", "--compatible-with", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path} has no CRD of a release, so nothing was compared.\n"
