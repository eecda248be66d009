"""What an installation gives to every job that does not say otherwise: the chart's `jobs.defaults`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, JsonValue, TypeAdapter, ValidationError
from statefulspark import errors

from statefulspark_operator.api.base import BY_NAME, ApiModel
from statefulspark_operator.api.environment import Env, EnvFrom
from statefulspark_operator.api.spec import (
    ImagePullPolicy,
    KeyReference,
    LocalDisk,
    LocalReference,
    PodTemplate,
    Resources,
)


class DefaultS3(ApiModel):
    """The S3 server of all jobs. How it is addressed is said by each job, because that has a default of its own."""

    endpoint: str | None = None
    """Its URL."""
    region: str | None = None
    """Region used for signing."""
    credentials_secret_ref: LocalReference | None = None
    """Secret with the credentials."""
    ca_secret_ref: KeyReference | None = None
    """Secret with the certificate authority."""


class DefaultStorage(ApiModel):
    """The storage of all jobs, and of savepoints that name a storage of their own."""

    s3: DefaultS3 = DefaultS3()
    """How the S3 server is reached."""


class DefaultPod(ApiModel):
    """One kind of pods, of all jobs."""

    resources: Resources | None = None
    """Resources of the container."""
    env: Env = ()
    """Environment variables."""
    env_from: EnvFrom = ()
    """Secrets and ConfigMaps, all keys of which are environment variables."""
    pod_template: PodTemplate | None = None
    """A part of the pod, for example tolerations and labels."""
    local_disk: LocalDisk | None = None
    """Local disk of the pod."""


class JobDefaults(ApiModel):
    """The fields of `spec` that an installation may set for all jobs, with the names that they have there.

    Each of them is absent by default, so that a value in a job's own spec is known to be the job's.
    """

    image_pull_policy: ImagePullPolicy | None = None
    """When the node pulls an image."""
    image_pull_secrets: tuple[LocalReference, ...] = Field(default=(), json_schema_extra=BY_NAME)
    """Secrets for pulling images."""
    pod_template: PodTemplate | None = None
    """A part of all pods, for example labels."""
    driver: DefaultPod = DefaultPod()
    """The driver pods."""
    executor: DefaultPod = DefaultPod()
    """The executor pods, of jobs that have any."""
    storage: DefaultStorage = DefaultStorage()
    """The storage."""
    spark_conf: dict[str, str] = Field(default_factory=dict)
    """Spark settings."""


_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def parse(text: str) -> JobDefaults:
    """Read defaults as JSON.

    Raises:
        SpecRejectedError: A field does not exist, or its value is none that a job may have.
    """
    try:
        given = _OBJECT.validate_json(text)
        defaults = JobDefaults.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(("jobs.defaults", *(str(part) for part in first["loc"])))
        raise errors.SpecRejectedError("DefaultsInvalid", f"{field}: {first['msg']}.") from error
    unknown = next(_unknown(given, defaults.model_dump(mode="json", by_alias=True, exclude_unset=True)), None)
    if unknown is not None:
        raise errors.SpecRejectedError(
            "DefaultsInvalid", f"jobs.defaults.{unknown} is no field of a job that has a default."
        )
    return defaults


def _unknown(given: JsonValue, read: JsonValue) -> Iterator[str]:
    """Return the paths of what was given and not read: models leave out what they do not know."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            if name not in read:
                yield name
            else:
                yield from (f"{name}.{path}" for path in _unknown(value, read[name]))
    elif isinstance(given, list) and isinstance(read, list):
        for position, (value, item) in enumerate(zip(given, read, strict=True)):
            yield from (f"{position}.{path}" for path in _unknown(value, item))
