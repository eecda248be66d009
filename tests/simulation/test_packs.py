"""The rule of packs in thousands of lives: no checkpoint lacks a pack, and pruning takes none that is needed.

A fault that is planted in the rule, or beside it, loses state in some of them.
"""

from __future__ import annotations

import dataclasses

import packworld
import pytest
from statefulspark.packs import names, window

RUNS = 2000
STEPS = 60
WITHIN = 2000
"""Lives within which a planted fault has to show; the rare one needs hundreds."""


def test_no_life_loses_a_pack() -> None:
    worlds = [packworld.World(seed) for seed in range(RUNS)]
    for world in worlds:
        world.live(STEPS)

    assert sum(world.pruned for world in worlds) > RUNS


def loses(seed: int, rules: packworld.Rules) -> bool:
    try:
        packworld.World(seed, rules).live(STEPS)
    except packworld.LostError:
        return True
    return False


def _tail_after(before: object, after: list[str], batch: int) -> names.Before:
    del before
    return names.Before.summarize(after, batch)


def _own_number_only(packs: list[names.PackName], partitions: int, batch: int) -> tuple[names.PackName, ...]:
    return tuple(
        pack for pack in window.needed(packs, partitions=partitions, batch=batch) if pack.partitions == partitions
    )


def _newest_attempt_only(packs: list[names.PackName], partitions: int, batch: int) -> tuple[names.PackName, ...]:
    ordered = sorted(window.needed(packs, partitions=partitions, batch=batch), key=lambda pack: pack.attempt)
    return tuple({(pack.partitions, pack.partition, pack.batch): pack for pack in ordered}.values())


_PRODUCT = packworld.Rules()
_PLANTS = {
    "the tail is that after the batch": dataclasses.replace(_PRODUCT, before=_tail_after),
    "packs of another number of partitions are left out": dataclasses.replace(_PRODUCT, needed=_own_number_only),
    "of several attempts one is taken": dataclasses.replace(_PRODUCT, needed=_newest_attempt_only),
    "pruning takes what a batch is just writing": dataclasses.replace(
        _PRODUCT, is_unused=lambda pack, floor: pack.batch <= floor + 1
    ),
    "a start that goes back takes what was carried from a later batch": dataclasses.replace(
        _PRODUCT, keeps_carried=lambda carried, cut: True
    ),
}


@pytest.mark.parametrize("name", _PLANTS)
def test_a_fault_that_is_planted_in_the_rule_loses_state(name: str) -> None:
    assert any(loses(seed, _PLANTS[name]) for seed in range(WITHIN))
