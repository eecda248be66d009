"""The base of the resource's models, the cost of changing a field, and the types that fields share.

Every spec field declares the effect of its change on a running job. A change of an unmarked field restarts the job with a
savepoint, which is the safe default. A revision of a job is what its fields marked RESTART mean (`revision`), so that a
change of any other field never stops a job.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from statefulspark import durations, errors
from statefulspark.contract.base import WireModel

from statefulspark_operator.api import quantities

GROUP = "statefulspark.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "StatefulSparkJob"
PLURAL = "statefulsparkjobs"
SAVEPOINT_KIND = "SparkSavepoint"
SAVEPOINT_PLURAL = "sparksavepoints"


class ChangeCost(StrEnum):
    """The effect of a change of a spec field on a running job."""

    IGNORE = "takes effect at the next start"
    """The running job is not changed."""
    RELOAD = "takes effect at once, without a restart"
    """The operator uses the new value from its next pass on."""
    RESTART = "restarts the job from a savepoint"
    """The job is stopped with a savepoint, and its new revision starts from it."""


MEANING = "meaning"
"""The context in which a value is written in one form, whatever its spelling is, so that equal values are equal text."""


ATOMIC: dict[str, JsonValue] = {"x-kubernetes-map-type": "atomic"}
"""Schema of a reference: whoever applies it owns all of it."""
BY_NAME: dict[str, JsonValue] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
"""Schema of a list whose entries several appliers may own, each under its name."""


class ApiModel(WireModel):
    """Base of the resource's models: frozen, camelCase, descriptions taken from the docstrings below the fields."""

    model_config = ConfigDict(use_attribute_docstrings=True)


_TIMES = {
    "at": "time",
    "since": "last_transition_time",
    "completed_at": "completion_time",
    "savepoint_completed_at": "savepoint_completion_time",
    "started_at": "start_time",
    "stopped_at": "stop_time",
    "requested_at": "request_time",
    "decided_at": "decision_time",
    "ended_at": "end_time",
    "finished_at": "finish_time",
    "handled_at": "handled_time",
}
"""Names of times in a status, where they are not that of the field with `Time`."""


def _name_in_status(field: str) -> str:
    """Return the name of a field in a status: times are told as the API conventions say, `completionTime`."""
    stem, separator, _ = field.rpartition("_at") if field.endswith("_at") else field.rpartition("_since")
    return to_camel(_TIMES.get(field) or (f"{stem}_time" if separator else field))


class StatusModel(ApiModel):
    """Base of the parts of a status."""

    model_config = ConfigDict(alias_generator=_name_in_status)


def _read_duration(value: object) -> object:
    """Parse text as a duration; pydantic validates all other values."""
    if not isinstance(value, str):
        return value
    try:
        duration = durations.parse(value)
    except errors.SpecRejectedError as error:
        raise ValueError(error.message) from error
    if duration > durations.LONGEST:
        raise ValueError(f"{value!r} is longer than the allowed {durations.LONGEST.days} days")
    return duration


Duration = Annotated[
    timedelta,
    BeforeValidator(_read_duration),
    PlainSerializer(durations.format_exact, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": durations.PATTERN, "minLength": 1, "maxLength": durations.LONGEST_TEXT}
    ),
]
"""A length of time such as `10s`, `5m`, `1h30m` or `7d`."""


def _write_quantity(value: str, info: SerializationInfo) -> str:
    return quantities.canonical(value) if info.context == MEANING else value


Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value),
    PlainSerializer(_write_quantity, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": quantities.PATTERN,
        }
    ),
]
"""A Kubernetes quantity such as `2`, `500m` or `4Gi`."""

_MOST_FIELDS = 64
OpaqueObject = Annotated[
    dict[str, JsonValue],
    Field(max_length=_MOST_FIELDS),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": _MOST_FIELDS}),
]
"""An object that is passed to Kubernetes unchanged."""
