"""Copies files between two locations on storage, on the server's side if possible.

Between two locations on one server, also in different buckets, the server copies the files. Between different servers, or
a server and a disk, this process reads and writes the files, a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field

from statefulspark.checkpoint import read_cache
from statefulspark.contract.manifest import QueryEntry
from statefulspark.storage.port import ObjectStore

_CONCURRENCY = 8

StoreOpener = Callable[[str], ObjectStore]
"""Opens the store rooted at a URI."""


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """Where a snapshot's files are.

    Attributes:
        store: Any store.
        root: The folder to which the manifest's paths are relative: "" for a checkpoint, its folder for a savepoint.
        cache: Earlier reads of the store, if any.
    """

    store: ObjectStore
    root: str = ""
    cache: read_cache.ReadCache | None = field(default=None, compare=False, repr=False)

    @property
    def reader(self) -> ObjectStore:
        """The store to read from: the cache if there is one."""
        return self.cache or self.store

    def key(self, query: QueryEntry, path: str) -> str:
        """Return the key of one of a query's files."""
        folder = f"{self.root}/{query.path}" if self.root else query.path
        return f"{folder}/{path}"


def copy(
    source: ObjectStore,
    target: ObjectStore,
    pairs: Sequence[tuple[str, str]],
    *,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Copy objects; existing targets are overwritten, and repeating the call is safe.

    Args:
        source: Store of the first key of each pair.
        target: Store of the second key of each pair.
        pairs: Source and target keys.
        on_progress: Called with the number of copied files. An exception that it raises stops the copy.

    Raises:
        ObjectNotFoundError: A source does not exist.
    """
    if not pairs:
        return
    if target.can_copy_from(source):
        target.copy_from(source, pairs, on_progress=on_progress)
        return

    def copy_one(old: str, new: str) -> None:
        target.write(new, source.read(old))

    with futures.ThreadPoolExecutor(_CONCURRENCY) as pool:
        copies = [pool.submit(copy_one, old, new) for old, new in pairs]
        try:
            for done, finished in enumerate(futures.as_completed(copies), start=1):
                finished.result()
                if on_progress:
                    on_progress(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def hadoop_uri(uri: str) -> str:
    """Return a store's URI in the form that Spark uses: `s3a://` for `s3://`."""
    return f"s3a://{uri[5:]}" if uri.startswith("s3://") else uri
