"""Environment variables of a container, as in a Pod. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    model_validator,
)

from statefulspark_operator.api.base import ATOMIC, BY_NAME, MEANING, ApiModel, Quantity
from statefulspark_operator.api.code import rules

_ONE_ENV_SOURCE = (
    "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), has(self.resourceFieldRef)]"
    ".filter(x, x).size() == 1"
)
ONE_ENV_SOURCE_MESSAGE = (
    "valueFrom has exactly one of the members secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef"
)
ENV_VALUE_MESSAGE = "a variable has a value or a valueFrom, not both"
ENV_FROM_MESSAGE = "an entry of envFrom has either secretRef or configMapRef"


class SecretKeyReference(ApiModel):
    """One key of a Secret."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    name: str = Field(min_length=1, max_length=253)
    """Name of the Secret."""
    key: str = Field(min_length=1, max_length=253)
    """Key in the Secret."""
    optional: bool | None = None
    """Start without the variable if the Secret or the key is missing."""


class ConfigMapKeyReference(ApiModel):
    """One key of a ConfigMap."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    name: str = Field(min_length=1, max_length=253)
    """Name of the ConfigMap."""
    key: str = Field(min_length=1, max_length=253)
    """Key in the ConfigMap."""
    optional: bool | None = None
    """Start without the variable if the ConfigMap or the key is missing."""


class FieldReference(ApiModel):
    """One field of the pod."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    field_path: str = Field(min_length=1, max_length=253)
    """Path of the field, for example `spec.nodeName` or `metadata.labels['team']`."""
    api_version: str | None = Field(default=None, max_length=64)
    """Version of the schema in which the path is written. Default: v1."""


class ResourceFieldReference(ApiModel):
    """One resource of a container of the pod."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    resource: str = Field(min_length=1, max_length=253)
    """The resource, for example `limits.memory`."""
    container_name: str | None = Field(default=None, max_length=63)
    """Name of the container. Default: the variable's own."""
    divisor: Quantity | None = None
    """Unit of the value, for example `1Mi`. Default: 1."""


class EnvVarSource(ApiModel):
    """The source of a variable's value. It has exactly one member."""

    model_config = ConfigDict(json_schema_extra=rules((_ONE_ENV_SOURCE, ONE_ENV_SOURCE_MESSAGE)) | ATOMIC)

    secret_key_ref: SecretKeyReference | None = None
    """A key of a Secret in the resource's namespace."""
    config_map_key_ref: ConfigMapKeyReference | None = None
    """A key of a ConfigMap in the resource's namespace."""
    field_ref: FieldReference | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldReference | None = None
    """A resource of a container of the pod."""

    @model_validator(mode="after")
    def _check_one(self) -> EnvVarSource:
        members = (self.secret_key_ref, self.config_map_key_ref, self.field_ref, self.resource_field_ref)
        if members.count(None) != len(members) - 1:
            raise ValueError(ONE_ENV_SOURCE_MESSAGE)
        return self


class EnvVar(ApiModel):
    """An environment variable of a container."""

    model_config = ConfigDict(json_schema_extra=rules(("!(has(self.value) && has(self.valueFrom))", ENV_VALUE_MESSAGE)))

    name: str = Field(min_length=1, max_length=253)
    """Name of the variable."""
    value: str | None = None
    """Value; leave it out if `valueFrom` is given."""
    value_from: EnvVarSource | None = None
    """Source of the value; leave it out if `value` is given."""

    @model_validator(mode="after")
    def _check_value(self) -> EnvVar:
        if self.value is not None and self.value_from is not None:
            raise ValueError(ENV_VALUE_MESSAGE)
        return self


class EnvFromReference(ApiModel):
    """A Secret or a ConfigMap, all keys of which are variables."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    name: str = Field(min_length=1, max_length=253)
    """Name of the object."""
    optional: bool | None = None
    """Start without its variables if the object is missing."""


class EnvFromSource(ApiModel):
    """An object, all keys of which are variables. It has either `secretRef` or `configMapRef`."""

    model_config = ConfigDict(
        json_schema_extra=rules(("has(self.secretRef) != has(self.configMapRef)", ENV_FROM_MESSAGE))
    )

    prefix: str | None = Field(default=None, max_length=253)
    """Text before the name of each variable. Default: none."""
    secret_ref: EnvFromReference | None = None
    """A Secret in the resource's namespace."""
    config_map_ref: EnvFromReference | None = None
    """A ConfigMap in the resource's namespace."""

    @model_validator(mode="after")
    def _check_one(self) -> EnvFromSource:
        if (self.secret_ref is None) == (self.config_map_ref is None):
            raise ValueError(ENV_FROM_MESSAGE)
        return self


def _write_env(
    value: tuple[EnvVar, ...], handler: SerializerFunctionWrapHandler, info: SerializationInfo
) -> list[dict[str, JsonValue]]:
    """Write variables; for a comparison by name, unless one refers to another, which has to be before it."""
    written: list[dict[str, JsonValue]] = handler(value)
    if info.context != MEANING or any("$(" in (variable.value or "") for variable in value):
        return written
    return sorted(written, key=lambda variable: str(variable["name"]))


Env = Annotated[tuple[EnvVar, ...], Field(max_length=500, json_schema_extra=BY_NAME), WrapSerializer(_write_env)]
"""Environment variables of a container."""
EnvFrom = Annotated[
    tuple[EnvFromSource, ...], Field(max_length=100, json_schema_extra={"x-kubernetes-list-type": "atomic"})
]
"""Objects whose keys are environment variables of a container."""
