"""The rule that selects the retained checkpoints, for the driver's coordinator and for pruning. Pure."""

from __future__ import annotations

from collections.abc import Collection


def retained(ids: Collection[int], untried: Collection[int], number: int) -> tuple[int, ...]:
    """Return the newest checkpoints, and as many that count, newest first.

    A checkpoint counts when the driver that completed it has loaded the state of every query (`Manifest.untried`). While a
    query has no input after a start, the others go on and complete checkpoints; if its state then cannot be loaded, all of
    those share the damage.

    Args:
        ids: All that are complete, in any order.
        untried: Those that do not count.
        number: How many to retain, at least 1.
    """
    newest_first = sorted(ids, reverse=True)
    counted = [checkpoint_id for checkpoint_id in newest_first if checkpoint_id not in untried]
    kept = {*newest_first[:number], *counted[:number]}
    return tuple(checkpoint_id for checkpoint_id in newest_first if checkpoint_id in kept)
