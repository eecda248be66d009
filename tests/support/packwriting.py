"""Packs on storage, as a worker writes them."""

from __future__ import annotations

from statefulspark.packs import names, packfile, ranges
from statefulspark.storage.port import ObjectStore

ATTEMPT = "0123456789abcdef"


def a_name(
    batch: int,
    *,
    tail: int | None = None,
    newest: int | None = None,
    partition: int = 0,
    partitions: int = 2,
    epoch: int = 1,
    attempt: str = ATTEMPT,
) -> names.PackName:
    """Return the name of a pack; one that says nothing of earlier ones, unless they are given."""
    oldest = batch if tail is None else tail
    before = names.Before(oldest, oldest if newest is None else newest)
    return names.PackName(partitions, partition, batch, epoch, attempt, before)


def put(store: ObjectStore, query_path: str, name: names.PackName, *, uid: str = "mean", body: bytes = b"chunk") -> str:
    """Write a pack with one chunk; return its path below the query's root."""
    pack = packfile.build(name.reference, [ranges.PackedChunk(0, 1, body)])
    path = names.key(uid, name.reference)
    store.create(f"{query_path}/{path}", pack.body)
    return path
