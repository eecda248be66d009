"""The part of the spec about upgrades: how a new revision replaces the running one, and when it counts as good."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field
from statefulspark.contract.config import Rehearsal

from statefulspark_operator.api.base import ApiModel, ChangeCost, Duration


class UpgradeStrategy(StrEnum):
    """How a new revision replaces the running one."""

    WARM = "Warm"
    """Start a standby driver of the new revision first; the running driver stops only when it is ready."""
    COLD = "Cold"
    """Stop the running driver, then start the new one."""


class StateSource(StrEnum):
    """The state that a new revision goes on from."""

    SAVEPOINT = "Savepoint"
    """A savepoint that the running driver takes as it stops."""
    LATEST_CHECKPOINT = "LatestCheckpoint"
    """The newest completed checkpoint: no savepoint is taken, as with Flink's `last-state`."""
    EMPTY = "Empty"
    """Nothing: every new revision starts with empty state, and no savepoint is taken."""


class SavepointFailurePolicy(StrEnum):
    """The behaviour of an upgrade whose savepoint fails or takes too long."""

    WAIT = "Wait"
    """Keep the old revision running and try again."""
    USE_LATEST_CHECKPOINT = "UseLatestCheckpoint"
    """Continue from the newest committed batch."""
    ABORT = "Abort"
    """Keep the old revision running, and abort this change until the spec changes again."""


class RollbackPolicy(StrEnum):
    """The behaviour when a new revision fails before it is stable."""

    AUTOMATIC = "Automatic"
    """Go back to the revision that ran before, on the newest state. If that does not fit it, go back to the savepoint of its
    stop, unless output would come twice; then stop as Stalled, with the command in the message."""
    MANUAL = "Manual"
    """Stop as Stalled, with the command that goes back in the message; it goes back as `Automatic` does."""


class Upgrade(ApiModel):
    """How a change of the spec that needs a new driver is carried out."""

    strategy: Annotated[UpgradeStrategy, ChangeCost.RELOAD] = UpgradeStrategy.WARM
    """How a new revision replaces the running one: `Warm` starts a standby driver of it first, `Cold` stops the running
    driver first. `Warm` needs room for a second driver for a few minutes, and waits for it. Default: Warm."""
    state_from: Annotated[StateSource, ChangeCost.RELOAD] = StateSource.SAVEPOINT
    """The state that a new revision goes on from. `Savepoint`: the running one takes it as it stops. `LatestCheckpoint`: no
    savepoint is taken, so that a rollback goes back only if the newest state fits the old revision. `Empty`: every new
    revision starts with empty state, without a standby and a savepoint. Default: Savepoint."""
    savepoint_timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=10)
    """Time that the operator waits for a savepoint of this job: of an upgrade, before `onSavepointFailure` applies, of a
    stop, and of each attempt for a SparkSavepoint. Default: 10m."""
    on_savepoint_failure: Annotated[SavepointFailurePolicy, ChangeCost.RELOAD] = SavepointFailurePolicy.WAIT
    """The behaviour of an upgrade whose savepoint fails: `Wait` keeps the old revision running and tries again,
    `UseLatestCheckpoint` continues from the newest committed batch, `Abort` keeps the old revision running until the spec
    changes again. Default: Wait."""
    standby_timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """Time in which a started standby of a warm upgrade must get ready; afterwards the upgrade is blocked. A standby that
    storage or a Secret holds up blocks nothing, and is replaced by another one. Default: 5m."""
    stable_after_checkpoints: Annotated[int, ChangeCost.RELOAD] = Field(default=3, ge=1, le=1000)
    """Number of completed checkpoints after which a new revision is stable and is not rolled back any more. Default: 3."""
    rollback_policy: Annotated[RollbackPolicy, ChangeCost.RELOAD] = RollbackPolicy.AUTOMATIC
    """When a new revision that is not stable yet refuses the state or its job file, or ends three times in a row without a
    checkpoint: `Automatic` goes back to the revision before, `Manual` stops as Stalled. The old revision goes on
    from the newest state. If that does not fit it, it goes back to the savepoint of its stop, provided that no output comes
    twice: nothing was committed since, or every sink withdraws or replaces rows. Otherwise the job is Stalled, and the
    message has the command that goes back all the same. Default: Automatic."""
    rehearsal: Annotated[Rehearsal, ChangeCost.IGNORE] = Rehearsal.ROWS
    """What a standby runs before it is ready: `Rows` (default) runs each query over the first rows of its sources, into
    nothing, so that a function that raises is found and the first batch is fast. The job's functions get these rows, up to
    200 of each source, twice: once without state, and once on a copy of it. `PlanOnly` plans the queries, compares them with
    their state, and gives no row to any function."""
