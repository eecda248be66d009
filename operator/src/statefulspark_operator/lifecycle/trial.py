"""The trial of a new revision: until it is stable, enough failures lead back to the revision before. Pure."""

from __future__ import annotations

from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import DriverIntent, TrialStatus, UpgradeStatus
from statefulspark_operator.api.upgrade import RollbackPolicy
from statefulspark_operator.lifecycle import steps

BUDGET = 3
"""Number of ends in a row without a completed checkpoint after which a revision that is not stable has failed.

An end that an unchanged restart would repeat (the job file is wrong, the state does not fit) counts for all of them; an end
by the cluster (a lost node, an eviction) does not count.
"""


def of(upgrade: UpgradeStatus) -> TrialStatus:
    """Return how the new revision of an upgrade has done so far."""
    return upgrade.trial or TrialStatus()


def record(upgrade: UpgradeStatus, **changes: object) -> UpgradeStatus:
    """Return an upgrade with some fields of its trial replaced."""
    return upgrade.model_copy(update={"trial": of(upgrade).model_copy(update=changes)})


def is_on_trial(upgrade: UpgradeStatus, driver: DriverIntent) -> bool:
    """Tell whether the driver is one of a new revision that is not stable yet."""
    return upgrade.state in steps.ON_TRIAL and driver.revision == upgrade.to_revision


def has_failed(upgrade: UpgradeStatus | None) -> bool:
    """Tell whether the new revision has used up its budget, and another one ran before it."""
    if upgrade is None or upgrade.state not in steps.ON_TRIAL or of(upgrade).failures < BUDGET:
        return False
    return upgrade.from_revision not in ("", upgrade.to_revision)


def may_go_back(upgrade: UpgradeStatus | None, spec: StatefulSparkJobSpec | None) -> bool:
    """Tell whether the operator goes back by itself, instead of stopping as Stalled."""
    return has_failed(upgrade) and spec is not None and spec.upgrade.rollback is RollbackPolicy.AUTOMATIC
