"""Types of state as text: declared, stored with the state, and compared at the next start.

A type is written as in Spark's DDL (`bigint`, `array<string>`, `struct<a:bigint,b:string>`) or as a Python type: a
builtin or standard class, `list[int]`, `dict[str, float]`, a NamedTuple or dataclass (`record<…>`), an Enum (`enum<…>`)
or a user-defined codec (`codec<name,version>`). Any other text is an opaque type, equal only to itself.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.state.types import codec

ANY = "any"
_FAMILIES = {
    "any": ("any",),
    "integer": ("int", "integer", "bigint", "long", "smallint", "short", "tinyint", "byte"),
    "float": ("float", "double", "real"),
    "string": ("string", "str"),
    "binary": ("binary", "bytes"),
    "boolean": ("boolean", "bool"),
    "date": ("date", "datetime.date"),
    "timestamp": ("timestamp", "timestamp_ntz", "timestamp_ltz", "datetime.datetime"),
    "time": ("time", "datetime.time"),
    "interval": ("datetime.timedelta", "interval day to second"),
    "decimal": ("decimal", "decimal.decimal", "dec", "numeric"),
    "uuid": ("uuid.uuid",),
}
_FAMILY_OF = {alias: family for family, aliases in _FAMILIES.items() for alias in aliases}
_COMPOSITE = re.compile(r"^(array|map|struct|record|enum|codec)\s*<(.*)>$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Type:
    """A parsed type.

    Attributes:
        family: `integer`, `float`, `string`, … `array`, `map`, `struct`, `record`, `enum`, `codec`, or `opaque`.
        arguments: Types of elements, of map keys and values, or of fields.
        names: Names of fields or members, or name and version of a codec.
        text: The original text.
    """

    family: str
    arguments: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    text: str = dataclasses.field(default="", compare=False)


def parse(text: str) -> Type:
    """Read a type. Never fails: unknown text is an opaque type."""
    text = text.strip()
    composite = _COMPOSITE.match(text)
    if composite is None:
        plain = re.sub(r"\(.*\)$", "", text.lower()).strip()
        family = _FAMILY_OF.get(plain)
        if family is None and plain in ("list", "dict"):
            return parse("array<any>" if plain == "list" else "map<any,any>")
        return Type(family, text=text) if family else Type("opaque", names=(text.lower(),), text=text)
    family, parts = composite[1].lower(), _split(composite[2])
    if family in ("struct", "record"):
        fields = [part.partition(":") for part in parts]
        names = tuple(name.strip().strip("`") for name, _, _ in fields)
        return Type(family, tuple(parse(kind) for _, _, kind in fields), names, text)
    if family in ("enum", "codec"):
        return Type(family, names=tuple(part.strip() for part in parts), text=text)
    return Type(family, tuple(parse(part) for part in parts), text=text)


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current.strip() or parts else []


UNKNOWN = parse(ANY)
"""The type of state that was declared without a type."""


def canonical(declared: object) -> str:
    """Return the text of a declared type that is stored and compared.

    Args:
        declared: DDL text, a Python type, a codec, or None for every value that can be stored.

    Raises:
        InvalidArgumentError: It is none of these, or a class with unreadable field types.
    """
    if declared is None or declared is object or declared is typing.Any:
        return ANY
    if isinstance(declared, str):
        text = re.sub(r"\s+", " ", declared.strip())
        return re.sub(r"\s*([<>,:])\s*", r"\1", text) if "<" in text else text.lower()
    own = getattr(declared, "type_text", None)
    if isinstance(own, str):
        return own
    origin = typing.get_origin(declared)
    if origin is not None:
        return _generic(declared, origin)
    if not isinstance(declared, type):
        raise _no_type(declared)
    if issubclass(declared, enum.Enum):
        return f"enum<{','.join(declared.__members__)}>"
    if is_record(declared):
        return f"record<{','.join(f'{name}:{canonical(kind)}' for name, kind in field_types(declared).items())}>"
    return codec.type_name(declared)


def _generic(declared: object, origin: object) -> str:
    arguments = [kind for kind in typing.get_args(declared) if kind is not type(None)]
    if origin in (typing.Union, types.UnionType):
        return canonical(arguments[0]) if len(arguments) == 1 else ANY
    if origin is list and len(arguments) == 1:
        return f"array<{canonical(arguments[0])}>"
    if origin is dict and len(arguments) == 2:
        return f"map<{canonical(arguments[0])},{canonical(arguments[1])}>"
    if origin is tuple:
        return "tuple"
    raise _no_type(declared)


def is_record(declared: object) -> bool:
    """Tell whether a type is a NamedTuple or a dataclass."""
    if not isinstance(declared, type):
        return False
    return dataclasses.is_dataclass(declared) or (issubclass(declared, tuple) and hasattr(declared, "_fields"))


def field_types(declared: type) -> dict[str, object]:
    """Return the fields of a NamedTuple or dataclass with their types, in order.

    Raises:
        InvalidArgumentError: A type is written as text with an unknown name.
    """
    try:
        hints = typing.get_type_hints(declared)
    except NameError as error:
        raise errors.InvalidArgumentError(
            "StateTypeInvalid",
            f"The types of the fields of {declared.__qualname__} cannot be read: {error}. Define these types at the "
            "top of the module.",
        ) from error
    names = (
        [field.name for field in dataclasses.fields(declared) if field.init]
        if dataclasses.is_dataclass(declared)
        else list(getattr(declared, "_fields", ()))
    )
    return {name: hints.get(name) for name in names}


def _no_type(declared: object) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        "StateTypeInvalid",
        f"{declared!r:.200} is not a valid state type: use a schema string such as 'bigint' or 'array<string>', a Python "
        "class, list[…], dict[…, …], a NamedTuple, a dataclass, an Enum or a codec.",
    )
