"""What a release promises to callers of the HTTP API and of the commands, a line each.

A line has a side, a name, a type and whether it has to be there: `request POST /v1/stop: StopRequest, required`. On the
side of a request, and of a command, a caller gives the value; on that of an answer, the caller gets it. A caller that was
right stays right if a request takes more and an answer has less variety. Enums of answers may gain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from statefulspark.cli import main
from statefulspark.server import openapi
from statefulspark_operator import cli as operator
from statefulspark_operator.kubectl import program

HTTP, COMMANDS = "http.txt", "commands.txt"
PROGRAMS: tuple[click.Command, ...] = (main.program, operator.program, program.program)
_REQUEST, _ANSWER, _COMMAND = "request", "answer", "command"
_REQUIRED, _OPTIONAL = "required", "optional"
_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Line:
    """One promise.

    Attributes:
        side: Who gives the value.
        name: For example `SavepointRequest.name`, or `statefulspark run --storage`.
        types: Its types, each of which a request may have, and an answer.
        need: Whether it has to be there.
    """

    side: str
    name: str
    types: frozenset[str]
    need: str

    def __str__(self) -> str:
        return f"{self.side} {self.name}: {' | '.join(sorted(self.types))}, {self.need}"


def http_text(document: _Json | None = None) -> str:
    """Return the HTTP API: calls with their parameters, bodies and answers, and every field and value of their documents."""
    described: _Json = openapi.document() if document is None else document
    lines: set[_Line] = set()
    for path, calls in described["paths"].items():
        for method, call in calls.items():
            lines.update(_call(f"{method.upper()} {path}", call, described["components"]["schemas"]))
    return _text(lines)


def commands_text(programs: tuple[click.Command, ...] = PROGRAMS) -> str:
    """Return every command with its arguments and options; those that no help shows are no promise."""
    return _text({line for each in programs for line in _command(each, str(each.name))})


def breaks(released: str, current: str) -> Iterator[str]:
    """Yield a sentence for each line of a release after which a caller that was right may be wrong."""
    before, now = _parsed(released), _parsed(current)
    for key, old in before.items():
        new = now.get(key)
        if new is None:
            yield f"{old.side} {old.name} is gone."
            continue
        narrower, wider = (new, old) if old.side == _ANSWER else (old, new)
        if not narrower.types <= wider.types:
            yield f"{old.side} {old.name} was {' | '.join(sorted(old.types))}, and is {' | '.join(sorted(new.types))}."
        if old.need != new.need and new.need == (_OPTIONAL if old.side == _ANSWER else _REQUIRED):
            yield f"{old.side} {old.name} was {old.need}, and is {new.need}."
    parents = {name for _, name in before} | {_parent(name) for _, name in before}
    for key, new in now.items():
        if key not in before and new.need == _REQUIRED and new.side != _ANSWER and _parent(new.name) in parents:
            yield f"{new.side} {new.name} is new, and required."


def _parent(name: str) -> str:
    """Return what has a parameter, a field or an option."""
    return name.rpartition(" ")[0] or name.rpartition(".")[0]


def _text(lines: set[_Line]) -> str:
    return "".join(f"{line}\n" for line in sorted(map(str, lines)))


def _parsed(text: str) -> dict[tuple[str, str], _Line]:
    lines: dict[tuple[str, str], _Line] = {}
    for line in text.splitlines():
        head, _, rest = line.rpartition(": ")
        side, _, name = head.partition(" ")
        types, _, need = rest.rpartition(", ")
        lines[side, name] = _Line(side, name, frozenset(types.split(" | ")), need)
    return lines


def _call(name: str, call: _Json, schemas: Mapping[str, _Json]) -> Iterator[_Line]:
    yield _Line(_REQUEST, name, frozenset({"call"}), _OPTIONAL)
    for parameter in call.get("parameters", ()):
        need = _REQUIRED if parameter["required"] else _OPTIONAL
        yield _Line(_REQUEST, f"{name} {parameter['name']}", _types(parameter["schema"]), need)
    if "requestBody" in call:
        yield from _document(_REQUEST, f"{name} body", call["requestBody"], schemas)
    for code, answer in call["responses"].items():
        yield from _document(_ANSWER, f"{name} {code}", answer, schemas)


def _document(side: str, name: str, part: _Json, schemas: Mapping[str, _Json]) -> Iterator[_Line]:
    content = part.get("content", {})
    types = frozenset().union(*(_types(each["schema"]) for each in content.values())) or frozenset({"nothing"})
    yield _Line(side, name, types, _REQUIRED if part.get("required") or side == _ANSWER else _OPTIONAL)
    for each in content.values():
        yield from _schemas(side, each["schema"], schemas, set())


def _schemas(side: str, schema: _Json, schemas: Mapping[str, _Json], seen: set[str]) -> Iterator[_Line]:
    """Yield the fields and values of every schema that a schema leads to."""
    for reference in _references(schema):
        if reference in seen:
            continue
        seen.add(reference)
        name, target = _name(reference), schemas[reference]
        required = target.get("required", ())
        for field, value in target.get("properties", {}).items():
            yield _Line(side, f"{name}.{field}", _types(value), _REQUIRED if field in required else _OPTIONAL)
        for value in target.get("enum", ()):
            yield _Line(side, f"{name}.{value}", frozenset({"value"}), _OPTIONAL)
        yield from _schemas(side, target.get("properties", {}), schemas, seen)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _name(reference: str) -> str:
    """Return the name of a schema; a side is said beside it."""
    return reference.removesuffix("-Input").removesuffix("-Output")


def _types(schema: _Json) -> frozenset[str]:
    if "$ref" in schema:
        return frozenset({_name(schema["$ref"].rpartition("/")[2])})
    if "anyOf" in schema:
        return frozenset().union(*map(_types, schema["anyOf"]))
    if "enum" in schema:
        return frozenset(map(repr, schema["enum"]))
    kinds = schema.get("type", "anything")
    types: set[str] = set()
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        inner = schema.get("items" if kind == "array" else "additionalProperties")
        nested = sorted(_types(inner)) if isinstance(inner, Mapping) else []
        types.add(f"{kind} of {' or '.join(nested)}" if nested else kind)
    return frozenset(types)


def _command(command: click.Command, path: str) -> Iterator[_Line]:
    if command.hidden:
        return
    yield _Line(_COMMAND, path, frozenset({"command"}), _OPTIONAL)
    context = click.Context(command, info_name=path)
    position = 0
    for parameter in command.get_params(context):
        names = [*parameter.opts, *parameter.secondary_opts]
        if isinstance(parameter, click.Argument):
            position += 1
            names = [f"#{position}"]  # Callers give it by its place, whatever its name is.
        elif parameter.get_help_record(context) is None:
            continue
        for name in names:
            yield _Line(_COMMAND, f"{path} {name}", _values(parameter), _REQUIRED if parameter.required else _OPTIONAL)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _command(child, f"{path} {name}")


def _values(parameter: click.Parameter) -> frozenset[str]:
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return frozenset({"flag"})
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return frozenset(kind.normalize_choice(choice, None) for choice in kind.choices)
    return frozenset({f"{kind.name}, repeatable" if parameter.multiple or parameter.nargs != 1 else kind.name})
