"""The configuration of one driver, which the operator (or a person) gives to `statefulspark run`.

It is one JSON file, named by the environment variable `STATEFULSPARK_CONFIG`. It contains no secrets:
credentials for S3 come from the usual `AWS_*` variables, the API token from a file or from `STATEFULSPARK_TOKEN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from statefulspark import durations
from statefulspark.contract import layout
from statefulspark.contract.base import Duration, WireModel
from statefulspark.contract.rights import SinkRight

ENV_CONFIG = "STATEFULSPARK_CONFIG"
ENV_TOKEN = "STATEFULSPARK_TOKEN"  # noqa: S105 - the name of a variable, not a secret
TOKEN_KEY = "token"  # noqa: S105 - the name of a key, as is the next one
PREVIOUS_TOKEN_KEY = "previous"  # noqa: S105
"""The keys of the Secret with a job's token, and the names of its files; the second is there during a rotation only."""
ENV_EPOCH = "STATEFULSPARK_EPOCH"
ENV_HOLDER = "STATEFULSPARK_HOLDER"

NO_OWNER = "local"
"""The owner of the state of a driver that no resource asks for."""
DEFAULT_NAMESPACE = "default"
DEFAULT_API_PORT = 8090

ALLOWED_SCHEMES = ("s3://", "file://")


class OwnershipMode(StrEnum):
    """Whose state a job may change."""

    EXCLUSIVE = "Exclusive"
    """Its own, and state that nobody owns."""
    ADOPT_ORPHANED = "AdoptOrphaned"
    """The state of a resource of this name that was deleted in the same cluster, too. It counts again and again."""
    TAKE_OVER = "TakeOver"
    """The state of another owner, too, for example of a deleted resource with the same name. It counts once."""


class Addressing(StrEnum):
    """How a bucket is named in a request."""

    PATH = "Path"
    """`endpoint/bucket`, which every S3-compatible server understands."""
    VIRTUAL_HOST = "VirtualHost"
    """`bucket.endpoint`."""


class S3Config(WireModel):
    """How an S3 server is reached."""

    endpoint: str | None = None
    """URL of an S3-compatible server; absent for AWS itself."""
    region: str | None = None
    """Region for signing; absent means that of the variable AWS_REGION, and us-east-1 without it."""
    addressing: Addressing = Addressing.PATH
    """How a bucket is named in a request."""
    ca_file: str | None = None
    """File in PEM with authorities that are trusted beside the usual ones, at the same path on executors."""


class StorageConfig(WireModel):
    """Where the state lives."""

    uri: str
    """Root below which every job keeps `<namespace>/<job>/`, for example `s3://bucket/prefix`."""
    s3: S3Config = S3Config()
    """How it is reached."""
    ownership: OwnershipMode = OwnershipMode.EXCLUSIVE
    """The state that a job may change."""
    allow_local_files: bool = False
    """Allow a file:// root. Development only: state on one node's disk cannot be restored on another node."""

    @field_validator("uri")
    @classmethod
    def _check_uri(cls, uri: str) -> str:
        if not uri.startswith(ALLOWED_SCHEMES):
            raise ValueError(f"the storage uri {uri!r} must start with s3://; state has to be on shared storage")
        return uri.rstrip("/")


MIN_PERIOD = timedelta(milliseconds=10)
"""Shortest interval and timeout, as in Flink."""
MAX_PAUSE = durations.LONGEST
"""Longest interval, timeout and pause, as in Flink."""


class RetentionConfig(WireModel):
    """Which completed checkpoints are kept."""

    count: int = Field(default=3, ge=1)
    """Number of the newest ones, for recovery and rollback."""
    max_age: Duration | None = None
    """Older ones are dropped even if they are among the newest; the very newest never is."""


class CheckpointConfig(WireModel):
    """When checkpoints are taken and how many are kept."""

    interval: Duration = timedelta(seconds=10)
    """Time between two triggers, 10 ms to a year. Flink: execution.checkpointing.interval."""
    timeout: Duration = timedelta(minutes=10)
    """A checkpoint that is not complete by then is aborted with CHECKPOINT_EXPIRED, 10 ms to a year. Flink:
    execution.checkpointing.timeout."""
    min_pause: Duration = Field(default=timedelta(0), ge=timedelta(0), le=MAX_PAUSE)
    """At least this long between a completion and the next periodic trigger. Flink: execution.checkpointing.min-pause."""
    max_concurrent: int = Field(default=1, ge=1)
    """Checkpoints in progress at once; savepoints and stops are not limited by it."""
    tolerable_failures: int = Field(default=3, ge=0)
    """Consecutive failures after which the job fails, so that a job that cannot checkpoint does not look healthy."""
    retention: RetentionConfig = RetentionConfig()
    """Which completed checkpoints are kept."""
    prune_delay: Duration = timedelta(seconds=60)
    """Files wait this long between being marked as unused and being deleted."""
    history_limit: int = Field(default=10, ge=0, le=10_000)
    """Ended snapshots whose details the API remembers. Flink: web.checkpoints.history."""

    @field_validator("interval", "timeout")
    @classmethod
    def _check_period(cls, period: timedelta, info: ValidationInfo) -> timedelta:
        if not MIN_PERIOD <= period <= MAX_PAUSE:
            raise ValueError(
                f"the checkpoint {info.field_name} must be larger than or equal to 10 ms, and at most a year"
            )
        return period


ANOTHER_NONCE = (
    "Another nonce has restore.source carried out again, too. If it was carried out before, remove it first."
)
"""The warning of each message that advises another `restore.nonce` for a right. A driver does not know whether the resource
still names a restore that was carried out before."""
_REPEATED_AT = " again at "
"""Separates the key of a restore request from the time when it was repeated."""


class ClaimMode(StrEnum):
    """Who owns the snapshot after a job has started from it (Flink: execution.state-recovery.claim-mode)."""

    NO_CLAIM = "NoClaim"
    """Its owner keeps it, and the job never changes it; the job starts from a copy, so the owner may delete it after the
    start."""
    CLAIM = "Claim"
    """The job owns it, and deletes it after it has completed as many checkpoints as are retained. No other job can claim
    it."""


class NoState(WireModel):
    """No state: a start with it is the only one that forgets state."""


class RestoreSource(WireModel):
    """The source of a start, instead of the newest committed batch. It has exactly one member."""

    uri: str | None = None
    """URI of a savepoint's folder."""
    checkpoint_id: int | None = Field(default=None, ge=1, alias="checkpointID")
    """Number of a retained checkpoint of the job."""
    empty: NoState | None = None
    """Empty state, although the job has checkpoints."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if [self.uri, self.checkpoint_id, self.empty].count(None) != 2:
            raise ValueError("it has exactly one of the members uri, checkpointID and empty")
        return self

    @property
    def snapshot(self) -> str | None:
        """The name of the snapshot: its URI, or `checkpoint:<id>`; None for empty state."""
        return self.uri if self.checkpoint_id is None else f"{layout.CHECKPOINT_REFERENCE}{self.checkpoint_id}"


class RestoreConfig(WireModel):
    """The snapshot to start from, if it is not the newest committed batch."""

    source: RestoreSource | None = None
    """What to start from; absent means the newest committed batch."""
    drop_state: tuple[str, ...] = ()
    """Uids of state that is dropped if the job has no place for it. Other state without a place is refused."""
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    """The owner of the snapshot of `source` after the start, if it is named by its URI."""
    repeat_output_of: tuple[str, ...] = ()
    """The sinks, as `query/sink`, that the job writes to although they hold output of state from which this start does not
    descend, or output that is newer than the restored cut and cannot be withdrawn. That output stays, and may be there
    twice. Also: this job continues the one with another name whose state it starts from, and takes these sinks over. Such a
    start is refused in front of any other sink."""
    lose_output_of: tuple[str, ...] = ()
    """The sinks, as `query/sink`, that have lost rows, or may have, which the job cannot send again: it goes on without
    them. A start is refused in front of any other sink that lacks rows."""
    of_another_revision: bool = False
    """The request was written for another revision of the job, so `repeat_output_of` and `lose_output_of` may name sinks
    that this one does not have. A start refuses such names otherwise."""
    rollback: bool = False
    """The job goes back to a version that ran before, and nobody has asked for that by name: refuse a start that would begin
    a part of the job without state, or write rows once more to a sink that neither withdraws nor replaces them."""
    keep_aside: bool = False
    """The job goes back to a version that ran before. If the version after it has only added uids, this one starts without
    their state, as with `drop_state`. The snapshot keeps it."""
    after_stop: bool = False
    """The snapshot is the savepoint that this job was stopped with, to go on after it. A stop whose answer was lost may have
    written it although the job went on: then the job goes on from its newest state, which has all of the savepoint."""
    nonce: str | None = None
    """Identifies this restore request, which is carried out once in the life of the root; the snapshot's name when absent.
    Change it to restore from the same source again."""

    takes_over_as: str | None = None
    """Identifies the rights `storage.ownership`, `repeatOutputOf` and `loseOutputOf`. Each counts once in the life of the
    root; as `nonce` when absent. Change it to give them again."""

    @field_validator("repeat_output_of", "lose_output_of")
    @classmethod
    def _check_sinks(cls, sinks: tuple[str, ...]) -> tuple[str, ...]:
        wrong = next((sink for sink in sinks if re.fullmatch(layout.SINK_NAME, sink) is None), None)
        if wrong is not None:
            raise ValueError(
                f"{wrong!r} names no sink; write the uids of its query and of the sink, as in orders/table"
            )
        return sinks

    def again(self, now: datetime) -> RestoreConfig:
        """Return the same request as a new one that was never done; when it is done, this request counts as done, too."""
        bare = self.model_copy(update={"nonce": None})
        return self.model_copy(update={"nonce": f"{bare.once_key}{_REPEATED_AT}{now.isoformat()}"})

    def is_done(self, carried_out: Iterable[str]) -> bool:
        """Tell whether this request was carried out.

        Args:
            carried_out: The `once_key` of every restore that was.
        """
        key = self.once_key
        return key is not None and any(done == key or done.startswith(f"{key}{_REPEATED_AT}") for done in carried_out)

    @property
    def word(self) -> str:
        """The name under which `storage.ownership`, `repeatOutputOf` and `loseOutputOf` of this request count once."""
        return self.takes_over_as or self.once_key or "start"

    @property
    def rights(self) -> dict[SinkRight, tuple[str, ...]]:
        """The sinks of each right."""
        return {SinkRight.REPEAT: self.repeat_output_of, SinkRight.LOSE: self.lose_output_of}

    @property
    def once_key(self) -> str | None:
        """The key that a generation records for this request; None if no restore is requested."""
        return None if self.source is None else self.nonce or self.source.snapshot or "fresh"

    @property
    def snapshot(self) -> str | None:
        """The name of the snapshot to start from; None for the newest committed batch, and for empty state."""
        return self.source.snapshot if self.source is not None else None

    @property
    def starts_empty(self) -> bool:
        """Whether empty state is requested."""
        return self.source is not None and self.source.empty is not None


class EngineConfig(WireModel):
    """How Spark runs."""

    master: str | None = None
    """Spark's master; absent means local[*] on the driver's own cores."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Additional Spark settings of the user; settings that would break a guarantee are refused by name."""
    platform: dict[str, str] = Field(default_factory=dict)
    """Spark settings that the operator sets (executors, host, ports); never from the user."""


class ApiTlsConfig(WireModel):
    """The files with which the HTTP API is served over TLS; they are read again when they change."""

    certificate: str
    """Path of the certificate in PEM, followed by those between it and its authority, if there are any."""
    key: str
    """Path of its private key in PEM, without a password."""


class Rehearsal(StrEnum):
    """What a standby runs before it is ready."""

    ROWS = "Rows"
    """Each query over the first rows of its sources, into nothing. The job's functions get these rows."""
    PLAN_ONLY = "PlanOnly"
    """Nothing. The queries are planned and compared with their state, whose files are read; no function gets a row."""


class JobConfig(WireModel):
    """Everything that a driver needs besides the job file."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    owner_id: str = NO_OWNER
    """Uid of the Kubernetes resource; `local` outside a cluster."""
    cluster_id: str | None = None
    """Uid of the namespace `kube-system`, which stands for the cluster; absent outside a cluster, or if it is not known."""
    revision: str | None = None
    storage: StorageConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    restore: RestoreConfig = RestoreConfig()
    engine: EngineConfig = EngineConfig()
    savepoint_location: str | None = None
    """Default folder for savepoints; absent means `savepoints/` in the job's own root."""
    rehearsal: Rehearsal = Rehearsal.ROWS
    """What a standby runs before it is ready; a driver that was started as one runs nothing beforehand."""
    api_port: int = Field(default=DEFAULT_API_PORT, ge=0, le=65535)
    """Port of the HTTP API; 0 picks 8090 if nobody has it, and else a free one."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port of `/metrics` and nothing else, for scrapers that reach no other; absent means that of the HTTP API only."""
    api_tls: ApiTlsConfig | None = None
    """The certificate of the HTTP API; absent means HTTP without TLS."""
    api_token_file: str | None = None
    """The file with the token of the HTTP API, which is read again when it changes; absent means STATEFULSPARK_TOKEN. A file
    `previous` beside it has the token before, which is accepted, too."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Values for the job's own code, read with `ctx.parameters`."""
