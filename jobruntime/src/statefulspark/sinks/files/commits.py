"""The commit files of a files sink: publishing a batch, withdrawing it, and fencing late requests.

Every change is conditional: a create, or a replacement of the version that was read. Nothing is deleted, so a used name
stays used, and late requests of an older driver fail.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from statefulspark import clock, errors
from statefulspark.checkpoint import listing
from statefulspark.contract import base, formats, layout
from statefulspark.contract.manifest import Position
from statefulspark.sinks import marker, standing
from statefulspark.sinks.standing import Expected
from statefulspark.storage import conditional

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore

_Document = TypeVar("_Document", bound=base.StoredDocument)

COMMITS = "_commits"
SINK = "_sink.json"


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
    """Write the owner of the folder; see `FilesSink.open`. Idempotent."""
    while True:
        present = _owner(store)
        before = () if present is None else present.body.marker.committed
        stored = context.continues or (None if present is None else _opened(present.body, store, context))
        opened = marker.open_marker(stored, context, store.uri, withdraws=True)
        shown = () if stored is None else tuple(position for position in stored.committed if position not in before)
        accepted = tuple(position for position in opened.committed if position not in shown)
        owner = FolderOwner(sink=context.transactional_id, marker=opened.model_copy(update={"committed": accepted}))
        body = owner.to_json().encode()
        if conditional.put(store, SINK, body, etag=None if present is None else present.etag):
            return


def stored_marker(store: ObjectStore, context: SinkContext) -> marker.Marker | None:
    """Return the marker of the folder; None if nobody has opened it. See `FilesSink.stored_marker`."""
    owner = _owner(store)
    return None if owner is None else _opened(owner.body, store, context)


def _opened(owner: FolderOwner, store: ObjectStore, context: SinkContext) -> marker.Marker | None:
    """Return the marker of the folder; None if its owner is the sink of a job from whose state this one started."""
    is_of_other = owner.sink != context.transactional_id and owner.sink in _own_names(context)
    return None if is_of_other else _with_commits(owner, store, context, is_opening=True)


def publish(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Write a batch's commit file unless this generation or a newer one has committed the batch.

    If two drivers commit at once, the conditional create succeeds for one; a replaced driver never overwrites the commit
    of its successor, however late its request arrives.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
        FencedError: Another driver has opened the folder, or has committed the batch with other files.
        StateUnknownError: `SinkMarkerMissing`.
        SinkBehindError: The folder lacks batches that were committed.
        StateUnknownError: `StagedRowsMissing`: rows that another generation or root prepared are not in this folder.
    """
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    if _belongs_to_another_folder(store, context):
        return
    commit = _commit_of(context, files=prepared.files)
    is_carried = context.position != _own_position(context)
    present = read(store, context.batch_id) if is_carried else None
    while present is None or not _is_settled(present.body, commit, store, context):
        if is_carried:
            _require_files(store, prepared, context)
        if _put(store, commit, present):
            return
        present = read(store, context.batch_id)


def withdraw(store: ObjectStore, context: SinkContext) -> tuple[int, ...]:
    """Withdraw commits after the restored snapshot, and write a fence after the last one.

    The state that the job continues from does not contain these, whichever generation and lineage they are of. Commits have
    no gaps, so the first number without a commit ends the search; the newest commit is withdrawn first.

    Returns:
        The batches withdrawn.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
        FencedError: A newer driver is doing the same.
    """
    tombstone = functools.partial(_commit_of, context, files=(), withdrawn=True)
    last = _write_fence(store, context, tombstone)
    withdrawn = []
    for batch in range(last - 1, context.batch_id, -1):
        while True:
            present = read(store, batch)
            if present is None or (_is_of_this_start(present.body, store, context) and present.body.withdrawn):
                break
            _require_still_open(store, context)
            if _put(store, tombstone(batch_id=batch), present):
                withdrawn += [] if present.body.withdrawn else [batch]
                break
    return tuple(withdrawn)


def discard(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Delete the files of a transaction, unless the batch's commit lists them."""
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    present = read(store, context.batch_id)
    listed = {file.path for file in present.body.files} if present is not None else set()
    store.delete_many([file.path for file in prepared.files if file.path not in listed])


@dataclass(frozen=True, slots=True)
class StoredVersion(Generic[_Document]):
    """A stored document and the etag of the version that was read."""

    body: _Document
    etag: str


def read(store: ObjectStore, batch_id: int) -> StoredVersion[BatchCommit] | None:
    """Return the commit file of a batch, also a withdrawn one; None if there is none."""
    return _read_versioned(store, commit_key(batch_id), BatchCommit)


def _require_still_open(store: ObjectStore, context: SinkContext) -> None:
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


def _put(store: ObjectStore, commit: BatchCommit, present: StoredVersion[BatchCommit] | None) -> bool:
    """Write a commit conditionally; False if the stored version has changed."""
    key, body = commit_key(commit.batch_id), commit.to_json().encode()
    return conditional.put(store, key, body, etag=None if present is None else present.etag)


def _commit_of(
    context: SinkContext, *, files: tuple[PartFile, ...], batch_id: int | None = None, withdrawn: bool | None = None
) -> BatchCommit:
    return BatchCommit(
        batch_id=context.batch_id if batch_id is None else batch_id,
        epoch=context.epoch,
        committed_at=clock.utc_now(),
        files=files,
        generation=context.generation,
        sink=context.transactional_id,
        lineage=context.lineage,
        withdrawn=withdrawn,
    )


def _write_fence(store: ObjectStore, context: SinkContext, tombstone: Callable[..., BatchCommit]) -> int:
    """Write a fence under the first free number after the restored batch, and return the number."""
    while True:
        number = _last_commit(store, context) + 1
        newest = read(store, number - 1) if number - 1 > context.batch_id else None
        if newest is not None and newest.body.withdrawn and _is_of_this_start(newest.body, store, context):
            return number - 1
        if _put(store, tombstone(batch_id=number), None):
            return number


def _last_commit(store: ObjectStore, context: SinkContext) -> int:
    """Return the number of the last commit, or the restored batch if there is none after it.

    Numbers have no gap, but they begin where the first job in the folder began, which may be after batch 0. Only a start
    with empty state is before that: it lists the commits if there is no first one.
    """
    highest = listing.highest(store, context.batch_id, commit_key)
    return highest if highest >= 0 else _last_listed(store)


def _last_listed(store: ObjectStore) -> int:
    numbers = (layout.parse_number(name.removesuffix(".json")) for name in store.list_names(COMMITS))
    return max((number for number in numbers if number is not None), default=-1)


def _is_settled(present: BatchCommit, commit: BatchCommit, store: ObjectStore, context: SinkContext) -> bool:
    """Tell whether a batch needs no commit any more; False if the present commit must be replaced.

    Replaced are withdrawn commits, and commits of another generation under this number: the job had gone back to an older
    snapshot, and was then restored from one that contains this batch.

    Raises:
        FencedError: Another driver wrote the present commit.
    """
    _require_own(present.sink, f"holds batch {present.batch_id} of {present.sink}", store, context)
    is_same = (present.lineage, present.generation) == (context.lineage, context.generation)
    if is_same and not present.withdrawn:
        if present.files != commit.files:
            raise errors.FencedError(
                f"Another driver has committed batch {present.batch_id} of {store.uri} with other files, in epoch "
                f"{present.epoch}."
            )
        return True
    present_order = _order(present, context)
    own_order = context.descent.order(_own_position(context))
    if present_order is None or own_order is None or present_order[:2] > own_order[:2]:
        raise errors.FencedError(
            f"Batch {context.batch_id} of {store.uri} belongs to generation {present.generation} of the lineage "
            f"{present.lineage}, which writes there now; generation {context.generation} must not commit it "
            "any more."
        )
    return False


def _own_position(context: SinkContext) -> Position:
    """Return the position of the driver itself, independent of the committed batch."""
    own = context.descent
    generation = context.generation if own.generation is None else own.generation
    return Position(lineage=own.lineage, generation=generation, batch_id=context.batch_id)


def _is_of_this_start(present: BatchCommit, store: ObjectStore, context: SinkContext) -> bool:
    """Tell whether a commit belongs to the generation that opens the folder.

    Raises:
        FencedError: It belongs to a newer one.
    """
    _require_own(present.sink, f"holds batch {present.batch_id} of {present.sink}", store, context)
    present_order, own_order = _order(present, context), context.descent.order(_own_position(context))
    if present_order is None or own_order is None or present_order[:2] < own_order[:2]:
        return False
    if present_order[:2] > own_order[:2]:
        raise errors.FencedError(
            f"Generation {present.generation} writes to {store.uri} now, so generation {context.generation} must not any "
            "more."
        )
    return True


def _order(commit: BatchCommit, context: SinkContext) -> tuple[int, int, int] | None:
    return context.descent.order(_position(commit))


def _position(commit: BatchCommit) -> Position:
    return Position(lineage=commit.lineage, generation=commit.generation, batch_id=commit.batch_id)


def _belongs_to_another_folder(store: ObjectStore, context: SinkContext) -> bool:
    """Check that the folder is as this driver left it; tell whether the batch belongs to the folder of an ancestor."""
    owner = _read_present(store, SINK, FolderOwner)
    reached = None if owner is None else _with_commits(owner, store, context, is_opening=False)
    marker.require_newest(reached, context, store.uri)
    return owner is not None and owner.marker.has(context.position, context.descent)


def _with_commits(owner: FolderOwner, store: ObjectStore, context: SinkContext, *, is_opening: bool) -> marker.Marker:
    """Return the owner's marker with the positions that are to be compared, as the commit files of their batches tell them.

    Cost: a GET for the batch that is known to be committed; if it is not, or the folder is opened, a few more.
    """
    _require_own(owner.sink, f"is that of {owner.sink}", store, context)
    expected = context.expected
    reached = owner.marker
    if expected.committed is not None:
        reached = _with_commit(reached, store, expected.committed.batch_id, context)
    if not is_opening and not standing.lacks(reached, expected.committed, context):
        return reached
    numbers = {position.batch_id for position in (expected.committed, expected.kept_after) if position is not None}
    for number in sorted({*numbers, *_newest_shown(store, context)}):
        reached = _with_commit(reached, store, number, context)
    return reached


def _newest_shown(store: ObjectStore, context: SinkContext) -> tuple[int, ...]:
    """Return the newest batch that is not withdrawn, if there is one."""
    newest = _last_commit(store, context)
    if newest >= 0 and store.info(commit_key(newest)) is None:
        newest = _last_listed(store)
    for number in range(newest, -1, -1):
        commit = _read_present(store, commit_key(number), BatchCommit)
        if commit is None or not commit.withdrawn:
            return () if commit is None else (number,)
    return ()


def _with_commit(reached: marker.Marker, store: ObjectStore, number: int, context: SinkContext) -> marker.Marker:
    commit = _read_present(store, commit_key(number), BatchCommit)
    if commit is None or commit.withdrawn or reached.has(_position(commit), context.descent):
        return reached
    return reached.counting(_position(commit))


def _read_present(store: ObjectStore, key: str, kind: type[_Document]) -> _Document | None:
    try:
        return kind.parse(store.read(key), f"{store.uri}/{key}")
    except errors.ObjectNotFoundError:
        return None


def _require_files(store: ObjectStore, prepared: PreparedFiles, context: SinkContext) -> None:
    """Check that files which another generation or root prepared exist before a commit lists them."""
    missing = [file.path for file in prepared.files if store.info(file.path) is None]
    if missing:
        raise errors.StateUnknownError(
            "StagedRowsMissing",
            f"Batch {context.batch_id} of the sink {context.uid} was prepared in generation {context.generation} and is not "
            f"committed, and its rows are not below {store.uri}: {missing[0]} does not exist. Restore the objects, or "
            "copy the sink's folder as a whole if it was moved, or give the sink a new folder.",
        )


def _parse(store: ObjectStore, key: str, body: bytes) -> BatchCommit:
    return BatchCommit.parse(body, f"{store.uri}/{key}")


def _own_names(context: SinkContext) -> frozenset[str]:
    others = (context.named(job).transactional_id for job in context.descent.other_jobs)
    return frozenset((context.transactional_id, *others))


def _require_own(sink: str, what: str, store: ObjectStore, context: SinkContext) -> None:
    """Check that the folder is that of the sink, perhaps under the name of a job that this one continues."""
    if sink not in _own_names(context):
        raise errors.SpecRejectedError(
            "SinkFolderTaken",
            f"{store.uri} {what}, so the sink {context.uid!r} of {context.job} must not write there; give it its own "
            "folder.",
        )
