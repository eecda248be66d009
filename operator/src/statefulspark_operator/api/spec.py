"""The spec of a `StatefulSparkJob`: the state that a user requests.

Rules that the API server can check are CEL rules on the fields, so that a wrong value is refused when it is applied, without
a webhook. Defaults are here and not in the CRD, so that a stored resource shows only what the user wrote.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from statefulspark.contract import config, engine

from statefulspark_operator.api import heaps
from statefulspark_operator.api.base import ATOMIC, BY_NAME, ApiModel, ChangeCost, Duration, OpaqueObject, Quantity
from statefulspark_operator.api.code import JobSource, rules
from statefulspark_operator.api.environment import Env, EnvFrom
from statefulspark_operator.api.restore import Restore
from statefulspark_operator.api.savepoint_schedule import SavepointRetention, SavepointSchedule
from statefulspark_operator.api.upgrade import Upgrade

STORAGE_MESSAGE = (
    "storage.uri must be an s3:// location: state on one node's disk (file://, hostPath) cannot be restored on another "
    "node, so a crash or a move of the driver would lose it"
)
CORES_MESSAGE = (
    "driver.cores is for jobs whose tasks run in the driver, and this one has executors; remove driver.cores, and set "
    "executor.cores"
)
NAME_MAX_LENGTH = 45
"""Names derived from it, `<name>-driver-<epoch>` and those of executor pods, must fit into 63 characters."""


_SPARK_CONF_RULES = {
    "maxProperties": 200,
    **rules(
        *(
            (f"!('{setting.key}' in self)", f"{setting.key} cannot be set: {setting.reason}")
            for setting in (*engine.REFUSED_SETTINGS, *engine.FIELDS)
        ),
        *(
            (f"self.all(key, !key.startsWith('{setting.key}'))", f"{setting.key}* cannot be set: {setting.reason}")
            for setting in engine.REFUSED_PREFIXES
        ),
    ),
}


_UNAVAILABLE = "(has(self.unavailableAfter) ? self.unavailableAfter : '5m')"
_RESTART = "(has(self.restartAfter) ? self.restartAfter : '1h')"
HEALTH_MESSAGE = (
    "unavailableAfter must be shorter than restartAfter: a driver is not restarted while its job is available"
)


class Health(ApiModel):
    """When a job that makes no progress is not ready, and when it is restarted."""

    # CEL reads no days: a duration in days is compared by the operator.
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"{_UNAVAILABLE}.contains('d') || {_RESTART}.contains('d') "
                f"|| duration({_UNAVAILABLE}) < duration({_RESTART})",
                HEALTH_MESSAGE,
            )
        )
    )

    unavailable_after: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """A job is neither Available nor Ready after a batch has been running, or its driver has not answered, for longer than
    this. Default 5m."""
    restart_after: Annotated[Duration, ChangeCost.RELOAD] = timedelta(hours=1)
    """The driver is restarted after a batch has been running, or the driver has not answered, for longer than this. It must
    be longer than the longest batch, for example the first one after an outage of a source. Default 1h."""

    @model_validator(mode="after")
    def _check_order(self) -> Health:
        if self.unavailable_after >= self.restart_after:
            raise ValueError(HEALTH_MESSAGE)
        return self


CERTIFICATE_KEY, PRIVATE_KEY, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt"
"""Keys of the Secret: the names of Kubernetes' type kubernetes.io/tls, and cert-manager's for the authority."""


class LocalReference(ApiModel):
    """The name of an object in the resource's namespace."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    name: str = Field(min_length=1, max_length=253)
    """Name of the object."""


class DriverTls(ApiModel):
    """TLS of the driver's HTTP API. With it, neither driver nor operator speaks plain HTTP."""

    secret_ref: LocalReference
    """A Secret of type `kubernetes.io/tls` in the resource's namespace with the keys `tls.crt`, `tls.key` and `ca.crt`, as
    cert-manager writes it. The certificate must be valid for `<job>-driver.<namespace>.svc`. A renewed one is used without a
    restart."""


class ImagePullPolicy(StrEnum):
    """When the node pulls the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class SavepointForm(StrEnum):
    """The form in which a savepoint's state is stored."""

    NATIVE = "Native"
    """Copies of Spark's own files, made by the object store: fast."""
    CANONICAL = "Canonical"
    """Parquet, which can be restored with any number of partitions and key groups: slower, and uses one core of the job."""


class DeletionPolicy(StrEnum):
    """What happens to the state on storage when the resource is deleted."""

    RETAIN = "Retain"
    """Complete a last checkpoint, and keep everything. The resource does not wait for it."""
    SAVEPOINT = "Savepoint"
    """Take a last savepoint, and keep everything. The resource stays until it is complete, or until you set Retain."""
    DELETE = "Delete"
    """Delete everything below the job's folder, including its savepoints. The resource stays until that is done, or for
    `upgrade.savepointTimeout` and five minutes more if it fails."""


class Resources(ApiModel):
    """Resources of a container, as in a Pod."""

    requests: dict[str, Quantity] | None = Field(default=None, max_length=50)
    """The resources that the scheduler reserves, for example `cpu: 500m`."""
    limits: dict[str, Quantity] | None = Field(default=None, max_length=50)
    """The maximum that the container may use, for example `memory: 2Gi`."""


class LocalDisk(ApiModel):
    """Disk space of a pod, which goes with it: what must survive is on shared storage."""

    size: Quantity
    """Its size, for example `20Gi`. A pod that uses more on its node's disk is evicted."""
    storage_class_name: str | None = Field(default=None, max_length=253)
    """Class of a volume that is made for each pod; absent means the node's own disk."""


class PodTemplate(ApiModel):
    """A part of a pod, as Kubernetes defines it, that is merged into the operator's."""

    metadata: Annotated[OpaqueObject | None, ChangeCost.RELOAD] = None
    """Labels and annotations of the pod, beside those of the operator and of Spark."""
    spec: OpaqueObject | None = None
    """Fields of the pod's spec: nodeSelector, tolerations, volumes, containers and so on, merged as by a strategic merge
    patch."""


class Driver(ApiModel):
    """The driver pod."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (heaps.BELOW_LIMIT, heaps.BELOW_LIMIT_MESSAGE),
        )
    )

    cores: int | None = Field(default=None, ge=1, le=1024)
    """Number of task threads of a job without executors, whose tasks run in the driver; absent means all cores."""
    heap: heaps.Heap = heaps.DEFAULT
    """Heap of the driver's JVM, for example `2Gi`. It must be smaller than the container's memory limit, which has to have
    room for Python, too. Default 1Gi."""
    resources: Resources | None = None
    """Resources of the driver's container."""
    env: Env = ()
    """Environment variables of the driver."""
    env_from: EnvFrom = ()
    """Secrets and ConfigMaps, all keys of which are environment variables of the driver. `env` has precedence."""
    pod_template: PodTemplate | None = None
    """A part of the driver's pod, merged over `spec.podTemplate`. The driver's container is named `driver`. It alone tells
    how the driver is: sidecars may end and restart."""
    service_account_name: str | None = Field(default=None, max_length=253)
    """Service account of the driver; absent means the namespace's default, or one that is created for the job if it has
    executors. One of your own needs the rights of that one, to start executors."""
    termination_grace_period_seconds: Annotated[int | None, ChangeCost.IGNORE] = Field(default=None, ge=5, le=3600)
    """Time for the driver to finish its batch and complete a checkpoint when its pod is deleted. Default 60."""
    standby: Annotated[bool, ChangeCost.RELOAD] = False
    """Keep a second, started driver pod ready, on another node if there is one, that takes over when the driver ends. It
    needs the driver's resources once more."""
    tls: DriverTls | None = None
    """Serve the driver's HTTP API over TLS; absent means HTTP."""
    local_disk: LocalDisk | None = None
    """Local disk of the driver, for temporary files, and for shuffles and state stores of a job without executors; absent
    means the node's."""


class Executor(ApiModel):
    """The executors, which Spark starts as pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (heaps.BELOW_LIMIT, heaps.BELOW_LIMIT_MESSAGE),
        )
    )

    instances: int = Field(ge=1, le=1000)
    """Number of executor pods. `kubectl scale` and autoscalers set it, too."""
    cores: int = Field(default=1, ge=1, le=1024)
    """Number of tasks that an executor runs at the same time. Default 1."""
    heap: heaps.Heap = heaps.DEFAULT
    """Heap of an executor's JVM. Beside it the container gets max(384 MiB, a tenth of the heap) for the JVM, and 1 GiB for
    each core for Python, half of that for keyed state; `resources` names another size. Default 1Gi."""
    resources: Resources | None = None
    """Resources of an executor's container. Its memory is one value, the limit: what exceeds the JVM's share is Python's."""
    env: Env = ()
    """Environment variables of the executors."""
    env_from: EnvFrom = ()
    """Secrets and ConfigMaps, all keys of which are environment variables of the executors. `env` has precedence."""
    pod_template: PodTemplate | None = None
    """A part of the executors' pods, merged over `spec.podTemplate`. The executor's container is named `executor`."""
    service_account_name: str | None = Field(default=None, max_length=253)
    """Service account of the executors, for example one with a cloud role; absent means the namespace's default."""
    local_disk: LocalDisk | None = None
    """Local disk of each executor, for shuffles, state stores and keyed state beyond memory; absent means the node's."""


class KeyReference(ApiModel):
    """One key of an object in the resource's namespace."""

    model_config = ConfigDict(json_schema_extra=ATOMIC)

    name: str = Field(min_length=1, max_length=253)
    """Name of the object."""
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
    """Key in the object."""


class S3(ApiModel):
    """How an S3 server is reached."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.caSecretRef) || !has(self.endpoint) || self.endpoint.startsWith('https://')",
                "caSecretRef is for an endpoint that begins with https://",
            )
        )
    )

    endpoint: str | None = Field(default=None, max_length=1024, pattern=r"^https?://.+")
    """URL of an S3-compatible server; absent means AWS."""
    region: str | None = Field(default=None, max_length=64)
    """Region used for signing; absent means that of the variable AWS_REGION, and us-east-1 without it."""
    addressing: config.Addressing = config.Addressing.PATH
    """How a bucket is named in a request. `Path`: as `endpoint/bucket`, which every S3-compatible server understands.
    `VirtualHost`: as `bucket.endpoint`. Default Path."""
    credentials_secret_ref: LocalReference | None = None
    """Secret with the keys `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, and `AWS_SESSION_TOKEN` if needed; absent means
    the identity of the pod, for example a cloud role."""
    ca_secret_ref: KeyReference | None = None
    """Secret with the certificate authority of an https:// endpoint, in PEM. The operator and all pods of the job trust it
    beside the usual ones; absent means the usual ones alone."""


class Storage(ApiModel):
    """The storage of the state. Only state on shared storage can be restored on any node, so only S3 is accepted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.s3) || self.uri.startsWith('s3://')", "s3 is for a uri that begins with s3://")
        )
    )

    uri: str = Field(
        min_length=6,
        max_length=1024,
        json_schema_extra=rules(
            ("self.matches('^s3://[a-z0-9][a-z0-9.-]+(/.*)?$')", STORAGE_MESSAGE),
            (
                "self == oldSelf",
                "storage.uri cannot be changed: the job's state stays where it is. To move a job, take a savepoint, "
                "and start a job with another name from it",
            ),
        ),
    )
    """Root of the state, for example `s3://bucket/prefix`; the job uses `<namespace>/<name>/` below it. It cannot be
    changed later."""
    s3: S3 = S3()
    """How the S3 server of `uri` is reached."""


class JobStorage(Storage):
    """The storage of a job's state. Only state on shared storage can be restored on any node, so only S3 is accepted."""

    ownership: Annotated[config.OwnershipMode, ChangeCost.IGNORE] = config.OwnershipMode.EXCLUSIVE
    """The state that the job may change. `Exclusive`: its own, and state that nobody owns. `AdoptOrphaned`: that of a
    deleted resource, too, which had this name in this cluster; the value may stay in the manifest. `TakeOver`: that of
    another resource with this name, too, for example of one in another cluster. It counts once: a job that has lost the
    state does not take it over again until `restore.nonce` changes. Default: Exclusive."""

    @property
    def connection(self) -> Storage:
        """Where the storage is, and how it is reached."""
        return Storage.model_validate(self.model_dump(exclude={"ownership"}))


class CheckpointRetention(ApiModel):
    """The completed checkpoints that are kept. The newest is always kept."""

    count: Annotated[int | None, ChangeCost.RELOAD] = Field(default=None, ge=1, le=1000)
    """Number of completed checkpoints to keep. Default 3."""
    max_age: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """Checkpoints older than this are deleted, even if they are among the `count` newest. Default: no limit."""


class Checkpoint(ApiModel):
    """When checkpoints are taken and how many are kept."""

    interval: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """Interval between two checkpoints. Default 10s."""
    timeout: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """A checkpoint that is not complete after this time is aborted. Default 10m."""
    min_pause: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """Minimum pause between the end of a checkpoint and the start of the next. Default 0s."""
    tolerable_failures: Annotated[int | None, ChangeCost.RELOAD] = Field(default=None, ge=0, le=1000)
    """Number of consecutive checkpoint failures before the job is restarted. Default 3."""
    max_concurrent: Annotated[int | None, ChangeCost.RELOAD] = Field(default=None, ge=1, le=1000)
    """Maximum number of concurrent checkpoints; it does not limit savepoints and stops. Default 1."""
    retention: CheckpointRetention = CheckpointRetention()
    """The completed checkpoints that are kept."""
    prune_delay: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """Time between the moment when a file is marked as unused and its deletion. Default 60s."""
    history_limit: Annotated[int | None, ChangeCost.RELOAD] = Field(default=None, ge=0, le=10_000)
    """Number of ended checkpoints and savepoints whose details the driver's API shows. Default 10."""

    def config(self) -> config.CheckpointConfig:
        """Return the driver's configuration; what is absent has the driver's default.

        Raises:
            pydantic.ValidationError: A value is out of the range that the driver accepts.
        """
        return config.CheckpointConfig.model_validate(self.model_dump(by_alias=True, exclude_none=True))


class Savepoint(ApiModel):
    """Savepoints taken by the operator."""

    location: Annotated[str | None, ChangeCost.RELOAD] = Field(
        default=None,
        max_length=1024,
        json_schema_extra=rules(("self.startsWith('s3://')", "savepoint.location must be an s3:// location")),
    )
    """Folder for savepoints; absent means `savepoints/` in the job's own folder."""
    schedule: Annotated[SavepointSchedule | None, ChangeCost.RELOAD] = None
    """When savepoints are taken by themselves, each as a SparkSavepoint. Default: never."""
    retention: SavepointRetention = SavepointRetention()
    """The savepoints that are kept of those that the operator made by itself: for the schedule, an upgrade, a suspension and
    the deletion of the job. What is beyond any of the limits is deleted with its files. The newest complete savepoint of the
    job stays, and so does one that a start or a rollback may go back to. Savepoints that a person asked for stay, too."""


class Restart(ApiModel):
    """How a failed driver is restarted."""

    max_failures: Annotated[int | None, ChangeCost.RELOAD] = Field(default=None, ge=0, le=100_000)
    """Number of consecutive failures without a completed checkpoint after which the job stops as Stalled. Default: no limit,
    because an outage of a source, of storage or of the cluster may last. A failure that only a change can mend, for example
    a job file that raises, always stops the job at once."""
    initial_backoff: Annotated[Duration, ChangeCost.RELOAD] = timedelta(seconds=1)
    """Delay of the restart after a first failure; it doubles with each consecutive failure. Default 1s."""
    max_backoff: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """Maximum delay of a restart. Default 5m."""


class StatefulSparkJobSpec(ApiModel):
    """A streaming job whose state survives crashes, node loss and upgrades."""

    model_config = ConfigDict(
        json_schema_extra=rules(("!has(self.executor) || !has(self.driver) || !has(self.driver.cores)", CORES_MESSAGE))
    )

    image: str = Field(min_length=1, max_length=1024)
    """Image of the driver and the executors, with the job's code in it unless `job.source` names another place."""
    image_pull_policy: Annotated[ImagePullPolicy | None, ChangeCost.IGNORE] = None
    """When the node pulls the image; absent means that Kubernetes chooses by the tag."""
    image_pull_secrets: Annotated[tuple[LocalReference, ...], ChangeCost.IGNORE] = Field(
        default=(), max_length=50, json_schema_extra=BY_NAME
    )
    """Secrets for pulling the image."""
    job: JobSource
    """The code of the job."""
    pod_template: PodTemplate | None = None
    """A part of the driver's and the executors' pods. Of its containers, `driver` is merged into drivers only, and
    `executor` into executors only; all others are sidecars of both."""
    driver: Driver = Driver()
    """The driver pod."""
    executor: Executor | None = None
    """The executors; absent means that all tasks run in the driver."""
    storage: JobStorage
    """The storage of the state."""
    checkpoint: Checkpoint = Checkpoint()
    """When checkpoints are taken and how many are kept."""
    savepoint: Savepoint = Savepoint()
    """Savepoints taken by the operator."""
    restore: Restore = Restore()
    """The snapshot to start from, if it is not the newest committed batch."""
    restart: Restart = Restart()
    """How a failed driver is restarted."""
    health: Health = Health()
    """When a job that makes no progress is not ready, and when it is restarted."""
    upgrade: Upgrade = Upgrade()
    """How a change of the spec that needs a new driver is carried out."""
    suspend: Annotated[bool, ChangeCost.RELOAD] = False
    """Stop the job with a savepoint, and start it only when this is false again."""
    deletion_policy: Annotated[DeletionPolicy, ChangeCost.RELOAD] = DeletionPolicy.RETAIN
    """What happens to the state when the resource is deleted: `Retain` (default), `Savepoint` or `Delete`."""
    spark_conf: dict[str, str] = Field(default_factory=dict, json_schema_extra=_SPARK_CONF_RULES)
    """Spark settings. Settings that would break a guarantee are refused by name, with the reason."""
    restart_nonce: str | None = Field(default=None, max_length=63)
    """Change it to restart the job from a savepoint without another change."""

    @model_validator(mode="after")
    def _check_cores(self) -> StatefulSparkJobSpec:
        if self.executor is not None and self.driver.cores is not None:
            raise ValueError(CORES_MESSAGE)
        return self
