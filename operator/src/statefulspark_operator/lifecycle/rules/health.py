"""A driver that makes no progress: after `spec.health.stallTimeout` its pod is deleted, and the next driver goes on.

Nothing is lost: what it has not committed is read again. It comes after the rules that follow a savepoint or stop, which
have a timeout of their own.
"""

from __future__ import annotations

from statefulspark_operator.api.status import Phase
from statefulspark_operator.lifecycle import actions, health
from statefulspark_operator.lifecycle.decision import SOON, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import Situation


def restart_stalled(situation: Situation) -> Decision | None:
    """Has a batch been running, or the driver been silent, for too long?"""
    pod, driver, cause = situation.live_pod, situation.intent, health.obstacle(situation)
    if pod is None or driver is None or cause is None or pod.deletion_deadline is not None:
        return None
    if health.is_untrusted(situation):
        return None  # Another process would have the same certificate.
    if not health.has_lasted(situation, cause, health.settings(situation).stall_timeout):
        return None
    message = f"{cause.message} {pod.name} is deleted, and the next driver continues from the newest state."
    act = actions.DeleteDriver(pod.name, pod.uid, health.HUNG_GRACE_S)
    status = situation.status
    if driver.ending_since is None:
        counted = status.restarts.model_copy(
            update={
                "count": status.restarts.count + 1,
                "last_reason": cause.reason,
                "last_message": message,
                "last_failure_at": situation.now,
            }
        )
        ending = driver.model_copy(update={"ending_since": situation.now})
        status = status.model_copy(update={"restarts": counted, "driver": ending})
    return Decision(Reason.STALL_ENDED, message, Phase.RESTARTING, status, (act,), SOON)
