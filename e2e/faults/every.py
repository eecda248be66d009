"""Every scenario of ours, in the order in which the matrix runs them, and those of which a soak is made."""

from __future__ import annotations

from dataclasses import replace

from faults import changes, executors, local, planted
from faults.scenario import Scenario
from faults.world import World

_ALSO_IN_PACKS = (
    "driver-killed-at-random",
    "worker-killed",
    "s3-busy",
    "s3-answers-lost",
    "rescale",
    "savepoints-while-s3-is-busy",
    "rollback-while-s3-is-busy",
    "restored-elsewhere",
    "20-upgrades",
)
_IN_ANY_STATE: tuple[Scenario[World], ...] = (*local.SCENARIOS, *changes.SCENARIOS)
ALL: tuple[Scenario[World], ...] = (
    *_IN_ANY_STATE,
    *planted.SCENARIOS,
    *(replace(one, packs_all=True) for one in local.OF_PACKS),
    *(replace(one, name=f"{one.name}-in-packs", packs_all=True) for one in _IN_ANY_STATE if one.name in _ALSO_IN_PACKS),
    *executors.SCENARIOS,
)

IN_A_SOAK: dict[tuple[bool, bool], tuple[Scenario[World], ...]] = {
    (has_executors, packs_all): tuple(
        one
        for one in (*_IN_ANY_STATE, *(local.OF_PACKS if packs_all else ()), *(executors.OWN if has_executors else ()))
        if one.leaves_job_running and not one.is_long
    )
    for has_executors in (False, True)
    for packs_all in (False, True)
}
"""Those that may follow each other in any order: without and with executors, without and with all keyed state in packs."""
