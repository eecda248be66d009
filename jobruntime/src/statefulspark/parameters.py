"""The parameters of a job as a class of its author: from text to the types of its fields. Pure.

The resource and the command line give text. A dataclass or a pydantic model says what each parameter means. Everything that
does not fit is reported at once, before Spark starts.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import pydantic

from statefulspark import durations, errors, usercode

T = typing.TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class ParametersClass:
    """A class that holds the parameters of a job.

    Attributes:
        kind: The class.
        hints: The type of each field that a caller gives. They are read when the class is declared: a job file is gone from
            `sys.modules` later, and names in its annotations with it.
    """

    kind: type
    hints: Mapping[str, object]


def declare(kind: object) -> ParametersClass:
    """Return a class with the types of its fields.

    Raises:
        InvalidTypeError: `ParametersInvalid`: it is neither a dataclass nor a pydantic model, or text cannot become the
            type of a field.
    """
    if not isinstance(kind, type) or not (dataclasses.is_dataclass(kind) or issubclass(kind, pydantic.BaseModel)):
        raise errors.InvalidTypeError(
            "ParametersInvalid", f"@job.parameters takes a dataclass or a pydantic model, not {kind!r:.100}."
        )
    try:
        hints = _hints(kind)
    except NameError as error:
        raise errors.InvalidTypeError(
            "ParametersInvalid", f"The types of {kind.__name__} cannot be read ({error}); import what they name."
        ) from error
    for name, hint in hints.items():
        if not _is_readable(hint):
            raise errors.InvalidTypeError(
                "ParametersInvalid",
                f"The parameter {name!r} of {kind.__name__} is {_written(hint)}, which text cannot become; use str, int, "
                "float, bool, Decimal, timedelta, datetime, an Enum, a Literal, or a list or tuple of one of them.",
            )
    return ParametersClass(kind, hints)


def read(declared: ParametersClass, given: Mapping[str, str], job: str) -> object:
    """Return the parameters of a job, as an instance of their class.

    Args:
        declared: Their class.
        given: The text of each parameter that is set.
        job: Name of the job, for errors.

    Raises:
        InvalidArgumentError: `ParametersInvalid`: names every parameter that is missing, unknown, or has a wrong value.
    """
    kind, hints = declared.kind, declared.hints
    values: dict[str, object] = {}
    problems: list[str] = []
    for name in given.keys() - hints.keys():
        close = difflib.get_close_matches(name, hints, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(hints) or 'none'}"
        problems.append(f"{name!r} is none of its parameters ({meant})")
    for name, hint in hints.items():
        if name in given:
            try:
                values[name] = _value(given[name], hint)
            except ValueError as error:
                problems.append(f"{name!r} is {given[name]!r:.100}, which is no {_written(hint)}{_why(error)}")
        elif name in _required(kind):
            problems.append(f"{name!r} ({_written(hint)}) is missing")
    if not problems:
        try:
            # A parameter has the name of its field, also if the field has an alias.
            return kind.model_validate(values, by_name=True) if _is_model(kind) else kind(**values)
        except pydantic.ValidationError as error:
            problems += [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        except (ValueError, TypeError) as error:  # Of its `__post_init__`.
            problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - of the author's own checks, for example an assertion
            problems.append(usercode.format_error(error))
    raise errors.InvalidArgumentError(
        "ParametersInvalid",
        f"The parameters of the job {job} do not fit {kind.__name__}: {'; '.join(sorted(problems))}. Correct them in "
        "job.parameters, or with --parameter NAME=VALUE.",
    )


def converted(name: str, text: str, example: T) -> T:
    """Return one parameter with the type of its default.

    Raises:
        InvalidArgumentError: `ParametersInvalid`: the text is no such value, or text cannot become one.
    """
    kind = type(example)
    try:
        if not _is_readable(kind):
            raise ValueError
        return typing.cast("T", _value(text, kind))
    except ValueError as error:
        raise errors.InvalidArgumentError(
            "ParametersInvalid",
            f"The parameter {name!r} is {text!r:.100}, which is no {_written(kind)}{_why(error)}; its default "
            f"{example!r:.100} says what it is.",
        ) from error


def _hints(kind: type) -> dict[str, object]:
    """Return the type of each field that a caller gives."""
    hints = typing.get_type_hints(kind)
    if issubclass(kind, pydantic.BaseModel):
        return {name: hints[name] for name in kind.model_fields}
    return {field.name: hints[field.name] for field in _fields(kind)}


def _required(kind: type) -> frozenset[str]:
    if issubclass(kind, pydantic.BaseModel):
        return frozenset(name for name, field in kind.model_fields.items() if field.is_required())
    missing = dataclasses.MISSING
    return frozenset(
        field.name for field in _fields(kind) if field.default is missing and field.default_factory is missing
    )


def _fields(kind: type) -> Iterator[dataclasses.Field[typing.Any]]:
    return (field for field in dataclasses.fields(kind) if field.init)


def _alternatives(hint: object) -> tuple[typing.Any, ...]:
    """Return the types of a union except None, which no text means."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(each for each in typing.get_args(hint) if each is not types.NoneType)
    return (hint,)


def _element(hint: object) -> object:
    """Return the type of the elements of `list[T]` and `tuple[T, ...]`; None for everything else."""
    match typing.get_origin(hint), typing.get_args(hint):
        case (builtin, (element,)) if builtin is list:
            return element
        case (builtin, (element, last)) if builtin is tuple and last is Ellipsis:
            return element
        case _:
            return None


def _is_readable(hint: object) -> bool:
    alternatives = _alternatives(hint)
    if len(alternatives) != 1:
        return False
    element = _element(alternatives[0])
    if element is not None:
        return _element(element) is None and _is_readable(element)
    if alternatives[0] in (list, tuple, dict, set, object, typing.Any, bytes, types.NoneType):
        return False
    if typing.get_origin(alternatives[0]) not in (None, typing.Literal):
        return False
    try:
        pydantic.TypeAdapter(alternatives[0])
    except pydantic.errors.PydanticSchemaGenerationError:
        return False
    return not dataclasses.is_dataclass(alternatives[0]) and not _is_model(alternatives[0])


def _is_model(hint: object) -> typing.TypeGuard[type[pydantic.BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _value(text: str, hint: object) -> object:
    """Read a value.

    Raises:
        ValueError: The text is none.
    """
    (kind,) = _alternatives(hint)
    element = _element(kind)
    if element is not None:
        elements = [_value(part.strip(), element) for part in text.split(",")] if text else []
        return elements if typing.get_origin(kind) is list else tuple(elements)
    if kind is timedelta:
        return durations.parse(text)
    if kind is datetime:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("a time zone is missing")
        return moment
    # Pydantic compares the text with members as they are, and a member that is a number is never equal.
    members = [*kind] if isinstance(kind, enum.EnumMeta) else []
    members += typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    by_text = {str(getattr(member, "value", member)): member for member in members}
    return by_text[text] if text in by_text else pydantic.TypeAdapter(kind).validate_strings(text)


def _why(error: ValueError) -> str:
    match error:
        case pydantic.ValidationError():
            return f" ({error.errors()[0]['msg']})"
        case errors.StatefulSparkError():
            return f" ({error.message.rstrip('.')})"
        case _:
            return f" ({error})" if str(error) else ""


def _written(hint: object) -> str:
    return (
        hint.__name__
        if isinstance(hint, type) and not typing.get_args(hint)
        else str(hint).replace("typing.", "").replace("datetime.", "")
    )
