"""Lives of a root: one that was copied over an older life of itself has checkpoints and epochs of both.

Within one life numbers and epochs grow together, each epoch follows the one before it, and its record has the claim of
whoever wrote under it. What does not fit is left out, and no driver goes on where its own work would not fit: it begins a
generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord, GenerationRecord, Manifest, QueryEntry
from statefulspark.recovery import generations
from statefulspark.recovery.generations import Generations
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers that have run in a root.

    Attributes:
        uri: The root.
        records: The records of their epochs, as far back as matters; None if one cannot be read, which accuses nobody.
    """

    uri: str
    records: tuple[EpochRecord, ...] | None

    @property
    def newest_epoch(self) -> int:
        """The newest epoch; 0 if none is known."""
        return self.records[-1].epoch if self.records else 0

    def record(self, epoch: int) -> EpochRecord | None:
        """Return the record of an epoch; None if it is not known."""
        return next((record for record in self.records or () if record.epoch == epoch), None)

    def split_by_life(self, manifests: Iterable[Manifest]) -> tuple[dict[int, Manifest], dict[int, Manifest]]:
        """Tell the checkpoints of the newest life from those of another one.

        Returns:
            Both by their number; those of the newest life with the newest first.
        """
        retained: dict[int, Manifest] = {}
        left_out: dict[int, Manifest] = {}
        reached: dict[int, int] = {}
        ordered = sorted(manifests, key=lambda manifest: manifest.id)
        claims = self._claims(ordered)
        for manifest in ordered:
            # Its epoch in the life of an older one; None if it is of another life. Where storage has lost the newest
            # records, their numbers are claimed again, or free; that accuses nobody.
            epoch: int | None = manifest.epoch
            if self.records is not None and manifest.epoch < self.records[-1].epoch:
                epoch = claims[manifest.generation].get(manifest.claim or "")
            if epoch is not None and epoch >= reached.get(manifest.generation, 0):
                retained[manifest.id], reached[manifest.generation] = manifest, epoch
            else:
                left_out[manifest.id] = manifest
        return dict(sorted(retained.items(), reverse=True)), left_out

    def accuse(
        self,
        left_out: Collection[Manifest],
        retained: Collection[Manifest],
        *,
        head: tuple[int, Sequence[QueryEntry]],
    ) -> Iterator[str]:
        """Tell why checkpoints do not count.

        A driver that is being replaced may complete one after its successor has completed one, and may have looked so late
        that it has batches of its successor. If it is of this life, and a checkpoint of a successor or the start has all of
        its batches, leaving it out loses nothing, and there is nothing to tell.

        Args:
            left_out: The checkpoints that do not count.
            retained: Those that do.
            head: The generation in which the start goes on, and its queries; no queries if it goes on in none.
        """
        claims = self._claims((*left_out, *retained))
        for manifest in left_out:
            later = ((other.generation, other.queries) for other in retained if other.epoch > manifest.epoch)
            is_late = manifest.claim in claims[manifest.generation] and any(
                generation == manifest.generation and _have_batches(queries, manifest)
                for generation, queries in (head, *later)
            )
            if not is_late:
                yield (
                    f"{manifest.label} is of epoch {manifest.epoch} of another life of this root, which was copied over an "
                    "older one."
                )

    def _claims(self, manifests: Iterable[Manifest]) -> Mapping[int, Mapping[str, int]]:
        """Return the epochs of the drivers that are of the life of a generation, by its number and by their claims."""
        oldest: dict[int, int] = {}
        for manifest in manifests:
            oldest[manifest.generation] = min(manifest.epoch, oldest.get(manifest.generation, manifest.epoch))
        records = self.records or ()
        return {generation: epochs.life_of(records, epoch).claims for generation, epoch in oldest.items()}

    def mixture(self, every: Generations, manifests: Iterable[Manifest]) -> str | None:
        """Tell why a driver that goes on in the generation in use would be taken for one of another life; None if not.

        Args:
            every: All generations of the root.
            manifests: The checkpoints that count.
        """
        current = every.current
        if current is None or self.records is None or current.generation in every.unreadable:
            return None
        other = epochs.life_of(self.records, current.epoch).other
        if other is not None:
            return (
                f"{self.uri}/{layout.epoch(other)} is of another life of this root than the epoch before it: the root was "
                "copied over an older one."
            )
        claims = {(record.claim_id, record.epoch) for record in self.records}
        own = (manifest for manifest in manifests if manifest.generation == current.generation)
        lost = next((manifest for manifest in own if (manifest.claim, manifest.epoch) not in claims), None)
        return f"{self.uri} has lost {layout.epoch(lost.epoch)}, in which {lost.label} was taken." if lost else None


@dataclass(frozen=True, slots=True)
class OwnGenerations:
    """The generations of a root that are of its newest life; see `split_generations`.

    Attributes:
        every: All of them; the newest is in use.
        elsewhere: The newer ones that a driver of another life has begun, and that do not count; the newest first.
        mixture: See `Drivers.mixture`.
    """

    every: Generations
    elsewhere: tuple[GenerationRecord, ...] = ()
    mixture: str | None = None


def split_generations(
    store: ObjectStore, drivers: Drivers, every: Generations, manifests: Collection[Manifest]
) -> OwnGenerations:
    """Tell the generations of the newest life from newer ones that a driver of another life has begun.

    A checkpoint tells whose its generation is, if the epochs are those of one life. Otherwise its reservation tells who has
    begun it. Cost: a GET for each generation that is asked, from the newest on.

    Args:
        store: The job's root.
        drivers: The drivers that have run.
        every: All generations of the root.
        manifests: The checkpoints that count.
    """
    proven = {manifest.generation for manifest in manifests}
    elsewhere: list[GenerationRecord] = []
    while (current := every.current) is not None:
        mixture = drivers.mixture(every, manifests)
        is_proven = len(every.records) == 1 or (mixture is None and current.generation in proven)
        record = None if is_proven or current.generation in every.unreadable else drivers.record(current.epoch)
        claim = generations.read_claim(store, current) if record is not None else None
        if record is None or claim in (None, record.claim_id):
            return OwnGenerations(every, tuple(elsewhere), mixture)
        if record.epoch == drivers.newest_epoch:
            # Storage may have lost the newest record, so that its number was claimed again; that accuses nobody.
            lost = f"{drivers.uri} has lost {layout.epoch(record.epoch)}"
            mixture = mixture or f"{lost}, in which generation {current.generation} was begun."
            return OwnGenerations(every, tuple(elsewhere), mixture)
        elsewhere.append(current)
        every = replace(every, records=every.records[:-1])
    return OwnGenerations(every, tuple(elsewhere))


def _have_batches(queries: Iterable[QueryEntry], manifest: Manifest) -> bool:
    """Tell whether queries have all batches of a checkpoint of their generation."""
    batches = {query.uid: query.batch_id for query in queries}
    return all(batches.get(query.uid, -1) >= query.batch_id for query in manifest.queries)


def read(store: ObjectStore, every: Generations, manifests: Collection[Manifest]) -> Drivers:
    """Read the records of the epochs that matter. Cost: as of `epochs.life_since`; nothing where there is no state.

    Those are the epochs since the oldest checkpoint, and since the generation of the newest one was begun.
    """
    newest = max(
        (manifest.generation for manifest in manifests), default=every.records[-1].generation if every.records else 0
    )
    begun = (
        record.epoch
        for record in every.records
        if record.generation >= newest and record.generation not in every.unreadable
    )
    oldest = [*(manifest.epoch for manifest in manifests), *begun]
    records = epochs.records_since(store, min(oldest)) if oldest else None
    return Drivers(store.uri, records or None)
