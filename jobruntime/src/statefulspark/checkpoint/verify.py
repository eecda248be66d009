"""Verification: every file of a snapshot exists, with the size and the content in the manifest.

Existence, size and etag come from one listing per query; files that it does not show are looked up by name. A different
etag is not a proof (a file that was moved to another bucket or disk may have a new one), so such a file is read and
compared by content. The small files that a start reads are always compared by content, since a store may return an
unchanged etag for a damaged file. `deep` reads every file that has a checksum. Packs are compared with their own checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors
from statefulspark.checkpoint import batch_records, catalog, checksums, listing, progress, sparklog
from statefulspark.contract import base
from statefulspark.contract.manifest import FileEntry, Manifest, QueryEntry
from statefulspark.packs import names as packs
from statefulspark.packs import packfile
from statefulspark.storage.port import ObjectInfo, ObjectStore

_MD5 = re.compile(r"^[0-9a-f]{32}$")


class ProblemKind(StrEnum):
    """What is wrong with a file."""

    MISSING = "Missing"
    """The file does not exist."""
    SIZE_DIFFERS = "SizeDiffers"
    """The file is shorter or longer: truncated or replaced."""
    CHECKSUM_DIFFERS = "ChecksumDiffers"
    """The content is not the content that was written."""
    UNREADABLE = "Unreadable"
    """The file exists and cannot be read."""
    NEWER = "Newer"
    """The file is undamaged, and only a later release can read its version."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken file.

    Attributes:
        path: Key below the store that was verified.
        kind: What is wrong.
        detail: Message for people.
    """

    path: str
    kind: ProblemKind
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Outcome of a verification.

    Attributes:
        files: Number of checked files.
        size_bytes: Their size according to the manifest.
        problems: Every broken file, in the manifest's order.
    """

    files: int
    size_bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The outcome in one sentence that names the first broken file."""
        if self.ok:
            return f"{self.files} files verified."
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.problems[0].detail}{more}"


def verify(store: ObjectStore, manifest: Manifest, *, root: str = "", deep: bool = False) -> VerifyReport:
    """Verify a snapshot.

    Args:
        store: The job's root, or the store that holds the savepoint.
        manifest: The snapshot's manifest.
        root: The folder to which the manifest's paths are relative: "" for a checkpoint, its own for a savepoint.
        deep: Read every file that has a checksum, instead of trusting equal etags.

    Returns:
        The problems; an empty list proves that the snapshot is complete now.

    Raises:
        TransientError: The store cannot be reached; this says nothing about the snapshot.
        StateUnknownError: The same.
    """
    return verify_queries(store, manifest.queries, root=root, deep=deep)


def verify_queries(
    store: ObjectStore,
    queries: Iterable[QueryEntry],
    *,
    root: str = "",
    deep: bool = False,
    on_progress: progress.Report = progress.ignored,
) -> VerifyReport:
    """Verify the files of queries; see `verify`. Cost: a LIST per query and 1,000 files below its path.

    `on_progress` is called for each query, and for each file that is read as a whole.
    """
    entries = tuple(queries)
    files = [file for query in entries for file in query.files]
    count = progress.FileCount([file.size_bytes for file in files], on_progress)
    problems = [
        problem for query in entries for problem in _query_problems(store, query, count=count, root=root, deep=deep)
    ]
    return VerifyReport(len(files), sum(file.size_bytes for file in files), tuple(problems))


def _query_problems(
    store: ObjectStore, query: QueryEntry, *, count: progress.FileCount, root: str, deep: bool
) -> Sequence[Problem]:
    if not query.files:
        return ()
    folder = f"{root}/{query.path}" if root else query.path
    listed = listing.below(store, folder, [file.path for file in query.files])
    problems = {file.path: _listing_problem(store.uri, folder, file, listed) for file in query.files}
    present = [file for file in query.files if problems[file.path] is None]
    small = [file for file in present if file.crc32 is not None or _is_checked_by_content(query, file)]
    bodies = catalog.read_present(store, [f"{folder}/{file.path}" for file in small]) if small else {}
    problems |= {file.path: _small_problem(store.uri, folder, file, query, bodies) for file in small}
    settled = {file.path for file in small if file.crc32 is not None}
    suspects = [
        file
        for file in present
        if problems[file.path] is None
        and file.path not in settled
        and (deep or file.checksum not in (None, f"etag:{listed[file.path].etag}"))
    ]
    suspected = {file.path for file in suspects}
    count.add(file.size_bytes for file in query.files if file.path not in suspected)
    for file in suspects:
        problems[file.path] = _content_problem(store, folder, file, listed)
        count.add((file.size_bytes,))
    return [problem for problem in problems.values() if problem is not None]


def _listing_problem(uri: str, folder: str, file: FileEntry, listed: Mapping[str, ObjectInfo]) -> Problem | None:
    key = f"{folder}/{file.path}"
    info = listed.get(file.path)
    if info is None:
        return Problem(key, ProblemKind.MISSING, f"{uri}/{key} does not exist.")
    if info.size_bytes != file.size_bytes:
        detail = f"{uri}/{key} has {info.size_bytes} bytes instead of {file.size_bytes}."
        return Problem(key, ProblemKind.SIZE_DIFFERS, detail)
    return None


def _is_checked_by_content(query: QueryEntry, file: FileEntry) -> bool:
    """Tell whether a file is checked by content although the manifest holds only its etag."""
    is_offsets = bool(query.offsets) and file.path == f"offsets/{query.batch_id}"
    return file.checksum is not None and (is_offsets or batch_records.of_key(file.path) is not None)


def _small_problem(
    uri: str, folder: str, file: FileEntry, query: QueryEntry, bodies: Mapping[str, bytes]
) -> Problem | None:
    key = f"{folder}/{file.path}"
    if key not in bodies:
        return Problem(key, ProblemKind.MISSING, f"{uri}/{key} does not exist any more.")
    body = bodies[key]
    if file.crc32 is not None and file.crc32 != base.crc32_hex(body):
        return Problem(key, ProblemKind.CHECKSUM_DIFFERS, f"{uri}/{key} is not the file that was written.")
    try:
        batch_records.require_readable(file.path, body, f"{uri}/{key}")
        is_offsets = file.path == f"offsets/{query.batch_id}" and query.offsets
        offsets = sparklog.parse_offsets(body, f"{uri}/{key}") if is_offsets else query.offsets
    except errors.FormatVersionError as error:
        return Problem(key, ProblemKind.NEWER, error.message)
    except errors.SnapshotCorruptError as error:
        return Problem(key, ProblemKind.UNREADABLE, error.message)
    if offsets != query.offsets:
        return Problem(key, ProblemKind.CHECKSUM_DIFFERS, f"{uri}/{key} has other offsets than the manifest.")
    return None


def _content_problem(
    store: ObjectStore, folder: str, file: FileEntry, listed: Mapping[str, ObjectInfo]
) -> Problem | None:
    key = f"{folder}/{file.path}"
    try:
        if packs.of_key(file.path) is not None:
            return _pack_problem(store, key)
        if _content_matches(store, folder, file, listed):
            return None
    except errors.ObjectNotFoundError:
        return Problem(key, ProblemKind.MISSING, f"{store.uri}/{key} does not exist any more.")
    return Problem(key, ProblemKind.CHECKSUM_DIFFERS, f"{store.uri}/{key} is not the file that was written.")


def _pack_problem(store: ObjectStore, key: str) -> Problem | None:
    """Compare a pack with its own checksums, which cover all of it; its name is used once."""
    try:
        packfile.require_sound(store.read(key), f"{store.uri}/{key}")
    except errors.FormatVersionError as error:
        return Problem(key, ProblemKind.NEWER, error.message)
    except errors.SnapshotCorruptError as error:
        return Problem(key, ProblemKind.CHECKSUM_DIFFERS, error.message)
    return None


def _content_matches(store: ObjectStore, folder: str, file: FileEntry, listed: Mapping[str, ObjectInfo]) -> bool:
    """Compare by content: with the recorded MD5; if that differs, with the checksum file if there is one."""
    body = store.read(f"{folder}/{file.path}")
    recorded = _recorded_md5(file)
    if recorded == checksums.md5_hex(body):
        return True
    spark, hadoop = checksums.spark_sidecar(file.path), checksums.hadoop_sidecar(file.path)
    if spark in listed:
        return checksums.matches_spark(body, store.read(f"{folder}/{spark}"))
    if hadoop in listed:
        return checksums.matches_hadoop(body, store.read(f"{folder}/{hadoop}"))
    return recorded is None


def _recorded_md5(file: FileEntry) -> str | None:
    """Return the etag if it can be the MD5 of the body, as on S3 for a file that was written with one PUT."""
    etag = (file.checksum or "").removeprefix("etag:")
    return etag if _MD5.match(etag) else None
