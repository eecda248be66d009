"""The spec of a `StatefulSparkJob`: what a user asks for.

Rules that the API server can check by itself are CEL rules on the fields, so that a wrong value is refused when it is
applied and no webhook is needed. Defaults live here and not in the CRD: a stored resource shows what the user wrote.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue, field_validator
from statefulspark.contract import engine

from statefulspark_operator.api.base import ApiModel, ChangeCost, Duration, JvmMemory, OpaqueObject, Quantity

STORAGE_MESSAGE = (
    "storage.uri must be an s3:// location: state on one node's disk (file://, hostPath) cannot be restored on another "
    "node, so a crash or a move of the driver would lose it"
)
LEGACY_MESSAGE = (
    "Legacy is refused: it shares files with a snapshot that nobody owns. Use NoClaim, which copies and leaves the snapshot "
    "alone, or Claim, which makes it the job's own"
)
NAME_MAX_LENGTH = 45
"""Names derived from it, `<name>-driver-<epoch>` and executor pods, have to fit into 63 characters."""


def rules(*pairs: tuple[str, str]) -> dict[str, JsonValue]:
    """Attach CEL rules to a field.

    Args:
        pairs: The rule and the message that a user sees when it does not hold.
    """
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def _spark_conf_rules() -> dict[str, JsonValue]:
    refused = [
        (f"!('{setting.key}' in self)", f"{setting.key} cannot be set: {setting.reason}")
        for setting in engine.REFUSED_SETTINGS
    ]
    prefixes = [
        (f"self.all(key, !key.startsWith('{setting.key}'))", f"{setting.key}* cannot be set: {setting.reason}")
        for setting in engine.REFUSED_PREFIXES
    ]
    return {"maxProperties": 200, **rules(*refused, *prefixes)}


class ImagePullPolicy(StrEnum):
    """When the node pulls the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class SavepointFailurePolicy(StrEnum):
    """What an upgrade does when its savepoint fails or takes too long."""

    WAIT = "Wait"
    """Keep the old revision running and try again."""
    USE_LATEST_CHECKPOINT = "UseLatestCheckpoint"
    """Go on from the latest completed checkpoint; what came after it is read again."""
    ABORT = "Abort"
    """Keep the old revision and give up on this change until the spec changes again."""


class CheckpointingMode(StrEnum):
    """What a checkpoint promises; both names are known, and here they promise the same."""

    EXACTLY_ONCE = "ExactlyOnce"
    """Every record is in the state once."""
    AT_LEAST_ONCE = "AtLeastOnce"
    """Accepted for jobs that come from Flink; records are in the state once all the same."""


class ClaimMode(StrEnum):
    """Who owns the snapshot of `restore.from` after the start."""

    NO_CLAIM = "NoClaim"
    """It stays its owner's and is never touched; it may be deleted once the job has started."""
    CLAIM = "Claim"
    """It becomes the job's, which deletes it once as many checkpoints as are retained were completed since."""
    LEGACY = "Legacy"
    """Refused: it lets checkpoints build on the files of a snapshot that nobody owns."""


class SavepointForm(StrEnum):
    """How a savepoint's state is written down."""

    NATIVE = "Native"
    """Copies of the engine's own files, made by the object store: fast."""
    CANONICAL = "Canonical"
    """Parquet, which any number of partitions and key groups restores: slower, and takes a core from the job."""


class DeletionPolicy(StrEnum):
    """What becomes of the state on storage when the resource is deleted."""

    RETAIN = "Retain"
    """Keep everything, and finish with a checkpoint."""
    SAVEPOINT = "Savepoint"
    """Take a savepoint first, then keep everything."""
    DELETE = "Delete"
    """Delete everything below the job's folder, savepoints in it included."""


class LocalReference(ApiModel):
    """The name of an object in the resource's namespace."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the object."""


class SecretKeyReference(ApiModel):
    """One key of a Secret."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Secret."""
    key: str = Field(min_length=1, max_length=253)
    """Key in the Secret."""
    optional: bool | None = None
    """Start without the variable when the Secret or the key is missing."""


class EnvVarSource(ApiModel):
    """Where a variable's value comes from."""

    secret_key_ref: SecretKeyReference | None = None
    """A key of a Secret in the resource's namespace."""
    config_map_key_ref: SecretKeyReference | None = None
    """A key of a ConfigMap in the resource's namespace."""


class EnvVar(ApiModel):
    """An environment variable of the driver."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the variable."""
    value: str | None = None
    """Value; leave it out when `valueFrom` is given."""
    value_from: EnvVarSource | None = None
    """Take the value from a Secret or a ConfigMap."""


class Resources(ApiModel):
    """Resources of a container, as in a Pod."""

    requests: dict[str, Quantity] | None = None
    """What the scheduler reserves, for example `cpu: 500m`."""
    limits: dict[str, Quantity] | None = None
    """What the container may use at most, for example `memory: 2Gi`."""


class JobSource(ApiModel):
    """The code of the job."""

    file: str = Field(min_length=1, max_length=1024)
    """Path of the job's Python file in the image, for example `/opt/job/flights.py`."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Values for the job's own code, read there with `ctx.parameters`."""


class Driver(ApiModel):
    """The driver pod."""

    cores: int | None = Field(default=None, ge=1, le=1024)
    """Threads for tasks when the job runs in the driver (`executor.instances: 0`); absent means the cores it sees."""
    memory: JvmMemory | None = None
    """Heap of the driver's JVM, for example `1g`. Leave room for Python in the container's memory limit."""
    resources: Resources | None = None
    """Resources of the driver's container."""
    env: tuple[EnvVar, ...] = ()
    """Environment variables of the driver."""
    template: OpaqueObject | None = None
    """A pod template (`metadata`, `spec`) laid over the driver's pod: nodeSelector, tolerations, volumes, sidecars and
    so on. Lists of named things are merged by name; the driver's container is named `driver`."""
    service_account_name: str | None = Field(default=None, max_length=253)
    """Service account of the driver; absent means the namespace's default, or one made for the job when it has
    executors."""
    termination_grace_period_seconds: Annotated[int | None, ChangeCost.IGNORE] = Field(default=None, ge=5, le=3600)
    """Time for the driver to finish its batch and complete a checkpoint when its pod is deleted. Default 60."""


class Executor(ApiModel):
    """The executors, which Spark itself starts as pods."""

    instances: int = Field(default=0, ge=0, le=1000)
    """Number of executor pods; 0 runs everything in the driver."""
    cores: int = Field(default=1, ge=1, le=1024)
    """Tasks that an executor runs at once."""
    memory: JvmMemory = "1g"
    """Heap of an executor's JVM."""


class CredentialsSecret(ApiModel):
    """The Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if needed)."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Secret in the resource's namespace."""


class Storage(ApiModel):
    """Where the state lives. Only shared storage can be restored on any node, so only S3 is accepted."""

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
    """Root of the state, for example `s3://bucket/prefix`; the job keeps `<namespace>/<name>/` below it. Cannot be
    changed later."""
    endpoint: str | None = Field(default=None, max_length=1024, pattern=r"^https?://.+")
    """URL of an S3-compatible server; absent means AWS."""
    region: str | None = Field(default=None, max_length=64)
    """Region used for signing. Default us-east-1."""
    path_style: bool | None = None
    """Address buckets as `endpoint/bucket`, which every S3-compatible server understands. Default true."""
    credentials_secret: CredentialsSecret | None = None
    """Secret with the S3 credentials; absent means the identity of the pod (for example a cloud role)."""


class Checkpoint(ApiModel):
    """When checkpoints are taken and how many are kept."""

    interval: Duration | None = None
    """Time between two checkpoints. Default 10s."""
    timeout: Duration | None = None
    """A checkpoint that is not complete by then is aborted. Default 10m."""
    min_pause: Duration | None = None
    """At least this long between the end of a checkpoint and the next. Default 0s."""
    retained: int | None = Field(default=None, ge=1, le=1000)
    """Completed checkpoints that are kept. Default 3."""
    tolerable_failures: int | None = Field(default=None, ge=0, le=1000)
    """Checkpoints that may fail in a row before the job is restarted. Default 3."""
    mode: Annotated[CheckpointingMode | None, ChangeCost.IGNORE] = None
    """`ExactlyOnce` (default) or `AtLeastOnce`, which is accepted for jobs that come from Flink: a batch has no alignment
    whose cost could be saved, so every record is in the state once with either."""
    max_concurrent: int | None = Field(default=None, ge=1, le=1000)
    """Checkpoints in progress at once; savepoints and stops are not limited by it. Default 1."""
    max_age: Duration | None = None
    """Checkpoints older than this are dropped even if they are among the retained; the newest never is. Default: no
    limit."""
    prune_grace: Duration | None = None
    """Files wait this long between being marked as unused and being deleted. Default 60s."""
    history: int | None = Field(default=None, ge=0, le=10_000)
    """Ended checkpoints and savepoints whose details the driver's API remembers. Default 10."""


class Savepoint(ApiModel):
    """Savepoints taken by the operator."""

    location: Annotated[str | None, ChangeCost.RELOAD] = Field(
        default=None,
        max_length=1024,
        json_schema_extra=rules(("self.startsWith('s3://')", "savepoint.location must be an s3:// location")),
    )
    """Folder for savepoints; absent means `savepoints/` in the job's own folder."""
    timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=10)
    """How long the operator waits for a savepoint before `onFailure` applies. Default 10m."""
    format: Annotated[SavepointForm | None, ChangeCost.RELOAD] = None
    """Form of savepoints that `savepointNonce` asks for: `Native` (default), or `Canonical`, which other numbers of key
    groups can be restored from. Those of upgrades and stops are native, since the job waits for them."""
    on_failure: Annotated[SavepointFailurePolicy, ChangeCost.RELOAD] = SavepointFailurePolicy.WAIT
    """What an upgrade does when its savepoint fails: `Wait` (default) keeps the old revision running and tries again,
    `UseLatestCheckpoint` goes on from the latest completed checkpoint, `Abort` keeps the old revision until the spec
    changes again."""


class Restore(ApiModel):
    """What to start from, when it is not the latest completed checkpoint. Acts once per value."""

    from_: Annotated[str | None, ChangeCost.RELOAD] = Field(
        default=None,
        alias="from",
        max_length=1024,
        json_schema_extra=rules(
            (
                "self.matches('^(s3://.+|checkpoint:[0-9]+)$')",
                "restore.from must be the s3:// folder of a savepoint, or checkpoint:<id>",
            )
        ),
    )
    """Folder of a savepoint, or `checkpoint:<id>`. Setting a new value on a running job restarts it from there;
    removing it changes nothing."""
    allow_non_restored_state: Annotated[bool, ChangeCost.IGNORE] = False
    """Drop state whose uid no longer exists in the job, instead of refusing to start."""
    claim_mode: Annotated[ClaimMode | None, ChangeCost.IGNORE] = Field(
        default=None, json_schema_extra=rules(("self != 'Legacy'", f"restore.claimMode {LEGACY_MESSAGE}"))
    )
    """Who owns the snapshot of `from` after the start: `NoClaim` (default), which leaves it alone, or `Claim`, which makes
    it the job's own, to be deleted once as many checkpoints as are retained were completed since. Counts when `from` is
    applied."""
    fresh_state: Annotated[bool, ChangeCost.RELOAD] = False
    """Start with empty state although the job has checkpoints. This is the only way to do that; the old state stays on
    storage."""
    take_over: Annotated[bool, ChangeCost.IGNORE] = False
    """Take over the state of another resource of this name, one that was deleted for example. Without it a job refuses
    to touch state that it does not own."""
    take_over_sinks: Annotated[bool, ChangeCost.IGNORE] = False
    """Write to sinks that hold output of state which a start does not descend from, or output that is newer than what it
    restores and cannot be withdrawn. That output stays, and may be there twice. Without it such a start is refused."""
    nonce: Annotated[str | None, ChangeCost.RELOAD] = Field(default=None, max_length=63)
    """Change it to apply the same `from` or `freshState` once more."""

    @field_validator("claim_mode")
    @classmethod
    def _refuse_legacy(cls, mode: ClaimMode | None) -> ClaimMode | None:
        if mode is ClaimMode.LEGACY:
            raise ValueError(LEGACY_MESSAGE)
        return mode


class Restart(ApiModel):
    """How a failed driver is restarted."""

    max_failures: Annotated[int, ChangeCost.RELOAD] = Field(default=10, ge=0, le=100_000)
    """Failures in a row, no checkpoint completed between them, after which the job stops as Stalled. Default 10."""
    initial_backoff: Annotated[Duration, ChangeCost.RELOAD] = timedelta(seconds=1)
    """Wait before the restart after a first failure; it doubles with each one in a row. Default 1s."""
    max_backoff: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """Longest wait before a restart. Default 5m."""


class StatefulSparkJobSpec(ApiModel):
    """A streaming job whose state survives crashes, node loss and upgrades."""

    image: str = Field(min_length=1, max_length=1024)
    """Image of the driver and the executors, with the job's code in it."""
    image_pull_policy: ImagePullPolicy | None = None
    """When the node pulls the image; absent means what Kubernetes chooses by the tag."""
    image_pull_secrets: tuple[LocalReference, ...] = ()
    """Secrets for pulling the image."""
    job: JobSource
    """The code of the job."""
    driver: Driver = Driver()
    """The driver pod."""
    executor: Executor = Executor()
    """The executors."""
    storage: Storage
    """Where the state lives."""
    checkpoint: Checkpoint = Checkpoint()
    """When checkpoints are taken and how many are kept."""
    savepoint: Savepoint = Savepoint()
    """Savepoints taken by the operator."""
    restore: Restore = Restore()
    """What to start from, when it is not the latest completed checkpoint."""
    restart: Restart = Restart()
    """How a failed driver is restarted."""
    suspend: Annotated[bool, ChangeCost.RELOAD] = False
    """Stop the job with a savepoint and start nothing until it is false again."""
    deletion_policy: Annotated[DeletionPolicy, ChangeCost.RELOAD] = DeletionPolicy.RETAIN
    """What becomes of the state when the resource is deleted: `Retain` (default), `Savepoint` or `Delete`."""
    spark_conf: dict[str, str] = Field(default_factory=dict, json_schema_extra=_spark_conf_rules())
    """Settings for Spark. Those that would break a guarantee are refused by name, with the reason."""
    restart_nonce: str | None = Field(default=None, max_length=63)
    """Change it to restart the job from a savepoint without changing anything else."""
    savepoint_nonce: Annotated[str | None, ChangeCost.RELOAD] = Field(default=None, max_length=63)
    """Change it to take a savepoint now."""
