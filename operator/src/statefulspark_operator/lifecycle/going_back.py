"""The way back to the revision before, from the decision until that revision has completed a checkpoint. Pure.

It goes on from the newest state, so that no row comes twice. Where that does not fit, it goes to the savepoint of its own
stop, from which the failed revision began; its driver refuses that if rows would come twice. What is left is for a person.
"""

from __future__ import annotations

import json

from statefulspark.contract.exit_codes import ExitCode

from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    RestoreIntent,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle.situation import Situation

_OF_A_LATER_RELEASE = "FormatVersionUnknown"
"""The runtime's reason for state that a later release has written."""

_ROLLED_BACK = frozenset({UpgradeState.ROLLED_BACK, UpgradeState.ABORTED})
"""Aborted: it was rolled back, and a person has made the spec that of the revision before."""


def intent(situation: Situation, driver: DriverIntent, snapshot: str | None) -> RestoreIntent:
    """Return what the next start of the revision before goes back to.

    Args:
        situation: The job.
        driver: The driver that has ended; every step of the way has another one, and so an id of its own.
        snapshot: The savepoint of the stop; None for the newest state.
    """
    source = RestoreSource(uri=snapshot) if snapshot is not None else None
    return RestoreIntent(id=f"{situation.job.uid}-rollback-{driver.epoch}", source=source, rollback=True)


def under_way(status: StatefulSparkJobStatus, revision: str | None) -> UpgradeStatus | None:
    """Return the upgrade that is rolled back to a revision, until that has completed a checkpoint; None otherwise.

    Args:
        status: The recorded status.
        revision: The revision that runs, or is to run.
    """
    upgrade, restore = status.upgrade, status.restore
    if upgrade is None or upgrade.state not in _ROLLED_BACK or upgrade.from_revision != revision:
        return None
    return upgrade if restore is not None and restore.rollback else None


def refused(status: StatefulSparkJobStatus) -> tuple[UpgradeStatus, DriverIntent] | None:
    """Return the upgrade and the driver that has refused the state on the way back; None if none has.

    Args:
        status: The recorded status; once the next step is recorded there, the refusal of the one before is over.
    """
    driver = status.driver
    if driver is None or driver.state is not DriverState.ENDED or driver.restore != status.restore:
        return None
    upgrade = under_way(status, driver.revision)
    return (upgrade, driver) if upgrade is not None and is_refusal(driver.exit_code, driver.end_reason) else None


def is_refusal(code: int | None, reason: str | None) -> bool:
    """Tell whether a driver ended because the state does not fit, or because rows would come twice.

    Args:
        code: Its exit code.
        reason: Its reason.
    """
    return code == ExitCode.INCOMPATIBLE_STATE or reason == _OF_A_LATER_RELEASE


def last_resort(situation: Situation) -> str:
    """Return how a person leaves the newest state, if it fails the revision before; empty unless that is on its way back."""
    driver = situation.intent
    upgrade = under_way(situation.status, driver.revision) if driver is not None else None
    if driver is None or upgrade is None or upgrade.savepoint is None:
        return ""
    if driver.restore is None or driver.restore.snapshot is not None:
        return ""
    return (
        f"It runs on the state that revision {upgrade.to_revision} has left. To go back to the savepoint before, which "
        f"repeats output in sinks that cannot withdraw it: {command(situation, upgrade.savepoint)}."
    )


def command(situation: Situation, savepoint: str) -> str:
    """Return the command that restores a savepoint, and what its driver may ask for: it alone knows the sinks."""
    job, before = situation.job, situation.spec.restore.source if situation.spec is not None else None
    # A merge leaves what it does not name, and a source has one member.
    others = dict.fromkeys(before.model_dump(by_alias=True, exclude_none=True)) if before is not None else {}
    patch = json.dumps({"spec": {"restore": {"source": {**others, "uri": savepoint}}}}, separators=(",", ":"))
    return (
        f"kubectl -n {job.namespace} patch ssj {job.name} --type merge -p '{patch}'. For a sink that shows each batch, the "
        "driver refuses that first, and names the sink, for restore.repeatOutputOf"
    )
