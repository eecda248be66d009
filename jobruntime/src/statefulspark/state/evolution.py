"""State schema evolution: whether and how state of an older version of a job fits the declaration of a newer one.

The stored types are compared with the declared ones; the result is one of Flink's four outcomes. Types of keys, and of
the keys of a map, decide where entries are stored, so they never change. Everything here is pure.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass

from statefulspark import errors, usercode
from statefulspark.state import kinds, ttl
from statefulspark.state.types import conversions, typetext
from statefulspark.state.types.conversions import CodecCompatibility

Convert = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of comparing a stored with a declared type.

    Attributes:
        outcome: One of the four.
        convert: Rewrites a stored value, after migration only.
        why: The reason when incompatible; empty otherwise.
    """

    outcome: CodecCompatibility
    convert: Convert | None = None
    why: str = ""


_AS_IS = Verdict(CodecCompatibility.AS_IS)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A state as the running job declares it.

    Attributes:
        meta: What is stored about it.
        value: The declared type of values, elements or map values.
        on_ttl_change: What happens when the time to live was enabled or disabled.
    """

    meta: kinds.StateMeta
    value: object = None
    on_ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE


@dataclass(frozen=True, slots=True)
class Resolution:
    """How stored state is converted to the declared one.

    Attributes:
        meta: What is stored about it from now on.
        convert: Rewrites each stored value; None leaves them as they are.
        kind: The type in which values are stored, for the conversion.
        ttl_change: `on`, `off` or empty.
    """

    meta: kinds.StateMeta
    convert: Convert | None
    kind: typetext.Type
    ttl_change: str = ""

    @property
    def rewrites(self) -> bool:
        """Whether stored values change."""
        return self.convert is not None or bool(self.ttl_change)


def value_type(meta: kinds.StateMeta) -> typetext.Type:
    """Return the type of values, elements or map values of a state."""
    kind = typetext.parse(meta.type_text)
    if meta.kind.container and kind.arguments:
        return kind.arguments[-1]
    return kind


def resolve(stored: kinds.StateMeta, declaration: Declaration) -> Resolution:
    """Decide how stored state is converted to the declared one.

    Raises:
        SpecRejectedError: Kind, type or map key are incompatible, or a time to live was enabled or disabled and the
            declaration does not allow it. The message names both sides.
    """
    declared = declaration.meta
    if stored.kind is not declared.kind:
        raise incompatible(stored, declared, "")
    if declared.kind.has_entry_keys:
        old_key, new_key = (typetext.parse(meta.type_text).arguments[:1] for meta in (stored, declared))
        if old_key and new_key and compare(old_key[0], new_key[0]).outcome is not CodecCompatibility.AS_IS:
            raise incompatible(stored, declared, "The type of the keys of a map can never change.")
    was, now = value_type(stored), value_type(declared)
    verdict = compare(was, now, declaration.value)
    if verdict.outcome is CodecCompatibility.INCOMPATIBLE:
        raise incompatible(stored, declared, verdict.why)
    change = _ttl_change(stored, declaration)
    if verdict.outcome is CodecCompatibility.RECONFIGURED:
        meta = kinds.StateMeta(declared.name, declared.kind, stored.type_text, declared.has_ttl)
        return Resolution(meta, None, was, change)
    return Resolution(declared, verdict.convert, now, change)


def _ttl_change(stored: kinds.StateMeta, declaration: Declaration) -> str:
    declared = declaration.meta
    if stored.has_ttl == declared.has_ttl:
        return ""
    if declaration.on_ttl_change is ttl.TtlChange.MIGRATE:
        return "on" if declared.has_ttl else "off"
    was, now = ("with" if meta.has_ttl else "without" for meta in (stored, declared))
    raise errors.SpecRejectedError(
        "StateTtlIncompatible",
        f"State '{declared.name}' was written {was} a time to live and is declared {now} one. Declare it as it was, give "
        "it another name, or ask for the change with keyed_process(…, ttl_change=TtlChange.MIGRATE).",
    )


def incompatible(stored: kinds.StateMeta, declared: kinds.StateMeta, why: str) -> errors.SpecRejectedError:
    """Build the error for incompatible types."""
    was, now = (f"{meta.kind.value}<{meta.type_text}>" for meta in (stored, declared))
    detail = f" {why}" if why else ""
    return errors.SpecRejectedError(
        "StateTypeIncompatible",
        f"Incompatible key/value state types. Was [{was}], registered with [{now}].{detail} State '{declared.name}' was "
        "written with the first; declare it so again, or give the new one another name.",
    )


def check_key_type(stored: str, declared: str, uid: str) -> None:
    """Reject another key type: keys are located by their hash, which depends on the type.

    Raises:
        SpecRejectedError: The types differ.
    """
    if stored and declared and stored != declared:
        raise errors.SpecRejectedError(
            "StateKeyTypeIncompatible",
            f"The new key type ({declared}) must be compatible with the previous key type ({stored}): the state of keyed "
            f"operator '{uid}' was written with the latter, and the type of a key can never change. Cast the key to "
            f"{stored}, or give the operator another uid.",
        )


def compare(stored: typetext.Type, declared: typetext.Type, value: object = None) -> Verdict:
    """Compare a stored type with a declared one.

    Args:
        stored: The type stored with the state.
        declared: The type that the job declares.
        value: The declared type as an object, for codecs and defaults of fields.
    """
    arguments = _arguments(value)
    if len(arguments) == 1 and typing.get_origin(value) in (typing.Union, types.UnionType):
        value = arguments[0]  # `Flight` for `Flight | None`: its class has the defaults of its fields
    if isinstance(value, conversions.Codec):
        return _compare_codec(stored, value)
    if declared.family == "any":
        return _AS_IS
    if stored.family == "any":
        if declared.family in ("record", "enum", "codec"):
            return _refused(f"Values of any type cannot be read as {declared.text}.")
        # Stored values are checked when they are written again, like every value of a declared type.
        return _AS_IS
    if (stored.family, declared.family) == ("integer", "float"):
        return Verdict(
            CodecCompatibility.AFTER_MIGRATION, lambda value: float(value) if isinstance(value, int) else value
        )
    if stored.family != declared.family:
        return _refused("")
    if stored.family in ("array", "map"):
        return _compare_container(stored, declared, value)
    if stored.family in ("struct", "record"):
        return _compare_fields(stored, declared, value)
    if stored.family == "enum":
        removed = [name for name in stored.names if name not in declared.names]
        return _refused(f"The member {removed[0]} is gone.") if removed else _AS_IS
    return _AS_IS if stored.names == declared.names else _refused("")


def _refused(why: str) -> Verdict:
    return Verdict(CodecCompatibility.INCOMPATIBLE, why=why)


def _compare_codec(stored: typetext.Type, codec: conversions.Codec[typing.Any]) -> Verdict:
    if stored.family != "codec" or len(stored.names) != 2 or not stored.names[1].isdigit():
        return _refused(f"It was not written by the codec {codec.name}.")
    before = conversions.CodecVersion(stored.names[0], int(stored.names[1]))
    try:
        outcome = codec.compatibility(before)
    except Exception as error:
        raise _codec_raised(codec, "compatibility", error) from error
    if outcome is CodecCompatibility.INCOMPATIBLE:
        return _refused(f"The codec {codec.name} {codec.version} does not read {before.name} {before.version}.")

    def migrate(value: object) -> object:
        try:
            return codec.migrate(value, before.version)
        except Exception as error:
            raise _codec_raised(codec, "migrate", error) from error

    return Verdict(outcome, migrate if outcome is CodecCompatibility.AFTER_MIGRATION else None)


def _codec_raised(codec: conversions.Codec[typing.Any], method: str, error: Exception) -> errors.StatefulSparkError:
    return usercode.raised(error, reason="FunctionFailed", called=f"{method}() of the codec {codec.name}")


def _arguments(value: object) -> list[object]:
    return [argument for argument in typing.get_args(value) if argument is not type(None)]


def _compare_container(stored: typetext.Type, declared: typetext.Type, value: object) -> Verdict:
    if len(stored.arguments) != len(declared.arguments):
        return _refused("")
    if (
        stored.family == "map"
        and compare(stored.arguments[0], declared.arguments[0]).outcome is not CodecCompatibility.AS_IS
    ):
        return _refused("The type of the keys of a map can never change.")
    inner = compare(stored.arguments[-1], declared.arguments[-1], (_arguments(value) or [None])[-1])
    if inner.convert is None:
        return inner
    convert = inner.convert
    if stored.family == "array":
        return Verdict(inner.outcome, lambda items: [_each(convert, item) for item in items])  # type: ignore[attr-defined]  # an array is a list
    return Verdict(inner.outcome, lambda items: {key: _each(convert, item) for key, item in items.items()})  # type: ignore[attr-defined]  # a map is a dict


def _each(convert: Convert, value: object) -> object:
    return None if value is None else convert(value)


def _compare_fields(stored: typetext.Type, declared: typetext.Type, value: object) -> Verdict:
    declared_types = typetext.field_types(value) if typetext.is_record(value) and isinstance(value, type) else {}
    before = dict(zip(stored.names, stored.arguments, strict=True))
    converts: dict[str, Convert] = {}
    reconfigured = False
    for name, kind in zip(declared.names, declared.arguments, strict=True):
        if name not in before:
            continue
        verdict = compare(before[name], kind, declared_types.get(name))
        if verdict.outcome is CodecCompatibility.INCOMPATIBLE:
            return _refused(f"The field {name} was {before[name].text} and is {kind.text}. {verdict.why}".strip())
        reconfigured = reconfigured or verdict.outcome is CodecCompatibility.RECONFIGURED
        if verdict.convert is not None:
            converts[name] = verdict.convert
    same_fields = set(stored.names) == set(declared.names)
    if same_fields and not converts:
        ordered = stored.names == declared.names or stored.family == "struct"
        return _AS_IS if ordered and not reconfigured else Verdict(CodecCompatibility.RECONFIGURED)
    if reconfigured:
        return _refused("One field keeps its old form while others change; change one field at a time.")
    convert = _record_convert if stored.family == "record" else _struct_convert
    return Verdict(CodecCompatibility.AFTER_MIGRATION, convert(stored.names, declared, converts, value))


def _record_convert(
    before: tuple[str, ...], declared: typetext.Type, converts: dict[str, Convert], value: object
) -> Convert:
    kinds = dict(zip(declared.names, declared.arguments, strict=True))

    def convert(stored: object) -> object:
        fields = dict(zip(before, stored, strict=True))  # type: ignore[call-overload]  # a record is a tuple
        return tuple(
            _each(converts.get(name, _same), fields[name])
            if name in fields
            else conversions.default_of(value, name, kind)
            for name, kind in kinds.items()
        )

    return convert


def _struct_convert(
    before: tuple[str, ...], declared: typetext.Type, converts: dict[str, Convert], _: object
) -> Convert:
    removed = set(before) - set(declared.names)

    def convert(stored: object) -> object:
        fields: dict[str, object] = dict(stored)  # type: ignore[call-overload]  # a struct is a dict
        values = {
            name: _each(converts.get(name, _same), field) for name, field in fields.items() if name not in removed
        }
        return values | {name: None for name in declared.names if name not in values}

    return convert


def _same(value: object) -> object:
    return value
