"""The steps of an upgrade in groups, as rules ask for them: before, during and after the stop of the old driver. Pure."""

from __future__ import annotations

from statefulspark_operator.api.status import StatefulSparkJobStatus, UpgradeState, UpgradeStatus

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
    """Return the upgrade that `savepoint.onFailure: Abort` has ended, so that the revision before is carried out.

    Args:
        status: The recorded status.
        revision: Revision of the current spec.
        generation: Generation of the resource; after any change of it the upgrade is tried again.
    """
    upgrade = status.upgrade
    if upgrade is None or upgrade.state is not UpgradeState.ABORTED:
        return None
    return upgrade if (upgrade.to_revision, upgrade.generation) == (revision, generation) else None
