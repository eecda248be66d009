"""A job whose key groups name packs, and everything that can happen to it.

Batches have attempts that lose or write late, groups are merged, garbage is copied; there are checkpoints, pruning, restores
of older ones, standbys that carry ahead, and other numbers of partitions.

Names, what is needed and what is unused come from the product; which chunks a head names is the world's own knowledge, and
what the rules are held against.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from statefulspark.packs import names, window
from statefulspark.packs.names import PackName

GROUPS = 6
Heads = dict[int, tuple[str, ...]]
"""By key group, the packs that its chunks are in, oldest first."""


class LostError(AssertionError):
    """State is lost: a head names a pack that is not there, or that a checkpoint does not name."""


def needed(packs: Iterable[PackName], partitions: int, batch: int) -> tuple[PackName, ...]:
    """Return what a checkpoint names, as a closure does."""
    chosen = window.needed(packs, partitions=partitions, batch=batch)
    gap = window.first_gap(chosen)
    if gap is not None:
        raise LostError(f"{gap.witness.reference} tells of a pack of batch {gap.batch}, which is gone")
    return chosen


def before_of(before: Sequence[str], after: Sequence[str], batch: int) -> names.Before:
    """Return what the name of a pack says, from what heads of the partition named before and after the batch."""
    del after
    return names.Before.summarize(before, batch)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a world lives by; those of the product, unless a test plants another."""

    before: Callable[[Sequence[str], Sequence[str], int], names.Before] = before_of
    needed: Callable[[Iterable[PackName], int, int], tuple[PackName, ...]] = needed
    is_unused: Callable[[PackName, int], bool] = lambda pack, floor: window.is_unused(pack, floor=floor)
    keeps_carried: Callable[[int, int], bool] = lambda carried, cut: carried <= cut
    """Whether a start takes what a standby has carried from a newer batch than that of its own cut."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A manifest, and what the heads named that it covers."""

    root: int
    batch: int
    partitions: int
    files: frozenset[PackName]
    heads: Heads


@dataclass(frozen=True, slots=True)
class _Attempt:
    heads: Heads
    pack: PackName | None


@dataclass
class World:
    """One job, from its first batch on.

    Attributes:
        seed: Of everything that is left to chance.
        rules: What it lives by.
        pruned: Number of packs that pruning has deleted.
    """

    seed: int
    rules: Rules = field(default_factory=Rules)
    pruned: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.partitions = self.random.randint(1, 3)
        self.batch, self.epoch, self.root = -1, 1, 0
        self.heads: Heads = dict.fromkeys(range(GROUPS), ())
        self.roots: list[set[PackName]] = [set()]
        self.retained: list[Checkpoint] = []
        self.late: list[PackName] = []
        self.ahead: tuple[int, set[PackName]] = (-1, set())

    @property
    def packs(self) -> set[PackName]:
        """What is on storage, in the root in use."""
        return self.roots[self.root]

    def live(self, steps: int) -> None:
        """Do what comes."""
        chances = {self.run_batch: 12, self.checkpoint: 5, self.prune: 3, self.arrive: 2, self.carry_ahead: 4}
        rare = {self.restore: 2, self.take_over: 1, self.replace_driver: 1}
        moves, weights = zip(*(chances | rare).items(), strict=True)
        for move in self.random.choices(moves, weights, k=steps):
            move()
            self.require_whole()

    def run_batch(self) -> None:
        """Run a batch: in each partition one of its attempts is committed, others are lost or write late."""
        self.batch += 1
        committed = dict(self.heads)
        for partition in range(self.partitions):
            attempts = [self._attempt(partition) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
            winner, *losers = self.random.sample(attempts, len(attempts))
            committed |= winner.heads
            self.packs.update([winner.pack] if winner.pack else [])
            for lost in losers:
                if lost.pack is not None:
                    (self.late.append if self.random.random() < 0.5 else self.packs.add)(lost.pack)
        self.heads = committed

    def _attempt(self, partition: int) -> _Attempt:
        """Let a worker change some key groups of its partition, and put their chunks into a pack, or not."""
        groups = range(partition, GROUPS, self.partitions)
        before = [pack for group in groups for pack in self.heads[group]]
        attempt = f"{self.random.getrandbits(64):016x}"
        is_large = self.random.random() < 0.6
        # The name is not known before what it says of the heads, and the heads name it: so the world first changes them.
        new = "new"
        heads = {group: self._changed(group, new if is_large else None) for group in groups}
        if is_large and before and self.random.random() < 0.4:
            oldest = min(before, key=lambda reference: names.parse(reference).batch)
            heads = {group: _replaced(runs, oldest, new) for group, runs in heads.items()}
        after = [pack for runs in heads.values() for pack in runs]
        owes_a_name = self.random.random() < 0.2
        if new not in after and not owes_a_name:
            return _Attempt(heads, None)
        said = self.rules.before(before, [pack for pack in after if pack != new], self.batch)
        name = PackName(self.partitions, partition, self.batch, self.epoch, attempt, said)
        return _Attempt({group: _replaced(runs, new, name.reference) for group, runs in heads.items()}, name)

    def _changed(self, group: int, new: str | None) -> tuple[str, ...]:
        runs, added = self.heads[group], (new,) if new else ()
        chance = self.random.random()
        if chance < 0.35:
            return runs
        if chance < 0.5:
            return added
        merged = self.random.randint(0, len(runs)) if chance < 0.7 else 0
        return (*runs[: len(runs) - merged], *added)

    def checkpoint(self) -> None:
        """Name what the newest batch needs, while workers of the next one may have written already."""
        if self.batch < 0:
            return
        running = [self._attempt_of_next(partition) for partition in range(self.partitions)]
        self.packs.update(pack for pack in running if pack is not None and self.random.random() < 0.3)
        self.retained = [*self.retained, self._cut()][-3:]

    def _attempt_of_next(self, partition: int) -> PackName | None:
        self.batch += 1
        try:
            return self._attempt(partition).pack
        finally:
            self.batch -= 1

    def _cut(self) -> Checkpoint:
        files = frozenset(self.rules.needed(self.packs, self.partitions, self.batch))
        self._require(files, self.heads, f"the checkpoint of batch {self.batch}")
        return Checkpoint(self.root, self.batch, self.partitions, files, dict(self.heads))

    def prune(self) -> None:
        """Delete what no retained checkpoint needs; in a root without one nothing."""
        own = [checkpoint for checkpoint in self.retained if checkpoint.root == self.root]
        if own:
            named = frozenset().union(*(checkpoint.files for checkpoint in own))
            unused = {pack for pack in self.packs - named if self.rules.is_unused(pack, own[-1].batch)}
            self.packs.difference_update(unused)
            self.pruned += len(unused)

    def arrive(self) -> None:
        """Let an attempt that was lost long ago write its pack."""
        if self.late:
            self.packs.add(self.late.pop(self.random.randrange(len(self.late))))

    def replace_driver(self) -> None:
        """Go on with the newest batch under another epoch, in the same root."""
        self.epoch += 1

    def carry_ahead(self) -> None:
        """Let a standby copy what the newest checkpoint in the root in use needs."""
        own = [checkpoint for checkpoint in self.retained if checkpoint.root == self.root]
        if own and own[-1].files <= self.packs:
            self.ahead = (max(self.ahead[0], own[-1].batch), self.ahead[1] | own[-1].files)

    def restore(self) -> None:
        """Go back to a checkpoint, and do other things than the first time."""
        if self.retained:
            self._begin(self.random.choice(self.retained))

    def take_over(self) -> None:
        """Go on behind the newest batch in a new root, which a standby has filled in part."""
        if self.batch >= 0:
            self._begin(self._cut())

    def _begin(self, cut: Checkpoint) -> None:
        carried_batch, carried = self.ahead
        takes = self.rules.keeps_carried(carried_batch, cut.batch) and cut.root == self.root
        self.roots.append({*cut.files, *(carried if takes else ())})
        self.root, self.epoch, self.late, self.ahead = len(self.roots) - 1, self.epoch + 1, [], (-1, set())
        self.batch, self.partitions, self.heads = cut.batch, cut.partitions, dict(cut.heads)
        if self.random.random() < 0.5:
            self.batch, self.partitions = self.batch + 1, self.random.randint(1, 3)

    def require_whole(self) -> None:
        """Require that the batches to come and every checkpoint that is retained have their packs."""
        self._require(self.packs, self.heads, f"batch {self.batch}")
        for checkpoint in self.retained:
            if not checkpoint.files <= self.roots[checkpoint.root]:
                raise LostError(f"pruning took what the checkpoint of batch {checkpoint.batch} needs")

    def _require(self, packs: Iterable[PackName], heads: Heads, what: str) -> None:
        there = {pack.reference for pack in packs}
        for group, runs in heads.items():
            for reference in runs:
                if reference not in there:
                    raise LostError(f"seed {self.seed}: {what} has no {reference}, which key group {group} names")


def _replaced(runs: Iterable[str], old: str, new: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(new if reference == old else reference for reference in runs))
