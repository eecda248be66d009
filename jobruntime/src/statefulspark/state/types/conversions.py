"""Conversion of user-defined types to storable values and back: records, enums, and codecs of a job.

State holds storable values (`codec`); a handle converts them. Most types need no conversion and cost nothing. A record
(NamedTuple or dataclass) is stored as a tuple of its fields, in the order that is stored with the state; an enum is
stored as the name of its member. A `Codec` defines the stored form of its values and how values of its older versions
are migrated.
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar, cast

from statefulspark import errors
from statefulspark.state.types import typetext

T = TypeVar("T")


class CodecCompatibility(enum.Enum):
    """Whether a newer version of a job can read the state of an older one."""

    AS_IS = "compatible as is"
    """The new version stores the same values."""
    AFTER_MIGRATION = "compatible after migration"
    """Every stored value is rewritten once."""
    RECONFIGURED = "compatible with reconfigured codec"
    """The new version keeps reading and writing the stored form."""
    INCOMPATIBLE = "incompatible"
    """The state cannot be read; the job is rejected."""


@dataclass(frozen=True, slots=True)
class CodecVersion:
    """The codec that wrote a state.

    Attributes:
        name: Its name.
        version: Its version when it wrote the state.
    """

    name: str
    version: int


class Codec(Generic[T]):
    """Base class of codecs, which store values of a user-defined type. Instances are sent to the workers.

    Set `name` and `version`. Raise the version when the result of `encode` changes, and override `migrate` to convert
    results of older versions, or `compatibility` to decide otherwise.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def encode(self, value: T) -> object:
        """Return a storable value: a number, text, bytes, list, dict, tuple, date and so on (`codec.ALLOWED`).

        None is refused, since it stands for no value.
        """
        raise NotImplementedError

    def decode(self, stored: object) -> T:
        """Return the original value; must not change its argument."""
        raise NotImplementedError

    def migrate(self, stored: object, version: int) -> object:
        """Convert a value that an older version stored to the stored form of this version."""
        raise NotImplementedError

    def compatibility(self, stored: CodecVersion) -> CodecCompatibility:
        """Decide whether this codec can read state that a codec has written.

        Returns:
            AS_IS for the same name and version, AFTER_MIGRATION for an older version if `migrate` is overridden,
            RECONFIGURED when `decode` reads and `encode` keeps writing the stored version, else INCOMPATIBLE.
        """
        if stored.name == self.name and stored.version == self.version:
            return CodecCompatibility.AS_IS
        migrates = type(self).migrate is not Codec.migrate
        older = stored.name == self.name and stored.version < self.version
        return CodecCompatibility.AFTER_MIGRATION if older and migrates else CodecCompatibility.INCOMPATIBLE

    @property
    def type_text(self) -> str:
        """The codec's name and version, as they are stored with the state."""
        return f"codec<{self.name},{self.version}>"


class Conversion(Protocol):
    """Converts a value to its stored form and back."""

    def encode(self, value: object) -> object:
        """Return the storable form."""

    def decode(self, stored: object) -> object:
        """Return the value."""


def choose(declared: object, kind: typetext.Type) -> Conversion | None:
    """Return the conversion of a declared type, None when values are storable as they are.

    Args:
        declared: The type that the user declared.
        kind: The stored type: the declared one, or the older one that a reconfigured codec keeps.
    """
    if isinstance(declared, Codec):
        return CodecConversion(declared)
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return EnumConversion(declared)
    if typetext.is_record(declared):
        return RecordConversion(cast("type", declared), kind)
    arguments = [argument for argument in typing.get_args(declared) if argument is not type(None)]
    origin = typing.get_origin(declared)
    if origin is list and len(arguments) == 1 and len(kind.arguments) == 1:
        inner = choose(arguments[0], kind.arguments[0])
        return inner and Elementwise(inner)
    if origin is dict and len(arguments) == 2 and len(kind.arguments) == 2:
        values = choose(arguments[1], kind.arguments[1])
        return values and Valuewise(values)
    if len(arguments) == 1 and len(typing.get_args(declared)) == 2:
        return choose(arguments[0], kind)
    return None


class CodecConversion:
    """Values of a codec; its stored form is never None, which stands for no value."""

    def __init__(self, codec: Codec[object]) -> None:
        self._codec = codec
        self.decode = codec.decode

    def encode(self, value: object) -> object:
        """Return the storable form."""
        stored = self._codec.encode(value)
        if stored is None:
            raise errors.SpecRejectedError(
                "StateValueTypeUnsupported",
                f"The codec {self._codec.name} encoded {value!r:.100} as None, which stands for no value; return another "
                "stored form.",
            )
        return stored


class EnumConversion:
    """Members of an enum by name."""

    def __init__(self, declared: type[enum.Enum]) -> None:
        self._declared = declared

    def encode(self, value: object) -> object:
        """Return the member's name, by which it is found again; a combination of flags has none of its own."""
        if not isinstance(value, self._declared):
            return _reject_type(value, self._declared)
        if value.name not in self._declared.__members__:
            raise errors.SpecRejectedError(
                "StateValueTypeUnsupported",
                f"State declared as {self._declared.__qualname__} got {value!r:.100}, which has no name of its own, so it "
                "cannot be stored. Declare int, and store its value.",
            )
        return value.name

    def decode(self, stored: object) -> object:
        """Return the member."""
        return None if stored is None else self._declared[cast("str", stored)]


class RecordConversion:
    """A NamedTuple or dataclass as a tuple of its fields, in the stored order."""

    def __init__(self, declared: type, kind: typetext.Type) -> None:
        self._declared = declared
        types = typetext.field_types(declared)
        inner = {name: choose(types[name], part) for name, part in zip(kind.names, kind.arguments, strict=True)}
        self._names = kind.names
        self._inner = tuple((name, conversion) for name, conversion in inner.items() if conversion is not None)

    def encode(self, value: object) -> object:
        """Return the fields."""
        if not isinstance(value, self._declared):
            return _reject_type(value, self._declared)
        if not self._inner:
            return tuple([getattr(value, name) for name in self._names])
        fields = {name: getattr(value, name) for name in self._names}
        fields.update((name, converted(conversion.encode, fields[name])) for name, conversion in self._inner)
        return tuple(fields.values())

    def decode(self, stored: object) -> object:
        """Return a new instance."""
        if stored is None:
            return None
        fields = dict(zip(self._names, cast("tuple[object, ...]", stored), strict=True))
        fields.update((name, converted(conversion.decode, fields[name])) for name, conversion in self._inner)
        return self._declared(**fields)


class Elementwise:
    """A list whose elements are converted."""

    def __init__(self, inner: Conversion) -> None:
        self._inner = inner

    def encode(self, value: object) -> object:
        """Convert each element."""
        return [converted(self._inner.encode, element) for element in cast("list[object]", value)]

    def decode(self, stored: object) -> object:
        """Convert each element back."""
        return [converted(self._inner.decode, element) for element in cast("list[object]", stored)]


class Valuewise:
    """A dict whose values are converted."""

    def __init__(self, inner: Conversion) -> None:
        self._inner = inner

    def encode(self, value: object) -> object:
        """Convert each value."""
        return {key: converted(self._inner.encode, item) for key, item in cast("dict[object, object]", value).items()}

    def decode(self, stored: object) -> object:
        """Convert each value back."""
        return {key: converted(self._inner.decode, item) for key, item in cast("dict[object, object]", stored).items()}


def converted(convert: Callable[[object], object], value: object) -> object:
    """Convert a value that may be None."""
    return None if value is None else convert(value)


def default_of(declared: object, field: str, kind: typetext.Type) -> object:
    """Return the stored form of the default of a field that stored records lack, None when it has no default.

    Args:
        declared: The record class that the job declares; without a class there are no defaults.
        field: Of the record.
        kind: The type in which the field is stored.
    """
    if not isinstance(declared, type) or not typetext.is_record(declared):
        return None
    conversion = choose(typetext.field_types(declared)[field], kind)
    default: object = None
    if dataclasses.is_dataclass(declared):
        definition = next(candidate for candidate in dataclasses.fields(declared) if candidate.name == field)
        if definition.default is not dataclasses.MISSING:
            default = definition.default
        elif definition.default_factory is not dataclasses.MISSING:
            default = definition.default_factory()
    else:
        default = getattr(declared, "_field_defaults", {}).get(field)
    return default if conversion is None else converted(conversion.encode, default)


def _reject_type(value: object, declared: type) -> object:
    raise errors.SpecRejectedError(
        "StateValueTypeUnsupported",
        f"State declared as {declared.__qualname__} got {value!r:.100}, which is a {type(value).__qualname__}.",
    )
