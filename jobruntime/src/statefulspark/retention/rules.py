"""Decides which files may be deleted, and why the others may not. Pure.

Checkpoints beyond the retained count (or age) are dropped; what a restore has left behind stays for a day. A file that no
retained checkpoint refers to is marked, and deleted after it was marked for the grace time. The newest checkpoint,
savepoints, files that the running driver may still need, and unknown files are always retained.

In the generation in use the newest checkpoint is the floor. Spark uploads a state snapshot some time after its batch, so
the next checkpoint may refer to a file that no checkpoint refers to yet; only files older than the floor's state snapshot
are certainly unused.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from statefulspark.checkpoint import batch_records, plans, sparklog, state_files
from statefulspark.checkpoint.catalog import SnapshotRef
from statefulspark.contract import layout
from statefulspark.contract import manifest as manifests
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry
from statefulspark.packs import names as packs
from statefulspark.packs import window
from statefulspark.recovery import generations
from statefulspark.storage.port import ObjectInfo


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """How much is retained.

    Attributes:
        retained: Number of completed checkpoints to retain, at least one; see `retained_checkpoints` for those beside.
        grace: Time for which a file must be marked as unused before it is deleted.
        max_age: Checkpoints older than this are dropped even if they are within `retained`; the newest one never is.
    """

    retained: int = 3
    grace: timedelta = timedelta(seconds=60)
    max_age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The input of the decision.

    Attributes:
        checkpoints: Readable manifests of completed checkpoints.
        unreadable: Ids of completed checkpoints whose manifest is not readable.
        generations: The generations of the job.
        files: Every object below `generations/`.
        marks: Since when each file has been unused.
        ssts: Keys of the SST files of each state snapshot that no checkpoint refers to yet; None for an unreadable state
            snapshot.
        pinned: Closures that are being copied, for a savepoint for example.
        leftovers: Files of savepoints that a driver of an earlier epoch did not complete.
        marks_etag: Etag of the document with the marks; None if there is none.
        carried_ahead: Generations that a standby has reserved, and nobody has completed.
        savepoints: The completed savepoints in the job's root.
    """

    checkpoints: tuple[Manifest, ...]
    unreadable: tuple[int, ...]
    generations: generations.Generations
    files: tuple[ObjectInfo, ...]
    marks: Mapping[str, datetime]
    ssts: Mapping[str, tuple[str, ...] | None]
    pinned: tuple[QueryEntry, ...] = ()
    leftovers: tuple[ObjectInfo, ...] = ()
    marks_etag: str | None = None
    carried_ahead: tuple[int, ...] = ()
    savepoints: tuple[SnapshotRef, ...] = ()


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The result of the decision.

    Attributes:
        delete_checkpoints: Keys of the manifests to delete.
        marks: Every unused file that is not deleted yet, and since when it has been unused.
        delete_files: Keys of the files to delete.
        freed_bytes: Total size of these files.
        marked_bytes: Total size of the files that are unused and not deleted yet.
        keep_reasons: Number of retained files, by reason.
        drop_reasons: Why each of the checkpoints is deleted.
        delete_claimed: URIs of claimed snapshots that are subsumed by newer checkpoints.
        marks_etag: See `Inventory`.
        close_off: Generations of standbys that are gone: they are never completed, and their files are unused from then on.
        savepoints: See `Inventory`; none of them is deleted.
    """

    delete_checkpoints: tuple[str, ...]
    marks: Mapping[str, datetime]
    delete_files: tuple[str, ...]
    freed_bytes: int
    keep_reasons: Mapping[str, int]
    delete_claimed: tuple[str, ...] = ()
    drop_reasons: Mapping[str, str] = field(default_factory=dict)
    marks_etag: str | None = None
    close_off: tuple[int, ...] = ()
    marked_bytes: int = 0
    savepoints: tuple[SnapshotRef, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The plan as text, one line per action."""
        return (
            *(f"delete {key}: {self.drop_reasons.get(key, _TOO_MANY)}" for key in self.delete_checkpoints),
            *(
                f"delete {uri}: claimed, and followed by as many checkpoints as are retained"
                for uri in self.delete_claimed
            ),
            *(f"close off generation {number}: its standby has written nothing for long" for number in self.close_off),
            *(f"delete {key}: unused for the grace time" for key in self.delete_files),
            *(f"mark {key}: unused since {since.isoformat()}" for key, since in sorted(self.marks.items())),
            *(f"keep {count} files: {reason}" for reason, count in sorted(self.keep_reasons.items())),
        )


def retained_checkpoints(checkpoints: Iterable[Manifest], policy: PrunePolicy, now: datetime) -> tuple[Manifest, ...]:
    """Choose the checkpoints to retain, newest first; at least the newest.

    Beside the newest ones these are as many that count (`manifest.retained`).
    """
    by_id = {manifest.id: manifest for manifest in checkpoints}
    untried = {manifest.id for manifest in by_id.values() if manifest.untried}
    newest = [by_id[number] for number in manifests.retained(by_id, untried, max(policy.retained, 1))]
    max_age = policy.max_age
    if max_age is None:
        return tuple(newest)
    return tuple(
        manifest for index, manifest in enumerate(newest) if not index or now - manifest.completed_at <= max_age
    )


LEFT_BEHIND_FOR = timedelta(days=1)
"""How long what a restore has left behind outlives every policy."""


def left_behind(inventory: Inventory) -> tuple[Manifest, ...]:
    """Return the newest checkpoint of each future that a restore or a start with empty state has left less than a day ago.

    A start that goes on from it without some of its operators, sources or hooks leaves it, too.

    All times are the store's own: a generation began with its reservation, and it is as late as the newest file says.
    """
    written_at = {info.key: info.modified_at for info in inventory.files}
    left: dict[int, Manifest] = {}
    for record in inventory.generations.records:
        began = written_at.get(layout.generation_reservation(record.generation))
        before = [manifest for manifest in inventory.checkpoints if manifest.generation < record.generation]
        newest = max(before, key=lambda manifest: manifest.id, default=None)
        is_recent = began is not None and max(written_at.values()) - began < LEFT_BEHIND_FOR
        if newest is None or not is_recent:
            continue
        cut = record.cut
        is_continued = (
            cut is not None
            and (cut.lineage, cut.generation) == (newest.lineage, newest.generation)
            and all(query.batch_id <= cut.batches.get(query.uid, -1) for query in newest.queries)
            and not _parts(newest) - _parts(record)
        )
        if not is_continued:
            left[newest.id] = newest
    return tuple(left.values())


def _parts(cut: Manifest | GenerationRecord) -> Counter[tuple[str, str]]:
    """Count what a cut has state of: operators by uid, those of Spark by kind, sources, and master hooks."""
    return Counter(
        (
            *(
                (query.uid, part.name if plans.has_generated_uid(part) else part.uid)
                for query in cut.queries
                for part in query.operators
            ),
            *((query.uid, f"source {source.name}") for query in cut.queries for source in query.sources),
            *(("", state.identifier) for state in cut.master_states),
        )
    )


def plan_prune(inventory: Inventory, policy: PrunePolicy, now: datetime) -> PrunePlan:
    """Decide which files are deleted, marked and retained.

    Args:
        inventory: The content of the root.
        policy: How much is retained.
        now: UTC.

    Returns:
        The plan; it has only keep reasons if no file is unused.
    """
    retained = retained_checkpoints(inventory.checkpoints, policy, now)
    oldest = min((manifest.id for manifest in retained), default=None)
    left = left_behind(inventory)
    dropped = [manifest.id for manifest in inventory.checkpoints if manifest not in (*retained, *left)]
    dropped += [number for number in inventory.unreadable if oldest is not None and number < oldest]
    unknown = [number for number in inventory.unreadable if number not in dropped]
    rules = _Rules.build(inventory, retained, policy, left=left, blocked=bool(unknown))
    newest_first = sorted(inventory.checkpoints, key=lambda manifest: manifest.id, reverse=True)
    aged = newest_first[: max(policy.retained, 1)]
    drop_reasons = {layout.checkpoint_manifest(manifest.id): f"older than {policy.max_age}" for manifest in aged}
    drop_reasons |= {layout.checkpoint_manifest(number): _UNREADABLE for number in inventory.unreadable}
    marks: dict[str, datetime] = {}
    marked_bytes = 0
    room_bytes = _MOST_MARKED_BYTES
    deleted: list[ObjectInfo] = []
    reasons: dict[str, int] = {}
    for info in (*inventory.files, *inventory.leftovers):
        reason = rules.reason_to_keep(info)
        since = inventory.marks.get(info.key, now)
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
        elif now - since >= policy.grace and info.key in inventory.marks:
            deleted.append(info)
        elif info.key in inventory.marks or room_bytes > 0:
            marks[info.key] = since
            marked_bytes += info.size_bytes
            room_bytes -= len(info.key) + _BESIDE_A_KEY
        else:
            reasons[_WAITING] = reasons.get(_WAITING, 0) + 1
    return PrunePlan(
        delete_checkpoints=tuple(layout.checkpoint_manifest(number) for number in sorted(dropped)),
        marks=marks,
        delete_files=tuple(info.key for info in deleted),
        freed_bytes=sum(info.size_bytes for info in deleted),
        marked_bytes=marked_bytes,
        keep_reasons=reasons,
        delete_claimed=_subsumed_claims(inventory, retained, policy),
        drop_reasons=drop_reasons,
        marks_etag=inventory.marks_etag,
        close_off=tuple(number for number in inventory.carried_ahead if _is_left_alone(number, inventory.files)),
    )


def _is_left_alone(generation: int, files: Iterable[ObjectInfo]) -> bool:
    """Tell whether nobody has written to a generation for long, while others were written to.

    Both times are the store's own. A standby that is alive writes its reservation anew, and one that is taken for dead
    begins in another generation: only the copies that it has made are lost.
    """
    folder = f"{layout.generation(generation)}/"
    newest: dict[bool, datetime] = {}
    for info in files:
        is_inside = info.key.startswith(folder)
        newest[is_inside] = max(info.modified_at, newest.get(is_inside, info.modified_at))
    return newest.keys() == {True, False} and newest[False] - newest[True] > STANDBY_SILENCE


def _subsumed_claims(inventory: Inventory, retained: Sequence[Manifest], policy: PrunePolicy) -> tuple[str, ...]:
    """Return the claimed snapshots that are older than every retained checkpoint, once enough of these count."""
    counting = [manifest.id for manifest in retained if not manifest.untried]
    if len(counting) < max(policy.retained, 1):
        return ()
    oldest = min(manifest.generation for manifest in retained)
    # A snapshot that was restored in place has a number among those of the generation's checkpoints.
    return tuple(
        record.claimed
        for record in inventory.generations.records
        if record.claimed and record.generation <= oldest and (record.restored_in_place or 0) < min(counting)
    )


def unnamed_snapshots(inventory: Inventory, policy: PrunePolicy, now: datetime) -> tuple[str, ...]:
    """Return the state snapshots in the generation in use that are retained although no checkpoint refers to them.

    Their SST files have to be read (`Inventory.ssts`) before `plan_prune` can decide about SST files.
    """
    retained = retained_checkpoints(inventory.checkpoints, policy, now)
    rules = _Rules.build(inventory, retained, policy, left=(), blocked=False)
    current = layout.generation(inventory.generations.current.generation) if inventory.generations.current else None
    return tuple(
        info.key
        for info in inventory.files
        if info.key.endswith(".zip")
        and info.key.startswith(f"{current}/")
        and rules.reason_to_keep(info) not in (None, _NAMED)
    )


STANDBY_SILENCE = timedelta(minutes=10)
"""After this, a generation that a standby has reserved is nobody's; a standby writes to it ten times as often."""

_MOST_MARKED_BYTES = 40 * 2**20
"""About so much of the document with the marks is written: a larger one could not be read any more."""
_BESIDE_A_KEY = 40
"""Bytes of a mark beside the name of its file."""
_TOO_MANY = "more checkpoints than are retained"
_UNREADABLE = "it cannot be read, and newer checkpoints can"
_NAMED = "a retained checkpoint, or a copy being made, needs it"
_LEFT = "a restore has left its checkpoint behind less than a day ago"
_RUNNING = "the running driver may need it"
_BLOCKED = "a checkpoint cannot be read, so it is unknown what it needs"
_UNFINISHED = "the generation is being made"
_RECORD = "it describes the generation"
UNKNOWN = "it is not a file of Spark's"
"""Why an unknown file is retained."""
_WAITING = "it is unused, and there are too many marked files; it is marked later"
_TAKEN = "its number is never used again"
_UNREADABLE_SNAPSHOT = "a state snapshot cannot be read, so it is unknown what it needs"


@dataclass(frozen=True, slots=True)
class _Rules:
    """Decides for one file why it is retained."""

    named: frozenset[str]
    left: frozenset[str]
    needed_generations: frozenset[int]
    current: int
    floors: Mapping[str, _Floor]
    leftovers: frozenset[str]
    abandoned: frozenset[int]
    blocked: bool

    @classmethod
    def build(
        cls,
        inventory: Inventory,
        retained: Sequence[Manifest],
        policy: PrunePolicy,
        *,
        left: Sequence[Manifest],
        blocked: bool,
    ) -> _Rules:
        record = inventory.generations.current
        current = record.generation if record else 0
        newest = next((manifest for manifest in retained if manifest.generation == current), None)
        queries = [*inventory.pinned, *(query for manifest in retained for query in manifest.queries)]
        if newest is None and record:
            queries += record.queries
        named = _files_of(queries)
        left_files = _files_of(query for manifest in left for query in manifest.queries)
        extra = frozenset(key for keys in inventory.ssts.values() for key in keys or ())
        unreadable_folders = frozenset(
            f"{posixpath.dirname(key)}/SSTs" for key, keys in inventory.ssts.items() if keys is None
        )
        listed = {info.key: info for info in inventory.files}
        floors = {}
        if newest is not None:
            floors = {
                query.path: _Floor.build(query, listed, policy, extra, unreadable_folders) for query in newest.queries
            }
        needed = {number for key in named | left_files if (number := _generation_of(key)) is not None}
        needed |= {claimed.generation for claimed in inventory.generations.records if claimed.claimed}
        # A start finds the retained checkpoints along the records of the generations in between.
        needed |= set(inventory.generations.ancestors(since=min(needed, default=current)))
        leftovers = frozenset(info.key for info in inventory.leftovers)
        blocked = blocked or (newest is None and current in inventory.generations.unreadable)
        return cls(
            named, left_files, frozenset(needed), current, floors, leftovers, inventory.generations.abandoned, blocked
        )

    def reason_to_keep(self, info: ObjectInfo) -> str | None:
        """Return why a file is retained; None if it is unused."""
        if info.key in self.named or _main_file(info.key) in self.named:
            return _NAMED
        if info.key in self.left or _main_file(info.key) in self.left:
            return _LEFT
        if info.key in self.leftovers:
            return None
        generation = _generation_of(info.key)
        if generation is None:
            return UNKNOWN
        if self.blocked:
            return _BLOCKED
        if generation > self.current and generation not in self.abandoned:
            return _UNFINISHED
        if info.key.count("/") == 2:
            if info.key.endswith(f"/{layout.GENERATION_RESERVATION}") or generation in self.abandoned:
                return _TAKEN
            return _RECORD if generation == self.current or generation in self.needed_generations else None
        if generation != self.current:
            return None
        parts = info.key.split("/")
        floor = self.floors.get("/".join(parts[:3]))  # The query's root; the file's name is below it.
        return _RUNNING if floor is None else floor.reason_to_keep(info, _main_file("/".join(parts[3:])))


@dataclass(frozen=True, slots=True)
class _Floor:
    """The oldest files that a query's newest checkpoint needs; older files are unused, newer ones may be needed next."""

    path: str
    batch_id: int
    versions: Mapping[str, int]
    positions: Mapping[str, int]
    uploads: Mapping[str, datetime]
    extra: frozenset[str]
    unreadable_folders: frozenset[str]

    @classmethod
    def build(
        cls,
        query: QueryEntry,
        listed: Mapping[str, ObjectInfo],
        policy: PrunePolicy,
        extra: frozenset[str],
        unreadable_folders: frozenset[str],
    ) -> _Floor:
        versions: dict[str, int] = {}
        positions: dict[str, int] = {}
        uploads: dict[str, datetime] = {}
        for file in query.files:
            folder, name = posixpath.split(file.path)
            state = sparklog.parse_state_file(name)
            info = listed.get(f"{query.path}/{file.path}")
            if state and state.is_snapshot and state_files.parse_partition_folder(file.path):
                versions[folder] = state.version
                uploads |= {folder: info.modified_at - policy.grace} if info else {}
            segment = layout.parse_segment_key(file.path)
            if segment is not None:
                positions[folder] = segment.segment
            log = sparklog.parse_log_file(name)
            if log and folder.startswith("sources/"):
                positions[folder] = max(log.number, positions.get(folder, -1))
        return cls(query.path, query.batch_id, versions, positions, uploads, extra, unreadable_folders)

    def reason_to_keep(self, info: ObjectInfo, name: str) -> str | None:
        """Return why a file is retained; `name` is its main file, relative to the query's root."""
        folder, leaf = posixpath.split(name)
        state = sparklog.parse_state_file(leaf)
        if state and state_files.parse_partition_folder(name):
            return _RUNNING if state.version > self.versions.get(folder, 0) else None
        if leaf.endswith(".sst") and posixpath.basename(folder) == "SSTs":
            # One executor uploads a store's snapshots one after the other, so a file older than the floor's snapshot does
            # not belong to an upload in progress; an SST file may be uploaded long before the state snapshot that refers
            # to it. The grace time covers two executors that upload the same store concurrently.
            if posixpath.dirname(info.key) in self.unreadable_folders:
                return _UNREADABLE_SNAPSHOT
            uploaded_at = self.uploads.get(posixpath.dirname(folder))
            is_settled = uploaded_at is not None and info.modified_at < uploaded_at
            return None if is_settled and f"{self.path}/{name}" not in self.extra else _RUNNING
        pack = packs.of_key(name)
        if pack is not None:
            return None if window.is_unused(pack[1], floor=self.batch_id) else _RUNNING
        record, segment = batch_records.parse_key(name), layout.parse_segment_key(name)
        batch = record.batch if record is not None else layout.staged_batch(name)
        if batch is not None:
            return _RUNNING if batch > self.batch_id else None
        if segment is not None:
            return _RUNNING if segment.segment > self.positions.get(folder, 0) else None
        log = sparklog.parse_log_file(leaf)
        if log and folder in ("offsets", "commits"):
            return _RUNNING if log.number > self.batch_id else None
        if log and folder in self.positions:
            return _RUNNING if log.number > self.positions[folder] else None
        return UNKNOWN


def _files_of(queries: Iterable[QueryEntry]) -> frozenset[str]:
    return frozenset(f"{query.path}/{file.path}" for query in queries for file in query.files)


def _generation_of(key: str) -> int | None:
    parts = key.split("/")
    return layout.parse_number(parts[1]) if len(parts) > 2 and parts[0] == layout.GENERATIONS else None


def _main_file(name: str) -> str:
    """Return the file that a checksum file belongs to, or the file itself."""
    folder, leaf = posixpath.split(name)
    if not leaf.endswith(".crc"):
        return name
    bare = leaf.removeprefix(".")
    return posixpath.join(folder, bare.removesuffix(".crc").removesuffix(".crc"))
