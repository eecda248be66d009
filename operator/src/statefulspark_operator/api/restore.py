"""The part of the spec about the state that a job starts from, if that is not its newest committed batch."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode

from statefulspark_operator.api.base import ApiModel, ChangeCost
from statefulspark_operator.api.code import rules

ONE_RESTORE_SOURCE_MESSAGE = "restore.source has exactly one of the members savepointName, uri, checkpointID and empty"
_ONE_SOURCE = (
    "[has(self.savepointName), has(self.uri), has(self.checkpointID), has(self.empty)].filter(x, x).size() == 1"
)


Uid = Annotated[str, Field(min_length=1, max_length=1024)]
"""The uid of a query, an operator, a function or a sink, the name of a source, or the identifier of a hook."""
SinkName = Annotated[str, Field(min_length=3, max_length=127, pattern=layout.SINK_NAME)]
"""The name of a sink: the uid of its query and its own."""


class EmptyState(ApiModel):
    """Empty state: `{}`."""


class RestoreSource(ApiModel):
    """The source of a start, instead of the newest committed batch. It has exactly one member."""

    model_config = ConfigDict(json_schema_extra=rules((_ONE_SOURCE, ONE_RESTORE_SOURCE_MESSAGE)))

    savepoint_name: str | None = Field(
        default=None, min_length=1, max_length=253, pattern="^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
    )
    """Name of a SparkSavepoint in the namespace. The start waits until it is complete."""
    uri: str | None = Field(default=None, min_length=6, max_length=1024, pattern="^s3://.+")
    """Folder of a savepoint or checkpoint, for example `s3://bucket/savepoints/00000043`. It is read with the job's own
    `storage.s3`."""
    checkpoint_id: int | None = Field(default=None, ge=1, alias="checkpointID")
    """Number of a retained checkpoint of the job."""
    empty: EmptyState | None = None
    """Start with empty state although the job has checkpoints: `{}`. The newest checkpoint of the old state stays on
    storage for at least a day."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        members = (self.savepoint_name, self.uri, self.checkpoint_id, self.empty)
        if members.count(None) != len(members) - 1:
            raise ValueError(ONE_RESTORE_SOURCE_MESSAGE)
        return self

    @property
    def snapshot(self) -> str | None:
        """The name of the snapshot in messages: its folder, or `checkpoint:<id>`; None if there is none, or none yet."""
        return self.uri if self.checkpoint_id is None else f"{layout.CHECKPOINT_REFERENCE}{self.checkpoint_id}"


class Restore(ApiModel):
    """The snapshot to start from, if it is not the newest committed batch. Each value is applied once."""

    source: Annotated[RestoreSource | None, ChangeCost.RELOAD] = None
    """What the job starts from; it has exactly one member. A new value on a running job restarts it from there; removing the
    value changes nothing. The storage remembers each value for the life of the state, so a resource that is made anew does
    not apply it again. Default: the newest committed batch."""
    drop_state: Annotated[tuple[Uid, ...], ChangeCost.IGNORE] = Field(
        default=(), max_length=500, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Uids of state that is dropped if the job has no place for it. The job refuses to start without other state. A uid that
    the job has keeps its state. Default: none."""
    claim_mode: Annotated[ClaimMode | None, ChangeCost.IGNORE] = None
    """The owner of the snapshot of `source` after the start. With `NoClaim` its owner keeps it. With `Claim` the job owns
    it, and deletes it after it has completed as many checkpoints as are retained. It counts when `source` is applied.
    Default: NoClaim."""
    repeat_output_of: Annotated[tuple[SinkName, ...], ChangeCost.IGNORE] = Field(
        default=(), max_length=500, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """The sinks, as `query/sink` (two uids), to which the job writes although they hold output of state from which a start
    does not descend, or output that is newer than the restored state and cannot be withdrawn. That output stays, and may be
    there twice. Also: this job continues the one with another name whose state it starts from, and takes these sinks over.
    Without it such a start is refused, and the refusal names the sinks. It counts once for each sink: a job that has lost a
    sink to another one does not take it over again. A name of no sink of the job is refused. Default: none."""
    lose_output_of: Annotated[tuple[SinkName, ...], ChangeCost.IGNORE] = Field(
        default=(), max_length=500, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """The sinks, as `query/sink` (two uids), that have lost rows, or may have, which the job cannot send again. The job goes
    on, and these rows stay missing. Without it such a start is refused, and the refusal names the sinks and the rows. It
    counts once for each sink. A name of no sink of the job is refused. Default: none."""
    nonce: Annotated[str | None, ChangeCost.RELOAD] = Field(default=None, max_length=63)
    """Change it to apply the same `source`, or to say `storage.ownership: TakeOver`, `repeatOutputOf` or `loseOutputOf`,
    again."""

    @property
    def starts_empty(self) -> bool:
        """Whether empty state is requested."""
        return self.source is not None and self.source.empty is not None
