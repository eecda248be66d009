"""Files below a files sink's folder that no commit will ever list: found, and removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
"""A file younger than this may still be read by somebody who has seen a commit that was withdrawn."""
_BATCHES_PER_FOLDER = 1000
_SWEPT_BATCHES = 100
"""How far back opening looks for orphans."""
_FILE = re.compile(r"^(?P<batch>\d{8,})-(?P<attempt>(?P<generation>\d{8,})-\d{8,}-)?[0-9a-f]{32}\.parquet$")


def folder_of(batch_id: int) -> str:
    """Return the folder of a batch's files below the sink's uri."""
    return f"{DATA}/{layout.number(batch_id - batch_id % _BATCHES_PER_FOLDER)}"


def orphans(
    files: Iterable[ObjectInfo], commits: Mapping[int, BatchCommit], *, now: datetime, grace: timedelta = ORPHAN_GRACE
) -> tuple[str, ...]:
    """Find the files that no commit will ever list: their batch was committed without them. Pure.

    Files of batches that are not committed stay, since they may be prepared; so do files of generations newer than the
    commit, which is about to be replaced (or of an older lineage that had come further), and what is not understood.

    Args:
        files: Objects below the sink's uri, with keys relative to it.
        commits: The commits of their batches, as far as there are any.
        now: UTC.
        grace: Files younger than this stay.

    Returns:
        Their keys.
    """
    found = []
    for info in files:
        match = _FILE.match(info.key.rpartition("/")[2])
        commit = commits.get(int(match["batch"])) if match else None
        if match is None or commit is None or commit.withdrawn or now - info.modified_at < grace:
            continue
        is_newer = int(match["generation"] or 0) > commit.generation
        if not is_newer and info.key not in {file.path for file in commit.files}:
            found.append(info.key)
    return tuple(found)


def sweep(store: ObjectStore, *, through: int, now: datetime, grace: timedelta = ORPHAN_GRACE) -> tuple[str, ...]:
    """Delete the orphans of the latest batches up to one, as far as they are of another driver than the batch's other files.

    Cost: a LIST or two; a GET per batch that several drivers have written files for.
    """
    first = max(0, through - _SWEPT_BATCHES)
    folders = sorted({folder_of(first), folder_of(max(through, 0))})
    attempts: dict[int, set[str]] = {}
    latest = []
    for info in (info for folder in folders for info in store.list(folder)):
        match = _FILE.match(info.key.rpartition("/")[2])
        if match and first <= int(match["batch"]) <= through:
            attempts.setdefault(int(match["batch"]), set()).add(match["attempt"] or "")
            latest.append(info)
    return _remove(store, [info for info in latest if len(attempts[_batch_of(info.key)]) > 1], now, grace)


def remove_orphans(store: ObjectStore, *, now: datetime, grace: timedelta = ORPHAN_GRACE) -> tuple[str, ...]:
    """Delete every orphan below a sink's uri. Cost: a LIST per 1,000 files, a GET per batch."""
    return _remove(store, store.list(DATA), now, grace)


def _remove(store: ObjectStore, files: Iterable[ObjectInfo], now: datetime, grace: timedelta) -> tuple[str, ...]:
    old = [info for info in files if now - info.modified_at >= grace]
    batches = sorted({batch for info in old if (batch := _batch_of(info.key)) >= 0})
    present = {batch: batch_commits.read(store, batch) for batch in batches}
    keys = orphans(old, {batch: one.body for batch, one in present.items() if one}, now=now, grace=grace)
    store.delete_many(list(keys))
    return keys


def _batch_of(key: str) -> int:
    match = _FILE.match(key.rpartition("/")[2])
    return int(match["batch"]) if match else -1
