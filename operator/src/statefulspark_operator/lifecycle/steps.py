"""The steps of an upgrade in groups (before, during and after the old driver stops), and the trial of its revision. Pure."""

from __future__ import annotations

from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    StatefulSparkJobStatus,
    TrialStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.api.upgrade import RollbackPolicy

PREPARING = frozenset({UpgradeState.PREPARE, UpgradeState.READY})
"""A standby gets ready; the old driver does not know of it."""
STOP_REQUESTED = frozenset({UpgradeState.SAVEPOINT, UpgradeState.SAVEPOINT_PRE_COPY})
"""The old driver is asked to stop."""
STARTED = frozenset({UpgradeState.ACTIVATING, UpgradeState.STARTING})
"""The new revision is started and has completed no checkpoint."""
ON_TRIAL = STARTED | {UpgradeState.FIRST_CHECKPOINT}
"""The new revision runs, or should; if it fails, the old one can be started again."""
CARRIED_OUT = frozenset({UpgradeState.FIRST_CHECKPOINT, UpgradeState.STABLE})
"""The new revision works."""
WITHHELD = frozenset({UpgradeState.BLOCKED, UpgradeState.ROLLED_BACK})
"""The new revision is not tried again until the spec changes."""
OVER = CARRIED_OUT | WITHHELD | {UpgradeState.ABORTED}
"""Nothing of the upgrade is left to be done."""


def withheld_by(status: StatefulSparkJobStatus, revision: str) -> UpgradeStatus | None:
    """Return the upgrade because of which a requested revision is not carried out; None if it is.

    Args:
        status: The recorded status.
        revision: Revision of the current spec.
    """
    upgrade = status.upgrade
    if upgrade is None or upgrade.state not in WITHHELD or upgrade.to_revision != revision:
        return None
    return upgrade


def aborted_by(status: StatefulSparkJobStatus, revision: str, *, generation: int) -> UpgradeStatus | None:
    """Return the upgrade that `upgrade.onSavepointFailure: Abort` has ended, so that the revision before is carried out.

    Args:
        status: The recorded status.
        revision: Revision of the current spec.
        generation: Generation of the resource; after any change of it the upgrade is tried again.
    """
    upgrade = status.upgrade
    if upgrade is None or upgrade.state is not UpgradeState.ABORTED:
        return None
    return upgrade if (upgrade.to_revision, upgrade.generation) == (revision, generation) else None


TRIAL_BUDGET = 3
"""Number of ends in a row without a completed checkpoint after which a revision that is not stable has failed.

An end that an unchanged restart would repeat (the job file is wrong, the state does not fit) counts for all of them; an end
that is not the revision's fault (`fault`) does not count.
"""


def trial_of(upgrade: UpgradeStatus) -> TrialStatus:
    """Return how the new revision of an upgrade has done so far."""
    return upgrade.trial or TrialStatus()


def record_trial(upgrade: UpgradeStatus, **changes: object) -> UpgradeStatus:
    """Return an upgrade with some fields of its trial replaced."""
    return upgrade.model_copy(update={"trial": trial_of(upgrade).model_copy(update=changes)})


def is_on_trial(upgrade: UpgradeStatus, driver: DriverIntent) -> bool:
    """Tell whether the driver is one of a new revision that is not stable yet."""
    return upgrade.state in ON_TRIAL and driver.revision == upgrade.to_revision


def trial_has_failed(upgrade: UpgradeStatus | None) -> bool:
    """Tell whether the new revision has used up its budget, and another one ran before it."""
    if upgrade is None or upgrade.state not in ON_TRIAL or trial_of(upgrade).failures < TRIAL_BUDGET:
        return False
    return upgrade.from_revision not in ("", upgrade.to_revision)


def may_go_back(upgrade: UpgradeStatus | None, spec: StatefulSparkJobSpec | None) -> bool:
    """Tell whether the operator goes back by itself, instead of stopping as Stalled."""
    return trial_has_failed(upgrade) and spec is not None and spec.upgrade.rollback_policy is RollbackPolicy.AUTOMATIC
