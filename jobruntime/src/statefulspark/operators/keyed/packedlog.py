"""A chunk log that puts what is large into a pack: for a batch and a partition whose changes are many.

Chunks of a certain size wait until the batch ends. If they are enough together, they become one object on storage, and
heads name their ranges in it; else they go into the state store as ever. What would take too much memory becomes a pack
before that. The object is there, and a listing shows it, before a head names it; Spark commits the partition after that. An
attempt that is lost leaves an object that nobody names.

Packs are below the checkpoint root of the query whose task writes or reads them. The options to reach storage come with the
operator, as those of sinks do. The root is known only when the query is started, after its plan was made; so it comes with
each task, as a local property that tasks inherit from their query.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark import errors, storage
from statefulspark.operators.keyed import cleaning
from statefulspark.packs import garbage, names, reading, window
from statefulspark.packs.ranges import PackedChunk, PackRange
from statefulspark.packs.sizes import PartitionPacks
from statefulspark.state import heads
from statefulspark.storage import ObjectStore, StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PACKS = "spark.statefulspark.keyedState.packs"
"""Setting of the engine: `false` keeps large changes in the state store instead of packs beside it."""
PACK_BYTES = "spark.statefulspark.keyedState.packs.minBytes"
"""Setting of the engine: fewer changed bytes of a partition and batch do not become a pack."""
ROOT_PROPERTY = "statefulspark.checkpointRoot"
"""Local property of a query: Hadoop URI of its checkpoint root."""
EPOCH_PROPERTY = "statefulspark.epoch"
"""Local property of a query: the epoch of its driver."""
PACKED_PROPERTY = "statefulspark.packedOperators"
"""Local property of a query: its operators with packs when it was started, as `uid:partitions` with commas."""
_BATCH_PROPERTY = "streaming.sql.batchId"
_AHEAD = reading.RangeReader()
_NAMED: set[tuple[str, str, int, int]] = set()
"""Partitions that owe no pack, by root, operator and number of partitions."""
_LOG = logging.getLogger(__name__)
_NO_ACCESS = ("AccessDenied", "CredentialsMissing")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is large.

    Attributes:
        chunk_bytes: Chunks of fewer bytes, as they are stored, stay in the state store.
        pack_bytes: Fewer bytes in a partition and batch do not become a pack.
        part_bytes: As many become a pack before the batch has ended, so that they do not take more memory.
    """

    chunk_bytes: int = 64 << 10
    pack_bytes: int = 8 << 20
    part_bytes: int = 64 << 20

    @classmethod
    def from_pack_bytes(cls, pack_bytes: int) -> Thresholds:
        """Return the thresholds for a number of bytes that becomes a pack, at least 1; chunks are a hundredth of it."""
        usual = cls()
        return cls(
            max(1, pack_bytes * usual.chunk_bytes // usual.pack_bytes), pack_bytes, max(pack_bytes, usual.part_bytes)
        )


@dataclass(frozen=True, slots=True)
class PackPlace:
    """Where a task writes its pack.

    Attributes:
        store: The query's root.
        uid: The operator.
        partitions: Number of its partitions.
        partition: The task's.
        batch: The batch.
        epoch: The driver's epoch.
        groups: All key groups of the partition.
        packs: What the worker knows of the partition's packs.
    """

    store: ObjectStore
    uid: str
    partitions: int
    partition: int
    batch: int
    epoch: int
    groups: tuple[int, ...]
    packs: PartitionPacks = dataclasses.field(default_factory=PartitionPacks)


class PackedLog:
    """A partition's log in one batch; use one for each attempt."""

    def __init__(
        self,
        log: cleaning.PartitionLog,
        place: Callable[[int], PackPlace],
        thresholds: Thresholds | None = None,
        is_owed: Callable[[Callable[[], PackPlace]], bool] = lambda _: False,
    ) -> None:
        """Wrap a log.

        Args:
            log: The partition's state.
            place: Returns where to write a pack, for a key group of the partition; called only to write one.
            thresholds: What is large.
            is_owed: Tells, by where it would write one, whether the partition has to write a pack, if an empty one, so that
                its name says what the partition still needs (`window.owes_a_name`).
        """
        self._log = log
        self._is_owed = is_owed
        self._place = place
        self._thresholds = thresholds or Thresholds()
        self._group = -1
        self._committed: dict[int, heads.GroupHead | None] = {}
        self._chunks: dict[int, dict[int, tuple[str, bytes]]] = {}
        self._heads: dict[int, heads.GroupHead] = {}
        self._waiting_bytes = 0
        self._has_parts = False

    def enter(self, group: int) -> None:
        """Make a key group the current one."""
        self._group = group
        self._log.enter(group)

    def read_heads(self, groups: Iterable[int]) -> None:
        """Read the heads of key groups that will be used, in one go."""
        self._log.read_heads(groups)

    def head(self) -> heads.GroupHead | None:
        """Return the head, or None if the group was never written."""
        if self._group in self._heads:
            return self._heads[self._group]
        head = self._log.head()
        self._committed.setdefault(self._group, head)
        return head

    def set_head(self, head: heads.GroupHead) -> None:
        """Replace the head; it waits with the chunks that it names."""
        if self._group not in self._heads and not self._chunks.get(self._group):
            self._log.set_head(head)
            return
        self._heads[self._group] = head
        if self._waiting_bytes >= self._thresholds.part_bytes:
            self._write_part()
            self._log.enter(self._group)

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return id and bytes of a chunk, or None when there is none."""
        return self._chunks.get(self._group, {}).get(version) or self._log.chunk(version)

    def packed_chunk(self, where: PackRange) -> bytes:
        """Return the bytes of a chunk in a pack."""
        return self._log.packed_chunk(where)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk, or let it wait."""
        if len(blob) >= self._thresholds.chunk_bytes:
            self._chunks.setdefault(self._group, {})[version] = (unique_id, blob)
            self._waiting_bytes += len(blob)
        else:
            self._log.put_chunk(version, unique_id, blob)

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk."""
        waiting = self._chunks.get(self._group, {}).pop(version, None)
        if waiting is None:
            self._log.remove_chunk(version)
        else:
            self._waiting_bytes -= len(waiting[1])

    def finish(self) -> names.PackName | None:
        """End the batch: put what waits into a pack, or into the state store.

        Returns:
            The name of the last pack; None if it wrote none now.

        Without the right to write to storage, changes go into the state store, and the worker's log says so.

        Raises:
            TransientError: Storage cannot be reached; the attempt fails.
        """
        if self._heads and self._waiting_bytes >= self._thresholds.pack_bytes:
            return self._write_part(is_last=True)
        # Parts take nothing over: what is left after them does, also if it is small.
        if self._own_group() is not None and (self._has_parts or self._is_owed(self._own_place)):
            return self._write_part(is_last=True)
        self._write_inline()
        return None

    def _write_part(self, *, is_last: bool = False) -> names.PackName | None:
        try:
            written = self._write(self._own_place(), takes_over=is_last)
        except errors.StateUnknownError as error:
            if error.reason not in _NO_ACCESS:
                raise
            _LOG.warning(
                "A worker has no right to write to the job's storage. Large changes of keyed state go into Spark's state "
                "store, which is slower. Give workers the credentials and rights of the driver",
                extra={"reason": error.reason, "why": error.message},
            )
            written = None
        if written is None:
            self._write_inline()
        self._has_parts = self._has_parts or written is not None
        self._forget()
        return written

    def _own_group(self) -> int | None:
        """Return a key group of the partition that has state; groups without may be looked at in any partition."""
        stored = (group for group, head in self._committed.items() if head is not None)
        return next(iter(self._heads), None) if self._heads else next(stored, None)

    def _own_place(self) -> PackPlace:
        group = self._own_group()
        if group is None:
            raise errors.InternalError("PacksUnplaced", "A pack is to be written for a partition without state.")
        return self._place(group)

    def _forget(self) -> None:
        self._chunks, self._heads, self._waiting_bytes = {}, {}, 0

    def _write_inline(self) -> None:
        for group, head in self._heads.items():
            self._log.enter(group)
            for version, (unique_id, blob) in self._chunks.get(group, {}).items():
                self._log.put_chunk(version, unique_id, blob)
            self._log.set_head(head)
        self._forget()

    def _write(self, place: PackPlace, *, takes_over: bool) -> names.PackName | None:
        """Write a pack and let heads name it; None if a listing does not show it, or if nothing is left after parts."""
        by_group = self._all_heads(place.groups)
        before = [run.packed.pack for run in _runs(self._committed.values()) if run.packed is not None]
        said = names.Before.summarize(before, place.batch)
        name = names.PackName(place.partitions, place.partition, place.batch, place.epoch, os.urandom(8).hex(), said)
        earlier = sorted(set(before), key=lambda reference: names.parse(reference).batch)
        sizes = place.packs.sizes(place.store, place.uid, name.folder, earlier)
        chunks = [
            PackedChunk(group, version, blob)
            for group, own in self._chunks.items()
            for version, (_, blob) in own.items()
        ]
        if takes_over:
            chunks += self._garbage(by_group, sizes, sum(len(chunk.body) for chunk in chunks), name)
        if self._has_parts and not chunks:
            return None  # A part's name already says what the partition needs.
        # Imported here because it imports pydantic; see `keyed.frames`.
        from statefulspark.packs import packfile

        pack = packfile.build(name.reference, chunks, {reference: sizes.get(reference, 0) for reference in earlier})
        place.store.create(names.key(place.uid, name.reference), pack.body)
        if not place.packs.shows(place.store, place.uid, name):
            return None
        places = {(chunk.group, chunk.version): where for chunk, where in zip(chunks, pack.ranges, strict=True)}
        for group in sorted({group for group, _ in places} | self._heads.keys()):
            head = by_group[group]
            runs = [dataclasses.replace(run, packed=places.get((group, run.version), run.packed)) for run in head.runs]
            self._log.enter(group)
            self._log.set_head(dataclasses.replace(head, runs=tuple(runs)))
        return name

    def _all_heads(self, groups: Sequence[int]) -> dict[int, heads.GroupHead]:
        """Return the heads of all key groups of the partition after the batch."""
        by_group: dict[int, heads.GroupHead] = {}
        self._log.read_heads(groups)
        for group in groups:
            head = self._heads.get(group)
            if head is None:
                self._log.enter(group)
                head = self._log.head()
                self._committed.setdefault(group, head)
            if head is not None:
                by_group[group] = head
        return by_group

    def _garbage(
        self, by_group: Mapping[int, heads.GroupHead], sizes: Mapping[str, int], new_bytes: int, name: names.PackName
    ) -> list[PackedChunk]:
        """Return the chunks of older packs that the new one takes over."""
        named: dict[str, int] = {}
        for run in _runs(by_group.values()):
            if run.packed is not None:
                named[run.packed.pack] = named.get(run.packed.pack, 0) + run.packed.length
        stored = {
            reference: names.share_of(reference, size_bytes, name.partitions)
            for reference, size_bytes in sizes.items()
            if reference in named or reference.startswith(name.folder)
        }
        chosen = frozenset(garbage.choose_rewrites(stored, named, new_bytes))
        return [
            PackedChunk(group, run.version, self._log.packed_chunk(run.packed))
            for group, head in by_group.items()
            for run in head.runs
            if run.packed is not None and run.packed.pack in chosen
        ]


def _runs(of_groups: Iterable[heads.GroupHead | None]) -> Sequence[heads.ChunkRun]:
    return [run for head in of_groups if head is not None for run in head.runs]


def thresholds(session: SparkSession, options: StorageOptions | None) -> Thresholds | None:
    """Return which changes of an operator become packs; None if none do.

    Args:
        session: The job's session.
        options: How to reach the job's storage; None if no job runs the operator.

    Raises:
        SpecRejectedError: `ConfigInvalid`: a setting of the engine cannot be used.
    """
    if options is None or session.conf.get(PACKS, "true") != "true":
        return None
    text = str(session.conf.get(PACK_BYTES, str(Thresholds().pack_bytes)))
    if not text.isdecimal() or int(text) < 1:
        raise errors.SpecRejectedError(
            "ConfigInvalid", f"{PACK_BYTES}: it must be a number of bytes, at least 1, such as 8388608 (got {text!r})."
        )
    return Thresholds.from_pack_bytes(int(text))


def tell_tasks(
    session: SparkSession, root: str, epoch: int, partitions: int, packed: Iterable[tuple[str, int]] = ()
) -> None:
    """Let the query that this thread starts next tell its tasks where it runs; `leave_tasks` ends that.

    Args:
        session: The job's session.
        root: Hadoop URI of the query's checkpoint root.
        epoch: The driver's epoch.
        partitions: The number of partitions of the query's state.
        packed: Operators with packs, each with a number of partitions that wrote some.
    """
    context = session.sparkContext
    context.setLocalProperty(ROOT_PROPERTY, root)
    context.setLocalProperty(EPOCH_PROPERTY, str(epoch))
    context.setLocalProperty(cleaning.PARTITIONS_PROPERTY, str(partitions))
    context.setLocalProperty(PACKED_PROPERTY, ",".join(f"{uid}:{partitions}" for uid, partitions in sorted(packed)))


def leave_tasks(session: SparkSession) -> None:
    """Let later queries of this thread tell their tasks nothing; a query that was started keeps what it tells."""
    for name in (ROOT_PROPERTY, EPOCH_PROPERTY, cleaning.PARTITIONS_PROPERTY, PACKED_PROPERTY):
        session.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]  # None removes it


def packed_operators(store: ObjectStore, path: str) -> frozenset[tuple[str, int]]:
    """Return the operators of a query that have packs, each with a number of partitions that wrote some. Cost: one listing.

    Args:
        store: The job's.
        path: Folder of the query's checkpoint root.
    """
    prefix = f"{path}/"
    keys = (info.key.removeprefix(prefix) for info in store.list(f"{prefix}{names.FOLDER}"))
    return frozenset((pack[0], pack[1].partitions) for pack in map(names.of_key, keys) if pack is not None)


def is_owed(uid: str, place: Callable[[], PackPlace]) -> bool:
    """Tell whether the running task has to write a pack for its name, since the number of partitions has changed.

    Cost: if the query was started with packs of another number, a listing for each batch until none is owed; else nothing.

    Args:
        uid: The operator.
        place: Returns where the task writes.
    """
    own = f"{uid}:{cleaning.partitions_of_task()}"
    packed = (cleaning.task_property(PACKED_PROPERTY) or "").split(",")
    if not any(entry.startswith(f"{uid}:") and entry != own for entry in packed):
        return False
    here = place()
    partition = (here.store.uri, uid, here.partitions, here.partition)
    if partition in _NAMED:
        return False
    listed = (names.of_key(info.key) for info in here.store.list(f"{names.FOLDER}/{uid}"))
    packs = [pack[1] for pack in listed if pack is not None and pack[1].batch < here.batch]
    if window.owes_a_name(packs, partitions=here.partitions, partition=here.partition):
        return True
    _NAMED.add(partition)
    return False


def reader_of(uid: str, options: StorageOptions | None) -> reading.PackReader:
    """Return the reader of an operator's packs for the running task.

    Args:
        uid: The operator.
        options: How to reach the job's storage; None if no job runs the operator.

    Raises:
        InternalError: `PacksUnplaced`: the task does not belong to a query of a job.
    """
    root = cleaning.task_property(ROOT_PROPERTY)
    if root is None or options is None:
        raise errors.InternalError(
            "PacksUnplaced",
            f"The state of operator {uid!r} is in packs, and the task does not know the checkpoint root of its query.",
        )
    return reading.PackReader(_store(root, options), uid, _AHEAD)


def place_of(uid: str, options: StorageOptions | None, group: int, *, groups: int) -> PackPlace:
    """Return where the running task writes a pack.

    Args:
        uid: The operator.
        options: As for `reader_of`.
        group: A key group of the task's partition.
        groups: Number of key groups.

    Raises:
        InternalError: `PacksUnplaced`: the task does not belong to a query of a job.
    """
    reader = reader_of(uid, options)
    partitions = cleaning.partitions_of_task()
    partition = group % partitions
    return PackPlace(
        store=reader.store,
        uid=uid,
        partitions=partitions,
        partition=partition,
        batch=_number(_BATCH_PROPERTY),
        epoch=_number(EPOCH_PROPERTY),
        groups=tuple(cleaning.neighbours_of(group, partitions, groups=groups)),
        packs=_packs_of(reader.store.uri, uid, partitions, partition),
    )


@functools.lru_cache(maxsize=4096)
def _packs_of(root: str, uid: str, partitions: int, partition: int) -> PartitionPacks:
    """Return what this worker knows of a partition's packs."""
    del root, uid, partitions, partition
    return PartitionPacks()


def _number(name: str) -> int:
    text = cleaning.task_property(name)
    if text is None:
        raise errors.InternalError("PacksUnplaced", f"A task that writes keyed state into a pack has no {name!r}.")
    return int(text)


@functools.lru_cache(maxsize=16)
def _store(root: str, options: StorageOptions) -> ObjectStore:
    return storage.open_store(root, options)
