"""What has happened in a run, as facts that the invariants are judged by: told by effects on the bucket, not by the product.

The record reads formats (names of keys, JSON of manifests and records) and shares no code with what it watches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from faultrig import faults, fibers, truth
from statefulspark.sinks.base import SinkContext
from statefulspark.storage.port import ObjectStore

ROOT = "a/default/flights"
_MANIFEST = re.compile(r"^(?P<folder>.*?/(?P<kind>check|save)points/(?P<id>\d+)[^/]*|backups/[^/]+)/_metadata\.json$")
_NUMBER = re.compile(rf"^{ROOT}/(?P<kind>epochs|generations|lineages)/(?P<number>\d+)(?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect on the bucket that is about to happen.

    Attributes:
        process: Who asked for it.
        verb: `create`, `write`, `replace`, `copy` or `delete`.
        key: The object.
        body: What is written.
        existed: Whether there is such an object.
        is_late: Whether it arrives when its sender has given it up or has repeated it.
        has_looked: Whether the fiber has looked for a newer epoch and found none since its last write that needs a look.
    """

    process: faults.FaultyProcess
    verb: str
    key: str
    body: bytes
    existed: bool
    is_late: bool
    has_looked: bool

    @property
    def takes_place(self) -> bool:
        """Whether it will change something; a create of what exists will not."""
        return not (self.verb == "create" and self.existed)

    @property
    def writes(self) -> bool:
        """Whether it brings an object about, under whatever condition."""
        return self.verb in ("create", "write") and self.takes_place

    @property
    def who(self) -> str:
        """The process in words."""
        return f"{self.process.name} (epoch {self.process.epoch}{', late' if self.is_late else ''})"

    @property
    def document(self) -> Mapping[str, object]:
        """The JSON that is written; empty if it is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A key of Spark's logs: `generations/<n>/<query>/<log>/<batch>`."""

    generation: int
    log: str
    batch: int

    @classmethod
    def of(cls, key: str) -> LogEntry | None:
        parts = key.removeprefix(f"{ROOT}/").split("/")
        if len(parts) != 5 or parts[0] != "generations" or parts[3] not in ("offsets", "commits"):
            return None
        return cls(int(parts[1]), parts[3], int(parts[4])) if parts[4].isdigit() else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A manifest, and what it names: the size of each file by its key in the bucket."""

    key: str
    id: int
    is_checkpoint: bool
    epoch: int
    offset: int
    files: Mapping[str, int]

    @classmethod
    def of(cls, key: str, body: bytes) -> Snapshot | None:
        """Read a manifest; None if the key is no manifest's, or a savepoint is given up."""
        found = _MANIFEST.match(key)
        if found is None or not body:
            return None
        document = json.loads(body)
        is_checkpoint = document["kind"] == "checkpoint"
        below = ROOT if is_checkpoint else found["folder"]
        files = {
            f"{below}/{query['path']}/{file['path']}": int(file["sizeBytes"])
            for query in document["queries"]
            for file in query.get("files", ())
        }
        offsets = [json.loads(query["offsets"][0])["offset"] for query in document["queries"] if query.get("offsets")]
        return cls(key, document["id"], is_checkpoint, document["epoch"], max(offsets, default=0), files)


@dataclass(frozen=True, slots=True)
class Shown:
    """A batch that a sink has made visible."""

    rows: tuple[truth.Row, ...]
    generation: int
    batch: int
    epoch: int


@dataclass
class Record:
    """Facts of one run.

    Attributes:
        bucket: The bucket as it is.
        retained: How many checkpoints the job retains.
        claims: Who claimed each epoch.
        checkpoints_at_claim: The highest checkpoint that was complete when an epoch was claimed.
        reservers: Who reserved each generation.
        published: The epoch of each generation that was brought into use.
        closed: Generations that are closed off.
        writers: The epoch and the batch of the newest entry of each log of each generation.
        committed: How many records are committed in each generation.
        snapshots: The manifests that exist.
        needed: The manifests that need each file.
        completed: Every number of a checkpoint that was ever complete.
        overtaken: Manifests that arrived when a later checkpoint was complete, or once more after their snapshot had been
            deleted: its files may be gone.
        deleted: Manifests that were deleted.
        covered: How many records were ever in a completed snapshot; a stop with a savepoint shows what is in it.
        visible: Rows that a reader of the target sees, in order.
        has_gone_back: Whether somebody asked for older state, so that records may come again in another generation.
    """

    bucket: ObjectStore
    retained: int
    claims: dict[int, str] = field(default_factory=dict)
    checkpoints_at_claim: dict[int, int] = field(default_factory=dict)
    reservers: dict[int, str] = field(default_factory=dict)
    published: dict[int, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    writers: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    needed: dict[str, set[str]] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    overtaken: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    covered: int = 0
    visible: list[truth.Row] = field(default_factory=list)
    has_gone_back: bool = False

    @property
    def newest_epoch(self) -> int:
        """The epoch that owns the job."""
        return max(self.claims, default=0)

    @property
    def newest_checkpoint(self) -> int:
        """The highest number of a checkpoint that was ever complete."""
        return max(self.completed, default=0)

    @property
    def in_use(self) -> int:
        """The generation in use, 0 before the first."""
        return max(self.published, default=0)

    def newest_entry(self, entry: LogEntry) -> tuple[int, int]:
        """Return the epoch and the batch of the newest entry of the same log."""
        return self.writers.get((entry.generation, entry.log), (0, -1))

    def about(self, process: faults.FaultyProcess, verb: str, key: str, body: bytes) -> Effect:
        """Describe an effect that is about to happen."""
        fiber = fibers.current()
        is_late = fiber is None or fiber.process is not process
        return Effect(
            process,
            verb,
            key,
            body,
            existed=self.bucket.info(key) is not None,
            is_late=is_late,
            has_looked=is_late or (fiber is not None and fiber.has_looked),
        )

    def note(self, effect: Effect) -> None:
        """Keep what an effect changes, if it takes place."""
        if effect.verb == "delete":
            self._forget_snapshot(effect.key)
        elif effect.writes:
            self._note_number(effect)
            self._note_log(effect)
            self._note_snapshot(effect)

    def note_shown(self, shown: Shown) -> None:
        """Keep the rows that have become visible."""
        self.visible += shown.rows

    def is_overtaken(self, effect: Effect, snapshot: Snapshot) -> bool:
        """Tell whether a manifest arrives so late that nobody has kept its files for it."""
        comes_again = effect.is_late and effect.key in self.deleted
        return comes_again or (snapshot.is_checkpoint and snapshot.id < self.newest_checkpoint)

    def holds(self, snapshot: Snapshot, key: str) -> bool:
        """Tell whether a file of a snapshot is as large as the manifest says."""
        info = self.bucket.info(key)
        return info is not None and info.size_bytes == snapshot.files[key]

    def _note_number(self, effect: Effect) -> None:
        found = _NUMBER.match(effect.key)
        if found is None:
            return
        number, rest = int(found["number"]), found["rest"]
        if found["kind"] == "epochs":
            self.claims[number] = effect.process.name
            self.checkpoints_at_claim[number] = self.newest_checkpoint
        elif rest == "/reserved.json":
            self.reservers[number] = effect.process.name
        elif rest == "/generation.json" and effect.document.get("abandoned"):
            self.closed.add(number)
        elif rest == "/generation.json":
            self.published[number] = effect.process.epoch
            queries = effect.document.get("queries") or []
            assert isinstance(queries, list)
            offsets = [json.loads(query["offsets"][0])["offset"] for query in queries if query.get("offsets")]
            self.committed[number] = max(offsets, default=0)

    def _note_log(self, effect: Effect) -> None:
        entry = LogEntry.of(effect.key)
        if entry is None:
            return
        if entry.batch < self.newest_entry(entry)[1]:
            return
        self.writers[entry.generation, entry.log] = effect.process.epoch, entry.batch
        if entry.log == "commits":
            root = effect.key.rsplit("/", 2)[0]
            self.committed[entry.generation] = truth.read_offset(self.bucket, root, entry.batch)

    def _note_snapshot(self, effect: Effect) -> None:
        snapshot = Snapshot.of(effect.key, effect.body)
        if snapshot is None:
            return
        self.overtaken |= {effect.key} if self.is_overtaken(effect, snapshot) else set()
        if snapshot.is_checkpoint:
            self.completed.add(snapshot.id)
        self.covered = max(self.covered, snapshot.offset)
        self.snapshots[effect.key] = snapshot
        for key in snapshot.files:
            self.needed.setdefault(key, set()).add(effect.key)

    def _forget_snapshot(self, key: str) -> None:
        snapshot = self.snapshots.pop(key, None)
        self.deleted |= {key} if snapshot else set()
        for file in snapshot.files if snapshot else ():
            self.needed[file].discard(key)


def shown_of(rows: list[truth.Row], context: SinkContext) -> Shown:
    """Describe a batch that becomes visible."""
    return Shown(tuple(rows), context.generation, context.batch_id, context.committing_epoch)
