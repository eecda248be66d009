"""The documents in the folder of a files sink: its commit files, and the owner of the folder.

The commit files tell what the sink has, the owner tells which driver may go on with it. `publishing` changes the former.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from statefulspark import errors
from statefulspark.checkpoint import listing
from statefulspark.contract import base, formats, layout
from statefulspark.contract.manifest import Position
from statefulspark.sinks import marker, standing
from statefulspark.sinks.standing import Expected
from statefulspark.storage import port

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore

_Document = TypeVar("_Document", bound=base.StoredDocument)

COMMITS = "_commits"
SINK = "_sink.json"
WITHDRAWN = "_withdrawn"


class PartFile(base.WireModel):
    """One Parquet file of a batch."""

    path: str
    """Relative to the sink's uri."""
    rows: int
    size_bytes: int


class BatchCommit(base.StoredDocument):
    """The commit file of a batch, which readers use."""

    FORMAT: ClassVar = formats.COMMIT
    format_version: int = formats.COMMIT.writes

    batch_id: int
    epoch: int
    """Epoch of the driver that wrote the rows."""
    committed_at: base.UtcDatetime
    files: tuple[PartFile, ...]
    generation: int
    """Generation of the batch."""
    sink: str
    """Transactional id of the sink that owns the folder."""
    lineage: str
    """Identity of the root in which the batch ran."""
    withdrawn: bool | None = None
    """True if the batch is not committed: a reader finds no rows, and a commit that arrives late finds the name taken."""


class FolderOwner(base.StoredDocument):
    """`_sink.json`: the sink that opened the folder last."""

    FORMAT: ClassVar = formats.FOLDER_OWNER
    format_version: int = formats.FOLDER_OWNER.writes

    sink: str
    """Its transactional id."""
    marker: marker.Marker
    """The driver that opened it. The commit files tell the positions; here are those whose absence somebody has accepted."""

    @classmethod
    def parse(cls, body: bytes, source: str) -> Self:
        """Read the owner of a folder, and refuse a marker of a later release."""
        owner = super().parse(body, source)
        formats.MARKER.require_known(owner.marker.format_version, source)
        return owner


class PreparedFiles(base.StoredDocument):
    """The transaction of a batch: the files that its commit will list."""

    FORMAT: ClassVar = formats.PREPARED_FILES
    format_version: int = formats.PREPARED_FILES.writes

    files: tuple[PartFile, ...]


def commit_key(batch_id: int) -> str:
    """Return the key of a batch's commit file below the sink's uri."""
    return f"{COMMITS}/{layout.number(batch_id)}.json"


def read_commits(store: ObjectStore) -> tuple[BatchCommit, ...]:
    """Return every committed batch in order.

    Args:
        store: Rooted at the sink's uri.

    Raises:
        SnapshotCorruptError: A commit file cannot be read.
    """
    keys = [f"{COMMITS}/{name}" for name in store.list_names(COMMITS) if name.endswith(".json")]
    bodies = store.read_many(keys)
    commits = (_parse(store, key, bodies[key]) for key in keys)
    return tuple(commit for commit in commits if not commit.withdrawn)


def claim_folder(store: ObjectStore, context: SinkContext) -> None:
    """Write the owner of the folder; see `FilesMachine.open`. Idempotent."""
    while True:
        present = _owner(store)
        before = () if present is None else present.body.marker.committed
        own = None if present is None else _opened(present.body, store, context)
        opened, stored = marker.open_marker(own, context, store.uri, withdraws=True), context.continues or own
        shown = () if stored is None else tuple(position for position in stored.committed if position not in before)
        accepted = tuple(position for position in opened.committed if position not in shown)
        owner = FolderOwner(sink=context.transactional_id, marker=opened.model_copy(update={"committed": accepted}))
        body = owner.to_json().encode()
        if port.put_unless_changed(store, SINK, body, etag=None if present is None else present.etag):
            return


def stored_marker(store: ObjectStore, context: SinkContext) -> marker.Marker | None:
    """Return the marker of the folder; None if nobody has opened it. See `FilesSink.stored_marker`."""
    owner = _owner(store)
    return None if owner is None else _opened(owner.body, store, context)


def _opened(owner: FolderOwner, store: ObjectStore, context: SinkContext) -> marker.Marker | None:
    """Return the marker of the folder; None if its owner is the sink of a job from whose state this one started."""
    is_of_other = owner.sink != context.transactional_id and owner.sink in _own_names(context)
    return None if is_of_other else _reached_marker(owner, store, context, is_opening=True)


@dataclass(frozen=True, slots=True)
class StoredVersion(Generic[_Document]):
    """A stored document and the etag of the version that was read."""

    body: _Document
    etag: str


def read(store: ObjectStore, batch_id: int) -> StoredVersion[BatchCommit] | None:
    """Return the commit file of a batch, also a withdrawn one; None if there is none."""
    return _read_versioned(store, commit_key(batch_id), BatchCommit)


def require_still_open(store: ObjectStore, context: SinkContext) -> None:
    """Check that no other driver has opened the folder since; a job that took it over may be of another lineage."""
    owner = _owner(store)
    if owner is not None:
        marker.require_newest(owner.body.marker, replace(context, expected=Expected()), store.uri)


def _owner(store: ObjectStore) -> StoredVersion[FolderOwner] | None:
    return _read_versioned(store, SINK, FolderOwner)


def _read_versioned(store: ObjectStore, key: str, kind: type[_Document]) -> StoredVersion[_Document] | None:
    """Read a document before a change: the etag is read first, so a concurrent change makes the write fail."""
    info = store.info(key)
    if info is None:
        return None
    try:
        return StoredVersion(kind.parse(store.read(key), f"{store.uri}/{key}"), info.etag)
    except errors.ObjectNotFoundError:
        return None


def put(store: ObjectStore, commit: BatchCommit, present: StoredVersion[BatchCommit] | None) -> bool:
    """Write a commit conditionally; False if the stored version has changed. Cost: a PUT."""
    key, body = commit_key(commit.batch_id), commit.to_json().encode()
    return port.put_unless_changed(store, key, body, etag=None if present is None else present.etag)


def last_commit(store: ObjectStore, context: SinkContext) -> int:
    """Return the number of the last commit, or the restored batch if there is none after it.

    Numbers have no gap, but they begin where the first job in the folder began, which may be after batch 0. Only a start
    with empty state is before that: it lists the commits if there is no first one.
    """
    highest = listing.highest(store, context.batch_id, commit_key)
    return highest if highest >= 0 else _last_listed(store)


def _last_listed(store: ObjectStore) -> int:
    return max(listed(store), default=-1)


def listed(store: ObjectStore) -> tuple[int, ...]:
    """Return the numbers that have a commit file, also a withdrawn one. Cost: a LIST."""
    numbers = (layout.parse_number(name.removesuffix(".json")) for name in store.list_names(COMMITS))
    return tuple(number for number in numbers if number is not None)


def position_of(commit: BatchCommit) -> Position:
    """Return the batch of a commit among all batches."""
    return Position(lineage=commit.lineage, generation=commit.generation, batch_id=commit.batch_id)


def is_of_another_folder(store: ObjectStore, context: SinkContext) -> bool:
    """Check that the folder is as this driver left it; tell whether the batch belongs to the folder of an ancestor."""
    owner = _read_present(store, SINK, FolderOwner)
    reached = None if owner is None else _reached_marker(owner, store, context, is_opening=False)
    marker.require_newest(reached, context, store.uri)
    return owner is not None and owner.marker.known_to(context).has(context.position, context.descent)


def _reached_marker(owner: FolderOwner, store: ObjectStore, context: SinkContext, *, is_opening: bool) -> marker.Marker:
    """Return the owner's marker with the positions that are to be compared, as the commit files of their batches tell them.

    A batch that is committed again may be there, also where the loss of those before it was accepted.

    Cost: a GET for the batch that is known to be committed; if it is not, or the folder is opened, a few more.
    """
    require_own(owner.sink, f"belongs to {owner.sink}", store, context)
    expected = context.expected
    reached = owner.marker.known_to(context)
    if expected.committed is not None:
        reached = _count_commit(reached, store, expected.committed.batch_id, context)
    if not is_opening and not standing.lacks(reached, expected.committed, context):
        return reached
    compared = (expected.committed, expected.kept_after, None if is_opening else context.position)
    numbers = {position.batch_id for position in compared if position is not None}
    for number in sorted({*numbers, *_newest_shown(store, context)}):
        reached = _count_commit(reached, store, number, context)
    if is_opening and standing.compare(reached, context) is standing.Standing.OTHER_COPY:
        before = _before_replaced(store, context)
        if before is not None:
            return reached.model_copy(update={"committed": before})
    if not is_opening or expected.kept_after is None or not standing.lacks(reached, expected.kept_after, context):
        return reached
    # What opening brings back counts, too; what the folder shows stays the newest.
    if not returning(store, context):
        return reached
    there = [expected.kept_after]
    if expected.committed is not None and _kept(store, expected.committed.batch_id, context) is not None:
        there.append(expected.committed)
    has_more = tuple(position for position in there if standing.lacks(reached, position, context))
    return reached.model_copy(update={"committed": (*has_more[-1:], *reached.committed)})


def _before_replaced(store: ObjectStore, context: SinkContext) -> tuple[Position, ...] | None:
    """Return the last batch before those that another copy has committed in place of the state's own; None if none was.

    Numbers do not tell them apart, but what the copy has replaced is kept. Batches that the state sends again do not count.
    Cost: a GET and a LIST for the last of them, and for each one that was replaced.
    """
    kept_after, lowest = context.expected.kept_after, None
    for batch in range(-1 if kept_after is None else kept_after.batch_id, -1, -1):
        shown = _read_present(store, commit_key(batch), BatchCommit)
        if shown is None or shown.withdrawn:
            continue
        if all(commit.files == shown.files for commit in _kept_in_line(store, batch, context)):
            return None if lowest is None else (position_of(shown),)
        lowest = batch
    return None if lowest is None else ()


def _newest_shown(store: ObjectStore, context: SinkContext) -> tuple[int, ...]:
    """Return the newest batch that is not withdrawn, if there is one; numbers without a commit wait for one."""
    number = last_commit(store, context)
    if number >= 0 and store.info(commit_key(number)) is None:
        number = _last_listed(store)
    while number >= 0:
        commit = _read_present(store, commit_key(number), BatchCommit)
        if commit is not None and not commit.withdrawn:
            return (number,)
        is_gap = commit is None
        number = max((before for before in listed(store) if before < number), default=-1) if is_gap else number - 1
    return ()


def _count_commit(reached: marker.Marker, store: ObjectStore, number: int, context: SinkContext) -> marker.Marker:
    commit = _read_present(store, commit_key(number), BatchCommit)
    if commit is None or commit.withdrawn or reached.has(position_of(commit), context.descent):
        return reached
    return reached.counting(position_of(commit))


def keep_withdrawn(store: ObjectStore, commit: BatchCommit) -> None:
    """Keep a commit that is about to be withdrawn or replaced, for a job that comes forward again. Cost: a PUT."""
    name = f"{layout.number(commit.generation)}-{layout.number(commit.epoch)}-{commit.lineage}.json"
    store.write(f"{WITHDRAWN}/{layout.number(commit.batch_id)}/{name}", commit.to_json().encode())


def read_withdrawn(store: ObjectStore, batch: int) -> tuple[BatchCommit, ...]:
    """Return the commits of a batch that were withdrawn or replaced. Cost: a LIST, and a GET for each."""
    folder = f"{WITHDRAWN}/{layout.number(batch)}"
    bodies = store.read_many([f"{folder}/{name}" for name in store.list_names(folder)])
    return tuple(_parse(store, key, body) for key, body in bodies.items())


def returning(store: ObjectStore, context: SinkContext) -> tuple[BatchCommit, ...]:
    """Return the withdrawn commits that belong to the state of a start, in the order of batches.

    These are the batches that the state knows to be committed and has no transactions of any more, as far as the folder does
    not show them. Cost: a GET; for each batch that comes back also a LIST, and a HEAD for each file.

    Returns:
        None of them if one is not kept, or has lost a file.
    """
    kept_after, commits = context.expected.kept_after, list[BatchCommit]()
    for batch in range(-1 if kept_after is None else kept_after.batch_id, -1, -1):
        shown = _read_present(store, commit_key(batch), BatchCommit)
        if shown is not None and not shown.withdrawn and context.descent.contains(position_of(shown), context.position):
            break
        if shown is None and commits and not any(number < batch for number in listed(store)):
            break  # The folder begins after it.
        kept = _kept(store, batch, context)
        if kept is None:
            return ()
        commits.append(kept)
    return tuple(reversed(commits))


def _kept(store: ObjectStore, batch: int, context: SinkContext) -> BatchCommit | None:
    """Return the commit of a batch that was withdrawn, and that the state of a start is known to contain."""
    in_line = _kept_in_line(store, batch, context)
    newest = max(in_line, key=lambda commit: (commit.generation, commit.epoch), default=None)
    infos = store.info_many([] if newest is None else [file.path for file in newest.files])
    return None if None in infos.values() else newest


def _kept_in_line(store: ObjectStore, batch: int, context: SinkContext) -> list[BatchCommit]:
    """Return the commits of a batch that were withdrawn, and are of generations that the state has it of."""
    cuts = (context.position, *context.descent.line, *context.descent.cuts)
    ends = [(cut.lineage, cut.generation) for cut in cuts if batch <= cut.batch_id]
    return [commit for commit in read_withdrawn(store, batch) if (commit.lineage, commit.generation) in ends]


def _read_present(store: ObjectStore, key: str, kind: type[_Document]) -> _Document | None:
    try:
        return kind.parse(store.read(key), f"{store.uri}/{key}")
    except errors.ObjectNotFoundError:
        return None


def _parse(store: ObjectStore, key: str, body: bytes) -> BatchCommit:
    return BatchCommit.parse(body, f"{store.uri}/{key}")


def _own_names(context: SinkContext) -> frozenset[str]:
    others = (context.named(job).transactional_id for job in context.descent.other_jobs)
    return frozenset((context.transactional_id, *others))


def require_own(sink: str, what: str, store: ObjectStore, context: SinkContext) -> None:
    """Check that the folder is that of the sink, perhaps under the name of a job that this one continues."""
    if sink not in _own_names(context):
        raise errors.SpecRejectedError(
            "SinkFolderTaken",
            f"{store.uri} {what}, so the sink {context.uid!r} of {context.job} must not write there; give it its own "
            "folder.",
        )
