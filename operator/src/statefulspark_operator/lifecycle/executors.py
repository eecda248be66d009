"""Which executors belong to nobody any more, and how many of the current driver's run. Pure.

An executor belongs to the pod that asked for it, by the identity of that pod; a standby keeps its executors when it becomes
the driver. Kubernetes removes them with that pod, but a pod is kept for its log, or is on a node that does not answer: until
it is gone its executors hold what the next ones need, and find out by themselves only after ten minutes.
"""

from __future__ import annotations

from datetime import timedelta

from statefulspark_operator.api import names
from statefulspark_operator.api.status import DriverState, ExecutorsStatus
from statefulspark_operator.lifecycle.situation import DriverPod, ExecutorPod, Situation

GRACE = timedelta(seconds=30)
"""Time for an executor to be replaced, in which the job counts as ready."""


def orphans(situation: Situation) -> tuple[ExecutorPod, ...]:
    """Return the executors whose driver is over, without those that are being deleted."""
    owners = {pod.uid: pod for pod in (*situation.pods, *situation.standbys)}
    return tuple(
        executor
        for executor in situation.executors
        if not executor.is_leaving and _is_over(situation, owners.get(executor.owner_uid))
    )


def _is_over(situation: Situation, owner: DriverPod | None) -> bool:
    """Tell whether a pod has ended, or will never have work again although its process may still run."""
    if owner is None or not owner.is_live(situation.now):
        return True
    driver = situation.intent
    if owner.deletion_deadline is None or driver is None or owner.epoch == 0:
        return False  # A driver that has stopped ends by itself, and its executors with it.
    return owner.epoch < driver.epoch or (owner.epoch == driver.epoch and driver.state is DriverState.ENDED)


def current(situation: Situation) -> ExecutorsStatus | None:
    """Return the executors of the running driver; None without a driver, or if it asks for none.

    Args:
        situation: The job, with the status as recorded.
    """
    pod = situation.live_pod
    if pod is None or not pod.asked_executors:
        return None
    asked = pod.asked_executors
    before = situation.status.executors
    before = before if before is not None and before.driver == pod.name else None
    own = [executor for executor in situation.executors if executor.owner_uid == pod.uid]
    running = sum(executor.runs for executor in own)
    highest = max((names.executor_number(executor.name) for executor in own), default=0)
    obstacle = next((executor.obstacle for executor in reversed(own) if executor.obstacle is not None), None)
    since = before.missing_since if before is not None else None
    return ExecutorsStatus(
        driver=pod.name,
        desired=asked,
        running=running,
        selector=names.executor_selector(situation.job.name, driver=pod.name),
        lost=max(before.lost if before is not None else 0, highest - asked),
        message=obstacle or (before.message if before is not None else None),
        missing_since=None if running >= asked else since or situation.now,
    )


def shortage(executors: ExecutorsStatus | None) -> str | None:
    """Return in one sentence how many executors are missing, since when and why; None if all run."""
    if executors is None or executors.missing_since is None:
        return None
    why = f": {executors.message}" if executors.message else ", and no reason is known yet"
    return (
        f"{executors.running} of {executors.desired} executors "
        f"{'runs' if executors.running == 1 else 'run'} since {executors.missing_since:%H:%M:%S} UTC{why.rstrip('.')}."
    )


def is_short(situation: Situation) -> bool:
    """Tell whether executors have been missing for longer than a replacement takes."""
    executors = situation.status.executors
    if executors is None or executors.missing_since is None:
        return False
    return situation.now - executors.missing_since > GRACE
