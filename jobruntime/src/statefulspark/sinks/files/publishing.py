"""What changes the commit files of a files sink: publishing a batch, withdrawing it, and fencing late requests.

Every change is conditional: a create, or a replacement of the version that was read. Nothing is deleted, so a used name
stays used, and late requests of an older driver fail.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from statefulspark import clock, errors
from statefulspark.contract.manifest import Position
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import marker_errors
from statefulspark.sinks.files import commits
from statefulspark.sinks.files.commits import BatchCommit, PartFile, PreparedFiles

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore

_log = logging.getLogger(__name__)


def publish(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Write a batch's commit file unless this generation or a newer one has committed the batch.

    If two drivers commit at once, the conditional create succeeds for one. The other one, and a driver that was replaced,
    never overwrites the commit of who owns the folder, however late its request arrives.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
        FencedError: Another driver has opened the folder, or has committed the batch with other files.
        StateUnknownError: `SinkMarkerMissing`.
        SinkBehindError: The folder lacks batches that were committed.
        StateUnknownError: `StagedRowsMissing`: the folder does not have the files that the commit would list.
    """
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    commit = _commit_of(context, files=prepared.files)
    is_new = context.position == _own_position(context) and context.epoch == context.committing_epoch
    present = None if is_new else commits.read(store, context.batch_id)
    # The owner is asked after each look at the commit file: what a later owner writes has another version.
    if commits.is_of_another_folder(store, context):
        return
    while present is None or not _is_settled(present.body, commit, store, context):
        there = _files_there(store, prepared, context)
        _keep(store, present)
        if commits.put(store, commit.model_copy(update={"files": there}), present):
            return
        present = commits.read(store, context.batch_id)
        commits.require_still_open(store, context)


def withdraw(store: ObjectStore, context: SinkContext) -> None:
    """Withdraw commits after the restored snapshot, write a fence after the last one, and bring back what was withdrawn.

    The state that the job continues from does not contain these, whichever generation and lineage they are of. Commits have
    no gaps, so the first number without a commit ends the search; the newest commit is withdrawn first. A job that comes
    forward again gets the commits back that its state contains and that were withdrawn in between, the oldest first.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
        FencedError: A newer driver is doing the same.
    """
    last, returning = _write_fence(store, context), commits.returning(store, context)
    lowest = min([context.batch_id, *(commit.batch_id - 1 for commit in returning)])
    for batch in range(last - 1, lowest, -1):
        _withdraw_batch(store, batch, context)
    for commit in returning:
        _bring_back(store, commit, context)
    if _may_have_gap(store, context):
        # Readers end before a gap. Batches whose loss is accepted, or that went to another folder, get withdrawn commits.
        before = max(
            (number for number in commits.listed(store) if number <= context.batch_id), default=context.batch_id
        )
        for batch in range(before + 1, context.batch_id + 1):
            commits.put(store, _tombstone(batch, context), None)


def _may_have_gap(store: ObjectStore, context: SinkContext) -> bool:
    """Tell whether numbers before the restored batch may have no commit; a start that had the right may not have ended."""
    kept_after = context.expected.kept_after
    if SinkRight.LOSE in context.descent.rights or context.expected.elsewhere is not None:
        return True
    return kept_after is not None and store.info(commits.commit_key(kept_after.batch_id)) is None


def _withdraw_batch(store: ObjectStore, batch: int, context: SinkContext) -> None:
    """Withdraw the commit of a batch if there is one, and keep it."""
    while True:
        present = commits.read(store, batch)
        if present is None or (_is_of_this_start(present.body, store, context) and present.body.withdrawn):
            return
        commits.require_still_open(store, context)
        _keep(store, present)
        if commits.put(store, _tombstone(batch, context), present):
            return


def _bring_back(store: ObjectStore, commit: BatchCommit, context: SinkContext) -> None:
    while True:
        present = commits.read(store, commit.batch_id)
        if present is not None and present.body.files == commit.files and not present.body.withdrawn:
            return
        commits.require_still_open(store, context)
        if commits.put(store, commit, present):
            return


def _keep(store: ObjectStore, present: commits.StoredVersion[BatchCommit] | None) -> None:
    if present is not None and not present.body.withdrawn:
        commits.keep_withdrawn(store, present.body)


def _tombstone(batch: int, context: SinkContext) -> BatchCommit:
    return _commit_of(context, files=(), batch_id=batch, withdrawn=True)


def discard(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Delete the files of a transaction, unless a commit of the batch lists them, also one that was withdrawn."""
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    present = commits.read(store, context.batch_id)
    shown = () if present is None else (present.body,)
    listed = {
        file.path for commit in (*shown, *commits.read_withdrawn(store, context.batch_id)) for file in commit.files
    }
    store.delete_many([file.path for file in prepared.files if file.path not in listed])


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


def _write_fence(store: ObjectStore, context: SinkContext) -> int:
    """Write a fence under the first free number after the restored batch, and return the number."""
    while True:
        number = commits.last_commit(store, context) + 1
        newest = commits.read(store, number - 1) if number - 1 > context.batch_id else None
        if newest is not None and newest.body.withdrawn and _is_of_this_start(newest.body, store, context):
            return number - 1
        if commits.put(store, _tombstone(number, context), None):
            return number


def _is_settled(present: BatchCommit, commit: BatchCommit, store: ObjectStore, context: SinkContext) -> bool:
    """Tell whether a batch needs no commit any more; False if the present commit must be replaced.

    A withdrawn commit is replaced, and so is one of another driver under this number: the job had gone back to an older
    snapshot, and was then restored from one that contains this batch; or it has taken the folder over from another copy of
    the state.
    The caller has asked who owns the folder after it has read the present commit.

    Raises:
        FencedError: A newer driver wrote the present commit.
    """
    commits.require_own(present.sink, f"holds batch {present.batch_id} of {present.sink}", store, context)
    is_same = (present.lineage, present.generation) == (context.lineage, context.generation)
    if is_same and not present.withdrawn:
        return present.files == commit.files or _has_left_files_out(present, commit, store)
    present_order = context.descent.order(commits.position_of(present))
    own_order = context.descent.order(_own_position(context))
    is_newer = present_order is not None and own_order is not None and present_order[:2] > own_order[:2]
    if is_newer and SinkRight.REPEAT not in context.descent.rights:
        raise errors.FencedError(
            f"Batch {context.batch_id} of {store.uri} belongs to generation {present.generation} of the lineage "
            f"{present.lineage}, which writes there now; generation {context.generation} must not commit it "
            "any more."
        )
    return False


def _has_left_files_out(present: BatchCommit, commit: BatchCommit, store: ObjectStore) -> bool:
    """Tell whether the present commit is this one without the files that the folder had lost.

    A file in both proves it. A commit that has none may be of another copy of the state, whose batch had no rows.
    """
    if present.epoch != commit.epoch or not set(present.files) < set(commit.files):
        return False
    return bool(present.files) or not any(store.info_many([file.path for file in commit.files]).values())


def _own_position(context: SinkContext) -> Position:
    """Return the position of the driver itself, independent of the committed batch."""
    own = context.descent
    generation = context.generation if own.generation is None else own.generation
    return Position(lineage=own.lineage, generation=generation, batch_id=context.batch_id)


def _is_of_this_start(present: BatchCommit, store: ObjectStore, context: SinkContext) -> bool:
    """Tell whether a commit belongs to the generation that opens the folder. Which driver owns it, the owner tells."""
    commits.require_own(present.sink, f"holds batch {present.batch_id} of {present.sink}", store, context)
    own = _own_position(context)
    return (present.lineage, present.generation) == (own.lineage, own.generation)


def _files_there(store: ObjectStore, prepared: PreparedFiles, context: SinkContext) -> tuple[PartFile, ...]:
    """Return the files that a commit lists: all, or those that are left, if a person accepts that rows are lost.

    The folder may go back to a backup, or to a replica that lags, between the upload of a file and the commit, so each is
    looked up, whoever has written it. Cost: a HEAD for each file, concurrently.

    Raises:
        StateUnknownError: `StagedRowsMissing`.
    """
    infos = store.info_many([file.path for file in prepared.files])
    missing = [file.path for file in prepared.files if infos[file.path] is None]
    if not missing:
        return prepared.files
    if SinkRight.LOSE not in context.descent.rights:
        fitting = "start from a snapshot that is as old as the folder"
        if context.is_inherited:
            fitting = "copy the sink's folder as a whole if it was moved; or give the sink a new folder"
        raise errors.StateUnknownError(
            "StagedRowsMissing",
            f"Batch {context.batch_id} of the sink {context.uid} was prepared in generation {context.generation} and is "
            f"not committed, and its rows are not below {store.uri}: {missing[0]} does not exist ({len(missing)} of "
            f"{len(prepared.files)} are missing). Restore the objects; or {fitting}; or start with "
            f"{marker_errors.right(context, SinkRight.LOSE)}, which leaves out all rows whose files are not in {store.uri}.",
        )
    _log.warning(
        "rows that the folder of a sink has lost are left out",
        extra={"sink": context.uid, "batch": context.batch_id, "files": missing},
    )
    return tuple(file for file in prepared.files if infos[file.path] is not None)
