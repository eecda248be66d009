"""The driver's HTTP API, call by call, from the description that the driver serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from sitepages import markdown
from statefulspark.server import openapi

_Json = Mapping[str, object]


def page() -> str:
    """Return the page."""
    document = cast("_Json", json.loads(openapi.render()))
    lines = markdown.head(
        "HTTP API, call by call",
        "Every call of a driver with what it takes and answers, and every document. How to use them, with "
        "examples, is in "
        "[the driver's HTTP API](../api.md). The same as OpenAPI 3.1 is in [openapi.json](../openapi.json).",
    )
    lines.extend(("## Calls", ""))
    for path, methods in cast("Mapping[str, _Json]", document["paths"]).items():
        for method, call in methods.items():
            lines.extend(_call(f"{method.upper()} {path}", cast("_Json", call)))
    lines.extend(("## Documents", ""))
    schemas = cast("Mapping[str, _Json]", cast("_Json", document["components"])["schemas"])
    for name, schema in schemas.items():
        lines.extend(_schema(name, schema))
    return markdown.finish(lines)


def _call(title: str, call: _Json) -> Iterator[str]:
    yield from (f"### {title}", "", f"{markdown.prose(str(call['summary']))}.", "")
    if call.get("description"):
        yield from (markdown.prose(str(call["description"])), "")
    if call.get("security") == []:
        yield from ("Needs no token.", "")
    parameters = cast("list[_Json]", call.get("parameters", []))
    if parameters:
        rows = [(markdown.code(each["name"]), str(each["in"]), _said(each)) for each in parameters]
        yield from markdown.table(("parameter", "in", "meaning"), rows)
    if "requestBody" in call:
        yield from (f"The body is a {_body(cast('_Json', call['requestBody']))}.", "")
    answers = cast("Mapping[str, _Json]", call["responses"])
    rows = [(code, _body(answer), _said(answer)) for code, answer in answers.items()]
    yield from markdown.table(("answer", "body", "meaning"), rows)


def _said(thing: _Json) -> str:
    return markdown.prose(str(thing.get("description", "")))


def _body(holder: _Json) -> str:
    content = cast("Mapping[str, _Json]", holder.get("content", {}))
    return ", ".join(
        _type(cast("_Json", each.get("schema", {}))) or markdown.code(kind) for kind, each in content.items()
    )


def _schema(name: str, schema: _Json) -> Iterator[str]:
    yield from (f"### {name}", "", markdown.prose(str(schema.get("description", "")).split("\n\n", maxsplit=1)[0]), "")
    if "enum" in schema:
        yield from (", ".join(markdown.code(value) for value in cast("list[object]", schema["enum"])), "")
    fields = cast("Mapping[str, _Json]", schema.get("properties", {}))
    if fields:
        rows = [(markdown.code(field), _type(each), _said(each)) for field, each in fields.items()]
        yield from markdown.table(("field", "type", "meaning"), rows)


def _type(schema: _Json) -> str:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_type(each) for each in cast("list[_Json]", schema["anyOf"]) if each.get("type") != "null"]
        return " or ".join(kinds)
    if "const" in schema:
        return markdown.code(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type(cast('_Json', schema.get('items', {})))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(cast('_Json', schema['additionalProperties']))}"
    return str(schema.get("format") or schema.get("type") or "")
