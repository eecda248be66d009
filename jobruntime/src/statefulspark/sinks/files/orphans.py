"""Finds and removes files in the folder of a files sink that no commit will ever list."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from statefulspark.contract import layout
from statefulspark.sinks.files import commits as batch_commits

if TYPE_CHECKING:
    from statefulspark.sinks.files.commits import BatchCommit
    from statefulspark.storage import ObjectStore
    from statefulspark.storage.port import ObjectInfo

DATA = "data"
ORPHAN_GRACE = timedelta(hours=1)
"""A reader that has read a commit before its withdrawal may still read files younger than this."""
_BATCHES_PER_FOLDER = 1000
_SWEPT_BATCHES = 100
"""Number of latest batches that opening checks for orphans."""
_FILE = re.compile(
    r"^(?P<batch>\d{8,})-(?P<generation>\d{8,})-(?P<epoch>\d{8,})-(?P<root>[0-9a-f]{8})[0-9a-f]{24}\.parquet$"
)


def folder_of(batch_id: int) -> str:
    """Return the folder of a batch's files below the sink's uri."""
    return f"{DATA}/{layout.number(batch_id - batch_id % _BATCHES_PER_FOLDER)}"


def root_in_name(lineage: str) -> str:
    """Return what the name of a file says of the root that wrote it: two roots may have equal generations and batches."""
    return f"{zlib.crc32(lineage.encode()):08x}"


def orphans(files: Iterable[ObjectInfo], commits: Mapping[int, BatchCommit], *, now: datetime) -> tuple[str, ...]:
    """Find the files that no commit will ever list: their generation has committed their batch without them. Pure.

    Files of uncommitted batches stay, because they may be prepared. So do files of other generations and roots than the
    commit's: a snapshot of theirs may name them, and a start from it replaces the commit. Unknown names stay too.

    Args:
        files: Objects below the sink's uri, with keys relative to it.
        commits: The existing commits of their batches.
        now: UTC.

    Returns:
        Their keys.
    """
    keys = []
    for info in files:
        match = _FILE.match(info.key.rpartition("/")[2])
        commit = commits.get(int(match["batch"])) if match else None
        if match is None or commit is None or commit.withdrawn or now - info.modified_at < ORPHAN_GRACE:
            continue
        writer = (match["root"], int(match["generation"]))
        is_same = writer == (root_in_name(commit.lineage), commit.generation)
        if is_same and info.key not in {file.path for file in commit.files}:
            keys.append(info.key)
    return tuple(keys)


def sweep(store: ObjectStore, *, through: int, prepared: Collection[tuple[int, int]], now: datetime) -> None:
    """Delete orphans of the latest batches up to `through` that have files of several drivers of one generation.

    Args:
        store: Rooted at the sink's uri.
        through: The last batch.
        prepared: Batches that may be committed again, each with the epoch that wrote it: another copy of the state may have
            committed others under their numbers.
        now: UTC.

    Cost: one or two LISTs, and per batch with such files a GET, a LIST, and a GET per withdrawn commit.
    """
    first = max(0, through - _SWEPT_BATCHES)
    folders = sorted({folder_of(first), folder_of(max(through, 0))})
    by_generation: dict[tuple[str, str], dict[str, list[ObjectInfo]]] = {}
    for info in (info for folder in folders for info in store.list(folder)):
        match = _FILE.match(info.key.rpartition("/")[2])
        if match is None or (int(match["batch"]), int(match["epoch"])) in prepared:
            continue
        if first <= int(match["batch"]) <= through:
            epochs = by_generation.setdefault((match["batch"], match["generation"]), {})
            epochs.setdefault(match["epoch"], []).append(info)
    old: list[ObjectInfo] = []
    batches: set[int] = set()
    for (batch, _), epochs in by_generation.items():
        aged = [info for infos in epochs.values() for info in infos if now - info.modified_at >= ORPHAN_GRACE]
        if len(epochs) > 1 and aged:
            old += aged
            batches.add(int(batch))
    present = {batch: batch_commits.read(store, batch) for batch in sorted(batches)}
    keys = orphans(old, {batch: stored.body for batch, stored in present.items() if stored}, now=now)
    # Two copies of a state write in one generation. What one of them has withdrawn, the other one may bring back.
    kept = (commit for batch in sorted(batches) for commit in batch_commits.read_withdrawn(store, batch))
    listed = {file.path for commit in kept for file in commit.files}
    store.delete_many([key for key in keys if key not in listed])
