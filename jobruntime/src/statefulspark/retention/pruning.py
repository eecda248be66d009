"""Pruning on storage: reads the inventory, lets `rules` decide, and deletes.

Manifests are deleted first, then marks are written, then files are deleted that were marked before: a crash in between
leaves too many files, never too few. Of two concurrent pruners one writes the marks, and the other deletes no files. A
driver checks for a newer epoch before it deletes; the files that it deletes after the check were unneeded while it owned
the job.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, savepoint, sparklog, transfer
from statefulspark.contract import formats, layout
from statefulspark.contract.base import StoredDocument, UtcDatetime
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotKind
from statefulspark.recovery import candidates, claims, generations
from statefulspark.retention import rules
from statefulspark.storage import port
from statefulspark.storage.port import MOST_OF_A_MANIFEST, ObjectInfo, ObjectStore

_log = logging.getLogger(__name__)


class Marks(StoredDocument):
    """`prune/marks.json`: the unused files, and since when each is unused."""

    FORMAT: ClassVar = formats.PRUNE_MARKS
    format_version: int = formats.PRUNE_MARKS.writes

    unused_since: dict[str, UtcDatetime] = Field(default_factory=dict)


def plan(
    store: ObjectStore,
    policy: rules.PrunePolicy,
    now: datetime,
    *,
    pinned: Sequence[QueryEntry] = (),
    open_store: transfer.StoreOpener | None = None,
) -> rules.PrunePlan:
    """Plan a pruning; writes nothing.

    Cost: 5 listings, of which the one of `generations/` takes a request per 1,000 files; a GET per checkpoint,
    generation and for the marks with a HEAD, and one per unfinished generation and state snapshot that no checkpoint names
    yet.

    Args:
        store: The job's root.
        policy: How much is retained.
        now: UTC.
        pinned: Closures that are being copied, for a savepoint for example: their files are retained.
        open_store: Opens the location of a claimed snapshot outside the job's root; without it the snapshot is retained.

    Raises:
        TransientError: Storage cannot be reached.
    """
    inventory = replace(take_inventory(store), pinned=tuple(pinned))
    unnamed = rules.unnamed_snapshots(inventory, policy, now)
    ssts: dict[str, tuple[str, ...] | None] = {}
    for key, body in (catalog.read_present(store, unnamed) if unnamed else {}).items():
        try:
            files = sparklog.parse_snapshot_archive(body, f"{store.uri}/{key}")
            ssts[key] = tuple(f"{posixpath.dirname(key)}/SSTs/{file.name}" for file in files)
        except errors.SnapshotCorruptError:
            ssts[key] = None
    planned = rules.plan_prune(replace(inventory, ssts=ssts), policy, now)
    held = []
    for uri in planned.delete_claimed:
        with _left_if_unavailable(uri):
            where, folder = _parent_of(store, uri, open_store)
            if claims.is_held(where, folder, root=store.uri):
                held.append(uri)
    return replace(planned, delete_claimed=tuple(held), savepoints=inventory.savepoints)


def carry_out(
    store: ObjectStore,
    planned: rules.PrunePlan,
    now: datetime,
    *,
    open_store: transfer.StoreOpener | None = None,
    epoch: int | None = None,
) -> None:
    """Carry out a plan, but for the files that it deletes: `delete_files` follows.

    Cost: a DELETE for the manifests, a PUT, two HEADs with an epoch; per claimed snapshot, what deleting it costs; per
    generation that is closed off, a PUT.

    Args:
        store: The job's root.
        planned: From `plan`.
        now: UTC.
        open_store: As for `plan`.
        epoch: Epoch of the driver that prunes; None if no driver does.

    Raises:
        FencedError: A newer epoch owns the job.
        PreconditionFailedError: The marks have changed since the plan was made; no file may be deleted.
    """
    _require_current(store, epoch)
    store.delete_many(planned.delete_checkpoints)
    for uri in planned.delete_claimed:
        with _left_if_unavailable(uri):
            claims.delete(*_parent_of(store, uri, open_store), root=store.uri)
    if planned.close_off:
        generations.close_off(store, planned.close_off, epoch=epoch or epochs.newest(store) or 1, now=now)
    # The marks that the plan was made from are replaced: over newer ones, a file in use again could be deleted too soon.
    body = Marks(unused_since=dict(planned.marks)).to_json().encode()
    if not port.put_unless_changed(store, layout.PRUNE_MARKS, body, etag=planned.marks_etag):
        raise errors.ObjectChangedError(f"{store.uri}/{layout.PRUNE_MARKS}")


def delete_files(store: ObjectStore, keys: Sequence[str], *, epoch: int | None = None) -> None:
    """Delete files of a plan that is carried out, all or some of them. The call may be repeated.

    Cost: a DELETE per 500 objects; two HEADs with an epoch; as many and a PUT per savepoint that is given up.

    Args:
        store: The job's root.
        keys: Of the files.
        epoch: As for `carry_out`.

    Raises:
        FencedError: A newer epoch owns the job; no file was deleted.
    """
    folders = {folder for key in keys if (folder := _savepoint_of(key)) is not None}
    completed = set()
    for folder in sorted(folders):
        _require_current(store, epoch)  # A newer driver may be completing it.
        if not catalog.give_up(store, folder):
            completed.add(folder)
    _require_current(store, epoch)
    store.delete_many(tuple(key for key in keys if _savepoint_of(key) not in completed))


def _savepoint_of(key: str) -> str | None:
    """Return the folder of the savepoint that has a file; None if it is another file."""
    return "/".join(key.split("/")[:2]) if key.startswith(f"{layout.SAVEPOINTS}/") else None


def run(
    store: ObjectStore,
    policy: rules.PrunePolicy,
    now: datetime,
    *,
    pinned: Sequence[QueryEntry] = (),
    open_store: transfer.StoreOpener | None = None,
    epoch: int | None = None,
) -> rules.PrunePlan:
    """Plan a pruning and carry it out with all deletions; see `begin` and `delete_files`.

    Returns:
        The plan that was carried out.
    """
    planned = begin(store, policy, now, pinned=pinned, open_store=open_store, epoch=epoch)
    if planned.delete_files:
        delete_files(store, planned.delete_files, epoch=epoch)
    return planned


def begin(
    store: ObjectStore,
    policy: rules.PrunePolicy,
    now: datetime,
    *,
    pinned: Sequence[QueryEntry] = (),
    open_store: transfer.StoreOpener | None = None,
    epoch: int | None = None,
) -> rules.PrunePlan:
    """Plan a pruning and carry it out, but for the files that it deletes; see `plan` and `carry_out`."""
    planned = plan(store, policy, now, pinned=pinned, open_store=open_store)
    acts = planned.delete_checkpoints or planned.delete_files or planned.delete_claimed or planned.close_off
    if acts or dict(planned.marks) != _read_marks(store)[0]:
        carry_out(store, planned, now, open_store=open_store, epoch=epoch)
    return planned


def take_inventory(store: ObjectStore) -> rules.Inventory:
    """Read everything that the decision needs, except the contents of state snapshots.

    The files are listed before the manifests are read, so that a checkpoint that completes in between protects its listed
    files. In the other order a listed file could belong to a manifest that was not read.
    """
    files = store.list(layout.GENERATIONS)
    listed = catalog.list_all(store)
    refs = [ref for ref in listed.completed if ref.kind is SnapshotKind.CHECKPOINT]
    answers = catalog.read_manifests(store, refs)
    manifests = tuple(manifest for manifest in answers if isinstance(manifest, Manifest))
    marks, marks_etag = _read_marks(store)
    readable = {manifest.id for manifest in manifests}
    every_generation = generations.read_listed(store)
    leftovers = _leftovers(store, listed.unfinished)
    return rules.Inventory(
        checkpoints=manifests,
        unreadable=tuple(ref.id for ref in refs if ref.id not in readable),
        generations=every_generation,
        files=files,
        marks=marks,
        marks_etag=marks_etag,
        ssts={},
        leftovers=leftovers,
        savepoints=tuple(ref for ref in listed.completed if ref.kind is SnapshotKind.SAVEPOINT),
        carried_ahead=tuple(
            number
            for number in every_generation.unfinished
            if (record := generations.read_reservation(store, number)) is not None and record.standby is not None
        ),
    )


def _leftovers(store: ObjectStore, folders: Sequence[str]) -> tuple[ObjectInfo, ...]:
    """Return the files of savepoints without a manifest, if none of a savepoint was written after the newest epoch began.

    Both times are the object store's. The files of a driver that still copies under an older epoch are thereby retained; it
    is fenced when it tries to complete the savepoint. A folder with anything else is a person's: a date may look like the
    number of a savepoint, and have savepoints in it.
    """
    epoch = epochs.newest(store) if folders else None
    began = store.info(layout.epoch(epoch)) if epoch else None
    if began is None:
        return ()
    leftovers: list[ObjectInfo] = []
    for folder in folders:
        copied = [file for file in store.list(folder) if file.key != layout.snapshot_manifest(folder)]
        is_left = all(
            file.modified_at < began.modified_at and savepoint.is_part(file.key[len(folder) + 1 :]) for file in copied
        )
        leftovers += copied if is_left else ()
    return tuple(leftovers)


@contextlib.contextmanager
def _left_if_unavailable(uri: str) -> Iterator[None]:
    """Leave a claimed snapshot for the next pruning: its bucket may be gone for good, and the job's own files grow."""
    try:
        yield
    except errors.SpecRejectedError:
        return  # Nothing opens its location here.
    except (errors.TransientError, errors.StateUnknownError) as error:
        _log.warning("a claimed snapshot cannot be deleted now", extra={"uri": uri, "why": error.message})


def _parent_of(store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None) -> tuple[ObjectStore, str]:
    """Return a store that contains a snapshot, and the snapshot's folder below it."""
    parent, _, name = uri.rpartition("/")
    where, folder = candidates.locate(store, parent, open_store)
    return where, f"{folder}/{name}" if folder else name


def _require_current(store: ObjectStore, epoch: int | None) -> None:
    if epoch is not None:
        epochs.require_current(store, epoch)


def _read_marks(store: ObjectStore) -> tuple[dict[str, datetime], str | None]:
    """Read the marks and their etag; damaged marks are ignored, so that every file waits for the grace time again."""
    info = store.info(layout.PRUNE_MARKS)
    if info is None:
        return {}, None
    try:
        body = store.read(layout.PRUNE_MARKS, most_bytes=MOST_OF_A_MANIFEST)
        return dict(Marks.parse(body, f"{store.uri}/{layout.PRUNE_MARKS}").unused_since), info.etag
    except (errors.ObjectNotFoundError, errors.SnapshotCorruptError):
        return {}, info.etag
