"""The part of the spec about upgrades: how a new revision replaces the running one, and when it counts as good."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field
from statefulspark.contract.config import Rehearsal

from statefulspark_operator.api.base import ApiModel, ChangeCost, Duration


class UpgradeMode(StrEnum):
    """How a new revision replaces the running one."""

    WARM = "Warm"
    """Start a standby driver of the new revision first; the running driver stops only when it is ready."""
    COLD = "Cold"
    """Stop the running driver with a savepoint, then start the new one."""
    STATELESS = "Stateless"
    """Stop the running driver, and start the new one with empty state. Needs `restore.source.empty`, too."""


class RestoreMode(StrEnum):
    """The state that a new revision goes on from."""

    SAVEPOINT = "Savepoint"
    """A savepoint that the running driver takes as it stops."""
    LAST_CHECKPOINT = "LastCheckpoint"
    """The newest completed checkpoint: no savepoint is taken, as with Flink's `last-state`."""


class RollbackPolicy(StrEnum):
    """The behaviour when a new revision fails before it is stable."""

    AUTOMATIC = "Automatic"
    """Go back to the revision that ran before, on the newest state. If that does not fit it, go back to the savepoint of its
    stop, unless output would come twice; then stop as Stalled, with the command in the message."""
    MANUAL = "Manual"
    """Stop as Stalled, with the command that goes back in the message; it goes back as `Automatic` does."""


class Upgrade(ApiModel):
    """How a change of the spec that needs a new driver is carried out."""

    mode: Annotated[UpgradeMode, ChangeCost.RELOAD] = UpgradeMode.WARM
    """`Warm` (default), `Cold` or `Stateless`. `Warm` needs room for a second driver for a few minutes; without it the
    upgrade is `Cold`."""
    standby_timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """Time in which the standby of a warm upgrade must find a node; afterwards the upgrade is cold. Also the time in which a
    started standby must get ready; afterwards the upgrade is blocked. Default 5m."""
    stable_after: Annotated[int, ChangeCost.RELOAD] = Field(default=3, ge=1, le=1000)
    """Number of completed checkpoints after which a new revision is stable and is not rolled back any more. Default 3."""
    rollback: Annotated[RollbackPolicy, ChangeCost.RELOAD] = RollbackPolicy.AUTOMATIC
    """When a new revision that is not stable yet refuses the state or its job file, or ends three times in a row without a
    checkpoint: `Automatic` (default) goes back to the revision before, `Manual` stops as Stalled. The old revision goes on
    from the newest state. If that does not fit it, it goes back to the savepoint of its stop, provided that no output comes
    twice: nothing was committed since, or every sink withdraws or replaces rows. Otherwise the job is Stalled, and the
    message has the command that goes back all the same."""
    rehearsal: Annotated[Rehearsal, ChangeCost.IGNORE] = Rehearsal.ROWS
    """What a standby runs before it is ready: `Rows` (default) runs each query over the first rows of its sources, into
    nothing, so that a function that raises is found and the first batch is fast. The job's functions get these rows, up to
    200 of each source, twice: once without state, and once on a copy of it. `PlanOnly` plans the queries, compares them with
    their state, and gives no row to any function."""


STATELESS_MESSAGE = (
    "upgrade.mode Stateless starts every new revision with empty state; set restore.source.empty as well, or use Warm or "
    "Cold, which keep the state"
)
STATELESS_RULE = (
    "!has(self.upgrade) || !has(self.upgrade.mode) || self.upgrade.mode != 'Stateless' || "
    "(has(self.restore) && has(self.restore.source) && has(self.restore.source.empty))"
)
