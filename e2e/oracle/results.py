"""What the job has committed, read the way any consumer would: through the commit files of the sink and nothing else.

A batch is visible, once a checkpoint covers it, through `_commits/<batch, 8 digits>.json`, which lists the batch's Parquet
files; a file that no commit lists does not exist for a reader. A commit that is marked as withdrawn is none: a driver that
starts puts one where its predecessor might still commit, and replaces it by its own. This reader shares no code with the
sink.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, cast

import pyarrow.parquet

from oracle.truth import Fields

COMMITS = "_commits"


class ReadableStore(Protocol):
    """The part of the object store that a reader needs."""

    def read(self, key: str) -> bytes:
        """Return an object's body."""
        ...

    def read_many(self, keys: list[str]) -> Mapping[str, bytes]:
        """Return several bodies by key."""
        ...

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """Return the names directly below a folder, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch as its commit file tells it.

    Attributes:
        batch_id: The engine's number of the batch, from 0.
        files: Keys of its Parquet files, relative to the sink's folder; empty for a batch without output.
        rows: How many rows they hold.
        epoch: Number of the driver that wrote its rows.
        committed_at: When the sink wrote the commit, by the driver's clock.
    """

    batch_id: int
    epoch: int
    files: tuple[str, ...]
    rows: int
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one committed batch, in the order of its files."""

    batch_id: int
    rows: tuple[Fields, ...]


def read_commits(store: ReadableStore, after_batch: int = -1) -> tuple[Commit, ...]:
    """Read the commit files of a sink's folder in the order of batches.

    Args:
        store: Rooted at the sink's folder.
        after_batch: Leave out this batch and those before it.
    """
    names = [name for name in store.list_names(COMMITS) if name.endswith(".json")]
    keys = [f"{COMMITS}/{name}" for name in names if int(name.removesuffix(".json")) > after_batch]
    bodies = store.read_many(keys) if keys else {}
    return tuple(_parse(key, bodies[key]) for key in keys if not json.loads(bodies[key]).get("withdrawn"))


def last_batch(store: ReadableStore) -> int:
    """Return the number of the last committed batch, -1 before the first; it reads one commit file, of however many."""
    for name in reversed(store.list_names(COMMITS)):
        if name.endswith(".json") and not json.loads(store.read(f"{COMMITS}/{name}")).get("withdrawn"):
            return int(name.removesuffix(".json"))
    return -1


def read_batches(store: ReadableStore) -> tuple[Batch, ...]:
    """Read every row that is committed below a sink's folder."""
    return tuple(read_batch(store, commit) for commit in read_commits(store))


def read_batch(store: ReadableStore, commit: Commit) -> Batch:
    """Read the rows of one commit.

    Raises:
        ValueError: Its files hold another number of rows than it says.
    """
    bodies = store.read_many(list(commit.files)) if commit.files else {}
    rows: list[Fields] = []
    for file in commit.files:
        table = pyarrow.parquet.read_table(io.BytesIO(bodies[file]))
        rows.extend(cast("list[Fields]", table.to_pylist()))
    if len(rows) != commit.rows:
        raise ValueError(f"Batch {commit.batch_id} was committed with {commit.rows} rows; its files hold {len(rows)}.")
    return Batch(commit.batch_id, tuple(rows))


def _parse(key: str, body: bytes) -> Commit:
    document = json.loads(body)
    batch_id = int(document["batchId"])
    if key != f"{COMMITS}/{batch_id:08d}.json":
        raise ValueError(f"{key} says that it commits batch {batch_id}; its name says otherwise.")
    files = document["files"]
    return Commit(
        batch_id=batch_id,
        epoch=int(document["epoch"]),
        files=tuple(str(file["path"]) for file in files),
        rows=sum(int(file["rows"]) for file in files),
        committed_at=datetime.fromisoformat(document["committedAt"]),
    )
