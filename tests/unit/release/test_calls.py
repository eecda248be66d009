"""A call of the HTTP API or of a command that a release promised cannot become wrong unnoticed."""

from __future__ import annotations

import click
import pytest

from release import calls

DOCUMENT = {
    "paths": {
        "/v1/stop": {
            "post": {
                "parameters": [{"name": "wait", "in": "query", "required": False, "schema": {"type": "integer"}}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Stop-Input"}}},
                },
                "responses": {
                    "202": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}},
                    "401": {"description": "no"},
                },
            }
        }
    },
    "components": {
        "schemas": {
            "Stop-Input": {
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "kind": {"$ref": "#/components/schemas/Kind"},
                    "names": {"type": "array", "items": {"type": "string"}},
                },
            },
            "Answer": {
                "required": ["state"],
                "properties": {
                    "state": {"anyOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "null"}]},
                    "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
                },
            },
            "Inner": {"properties": {"counts": {"type": "object", "additionalProperties": {"type": "integer"}}}},
            "Kind": {"enum": ["Fast", "Slow"]},
            "Unused": {"properties": {"x": {"type": "string"}}},
        }
    },
}
HTTP = """\
answer Answer.inner: array of Inner, optional
answer Answer.state: Kind | null, required
answer Inner.counts: object of integer, optional
answer Kind.Fast: value, optional
answer Kind.Slow: value, optional
answer POST /v1/stop 202: Answer, required
answer POST /v1/stop 401: nothing, required
request Kind.Fast: value, optional
request Kind.Slow: value, optional
request POST /v1/stop body: Stop, required
request POST /v1/stop wait: integer, optional
request POST /v1/stop: call, optional
request Stop.id: string, required
request Stop.kind: Kind, optional
request Stop.names: array of string, optional
"""
COMMANDS = """\
command tool --help: flag, optional
command tool run #1: path, required
command tool run #2: text, repeatable, optional
command tool run --format: json | text, optional
command tool run --help: flag, optional
command tool run --name: text, repeatable, optional
command tool run --no-wait: flag, optional
command tool run --times: integer, required
command tool run --wait: flag, optional
command tool run -f: json | text, optional
command tool run: command, optional
command tool: command, optional
"""


def a_program() -> click.Group:
    @click.command("run")
    @click.argument("file", type=click.Path())
    @click.argument("others", nargs=-1)
    @click.option("--format", "-f", type=click.Choice(["text", "json"]))
    @click.option("--name", multiple=True)
    @click.option("--wait/--no-wait")
    @click.option("--times", type=int, required=True)
    @click.option("--secret", hidden=True)
    def run(**_: object) -> None: ...

    @click.command("internal", hidden=True)
    def internal() -> None: ...

    return click.Group("tool", commands={"run": run, "internal": internal})


def test_the_http_api_is_written_with_what_each_side_gives() -> None:
    assert calls.http_text(DOCUMENT) == HTTP


def test_a_program_is_written_with_what_its_help_shows() -> None:
    assert calls.commands_text((a_program(),)) == COMMANDS


BREAKS: dict[str, tuple[str, str, str]] = {
    "a call less": ("request POST /v1/stop: call, optional\n", "", "request POST /v1/stop is gone."),
    "a parameter less": ("request POST /v1/stop wait: integer, optional\n", "", "request POST /v1/stop wait is gone."),
    "a parameter that is required": (
        "wait: integer, optional",
        "wait: integer, required",
        "request POST /v1/stop wait was optional, and is required.",
    ),
    "a required field more": (
        "request Stop.id",
        "request Stop.at: string, required\nrequest Stop.id",
        "request Stop.at is new, and required.",
    ),
    "a narrower field of a request": (
        "request Stop.names: array of string",
        "request Stop.names: array of integer",
        "request Stop.names was array of string, and is array of integer.",
    ),
    "a word less": ("request Kind.Slow: value, optional\n", "", "request Kind.Slow is gone."),
    "a field of an answer less": ("answer Inner.counts: object of integer, optional\n", "", "answer Inner.counts is gone."),
    "a field of an answer that may be absent": (
        "answer Answer.state: Kind | null, required",
        "answer Answer.state: Kind | null, optional",
        "answer Answer.state was required, and is optional.",
    ),
    "a wider answer": (
        "answer Answer.state: Kind | null",
        "answer Answer.state: Kind | null | string",
        "answer Answer.state was Kind | null, and is Kind | null | string.",
    ),
    "a command less": ("command tool run: command, optional\n", "", "command tool run is gone."),
    "a short option less": ("command tool run -f: json | text, optional\n", "", "command tool run -f is gone."),
    "a format less": (
        "--format: json | text",
        "--format: json",
        "command tool run --format was json | text, and is json.",
    ),
    "an option that is given once": (
        "--name: text, repeatable",
        "--name: text",
        "command tool run --name was text, repeatable, and is text.",
    ),
    "an argument more": (
        "command tool run #2: text, repeatable, optional",
        "command tool run #2: text, required",
        "command tool run #2 was optional, and is required.",
    ),
    "an option that has to be given": (
        "command tool run --wait",
        "command tool run --to: text, required\ncommand tool run --wait",
        "command tool run --to is new, and required.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "sentence"), BREAKS.values(), ids=BREAKS)
def test_a_break_is_named(old: str, new: str, sentence: str) -> None:
    released = HTTP + COMMANDS
    assert old in released

    assert sentence in tuple(calls.breaks(released, released.replace(old, new, 1)))


ADDITIONS: dict[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "a call with a body": (
        "request Stop.id",
        "request POST /v1/go body: Go, required\nrequest POST /v1/go: call, optional\nrequest Go.id: string, required\n"
        "request Stop.id",
    ),
    "an optional field of a request": ("request Stop.id", "request Stop.at: string, optional\nrequest Stop.id"),
    "a field of an answer": ("answer Inner.counts", "answer Inner.more: string, required\nanswer Inner.counts"),
    "a wider field of a request": ("request Stop.names: array of string", "request Stop.names: array of string | string"),
    "a narrower answer": ("answer Answer.state: Kind | null", "answer Answer.state: Kind"),
    "a word": ("answer Kind.Slow", "answer Kind.Steady: value, optional\nanswer Kind.Slow"),
    "a body that may be absent": ("body: Stop, required", "body: Stop, optional"),
    "a command": ("command tool:", "command tool go #1: text, required\ncommand tool go: command, optional\ncommand tool:"),
    "an option": ("command tool run --wait", "command tool run --to: text, optional\ncommand tool run --wait"),
    "a format": ("--format: json | text", "--format: json | text | yaml"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), ADDITIONS.values(), ids=ADDITIONS)
def test_an_addition_is_no_break(old: str, new: str) -> None:
    released = HTTP + COMMANDS
    assert old in released

    assert tuple(calls.breaks(released, released.replace(old, new, 1))) == ()


def test_the_surface_has_each_program_and_each_call() -> None:
    commands, http = calls.commands_text(), calls.http_text()

    for line in (
        "command statefulspark run #1: ",
        "command statefulspark-operator run --namespace: text, repeatable, optional",
        "command kubectl statefulspark savepoint create --wait: flag, optional",
    ):
        assert line in commands, line
    for line in (
        "request POST /v1/savepoints body: SavepointRequest, required",
        "request SnapshotFormat.Canonical: value, optional",
        "answer GET /v1/status 200: JobStatus, required",
        "answer JobStatus.state: JobState, required",
    ):
        assert line in http, line
