"""The base of the resource's models, what a change of a field costs, and the small types that fields share.

Every spec field declares what its change does to a running job. An unmarked field restarts the job with a savepoint,
the careful side. The revision of a job is the hash of exactly the fields marked RESTART, so that editing any other
field can never stop a job.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, JsonValue, PlainSerializer, WithJsonSchema
from statefulspark.contract.base import WireModel

GROUP = "statefulspark.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "StatefulSparkJob"
PLURAL = "statefulsparkjobs"
CRD_NAME = f"{PLURAL}.{GROUP}"

DURATION_PATTERN = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
LONGEST_DURATION = timedelta(days=365)
_DURATION = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$")


class ChangeCost(StrEnum):
    """What a change of a spec field does to a job that runs."""

    IGNORE = "takes effect at the next start"
    """Nothing happens now."""
    RELOAD = "takes effect at once, without a restart"
    """The operator acts by the new value from its next look on."""
    RESTART = "restarts the job from a savepoint"
    """The job is stopped with a savepoint and its new revision starts from it."""


class ApiModel(WireModel):
    """Base of the resource's models: frozen, camelCase, descriptions taken from the docstrings below the fields."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def parse_duration(value: object) -> object:
    """Read a duration as users write it, for example `1h30m`, `10s` or `500ms`.

    Args:
        value: The text; anything else is passed on for pydantic to judge.

    Returns:
        A timedelta, or the value itself when it is not text.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None or not value:
        raise ValueError(f"{value!r} is no duration; write for example 10s, 5m or 1h30m")
    hours, minutes, seconds, milliseconds = (int(part or 0) for part in match.groups())
    total_s = hours * 3600 + minutes * 60 + seconds
    if total_s > LONGEST_DURATION.total_seconds() or milliseconds > LONGEST_DURATION.total_seconds():
        raise ValueError(f"{value!r} is longer than the {LONGEST_DURATION.days} days that are allowed")
    return timedelta(seconds=total_s, milliseconds=milliseconds)


def format_duration(value: timedelta) -> str:
    """Write a duration in the form that `parse_duration` reads."""
    total_ms = round(value.total_seconds() * 1000)
    parts = ((total_ms // 3_600_000, "h"), (total_ms // 60_000 % 60, "m"), (total_ms // 1000 % 60, "s"))
    text = "".join(f"{count}{unit}" for count, unit in parts if count)
    return text + (f"{total_ms % 1000}ms" if total_ms % 1000 else "") or "0s"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "minLength": 2, "maxLength": 32}),
]
"""A length of time such as `10s`, `5m` or `1h30m`."""

Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}),
]
"""A Kubernetes quantity such as `2`, `500m` or `4Gi`."""

JvmMemory = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"^[1-9][0-9]*[kmgtKMGT]$", "maxLength": 16})]
"""Memory as the JVM writes it, for example `2g`."""

OpaqueObject = Annotated[
    dict[str, JsonValue], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""An object that is passed on to Kubernetes as it is."""
