"""The time without output after a kill, an upgrade and a rescale, and the duration of a savepoint. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from statefulspark.sizing import coefficients
from statefulspark.sizing.workload import Workload


@dataclass(frozen=True, slots=True)
class Goal:
    """What a wanted restart time asks for.

    Attributes:
        needs_standby: Whether only a second driver that is ready can be as fast.
        least_partitions: Partitions so that state is read fast enough; 1 if that does not decide.
        is_reachable: Whether any number of partitions is fast enough.
    """

    needs_standby: bool
    least_partitions: int
    is_reachable: bool


def goal(workload: Workload) -> Goal:
    """Return what the wanted restart time asks for; nothing if none is wanted."""
    within_s = workload.restart_within_s
    if within_s is None:
        return Goal(needs_standby=False, least_partitions=1, is_reachable=True)
    needs_standby = within_s <= coefficients.START_S.value
    left_s = within_s - fixed_s(needs_standby=needs_standby)
    if left_s <= 0:
        return Goal(needs_standby, least_partitions=1, is_reachable=False)
    return Goal(needs_standby, max(1, math.ceil(_read_core_s(workload) / left_s)), is_reachable=True)


def fixed_s(*, needs_standby: bool) -> float:
    """Return the part of a restart that does not depend on the state."""
    return coefficients.STANDBY_S.value if needs_standby else coefficients.START_S.value


def restart_s(workload: Workload, partitions: int) -> float:
    """Return the time from the start of a process to its first commit, after its predecessor was killed."""
    return coefficients.START_S.value + read_s(workload, partitions)


def standby_s(workload: Workload, partitions: int) -> float:
    """Return the time without output when a driver dies beside a standby."""
    return coefficients.STANDBY_S.value + read_s(workload, partitions)


def warm_upgrade_s(workload: Workload, partitions: int) -> float:
    """Return the time without output of an upgrade whose next driver is ready before the old one stops."""
    return coefficients.WARM_UPGRADE_S.value + read_s(workload, partitions)


def cold_upgrade_s(workload: Workload, partitions: int) -> float:
    """Return the time without output of an upgrade for which the old driver stops first."""
    return coefficients.PAUSE_S.value + restart_s(workload, partitions)


def rescale_s(workload: Workload, partitions: int) -> float:
    """Return the time of a start with other partitions, for which all state is written anew."""
    return restart_s(workload, partitions) + workload.keys * coefficients.RESCALE_KEY_S.value


def read_s(workload: Workload, partitions: int) -> float:
    """Return the time in which all state is read, each partition on a core of its own."""
    return _read_core_s(workload) / partitions


def _read_core_s(workload: Workload) -> float:
    return workload.keys * coefficients.READ_CORE_S.value
