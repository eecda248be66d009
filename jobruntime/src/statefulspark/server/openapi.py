"""The OpenAPI 3.1 description of the driver's API, generated from the routes and the wire models.

`python -m statefulspark.server.openapi` prints it; the copy in `docs/openapi.json` is compared with it by a test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import cast

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from statefulspark._version import __version__
from statefulspark.contract import base
from statefulspark.server import routes

_REFERENCE = "#/components/schemas/{model}"
_READ: JsonSchemaMode = "validation"
_WRITTEN: JsonSchemaMode = "serialization"
_Json = dict[str, object]


@cache
def render() -> str:
    """Return the description as JSON text, ending with a newline; the same for every job."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> _Json:
    """Return the description."""
    paths: dict[str, _Json] = {}
    for route in routes.ROUTES:
        paths.setdefault(route.path, {})[route.method.value.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stateful Spark: the API of a job's driver",
            "version": __version__,
            "description": "Names are camelCase, times UTC in ISO 8601, absent means unset. Readers ignore fields that "
            "they do not know. Every error below /v1 has a reason and a message: also 404 for a path that is not here, and "
            "405 for a method that a path does not have, with the methods that it has in the header Allow. What is no HTTP "
            "at all is answered with 400 and plain text.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8090", "description": "After kubectl port-forward to the driver's pod"}],
        "tags": [{"name": tag.value} for tag in routes.Tag],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(_schemas()[1].items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The job's token."}},
        },
    }


def _operation(route: routes.Route) -> _Json:
    responses: _Json = {}
    for code, answer in sorted(route.answers.items()):
        content: dict[str, dict[str, _Json]] = {"text/plain": {"schema": {"type": "string"}}}
        if answer.model is not None:
            content = _content(answer.model, _WRITTEN)
        elif route.path.endswith(".json"):
            content = {"application/json": {"schema": {"type": "object"}}}
        responses[str(code)] = {"description": answer.meaning, "content": content}
    operation: _Json = {
        "operationId": route.name,
        "tags": [route.tag.value],
        "summary": route.summary,
        "description": route.description,
        "security": [{"token": []}] if route.needs_token else [],
        "responses": responses,
    }
    parameters = []
    for parameter in route.parameters:
        schema: _Json = {"type": "string"}
        if parameter.minimum is not None:
            schema = {"type": "integer", "minimum": parameter.minimum}
        if parameter.maximum is not None:
            schema["maximum"] = parameter.maximum
        parameters.append(
            {
                "name": parameter.name,
                "in": "query" if parameter.in_query else "path",
                "required": not parameter.in_query,
                "description": parameter.meaning,
                "schema": schema,
            }
        )
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body, _READ)}
    return operation


@cache
def _schemas() -> tuple[Mapping[object, _Json], _Json]:
    """Return where the schema of each use of a model is, and the schemas: as read for bodies, as written for answers."""
    read = {route.body for route in routes.ROUTES if route.body is not None}
    written = {answer.model for route in routes.ROUTES for answer in route.answers.values() if answer.model is not None}
    used = [(model, mode) for models, mode in ((read, _READ), (written, _WRITTEN)) for model in models]
    ordered = sorted(used, key=lambda pair: pair[0].__name__)
    references, schemas = models_json_schema(ordered, by_alias=True, ref_template=_REFERENCE)
    definitions: dict[str, _Json] = schemas["$defs"]
    enums: dict[str, _Json] = {}
    for definition in definitions.values():
        if "properties" in definition:
            properties = cast("dict[str, _Json]", definition["properties"])
            definition["properties"] = {name: _tidied(each, enums) for name, each in properties.items()}
    return cast("Mapping[object, _Json]", references), {**definitions, **enums}


def _tidied(described: _Json, enums: dict[str, _Json]) -> _Json:
    """Return a field without Pydantic's title, `Minpause`; an enum that stands in it goes among the named ones."""
    title = described.pop("title", None)
    if "enum" not in described:
        return described
    default = described.pop("default", None)
    enums[str(title)] = {**described, "title": title}
    reference: _Json = {"$ref": _REFERENCE.format(model=title)}
    return reference if default is None else {**reference, "default": str(default).capitalize()}


def _content(model: type[base.WireModel], mode: JsonSchemaMode) -> dict[str, dict[str, _Json]]:
    return {"application/json": {"schema": _schemas()[0][model, mode]}}


if __name__ == "__main__":
    sys.stdout.write(render())
