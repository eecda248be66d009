"""The public surface of the Python library as the text of a stub, which people read in a diff and griffe compares.

Each public module is written as a class below `ss`, because one file has the whole surface. Members of bases that are not
public stand in the class itself, as users see them. Members without a docstring belong to the engine, constructors, too.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Iterator
from enum import Enum

import pydantic
import statefulspark

DOORS = ("sinks", "sinks.spi", "driver", "codecs", "compat", "testing", "errors")
_CREATED_BY_THE_LIBRARY = ("Output", "QueryContext", "Timers")
"""What only the library creates although its constructor is Python's own: nothing in it tells that from `FilesSink`."""
_PROTOCOLS = ("__enter__", "__exit__", "__getitem__", "__iter__", "__len__", "__contains__", "__call__")
if typing.TYPE_CHECKING:
    _Member = types.FunctionType | property | classmethod[object, ..., object] | staticmethod[..., object]
_MEMBERS = (types.FunctionType, property, classmethod, staticmethod)


def text() -> str:
    """Return the stub of the library that is installed."""
    lines = ["from typing import Literal", "", *_module("ss", statefulspark)]
    for door in DOORS:
        lines.extend(_module(door.replace(".", "_"), importlib.import_module(f"statefulspark.{door}")))
    return "\n".join(lines) + "\n"


def _module(name: str, module: types.ModuleType) -> Iterator[str]:
    yield f"class {name}:"
    for public in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, public)
        if not inspect.ismodule(value) and not public.startswith("__"):
            yield from (f"    {line}" for line in _entry(public, value))


def _entry(name: str, value: object) -> Iterator[str]:
    if isinstance(value, type):
        yield from _class(name, value)
    elif isinstance(value, types.FunctionType):
        yield from _function(name, value)
    else:
        yield f"{name}: {type(value).__name__} = {_expression(value)}"


def _class(name: str, kind: type) -> Iterator[str]:
    bases = [base.__name__ for base in kind.__mro__[1:] if base not in (object, BaseException) and _is_public(base)]
    yield from _deprecation(kind)
    yield f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"
    lines = list(_members(kind))
    yield from (f"    {line}" for line in lines or ["..."])


def _is_public(kind: type) -> bool:
    if not kind.__module__.startswith("statefulspark"):
        return kind.__module__ == "builtins"
    return any(hasattr(importlib.import_module(f"statefulspark.{door}"), kind.__name__) for door in DOORS) or hasattr(
        statefulspark, kind.__name__
    )


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from (f"{member.name} = {_expression(member.value)}" for member in kind)
        return
    if issubclass(kind, pydantic.BaseModel):
        models = [base for base in reversed(kind.__mro__) if base.__module__.startswith("statefulspark")]
        fields = {name: text for base in models for name, text in base.__annotations__.items()}
        yield from (f"{name}: {fields[name]}" for name in kind.model_fields)
    elif dataclasses.is_dataclass(kind):
        yield from (
            f"{each.name}: {_annotation(each.type)}" for each in dataclasses.fields(kind) if each.name[0] != "_"
        )
    if _is_constructed(kind):
        yield from _function("__init__", kind)
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("statefulspark"):
            continue
        for name, value in vars(base).items():
            is_public = name in _PROTOCOLS or (name[0] != "_" and getattr(value, "__doc__", None))
            if isinstance(value, _MEMBERS) and name not in seen and is_public:
                seen.add(name)
                yield from _member(name, value)


def _is_constructed(kind: type) -> bool:
    if getattr(kind, "_is_protocol", False) or inspect.isabstract(kind) or kind.__name__ in _CREATED_BY_THE_LIBRARY:
        return False
    is_documented = dataclasses.is_dataclass(kind) or inspect.getattr_static(kind, "__init__").__doc__ is not None
    return is_documented and not issubclass(kind, Exception | pydantic.BaseModel)


def _member(name: str, value: _Member) -> Iterator[str]:
    if isinstance(value, property):
        getter = value.fget
        annotation = inspect.signature(getter).return_annotation if getter is not None else inspect.Signature.empty
        yield f"{name}: {_annotation(annotation)}"
        return
    if isinstance(value, classmethod | staticmethod):
        yield f"@{type(value).__name__}"
    if getattr(value, "__isabstractmethod__", False):
        yield "@abstractmethod"
    yield from _function(name, value.__func__ if isinstance(value, classmethod | staticmethod) else value)


def _function(name: str, function: object) -> Iterator[str]:
    """Yield a function, or the constructor of a class."""
    if isinstance(function, type):
        signature = inspect.signature(function)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = signature.replace(parameters=[itself, *signature.parameters.values()], return_annotation=None)
    elif callable(function):
        yield from _deprecation(function)
        signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=_written(each.annotation), default=_default(each.default))
        for each in signature.parameters.values()
    ]
    written = signature.replace(parameters=parameters, return_annotation=_written(signature.return_annotation))
    yield f"def {name}{written}: ..."


def _deprecation(value: object) -> Iterator[str]:
    """Yield what `typing_extensions.deprecated` says of a class or function itself."""
    message = vars(value).get("__deprecated__")
    if message is not None:
        yield f"@deprecated({message!r})"


class _Written:
    """An expression that is written as it is."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return self.expression


def _written(annotation: object) -> object:
    return annotation if annotation is inspect.Parameter.empty else _Written(_annotation(annotation))


def _default(value: object) -> object:
    return value if value is inspect.Parameter.empty else _Written(_expression(value))


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _expression(value: object) -> str:
    """Return a value as an expression that is the same in every process, or `...`."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return value.__name__
    try:
        ast.parse(repr(value), mode="eval")
    except SyntaxError:
        return "..."
    return repr(value)
