"""The fields of the custom resources, from the CRDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from sitepages import markdown
from statefulspark_operator.api import crd

_Schema = Mapping[str, object]


def job() -> str:
    """Return the page of the StatefulSparkJob."""
    lead = (
        "Every field of a `StatefulSparkJob` (`ssj`). `kubectl explain ssj.spec` tells the same in a cluster. "
        "The meaning ends "
        "with what a change of the field does to a running job. For a whole manifest with comments, look at "
        "[the flights example](../../examples/flights/job.yaml)."
    )
    return _page("StatefulSparkJob", crd.build_crd(), lead)


def savepoint() -> str:
    """Return the page of the SparkSavepoint."""
    lead = (
        "Every field of a `SparkSavepoint` (`ssp`). What they are for is in [savepoints as objects](../savepoints.md)."
    )
    return _page("SparkSavepoint", crd.build_savepoint_crd(), lead)


def _page(kind: str, definition: _Schema, lead: str) -> str:
    versions = cast("list[_Schema]", _at(definition, "spec")["versions"])
    root = _at(_at(versions[0], "schema"), "openAPIV3Schema")
    lines = markdown.head(kind, lead)
    for part in ("spec", "status"):
        schema = _at(_at(root, "properties"), part)
        lines.extend((f"## {part}", "", markdown.prose(str(schema.get("description", ""))), ""))
        lines.extend(_parts(part, schema))
    return markdown.finish(lines)


def _parts(path: str, schema: _Schema) -> Iterator[str]:
    """Yield a table of the fields that hold a value, and a section for each that holds more."""
    fields = cast("Mapping[str, _Schema]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    rows, deeper = [], []
    for name, field in fields.items():
        rows.append((markdown.code(name), _type(field, name in required), markdown.prose(_meaning(field))))
        below = _below(field)
        if "properties" in below:
            deeper.append((f"{path}.{name}{'[]' if field.get('type') == 'array' else ''}", below))
    if rows:
        yield from markdown.table(("field", "type", "meaning"), rows)
    for name, below in deeper:
        yield from (f"### {name}", "")
        yield from _parts(name, below)


def _below(field: _Schema) -> _Schema:
    below = field.get("items") or field.get("additionalProperties")
    return cast("_Schema", below) if isinstance(below, dict) else field


def _type(field: _Schema, is_required: bool) -> str:
    choices = field.get("enum")
    if isinstance(choices, list):
        kind = ", ".join(markdown.code(choice) for choice in choices)
    elif field.get("type") == "array":
        kind = f"list of {_below(field).get('type', 'object')}"
    elif "anyOf" in field:
        kind = "integer or string"
    else:
        kind = str(field.get("format") or field.get("type") or "object")
    return f"{kind}, required" if is_required else kind


def _meaning(field: _Schema) -> str:
    return str(field.get("description") or _below(field).get("description") or "")


def _at(schema: _Schema, name: str) -> _Schema:
    return cast("_Schema", schema[name])
