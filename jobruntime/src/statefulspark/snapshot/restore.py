"""Restoring: a snapshot's files become the beginning of a new generation.

Files are copied on the server's side. Spark stores absolute paths in one place, `state/<op>/_metadata/v2/<batch>`; those
files are rewritten to the new root, and their checksum files, which would not match any more, are left behind. For a job
whose plan has changed, more of the small files are rewritten on the way; see `rewrite`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.contract import base, layout
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.snapshot import listing, progress, rewrite, smallfiles, transfer
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """Where a snapshot's files are.

    Attributes:
        store: Any store.
        root: What the manifest's paths are relative to: "" for a checkpoint, its folder for a savepoint.
    """

    store: ObjectStore
    root: str = ""

    def key(self, query: QueryEntry, path: str) -> str:
        """Return the key of one of a query's files."""
        folder = f"{self.root}/{query.path}" if self.root else query.path
        return f"{folder}/{path}"


def materialise(
    store: ObjectStore,
    source: SnapshotPlace,
    queries: Sequence[QueryEntry],
    generation: int,
    *,
    uids: Mapping[str, str] | None = None,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
    hadoop_root: str | None = None,
    on_progress: progress.Report | None = None,
) -> tuple[QueryEntry, ...]:
    """Copy queries of a snapshot into a generation that is reserved and not in use.

    Cost: a server-side copy per file, a GET and a PUT per stateful operator, a LIST per query and 1,000 files.

    Args:
        store: The job's root.
        source: Where the snapshot is.
        queries: What to copy; those without a committed batch need no file.
        generation: Its number.
        uids: New uid of a query by its old one; those not named keep theirs.
        rewrites: How a query changes on the way, by its old uid; those not named stay as they are.
        hadoop_root: URI of the job's root as Spark sees it; derived from the store when omitted.
        on_progress: Hears of every file that is copied.

    Returns:
        The queries as they are in the generation now.

    Raises:
        SnapshotCorruptError: `CopyIncomplete`: a file is not there after the copy, or has another size.
        ObjectNotFoundError: A file of the snapshot vanished.
    """
    moves = tuple(
        _Move(query, (rewrites or {}).get(query.uid) or rewrite.Rewrite.identity(query), path)
        for query in queries
        for path in [layout.query_root(generation, (uids or {}).get(query.uid, query.uid))]
    )
    copies = [
        (source.key(move.query, file.path), f"{move.path}/{place}", file.size_bytes)
        for move in moves
        for file, place in rewrite.files_to_copy(move.query, move.rewrite)
    ]
    on_files = progress.of_files([size_bytes for *_, size_bytes in copies], on_progress) if on_progress else None
    transfer.copy(source.store, store, [(old, new) for old, new, _ in copies], on_progress=on_files)
    hadoop = hadoop_root or transfer.hadoop_uri(store.uri)
    return tuple(_finish(store, source, move, hadoop) for move in moves)


@dataclass(frozen=True, slots=True)
class _Move:
    query: QueryEntry
    rewrite: rewrite.Rewrite
    path: str
    """Its new root."""


def _finish(store: ObjectStore, source: SnapshotPlace, move: _Move, hadoop: str) -> QueryEntry:
    """Write the files whose content changes, then describe the query as it is now."""
    uid = move.path.rsplit("/", 1)[1]
    query = rewrite.entry_after(move.query, move.rewrite).model_copy(update={"uid": uid, "path": move.path})
    if not query.files:
        return query
    changing = rewrite.files_to_rewrite(move.query, move.rewrite)
    bodies = source.store.read_many([source.key(move.query, old) for old, _ in changing]) if changing else {}
    coming = {place: file for file, place in rewrite.files_to_copy(move.query, move.rewrite)}
    for old, new in changing:
        key = source.key(move.query, old)
        body = move.rewrite.body(old, bodies[key], f"{source.store.uri}/{key}", f"{hadoop}/{move.path}")
        store.write(f"{move.path}/{new}", body)
        crc32 = base.crc32_hex(body) if smallfiles.is_small(new, len(body)) else None
        coming[new] = FileEntry(path=new, size_bytes=len(body), crc32=crc32)
    return query.model_copy(update={"files": _arrived(store, move.path, coming)})


def _arrived(store: ObjectStore, path: str, coming: Mapping[str, FileEntry]) -> tuple[FileEntry, ...]:
    listed = listing.below(store, path, coming)
    for name, file in coming.items():
        if name not in listed or listed[name].size_bytes != file.size_bytes:
            raise errors.SnapshotCorruptError(
                "CopyIncomplete",
                f"{store.uri}/{path}/{name} should have {file.size_bytes} bytes after the copy and "
                f"{f'has {listed[name].size_bytes}' if name in listed else 'does not exist'}; nothing was started. "
                "Verify the snapshot, then try again.",
            )
    return tuple(smallfiles.file_entry(name, listed[name], crc32=coming[name].crc32) for name in sorted(coming))
