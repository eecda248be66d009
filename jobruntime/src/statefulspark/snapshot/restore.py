"""Restoring: a snapshot's files become the beginning of a new generation.

Files are copied on the server's side. Spark stores absolute paths in one place, `state/<op>/_metadata/v2/<batch>`; those
files are rewritten to the new root, and their checksum files, which would not match any more, are left behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.snapshot import checksums, closure, sparklog, transfer
from statefulspark.storage.port import ObjectStore

_HOLDS_PATHS = re.compile(r"^state/\d+/_metadata/v2/\d+$")


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
    hadoop_root: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[QueryEntry, ...]:
    """Copy queries of a snapshot into a generation that is reserved and not in use.

    Cost: a server-side copy per file, a GET and a PUT per stateful operator, a LIST per query and 1,000 files.

    Args:
        store: The job's root.
        source: Where the snapshot is.
        queries: What to copy; those without a committed batch need no file.
        generation: Its number.
        uids: New uid of a query by its old one; those not named keep theirs.
        hadoop_root: URI of the job's root as Spark sees it; derived from the store when omitted.
        on_progress: Called with the number of files copied.

    Returns:
        The queries as they are in the generation now.

    Raises:
        SnapshotCorruptError: `CopyIncomplete`: a file is not there after the copy, or has another size.
        ObjectNotFoundError: A file of the snapshot vanished.
    """
    renamed = [(query, (uids or {}).get(query.uid, query.uid)) for query in queries]
    pairs = [
        (source.key(query, file.path), f"{layout.query_root(generation, uid)}/{file.path}")
        for query, uid in renamed
        for file in query.files
        if not _is_replaced(file.path)
    ]
    transfer.copy(source.store, store, pairs, on_progress=on_progress)
    hadoop = hadoop_root or transfer.hadoop_uri(store.uri)
    return tuple(_finish(store, source, query, layout.query_root(generation, uid), hadoop) for query, uid in renamed)


def holds_paths(path: str) -> bool:
    """Tell whether a file of a checkpoint root contains absolute paths and has to be rewritten when it moves."""
    return _HOLDS_PATHS.match(path) is not None


def _is_replaced(path: str) -> bool:
    """Tell whether a file is rewritten instead of copied, or is a checksum of such a file."""
    if holds_paths(path):
        return True
    if not checksums.is_sidecar(path):
        return False
    folder, _, name = path.rpartition("/")
    main = name.removesuffix(".crc").removesuffix(".crc")
    return holds_paths(f"{folder}/{main.removeprefix('.')}")


def _finish(store: ObjectStore, source: SnapshotPlace, query: QueryEntry, path: str, hadoop: str) -> QueryEntry:
    """Write the files that hold paths, then describe the query as it is now."""
    uid = path.rsplit("/", 1)[1]
    if not query.files:
        return query.model_copy(update={"uid": uid, "path": path})
    rewritten = [file.path for file in query.files if holds_paths(file.path)]
    bodies = source.store.read_many([source.key(query, name) for name in rewritten]) if rewritten else {}
    sizes = {file.path: file.size_bytes for file in query.files if not _is_replaced(file.path)}
    for name in rewritten:
        key = source.key(query, name)
        body = sparklog.relocate_schema_paths(bodies[key], f"{source.store.uri}/{key}", f"{hadoop}/{path}")
        store.write(f"{path}/{name}", body)
        sizes[name] = len(body)
    return query.model_copy(update={"uid": uid, "path": path, "files": _arrived(store, path, sizes)})


def _arrived(store: ObjectStore, path: str, sizes: Mapping[str, int]) -> tuple[FileEntry, ...]:
    listing = {info.key[len(path) + 1 :]: info for info in store.list(path)}
    for name, size_bytes in sizes.items():
        if name not in listing or listing[name].size_bytes != size_bytes:
            raise errors.SnapshotCorruptError(
                "CopyIncomplete",
                f"{store.uri}/{path}/{name} should have {size_bytes} bytes after the copy and "
                f"{f'has {listing[name].size_bytes}' if name in listing else 'does not exist'}; nothing was started. "
                "Verify the snapshot, then try again.",
            )
    return tuple(closure.file_entry(name, listing[name]) for name in sorted(sizes))
