"""The JSON Schema of each kind, for editors and for checks without a cluster: what the CRD says, in plain JSON Schema.

A schema is made from the CRD, and says nothing that the CRD does not say, with one exception: a pod template has the fields
of a pod, by the models of Kubernetes' own client, so that an editor completes them and marks a wrong name. `python -m
release.schemas --write` writes the files where manifests of this repository and of `statefulspark init` name them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from kubernetes.client import models
from pydantic import JsonValue
from statefulspark_operator.api import crd

from release import artifacts

Schema = dict[str, JsonValue]
PUBLISHED = artifacts.ROOT / "docs" / "schemas"
"""A part of the documentation's site; named as in catalogues of schemas: group, then kind and version."""
_TEMPLATE = artifacts.ROOT / "jobruntime" / "src" / "statefulspark" / "template"
_IN_TEMPLATE = "statefulsparkjob_v1alpha1.json"
_DIALECT = "http://json-schema.org/draft-07/schema#"
_POD_FIELDS = {"metadata": "V1ObjectMeta", "spec": "V1PodSpec"}
_QUANTITIES = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor"})
"""Fields of a pod that take numbers, too, which the models of the client do not say."""
_HAS = re.compile(r"has\(self\.(\w+)\)")
_STATUS: Schema = {"type": "object", "description": "What the operator reports. Nobody writes it into a manifest."}


def files() -> Mapping[str, str]:
    """Return the text of each schema by its path, `statefulspark.io/statefulsparkjob_v1alpha1.json`."""
    texts: dict[str, str] = {}
    for definition in map(yaml.safe_load, crd.files().values()):
        spec = definition["spec"]
        for version in spec["versions"]:
            schema = _kind(spec, version)
            path = f"{spec['group']}/{spec['names']['singular']}_{version['name']}.json"
            texts[path] = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
    return texts


def _kind(spec: Schema, version: Schema) -> Schema:
    names, root = _object(spec["names"]), _object(_object(version["schema"])["openAPIV3Schema"])
    plain = _plain({**root, "properties": {**_object(root["properties"]), "status": {"type": "object"}}})
    properties: Schema = {
        **_object(plain["properties"]),
        "apiVersion": {"type": "string", "enum": [f"{spec['group']}/{version['name']}"]},
        "kind": {"type": "string", "enum": [names["kind"]]},
        "metadata": {"type": "object"},
        "status": _STATUS,
    }
    schema: Schema = {
        "$schema": _DIALECT,
        "title": names["kind"],
        **plain,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": properties,
    }
    if "podTemplate" in _object(_object(properties["spec"])["properties"]):
        schema["definitions"] = _pods()
    return schema


def _plain(part: Schema, field: str = "") -> Schema:
    """Return a part of a CRD's schema without what only Kubernetes reads."""
    plain: Schema = {name: value for name, value in part.items() if not name.startswith("x-kubernetes-")}
    for nested in ("items", "additionalProperties"):
        if isinstance(value := plain.get(nested), dict):
            plain[nested] = _plain(value)
    if isinstance(properties := plain.get("properties"), dict):
        plain["properties"] = {name: _plain(_object(value), name) for name, value in properties.items()}
    if field == "podTemplate":
        plain["properties"] = {
            name: {**_object(value), "allOf": [{"$ref": f"#/definitions/{_POD_FIELDS[name]}"}]}
            for name, value in _object(plain["properties"]).items()
        }
    is_open = "additionalProperties" in plain or "x-kubernetes-preserve-unknown-fields" in part
    if plain.get("type") == "object" and not is_open:
        plain["additionalProperties"] = False
    if part.get("x-kubernetes-list-type") == "set":
        plain["uniqueItems"] = True
    rules = part.get("x-kubernetes-validations")
    told = [_rule(str(_object(rule)["rule"])) for rule in rules] if isinstance(rules, list) else []
    if conditions := [condition for condition in told if condition is not None]:
        plain["allOf"] = [*conditions]
    return plain


def _rule(rule: str) -> Schema | None:
    """Return a CEL rule as JSON Schema; None for a rule that only the API server can judge."""
    each: list[JsonValue] = [{"required": [name]} for name in _HAS.findall(rule)]
    shape = _HAS.sub("has", rule)
    if shape == "has != has" or re.fullmatch(r"\[has(, has)+\]\.filter\(x, x\)\.size\(\) == 1", shape):
        return {"oneOf": each}
    if shape == "has || has":
        return {"anyOf": each}
    if shape == "!(has && has)":
        return {"not": {"allOf": each}}
    return next(_textual(rule), None)


def _textual(rule: str) -> Iterator[Schema]:
    """Yield what a rule about text says; at most one thing."""
    if matched := re.fullmatch(r"self\.matches\('([^']*)'\)", rule):
        yield {"pattern": matched[1]}
    if matched := re.fullmatch(r"self\.startsWith\('([^']*)'\)", rule):
        yield {"pattern": f"^{re.escape(matched[1])}"}
    if matched := re.fullmatch(r"self\.endsWith\('([^']*)'\)", rule):
        yield {"pattern": f"{re.escape(matched[1])}$"}
    if matched := re.fullmatch(r"!\('([^']*)' in self\)", rule):
        yield {"not": {"required": [matched[1]]}}
    if matched := re.fullmatch(r"self\.all\(key, !key\.startsWith\('([^']*)'\)\)", rule):
        yield {"propertyNames": {"not": {"pattern": f"^{re.escape(matched[1])}"}}}
    if matched := re.fullmatch(r"size\(self\.metadata\.name\) <= (\d+)", rule):
        yield _name({"maxLength": int(matched[1])})
    if matched := re.fullmatch(r"self\.metadata\.name\.matches\('([^']*)'\)", rule):
        yield _name({"pattern": matched[1]})


def _name(condition: Schema) -> Schema:
    return {"properties": {"metadata": {"properties": {"name": condition}}}}


def _pods() -> Schema:
    """Return what a pod template may have, by the name of Kubernetes' model.

    Nothing is required, because a template is merged into a pod, and null removes a field. `kubectl explain pod.spec`
    describes the fields.
    """
    definitions: Schema = {}
    for name in _POD_FIELDS.values():
        model = getattr(models, name).model_json_schema(by_alias=True)
        definitions |= {key: _pod_part(part) for key, part in {**model["$defs"], name: model}.items()}
    return dict(sorted(definitions.items()))


def _pod_part(part: Schema, field: str = "") -> Schema:
    dropped = ("title", "description", "default", "required", "$defs")
    kept: Schema = {name: value for name, value in part.items() if name not in dropped}
    if isinstance(reference := kept.get("$ref"), str):
        return {"$ref": reference.replace("#/$defs/", "#/definitions/")}
    if isinstance(options := kept.pop("anyOf", None), list):
        return _one_of_these_types([_pod_part(_object(option), field) for option in options])
    for nested in ("items", "additionalProperties"):
        if isinstance(value := kept.get(nested), dict):
            kept[nested] = _pod_part(value, field)
    if isinstance(properties := kept.get("properties"), dict):
        kept["properties"] = {name: _pod_part(_object(value), name) for name, value in properties.items()}
        kept["type"] = ["object", "null"]
    elif kept.get("type") == "string" and field in _QUANTITIES:
        kept["type"] = ["string", "number"]
    return kept


def _one_of_these_types(options: list[Schema]) -> Schema:
    """Return a schema of several types without `anyOf`, for which editors have worse messages.

    Args:
        options: Schemas of a type each, or of an object of a model, which may be null by itself.
    """
    kinds: list[JsonValue] = []
    for option in options:
        kind = option.get("type")
        kinds += kind if isinstance(kind, list) else [kind] if kind is not None else []
    merged = {name: value for option in options for name, value in option.items()}
    return {"$ref": merged["$ref"]} if "$ref" in merged else {**merged, "type": kinds}


def _object(value: JsonValue) -> Schema:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object of a schema.")
    return value


def write(into: Path) -> None:
    """Write each schema beside the other files of a release."""
    for path, text in files().items():
        (into / Path(path).name).write_text(text, encoding="utf-8")


def main() -> int:
    """Write or check the files of the repository.

    Returns:
        0, 1 if one is outdated, 2 for other arguments.
    """
    parser = argparse.ArgumentParser("release.schemas", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the schemas")
    action.add_argument("--check", action="store_true", help="fail if one is outdated")
    options = parser.parse_args()
    schemas = {PUBLISHED / path: text for path, text in files().items()}
    schemas |= {_TEMPLATE / file.name: text for file, text in schemas.items() if file.name == _IN_TEMPLATE}
    if options.write:
        for file, text in schemas.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return 0
    outdated = [file for file, text in schemas.items() if not file.is_file() or file.read_text("utf-8") != text]
    for file in outdated:
        print(f"{file} does not match the CRDs; run `make crds` and commit the result.", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
