"""The revision of a spec: what the fields mean whose change needs a new driver.

Two specs are one revision if these fields mean the same under the costs and defaults of this release: a default may be
written down, an amount may be spelled otherwise, and variables may be in another order. The name of a revision is a hash,
and no more than a name: a running revision is compared by its stored spec, so that a release with other costs, other
defaults or more fields restarts nothing. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic.fields import FieldInfo

from statefulspark_operator.api.base import MEANING, ChangeCost
from statefulspark_operator.api.spec import StatefulSparkJobSpec

REVISION_LENGTH = 10

Part = TypeVar("Part", bound=BaseModel)


def change_cost(field: FieldInfo) -> ChangeCost:
    """Return the cost of a change of a field; an unmarked field costs a restart."""
    return next((mark for mark in field.metadata if isinstance(mark, ChangeCost)), ChangeCost.RESTART)


def meaning(spec: BaseModel) -> dict[str, JsonValue]:
    """Return what the fields of a spec mean that cannot change for a running driver.

    Args:
        spec: The spec, or a part of it.

    Returns:
        JSON names and values of the fields that cost a restart, each in one form, without those that mean their default.
    """
    parts: dict[str, JsonValue] = {}
    for field in _restarting(type(spec)):
        value = getattr(spec, field.attribute)
        part = meaning(value) if isinstance(value, BaseModel) else field.write(value)
        if part not in ({}, None, field.default):
            parts[field.name] = part
    return parts


class _Field:
    """A field whose change costs a restart."""

    def __init__(self, attribute: str, field: FieldInfo) -> None:
        self.attribute, self.name = attribute, field.serialization_alias or attribute
        annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        self._adapter: TypeAdapter[object] = TypeAdapter(annotation)  # type: ignore[arg-type]  # made as it runs
        self.default = None if field.is_required() else self.write(field.get_default(call_default_factory=True))

    def write(self, value: object) -> JsonValue:
        """Return a value in one form."""
        written: JsonValue = self._adapter.dump_python(
            value, mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, context=MEANING
        )
        return written


@functools.cache
def _restarting(model: type[BaseModel]) -> tuple[_Field, ...]:
    fields = model.model_fields.items()
    return tuple(_Field(name, field) for name, field in fields if change_cost(field) is ChangeCost.RESTART)


@dataclass(frozen=True, slots=True, eq=False)
class _ThisSpec:
    """One spec, told from others by its identity: specs cannot be hashed, and do not change."""

    spec: StatefulSparkJobSpec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThisSpec) and other.spec is self.spec

    def __hash__(self) -> int:
        return id(self.spec)


def revision_of(spec: StatefulSparkJobSpec) -> str:
    """Return the name of the revision of a spec: ten hexadecimal digits, equal if specs mean the same in this release."""
    return _revision_of(_ThisSpec(spec))


@functools.lru_cache(maxsize=64)
def _revision_of(this: _ThisSpec) -> str:
    """Compute it once for a pass, in which two dozen rules ask for it."""
    text = json.dumps(meaning(this.spec), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:REVISION_LENGTH]


def restore_id(spec: StatefulSparkJobSpec) -> str | None:
    """Return the identity of the request of `spec.restore`; None if it requests nothing."""
    restore = spec.restore
    return None if restore.source is None else word_id(spec)


def word_id(spec: StatefulSparkJobSpec) -> str:
    """Return the name under which the words of `spec.restore` count once: its rights for sinks, and the request.

    `storage.ownership: TakeOver` counts once under it, too.

    It is the same for every resource that says the same, so storage recognises it in a resource that is made anew.
    """
    restore = spec.restore
    request: Mapping[str, JsonValue] = {
        "source": restore.source.model_dump(by_alias=True, exclude_none=True) if restore.source is not None else None,
        "nonce": restore.nonce,
    }
    text = json.dumps(request, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:REVISION_LENGTH]


def running_spec(current: Part, running: Part) -> Part:
    """Return the spec of a running revision with what may change without a restart taken from the current spec.

    Args:
        current: The current spec, or a part of it.
        running: The spec of the revision that runs, or the same part of it.

    Returns:
        A spec whose revision is that of `running`.
    """
    changes: dict[str, object] = {}
    for attribute, field in type(current).model_fields.items():
        value, before = getattr(current, attribute), getattr(running, attribute)
        if change_cost(field) is not ChangeCost.RESTART:
            changes[attribute] = value
        elif isinstance(value, BaseModel) and isinstance(before, BaseModel):
            changes[attribute] = running_spec(value, before)
        elif all(part is None or (isinstance(part, BaseModel) and not meaning(part)) for part in (value, before)):
            changes[attribute] = value  # One of them is absent, and the other has only what may change.
    return running.model_copy(update=changes)
