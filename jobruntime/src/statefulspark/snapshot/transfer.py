"""Copies of files between two places on storage, on the server's side wherever it can be.

Inside one store, or inside one bucket, no byte passes this process. Between buckets the files are read and written, a
few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent import futures
from urllib.parse import urlsplit

from statefulspark.storage.port import ObjectStore

_CONCURRENCY = 8

StoreOpener = Callable[[str], ObjectStore]
"""Opens the store rooted at a URI."""


def copy(
    source: ObjectStore,
    target: ObjectStore,
    pairs: Sequence[tuple[str, str]],
    *,
    open_store: StoreOpener | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Copy objects; existing targets are overwritten, and repeating the call is safe.

    Args:
        source: Where the first of each pair is.
        target: Where the second of each pair goes.
        pairs: Keys.
        open_store: Lets copies inside one bucket stay on the server when the two stores have different roots.
        on_progress: Called with the number of files done.

    Raises:
        ObjectNotFoundError: A source is proven absent.
    """
    if not pairs:
        return
    if source.uri == target.uri:
        target.copy_many(pairs, on_progress=on_progress)
        return
    common = common_root(source.uri, target.uri)
    if common is not None and open_store is not None:
        above = open_store(common)
        from_prefix, to_prefix = _below(source.uri, common), _below(target.uri, common)
        above.copy_many([(from_prefix + old, to_prefix + new) for old, new in pairs], on_progress=on_progress)
        return
    _stream(source, target, pairs, on_progress)


def common_root(uri: str, other: str) -> str | None:
    """Return the deepest folder that contains both URIs, None if they share no bucket (or, as files, no folder)."""
    first, second = urlsplit(uri), urlsplit(other)
    if (first.scheme, first.netloc) != (second.scheme, second.netloc):
        return None
    shared: list[str] = []
    for left, right in zip(first.path.split("/"), second.path.split("/"), strict=False):
        if left != right:
            break
        shared.append(left)
    path = "/".join(shared)
    if not first.netloc and not path.strip("/"):
        return None
    return f"{first.scheme}://{first.netloc}{path}"


def hadoop_uri(uri: str) -> str:
    """Return a store's URI in the form that Spark uses: `s3a://` for `s3://`."""
    return f"s3a://{uri[5:]}" if uri.startswith("s3://") else uri


def _below(uri: str, common: str) -> str:
    rest = uri[len(common) :].strip("/")
    return f"{rest}/" if rest else ""


def _stream(
    source: ObjectStore,
    target: ObjectStore,
    pairs: Sequence[tuple[str, str]],
    on_progress: Callable[[int], None] | None,
) -> None:
    with futures.ThreadPoolExecutor(_CONCURRENCY) as pool:
        copies = [pool.submit(_copy_one, source, target, old, new) for old, new in pairs]
        for done, finished in enumerate(futures.as_completed(copies), start=1):
            finished.result()
            if on_progress:
                on_progress(done)


def _copy_one(source: ObjectStore, target: ObjectStore, old: str, new: str) -> None:
    target.write(new, source.read(old))
