"""Pruning on storage: take stock, let `prune` decide, and act.

Manifests go first, then marks are written, then files are deleted that had been marked before: a crash in between leaves
files too many, never too few. Two pruners at once do no harm.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import Field

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.base import StoredDocument, UtcDatetime
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotKind
from statefulspark.snapshot import catalog, generations, prune, sparklog
from statefulspark.storage.port import ObjectStore


class Marks(StoredDocument):
    """`prune/marks.json`: which files are unused, and since when."""

    unused_since: dict[str, UtcDatetime] = Field(default_factory=dict)


def plan(
    store: ObjectStore, policy: prune.PrunePolicy, now: datetime, *, pinned: Sequence[QueryEntry] = ()
) -> prune.PrunePlan:
    """Find out what a pruning would do; nothing is written.

    Cost: 5 listings, of which the one of `generations/` takes a request per 1,000 files; a GET per checkpoint,
    generation and for the marks, and one per state snapshot that no checkpoint names yet.

    Args:
        store: The job's root.
        policy: How much is kept.
        now: UTC.
        pinned: Closures that somebody is copying right now, a savepoint for example: their files stay.

    Raises:
        SnapshotCorruptError: A generation's record or a state snapshot is unreadable; nothing may be deleted.
        TransientError: Storage cannot be asked.
    """
    inventory = replace(take_stock(store), pinned=tuple(pinned))
    unnamed = prune.unnamed_snapshots(inventory, policy, now)
    return prune.plan_prune(replace(inventory, ssts=_needed_ssts(store, unnamed)), policy, now)


def carry_out(store: ObjectStore, planned: prune.PrunePlan) -> None:
    """Do what was planned. Cost: a DELETE per 1,000 objects, one PUT."""
    store.delete_many(planned.delete_checkpoints)
    marks = Marks(unused_since=dict(planned.marks))
    store.write(layout.PRUNE_MARKS, marks.to_json().encode())
    store.delete_many(planned.delete_files)


def run(
    store: ObjectStore, policy: prune.PrunePolicy, now: datetime, *, pinned: Sequence[QueryEntry] = ()
) -> prune.PrunePlan:
    """Plan a pruning and carry it out; see `plan` and `carry_out`.

    Returns:
        What was done.
    """
    planned = plan(store, policy, now, pinned=pinned)
    if planned.delete_checkpoints or planned.delete_files or dict(planned.marks) != _read_marks(store):
        carry_out(store, planned)
    return planned


def take_stock(store: ObjectStore) -> prune.Inventory:
    """Look at everything the decision needs but the state snapshots' contents.

    The files are listed before the manifests are read: a checkpoint that completes in between then protects files that
    were listed, while the other way round a listed file could belong to a manifest that was not read.
    """
    files = store.list(layout.GENERATIONS)
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is SnapshotKind.CHECKPOINT]
    found = catalog.read_manifests(store, refs)
    manifests = tuple(manifest for manifest in found if isinstance(manifest, Manifest))
    readable = {manifest.id for manifest in manifests}
    return prune.Inventory(
        checkpoints=manifests,
        unreadable=tuple(ref.id for ref in refs if ref.id not in readable),
        known=generations.read_all(store),
        files=files,
        marks=_read_marks(store),
        ssts={},
    )


def _needed_ssts(store: ObjectStore, snapshots: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    bodies = store.read_many(snapshots) if snapshots else {}
    return {
        key: tuple(
            f"{posixpath.dirname(key)}/SSTs/{file.name}"
            for file in sparklog.parse_snapshot_archive(body, f"{store.uri}/{key}")
        )
        for key, body in bodies.items()
    }


def _read_marks(store: ObjectStore) -> dict[str, datetime]:
    """Read the marks; damaged ones count as none, which only makes every file wait once more."""
    try:
        body = store.read(layout.PRUNE_MARKS)
        return dict(Marks.parse(body, f"{store.uri}/{layout.PRUNE_MARKS}").unused_since)
    except (errors.ObjectNotFoundError, errors.SnapshotCorruptError):
        return {}
