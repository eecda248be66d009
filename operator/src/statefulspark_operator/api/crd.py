"""The CustomResourceDefinitions, generated from the models.

The structural schema has no references, titles and defaults. Defaults stay in the operator, so that a stored
resource shows only what the user wrote, and a later release may change them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import yaml
from pydantic import BaseModel, JsonValue
from typing_extensions import TypeIs

from statefulspark_operator.api import base, revision
from statefulspark_operator.api.spark_savepoint import SparkSavepointSpec, SparkSavepointStatus
from statefulspark_operator.api.spec import NAME_MAX_LENGTH, StatefulSparkJobSpec
from statefulspark_operator.api.status import INTERNAL, StatefulSparkJobStatus

JsonObject = dict[str, JsonValue]

HEADER = "# Generated from operator/src/statefulspark_operator/api by `make crds`. Do not edit.\n"

_LARGE = ("bytes", "files", "batch", "batches", "generation")
"""Ends of names of numbers that need 64 bits."""
_DROPPED = frozenset({"title", "default", "$defs", "discriminator"})

PRINTER_COLUMNS: list[JsonValue] = [
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason"},
    {"name": "Upgrade", "type": "string", "jsonPath": ".status.upgrade.state"},
    {"name": "Checkpoint", "type": "integer", "jsonPath": ".status.lastCheckpoint.id"},
    {"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts.count"},
    # The status has it half a minute late, which looks like trouble where checkpoints are more frequent.
    {"name": "Checkpoint-Age", "type": "date", "jsonPath": ".status.lastCheckpoint.completionTime", "priority": 1},
    {"name": "Epoch", "type": "integer", "jsonPath": ".status.epoch", "priority": 1},
    {"name": "Revision", "type": "string", "jsonPath": ".status.revision", "priority": 1},
    {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

SAVEPOINT_COLUMNS: list[JsonValue] = [
    {"name": "Job", "type": "string", "jsonPath": ".spec.jobName"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Origin", "type": "string", "jsonPath": ".status.origin"},
    {"name": "Completed", "type": "date", "jsonPath": ".status.completionTime"},
    {"name": "Size", "type": "string", "jsonPath": ".status.size"},
    {"name": "Location", "type": "string", "jsonPath": ".status.location"},
    {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
]

_NAME_RULES: list[JsonValue] = [
    {
        "rule": f"size(self.metadata.name) <= {NAME_MAX_LENGTH}",
        "message": f"the name may have at most {NAME_MAX_LENGTH} characters: pods named after it add "
        "-driver-<epoch>, and a pod's host name ends at 63",
    },
    {
        "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "the name must start with a letter and have only lower-case letters, digits and '-': a Service is "
        "named after it",
    },
]


def _mapping(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object in the schema, found {value!r}")
    return value


def _inline(schema: JsonObject, definitions: Mapping[str, JsonValue]) -> JsonObject:
    """Replace a reference by its definition; a description beside the reference takes precedence."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    target = _mapping(definitions[reference.rsplit("/", 1)[1]])
    own = {name: value for name, value in schema.items() if name != "$ref"}
    return {**target, **own}


def _structural(schema: JsonObject, definitions: Mapping[str, JsonValue]) -> JsonObject:
    """Return a schema without the parts that the API server refuses."""
    flat = _inline(schema, definitions)
    options = flat.get("anyOf")
    if isinstance(options, list) and "x-kubernetes-int-or-string" not in flat:
        # `X or null` becomes X: an unset optional field is absent, never null.
        (present,) = [_mapping(option) for option in options if _mapping(option).get("type") != "null"]
        rest = {name: value for name, value in flat.items() if name != "anyOf"}
        flat = _inline({**present, **rest}, definitions)
    result = {name: value for name, value in flat.items() if name not in _DROPPED}
    if isinstance(text := result.get("description"), str):
        result["description"] = " ".join(text.split())
    if "properties" in result:
        properties = _mapping(result["properties"])
        result["properties"] = {name: _structural(_mapping(part), definitions) for name, part in properties.items()}
    for nested in ("items", "additionalProperties"):
        if isinstance(part := result.get(nested), dict):
            result[nested] = _structural(part, definitions)
    if result.get("additionalProperties") is True:
        result.pop("additionalProperties")
    return result


def model_schema(model: type[BaseModel]) -> JsonObject:
    """Return a model's structural schema.

    Args:
        model: A model of this package.

    Returns:
        A schema that the API server accepts, without references, nulls and defaults.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, _mapping(schema.get("$defs", {})))


def _status_schema(model: type[BaseModel]) -> JsonObject:
    """Return the schema of a status.

    What the operator has written needs no rule, and a later release may write values that this one does not have.
    """
    return _mapping(_opened("status", model_schema(model)))


def _opened(name: str, part: JsonValue) -> JsonValue:
    if not isinstance(part, dict):
        return part
    schema: JsonObject = {key: value for key, value in part.items() if key not in ("enum", "x-kubernetes-validations")}
    values = part.get("enum")
    if isinstance(values, list):
        schema["description"] = f"{part.get('description', '')} Values: {', '.join(map(str, values))}; more may come."
    if schema.get("type") == "integer":
        schema["format"] = "int64" if name.lower().endswith(_LARGE) else "int32"
    for nested in ("items", "additionalProperties"):
        if nested in schema:
            schema[nested] = _opened(name, schema[nested])
    if "properties" in schema:
        properties = _mapping(schema["properties"])
        schema["properties"] = {field: _opened(field, value) for field, value in properties.items()}
    return schema


def _job_status_schema() -> JsonObject:
    schema = _status_schema(StatefulSparkJobStatus)
    properties = _mapping(schema["properties"])
    _mapping(_mapping(properties["upgrade"])["properties"]).pop("trial")
    shown: JsonObject = {name: value for name, value in properties.items() if name not in INTERNAL}
    internal: JsonObject = {
        "type": "object",
        "description": "Records of the operator. Not an API.",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {**schema, "properties": {**shown, "internal": internal}}


def _add_costs(schema: JsonObject, model: type[BaseModel]) -> None:
    """Add the effect of a change to the description of every leaf field, for `kubectl explain`."""
    properties = _mapping(schema["properties"])
    for attribute, field in model.model_fields.items():
        part = _mapping(properties[field.serialization_alias or attribute])
        parts = [each for each in (field.annotation, *get_args(field.annotation)) if _is_model(each)]
        nested = next((each for each in parts if each is field.annotation or _has_cheap_fields(each)), None)
        if nested is not None:
            _add_costs(part, nested)
            continue
        cost = revision.change_cost(field).value
        part["description"] = f"{part.get('description', '')} A change {cost}.".strip()


def _is_model(annotation: object) -> TypeIs[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _has_cheap_fields(model: type[BaseModel]) -> bool:
    """Tell whether fields of a model that may be absent have different costs."""
    fields = model.model_fields.values()
    return any(
        revision.change_cost(field) is not base.ChangeCost.RESTART
        or any(_is_model(each) and _has_cheap_fields(each) for each in get_args(field.annotation))
        for field in fields
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a resource.

    Attributes:
        kind: For example `StatefulSparkJob`.
        plural: For example `statefulsparkjobs`.
        short: For example `ssj`.
        columns: What `kubectl get` shows.
        subresources: What has an address of its own.
    """

    kind: str
    plural: str
    short: str
    columns: list[JsonValue]
    subresources: JsonObject


_SCALE: JsonValue = {
    "specReplicasPath": ".spec.executor.instances",
    "statusReplicasPath": ".status.executors.running",
    "labelSelectorPath": ".status.executors.selector",
}
"""Autoscalers read it first, which is an error for a job without executors: there is nothing to scale."""
_JOB = _Names(base.KIND, base.PLURAL, "ssj", PRINTER_COLUMNS, {"status": {}, "scale": _SCALE})
_SAVEPOINT = _Names(base.SAVEPOINT_KIND, base.SAVEPOINT_PLURAL, "ssp", SAVEPOINT_COLUMNS, {"status": {}})


def build_crd() -> JsonObject:
    """Return the CustomResourceDefinition of `StatefulSparkJob`."""
    spec = model_schema(StatefulSparkJobSpec)
    _add_costs(spec, StatefulSparkJobSpec)
    description = "A PySpark streaming job that keeps its state on shared storage through crashes and upgrades."
    return _definition(_JOB, _root(description, spec, _job_status_schema(), validations=_NAME_RULES))


def build_savepoint_crd() -> JsonObject:
    """Return the CustomResourceDefinition of `SparkSavepoint`."""
    description = (
        "A savepoint of a StatefulSparkJob. It outlives the job; deletionPolicy says what becomes of the files."
    )
    root = _root(description, model_schema(SparkSavepointSpec), _status_schema(SparkSavepointStatus))
    return _definition(_SAVEPOINT, root)


def _root(
    description: str, spec: JsonObject, status: JsonObject, *, validations: list[JsonValue] | None = None
) -> JsonObject:
    return {
        "type": "object",
        "description": description,
        "required": ["spec"],
        **({"x-kubernetes-validations": validations} if validations else {}),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def _definition(names: _Names, root: JsonObject) -> JsonObject:
    version: JsonObject = {
        "name": base.VERSION,
        "served": True,
        "storage": True,
        "subresources": names.subresources,
        "additionalPrinterColumns": names.columns,
        "schema": {"openAPIV3Schema": root},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.plural}.{base.GROUP}"},
        "spec": {
            "group": base.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.kind,
                "listKind": f"{names.kind}List",
                "plural": names.plural,
                "singular": names.kind.lower(),
                "shortNames": [names.short],
                "categories": ["statefulspark"],
            },
            "versions": [version],
        },
    }


def render_yaml() -> str:
    """Return the CRDs as one text, for `kubectl apply -f -`."""
    return "---\n".join(files().values())


def files() -> Mapping[str, str]:
    """Return the text of each CRD's file, by the file's name."""
    definitions: Sequence[tuple[str, JsonObject]] = (
        (base.PLURAL, build_crd()),
        (base.SAVEPOINT_PLURAL, build_savepoint_crd()),
    )
    return {
        f"{plural}.yaml": HEADER + yaml.safe_dump(definition, sort_keys=False, width=110, allow_unicode=True)
        for plural, definition in definitions
    }
