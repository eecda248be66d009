"""The revision of a spec: the identity of all fields whose change needs a new driver.

Only fields that cost a restart are part of it, and fields with their default value are left out, so that a newer operator
with more fields computes the same revision for the same resource. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from statefulspark_operator.api.base import ChangeCost
from statefulspark_operator.api.spec import StatefulSparkJobSpec

REVISION_LENGTH = 10

Part = TypeVar("Part", bound=BaseModel)


def change_cost(field: FieldInfo) -> ChangeCost:
    """Return the cost of a change of a field; an unmarked field costs a restart."""
    return next((mark for mark in field.metadata if isinstance(mark, ChangeCost)), ChangeCost.RESTART)


def restart_fields(spec: BaseModel) -> dict[str, JsonValue]:
    """Return the part of a spec that cannot change for a running driver.

    Args:
        spec: The spec, or a part of it.

    Returns:
        JSON names and values of the fields that cost a restart, without those that have their default value.
    """
    values = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    parts: dict[str, JsonValue] = {}
    for attribute, name in _restarting(type(spec)):
        value = getattr(spec, attribute)
        part = restart_fields(value) if isinstance(value, BaseModel) else values.get(name)
        if name in values and part != {}:
            parts[name] = part
    return parts


@functools.cache
def _restarting(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a model that cost a restart: attributes and JSON names."""
    fields = model.model_fields.items()
    return tuple((name, field.serialization_alias or name) for name, field in fields if _costs_a_restart(field))


def _costs_a_restart(field: FieldInfo) -> bool:
    return change_cost(field) is ChangeCost.RESTART


@dataclass(frozen=True, slots=True, eq=False)
class _ThisSpec:
    """One spec, told from others by its identity: specs cannot be hashed, and do not change."""

    spec: StatefulSparkJobSpec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThisSpec) and other.spec is self.spec

    def __hash__(self) -> int:
        return id(self.spec)


def revision_of(spec: StatefulSparkJobSpec) -> str:
    """Return the revision of a spec: ten hexadecimal digits, equal if the fields that cost a restart are equal."""
    return _revision_of(_ThisSpec(spec))


@functools.lru_cache(maxsize=64)
def _revision_of(this: _ThisSpec) -> str:
    """Compute it once for a pass, in which two dozen rules ask for it."""
    text = json.dumps(restart_fields(this.spec), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:REVISION_LENGTH]


def restore_id(spec: StatefulSparkJobSpec) -> str | None:
    """Return the identity of the request of `spec.restore`; None if it requests nothing."""
    restore = spec.restore
    return None if restore.source is None else word_id(spec)


def word_id(spec: StatefulSparkJobSpec) -> str:
    """Return the name under which the words of `spec.restore` count once: `takeOver`, `takeOverSinks`, and the request.

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
        if not _costs_a_restart(field):
            changes[attribute] = value
        elif isinstance(value, BaseModel) and isinstance(before, BaseModel):
            changes[attribute] = running_spec(value, before)
    return running.model_copy(update=changes)
