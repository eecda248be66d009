"""Which packs a batch needs, from their names alone: no head is read, and no pack. Pure.

A pack's name says which packs its partition named *before* its batch. What a key group names only moves on: a batch adds its
own pack and drops older ones. So of a partition, everything from the tail of its newest pack on may be needed, and nothing
older. A lost attempt says the same as the committed one, since both began with the same heads.

Heads move when the number of partitions changes, and name packs of any partition of another number. Those are needed from
the oldest of the tails on; a partition that has not written one since may need all.

The rule may take a pack too many, never one too few. It holds for the packs of one history: a root has no pack of another
future after its beginning (`recovery` copies what a cut names, and nothing later).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statefulspark.packs import names
from statefulspark.packs.names import PackName


def needed(packs: Iterable[PackName], *, partitions: int, batch: int) -> tuple[PackName, ...]:
    """Return the packs of one operator that a committed batch may need.

    Args:
        packs: All there are, in any order.
        partitions: Number of the operator's partitions after the batch, at least 1.
        batch: The batch.
    """
    until = [pack for pack in packs if pack.batch <= batch]
    tails = _tails(pack for pack in until if pack.partitions == partitions)
    oldest = min(tails.values()) if len(tails) == partitions else 0  # The tail of a partition without a pack is 0.
    return tuple(
        pack for pack in until if pack.batch >= (tails[pack.partition] if pack.partitions == partitions else oldest)
    )


def _tails(packs: Iterable[PackName]) -> dict[int, int]:
    """Return the tail of the newest pack of each partition, from packs of one number of partitions.

    Of several packs of one batch it is the oldest tail.
    """
    newest: dict[int, tuple[int, int]] = {}
    for pack in packs:
        batch, tail = newest.get(pack.partition, (-1, 0))
        if pack.batch > batch or (pack.batch == batch and pack.before.tail < tail):
            newest[pack.partition] = pack.batch, pack.before.tail
    return {partition: tail for partition, (_, tail) in newest.items()}


def owes_a_name(packs: Iterable[PackName], *, partitions: int, partition: int) -> bool:
    """Tell whether packs of another number of partitions are kept, since a partition has said nothing after them.

    Without a pack of its own a partition may need all of theirs; one that changes little would never write one. So it
    writes one for its name, which says what it needs, if it has any rows.

    Args:
        packs: All packs of the operator.
        partitions: Number of its partitions now.
        partition: One of them.
    """
    present = tuple(packs)
    others = [pack.batch for pack in present if pack.partitions != partitions]
    own = [pack.batch for pack in present if (pack.partitions, pack.partition) == (partitions, partition)]
    return bool(others) and (not own or max(others) > max(own))


@dataclass(frozen=True, slots=True)
class Gap:
    """A pack that has to be there and is not.

    Attributes:
        witness: The pack whose name tells of it.
        batch: Its batch.
    """

    witness: PackName
    batch: int


def first_gap(packs: Iterable[PackName]) -> Gap | None:
    """Return a pack that is missing among those that a batch needs, None if nothing tells of one.

    Each pack names the oldest and the newest batch with packs before it. Those from the tail on have to be there. It cannot
    be seen that the newest pack of a partition is missing, or one of two that attempts wrote for one batch; and nothing is
    said while there are packs of several numbers of partitions.

    Args:
        packs: The packs of one operator that a batch needs.
    """
    present = tuple(packs)
    if len({pack.partitions for pack in present}) > 1:
        return None
    by_partition: dict[int, list[PackName]] = {}
    for pack in present:
        by_partition.setdefault(pack.partition, []).append(pack)
    for own in by_partition.values():
        batches = {pack.batch for pack in own}
        (tail,) = _tails(own).values()
        for pack in own:
            for batch in (pack.before.tail, pack.before.newest):
                if batch >= tail and batch not in batches:
                    return Gap(pack, batch)
    return None


def needed_by_operator(
    paths: Iterable[str], partitions: Mapping[str, int], batch: int
) -> dict[str, tuple[PackName, ...]]:
    """Return the packs that a batch of a query may need, by operator uid.

    Args:
        paths: Keys below the query's root; those of other files are ignored.
        partitions: Number of partitions of each of its operators, by uid. Packs of others are not needed: their state is
            not in the batch.
        batch: The batch.
    """
    by_operator: dict[str, list[PackName]] = {}
    for uid, name in filter(None, map(names.of_key, paths)):
        by_operator.setdefault(uid, []).append(name)
    return {
        uid: needed(packs, partitions=partitions[uid], batch=batch)
        for uid, packs in by_operator.items()
        if uid in partitions
    }


def is_unused(pack: PackName, *, floor: int) -> bool:
    """Tell whether a pack in the generation in use that no retained manifest names is unused.

    Args:
        pack: The pack.
        floor: Batch of the newest checkpoint. What it does not name is older than its tails, or of an attempt that has lost;
            a batch after it may just be writing its packs.
    """
    return pack.batch <= floor
