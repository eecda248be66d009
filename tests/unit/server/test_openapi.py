"""The description of the API: current, complete, and true of the server in every route and status code."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import jsonschema
import pytest
from coordination import a_checkpoint
from fakecontrol import TOKEN, FakeControl, a_status, a_summary, served, some_batches, some_state
from statefulspark import errors
from statefulspark.contract import api, config, statistics
from statefulspark.server import openapi, routes
from watched import Watched

_COMMITTED = Path(__file__).parents[3] / "docs" / "openapi.json"
_Json = dict[str, object]
_DOCUMENT = cast("_Json", json.loads(openapi.render()))


@dataclass(frozen=True)
class Case:
    """One request that has to be answered with a status code."""

    route: str
    status: int
    path: str
    body: str | None = None
    token: str | None = TOKEN
    prepare: str = "nothing"


def _get(route: str, status: int, path: str, prepare: str = "nothing", token: str | None = TOKEN) -> Case:
    return Case(route, status, path, None, token, prepare)


def _post(route: str, path: str, body: str = '{"requestId": "a"}') -> Iterator[Case]:
    yield Case(route, 202, path, body)
    yield from _refused(route, path, body, '{"requestId": ""}')


def _refused(route: str, path: str, body: str, wrong: str) -> Iterator[Case]:
    yield Case(route, 400, path, wrong)
    yield Case(route, 401, path, body, token="wrong")
    yield Case(route, 409, path, body, prepare="refuses")
    yield Case(route, 413, path, body + " " * routes.MAX_BODY_BYTES)


_CASES = (
    _get("getStatus", 200, "/v1/status"),
    _get("getStatus", 400, "/v1/status?waitSeconds=soon"),
    _get("getStatus", 401, "/v1/status", token=None),
    _get("getBatches", 200, "/v1/batches", "observed"),
    _get("getBatches", 401, "/v1/batches", token=None),
    _get("getState", 200, "/v1/state", "observed"),
    _get("getState", 401, "/v1/state", token=None),
    _get("getLosses", 200, "/v1/losses", "observed"),
    _get("getLosses", 401, "/v1/losses", token=None),
    _get("getConfig", 200, "/v1/config"),
    _get("getConfig", 401, "/v1/config", token=None),
    Case("putCheckpointConfig", 200, "/v1/config/checkpoint", '{"interval": "1m", "retention": {"count": 5}}'),
    *_refused("putCheckpointConfig", "/v1/config/checkpoint", "{}", '{"retention": {"count": 0}}'),
    _get("getCheckpoints", 200, "/v1/checkpoints", "completed"),
    _get("getCheckpoints", 401, "/v1/checkpoints", token=None),
    _get("getCheckpoint", 200, "/v1/checkpoints/1", "completed"),
    _get("getCheckpoint", 400, "/v1/checkpoints/nightly"),
    _get("getCheckpoint", 401, "/v1/checkpoints/1", token=None),
    _get("getCheckpoint", 404, "/v1/checkpoints/99"),
    *_post("createCheckpoint", "/v1/checkpoints"),
    *_post("createSavepoint", "/v1/savepoints"),
    *_post("stop", "/v1/stop"),
    *_post("activate", "/v1/activate", '{"requestId": "a", "epoch": 8}'),
    _get("getOperation", 200, "/v1/operations/known?waitSeconds=1", "operation"),
    _get("getOperation", 400, "/v1/operations/known?waitSeconds=31", "operation"),
    _get("getOperation", 401, "/v1/operations/known", token=None),
    _get("getOperation", 404, "/v1/operations/unheard-of"),
    _get("getHealth", 200, "/healthz", token=None),
    _get("getHealth", 503, "/healthz", "hangs", token=None),
    _get("getReadiness", 200, "/readyz", token=None),
    _get("getReadiness", 503, "/readyz", "stopping", token=None),
    _get("getMetrics", 200, "/metrics", token=None),
    _get("getOpenApi", 200, "/openapi.json", token=None),
)


def _prepare(control: FakeControl, situation: str) -> None:
    match situation:
        case "refuses":
            control.refusal = errors.PreconditionFailedError("Stopping", "The job is stopping.")
        case "completed":
            run = Watched()
            run.snapshot(a_checkpoint())
            control.stats = run.stats
        case "operation":
            control.operations.begin("known", api.OperationKind.SAVEPOINT)
            control.operations.complete("known", a_summary())
        case "observed":
            control.current = a_status(last_checkpoint=a_summary())
            control.newest = some_batches()
            control.sizes = some_state()
        case "hangs":
            control.alive = False
        case "stopping":
            control.current = a_status(state=api.JobState.STOPPING)


def test_the_committed_description_is_current() -> None:
    """Write it anew with `python -m statefulspark.server.openapi > docs/openapi.json`."""
    assert _COMMITTED.read_text() == openapi.render()


def test_every_status_code_of_every_route_is_proven() -> None:
    declared = {(route.name, status) for route in routes.ROUTES for status in route.answers}

    assert {(case.route, case.status) for case in _CASES} == declared


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.route} {case.status}")
def test_an_answer_is_what_the_description_says(case: Case) -> None:
    control = FakeControl()
    _prepare(control, case.prepare)
    (route,) = (one for one in routes.ROUTES if one.name == case.route)
    with served(control) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        headers = {"Authorization": f"Bearer {case.token}"} if case.token else {}
        connection.request(route.method.value, case.path, case.body, headers)
        response = connection.getresponse()
        body, kind = response.read(), response.headers.get_content_type()
        connection.close()

    operation = _at("paths", route.path, route.method.value.lower())
    content = cast("_Json", cast("_Json", cast("_Json", operation["responses"])[str(case.status)])["content"])
    assert response.status == case.status
    assert [kind] == list(content)
    if kind == "application/json":
        schema = cast("_Json", cast("_Json", content[kind])["schema"])
        jsonschema.Draft202012Validator({**schema, "components": _DOCUMENT["components"]}).validate(json.loads(body))


@pytest.mark.parametrize("path", list(cast("_Json", _DOCUMENT["paths"])))
def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(path: str) -> None:
    described = sorted(method.upper() for method in _at("paths", path))
    allowed = sorted({*described, *(("HEAD",) if "GET" in described else ())})
    others = [method for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE") if method not in described]
    answers = []
    with served(FakeControl()) as url:
        for method in others:
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
            connection.request(method, re.sub(r"\{\w+\}", "1", path), headers={"Authorization": f"Bearer {TOKEN}"})
            response = connection.getresponse()
            answers.append((response.status, response.headers["Allow"], json.loads(response.read())["reason"]))
            connection.close()

    assert answers == [(405, ", ".join(allowed), "MethodNotAllowed")] * len(others)


@pytest.mark.parametrize(
    ("body", "is_allowed"),
    [
        ({}, True),
        ({"drain": True, "format": "Canonical"}, True),
        ({"savepoint": False}, True),
        ({"savepoint": False, "drain": False, "format": "Native"}, True),
        ({"savepoint": False, "drain": True}, False),
        ({"savepoint": False, "format": "Canonical"}, False),
        ({"drain": 0}, False),
        ({"drain": "no"}, False),
    ],
)
def test_the_schema_of_a_stop_allows_what_the_driver_accepts(body: _Json, is_allowed: bool) -> None:
    asked = {"requestId": "a", **body}
    schemas = _at("components", "schemas")
    with served(FakeControl()) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/stop", json.dumps(asked), {"Authorization": f"Bearer {TOKEN}"})
        status = connection.getresponse().status
        connection.close()
    validator = jsonschema.Draft202012Validator(
        {**cast("_Json", schemas["StopRequest"]), "components": _DOCUMENT["components"]}
    )

    assert (validator.is_valid(asked), status) == (is_allowed, 202 if is_allowed else 400)


def test_every_path_parameter_is_described() -> None:
    for route in routes.ROUTES:
        named = {one.name for one in route.parameters if not one.in_query}
        assert named == set(re.findall(r"\{(\w+)\}", route.path)), route.name


def test_what_needs_a_token_says_so() -> None:
    secured = {
        route.name: bool(_at("paths", route.path, route.method.value.lower())["security"]) for route in routes.ROUTES
    }

    assert secured == {route.name: route.path.startswith("/v1/") for route in routes.ROUTES}


def test_every_reference_leads_somewhere() -> None:
    schemas = cast("_Json", cast("_Json", _DOCUMENT["components"])["schemas"])
    references = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', openapi.render()))

    assert references <= schemas.keys()
    for name in schemas:
        jsonschema.Draft202012Validator.check_schema(schemas[name])


def test_everything_on_the_wire_is_explained() -> None:
    schemas = cast("_Json", cast("_Json", _DOCUMENT["components"])["schemas"])

    assert [name for name, schema in schemas.items() if not cast("_Json", schema).get("description")] == []


def test_the_configuration_tells_no_value_of_the_user() -> None:
    job = config.JobConfig(
        name="words",
        storage=config.StorageConfig(uri="s3://bucket/prefix"),
        engine=config.EngineConfig(conf={"spark.password": "hunter2"}),
        parameters={"password": "hunter3"},
    )

    told = statistics.EffectiveConfig.describe(job)

    assert told.parameters == ("password",)
    assert "hunter" not in told.to_json()


def _at(*path: str) -> _Json:
    value = _DOCUMENT
    for part in path:
        value = cast("_Json", value[part])
    return value
