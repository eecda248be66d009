"""What a change of a CRD would break for resources that exist, and for the tools that write them. Pure.

Within a version of the API, fields are never removed, renamed or narrowed: what a released CRD accepts, every later one
accepts, and means the same. Two CRDs are compared as schemas; how they come about is not looked at. What cannot be judged,
such as another pattern, counts as a break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

JsonObject = Mapping[str, JsonValue]

_LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")
_FIXED = (
    "type",
    "format",
    "pattern",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
_NAMES = ("kind", "plural", "singular", "shortNames", "categories")
_VACUOUS = re.compile(r"!has\(self\.(\w+)\) \|\| ")
_FULFILLED = re.compile(r"has\(self\.(\w+)\) \|\| ")


def breaks(released: JsonObject, current: JsonObject) -> tuple[str, ...]:
    """Return what a CRD breaks of a released one, one sentence each; empty if every released resource stays valid.

    Args:
        released: The CustomResourceDefinition of a release.
        current: The one that is to replace it.
    """
    return tuple(_definition_breaks(_section(released, "spec"), _section(current, "spec")))


def _definition_breaks(released: JsonObject, current: JsonObject) -> Iterator[str]:
    for field in ("group", "scope"):
        if released.get(field) != current.get(field):
            yield f"{field} was {released.get(field)!r} and is {current.get(field)!r}."
    before, after = _section(released, "names"), _section(current, "names")
    for field in _NAMES:
        old, new = before.get(field), after.get(field)
        is_extended = isinstance(old, list) and isinstance(new, list) and all(name in new for name in old)
        if old != new and not is_extended:
            yield f"names.{field} was {before.get(field)!r} and is {after.get(field)!r}."
    served = {str(version.get("name")): version for version in _items(current, "versions") if version.get("served")}
    schemas = [version.get("schema") for version in served.values()]
    if any(schema != schemas[0] for schema in schemas) and _section(current, "conversion").get("strategy") != "Webhook":
        yield f"the versions {', '.join(served)} have different schemas, and nothing converts between them."
    for version in _items(released, "versions"):
        name = str(version.get("name"))
        if version.get("served") and name not in served:
            yield f"version {name} is not served any more."
        elif version.get("served"):
            if _section(version, "subresources").keys() - _section(served[name], "subresources").keys():
                yield "a subresource is gone."
            before, after = _section(version, "schema"), _section(served[name], "schema")
            yield from _schema_breaks(_section(before, "openAPIV3Schema"), _section(after, "openAPIV3Schema"), "")


def _schema_breaks(released: JsonObject, current: JsonObject, path: str) -> Iterator[str]:
    """Yield what a schema refuses or changes of what a released one accepted."""
    where = path or "the resource"
    for keyword in _FIXED:
        if released.get(keyword) != current.get(keyword) and not (keyword == "pattern" and keyword not in current):
            yield f"{where}: {keyword} was {released.get(keyword)!r} and is {current.get(keyword)!r}."
    yield from _value_breaks(released, current, where)
    rules = {rule.get("rule") for rule in _items(released, "x-kubernetes-validations")}
    for rule in _items(current, "x-kubernetes-validations"):
        text = str(rule.get("rule"))
        # A rule about a field that no released resource has, or that all have, holds for every released resource.
        vacuous, fulfilled = _VACUOUS.match(text), _FULFILLED.match(text)
        if vacuous is not None:
            holds = vacuous.group(1) not in _section(released, "properties")
        else:
            holds = fulfilled is not None and fulfilled.group(1) in _required(released)
        if text not in rules and not holds:
            yield f"{where}: the rule {text!r} is new."
    yield from _property_breaks(released, current, path)
    for nested in ("items", "additionalProperties"):
        before, after = released.get(nested), current.get(nested)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _schema_breaks(before, after, f"{path}[]")
        elif before != after:
            yield f"{where}: {nested} was {before!r} and is {after!r}."


def _value_breaks(released: JsonObject, current: JsonObject, where: str) -> Iterator[str]:
    for keywords, sign in ((_LOWER_BOUNDS, 1), (_UPPER_BOUNDS, -1)):
        for keyword in keywords:
            before, after = released.get(keyword), current.get(keyword)
            if not isinstance(after, int | float):
                continue
            if not isinstance(before, int | float) or sign * after > sign * before:
                yield f"{where}: {keyword} was {before!r} and is {after!r}."

    before, after = released.get("enum"), current.get("enum")
    if isinstance(after, list) and not isinstance(before, list):
        yield f"{where}: only {after!r} are accepted."
    elif isinstance(after, list) and isinstance(before, list):
        gone = [value for value in before if value not in after]
        if gone:
            yield f"{where}: {gone!r} are not accepted any more."


def _property_breaks(released: JsonObject, current: JsonObject, path: str) -> Iterator[str]:
    before, after = _section(released, "properties"), _section(current, "properties")
    for name, schema in before.items():
        field = f"{path}.{name}" if path else name
        now = after.get(name)
        if not isinstance(schema, dict):
            continue
        if not isinstance(now, dict):
            yield f"{field} is gone."
            continue
        yield from _schema_breaks(schema, now, field)
    for name in sorted(_required(current) - _required(released)):
        yield f"{path}.{name} is required.".lstrip(".")


def _required(schema: JsonObject) -> frozenset[str]:
    names = schema.get("required")
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset()


def _section(value: JsonObject, name: str) -> JsonObject:
    section = value.get(name)
    return section if isinstance(section, dict) else {}


def _items(value: JsonObject, name: str) -> tuple[JsonObject, ...]:
    items = value.get(name)
    return tuple(item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()
