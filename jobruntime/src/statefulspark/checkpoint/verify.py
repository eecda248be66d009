"""Verification: every file of a snapshot exists, with the size and the content in the manifest.

Existence, size and etag come from one listing per query; files that it does not show are looked up by name. A different
etag is not a proof (a file that was copied or encrypted anew may have a new one), so such a file is read and compared by
content. The small files that a start reads are always compared by content, since a store may return an unchanged etag for
a damaged file. `deep` reads every file. What vouches for a content is in `content`; packs and records have checksums of
their own. A file for which nothing vouches is no problem: the report names it, since only its size was compared.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors
from statefulspark.checkpoint import batch_records, catalog, checksums, content, listing, progress, sparklog
from statefulspark.contract import base
from statefulspark.contract.manifest import FileEntry, Manifest, QueryEntry
from statefulspark.packs import names as packs
from statefulspark.packs import packfile
from statefulspark.storage.port import ObjectInfo, ObjectStore

_IN_MEMORY_BYTES = 32 * 2**20
"""So much is read at once; a larger file alone."""


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
        uncompared: Keys of the files that were read and for which nothing vouches: only their sizes were compared.
    """

    files: int
    size_bytes: int
    problems: tuple[Problem, ...]
    uncompared: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The outcome in one sentence that names the first broken file, and in another what could not be compared."""
        if self.ok:
            return " ".join(filter(None, (f"{self.files} files verified.", self.reservation)))
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.problems[0].detail}{more}"

    @property
    def reservation(self) -> str | None:
        """A sentence on the files whose content could not be compared; None if there are none."""
        if not self.uncompared:
            return None
        first, more = self.uncompared[0], len(self.uncompared) - 1
        them = f"{first} and {more} more files" if more else first
        return f"Nothing tells what the content of {them} was, so only the size was compared."


def verify(store: ObjectStore, manifest: Manifest, *, root: str = "", deep: bool = False) -> VerifyReport:
    """Verify a snapshot.

    Args:
        store: The job's root, or the store that holds the savepoint.
        manifest: The snapshot's manifest.
        root: The folder to which the manifest's paths are relative: "" for a checkpoint, its own for a savepoint.
        deep: Read every file, instead of trusting equal etags.

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
    on_progress: progress.Report = progress.ignore,
) -> VerifyReport:
    """Verify the files of queries; see `verify`. Cost: a LIST per query and 1,000 files below its path.

    `on_progress` is called for each query, and for each file that is read as a whole.
    """
    entries = tuple(queries)
    files = [file for query in entries for file in query.files]
    count = progress.FileCount([file.size_bytes for file in files], on_progress)
    findings = [_examined(store, query, count=count, root=root, deep=deep) for query in entries]
    return VerifyReport(
        len(files),
        sum(file.size_bytes for file in files),
        tuple(problem for query in findings for problem in query.problems),
        tuple(key for query in findings for key in query.uncompared),
    )


@dataclass(frozen=True, slots=True)
class _Findings:
    problems: tuple[Problem, ...] = ()
    uncompared: tuple[str, ...] = ()


def _examined(store: ObjectStore, query: QueryEntry, *, count: progress.FileCount, root: str, deep: bool) -> _Findings:
    if not query.files:
        return _Findings()
    folder = f"{root}/{query.path}" if root else query.path
    listed = listing.below(store, folder, [file.path for file in query.files])
    problems = {file.path: _listing_problem(store.uri, folder, file, listed) for file in query.files}
    present = {file.path: file for file in query.files if problems[file.path] is None}
    small = [
        file for file in present.values() if file.crc32 is not None or batch_records.parse_key(file.path) is not None
    ]
    bodies = _read(store, folder, [file.path for file in small])
    problems |= {file.path: _small_problem(store.uri, folder, file, bodies) for file in small}
    evidence = content.Evidence(
        present,
        {path: listed[path].etag for path in present},
        content.etags_are_md5([file for file in small if file.path in bodies], bodies),
    )
    settled = {file.path for file in small}
    # Each file is read together with its checksum files, which vouch for each other.
    families: dict[str, list[FileEntry]] = {}
    for file in present.values():
        if file.path not in settled:
            families.setdefault(checksums.family(file.path), []).append(file)
    chosen = (family for family in families.values() if deep or not all(map(evidence.is_unchanged, family)))
    suspects = [file for family in chosen for file in family]
    suspected = {file.path for file in suspects}
    vouching = {path for path in listed if problems.get(path) is None}
    count.add(file.size_bytes for file in query.files if file.path not in suspected)
    uncompared: list[str] = []
    for part in _parts(suspects):
        # Also the checksum files beside these files, and the files that they are checksums of.
        paths = ((checksums.family(file.path), file.path, *checksums.sidecars(file.path)) for file in part)
        witnesses = dict.fromkeys(path for family in paths for path in family if path in vouching)
        bodies = _read(store, folder, list(witnesses))
        for file in part:
            problem, is_compared = _content_problem(store, folder, file, evidence, bodies)
            problems[file.path] = problem
            uncompared += [] if is_compared else [f"{folder}/{file.path}"]
            count.add((file.size_bytes,))
    return _Findings(tuple(problem for problem in problems.values() if problem is not None), tuple(uncompared))


def _read(store: ObjectStore, folder: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Read those of some files that exist, by path."""
    bodies = catalog.read_present(store, [f"{folder}/{path}" for path in paths]) if paths else {}
    return {path: bodies[f"{folder}/{path}"] for path in paths if f"{folder}/{path}" in bodies}


def _parts(files: Iterable[FileEntry]) -> Iterator[list[FileEntry]]:
    """Yield files that are in memory together; files of one family are together."""
    part: list[FileEntry] = []
    part_bytes = 0
    for file in files:
        is_next_family = bool(part) and checksums.family(part[-1].path) != checksums.family(file.path)
        if is_next_family and part_bytes + file.size_bytes > _IN_MEMORY_BYTES:
            yield part
            part, part_bytes = [], 0
        part.append(file)
        part_bytes += file.size_bytes
    if part:
        yield part


def _listing_problem(uri: str, folder: str, file: FileEntry, listed: Mapping[str, ObjectInfo]) -> Problem | None:
    key = f"{folder}/{file.path}"
    info = listed.get(file.path)
    if info is None:
        return Problem(key, ProblemKind.MISSING, f"{uri}/{key} does not exist.")
    if info.size_bytes != file.size_bytes:
        detail = f"{uri}/{key} has {info.size_bytes} bytes instead of {file.size_bytes}."
        return Problem(key, ProblemKind.SIZE_DIFFERS, detail)
    return None


def _small_problem(uri: str, folder: str, file: FileEntry, bodies: Mapping[str, bytes]) -> Problem | None:
    key = f"{folder}/{file.path}"
    if file.path not in bodies:
        return Problem(key, ProblemKind.MISSING, f"{uri}/{key} does not exist any more.")
    body = bodies[file.path]
    if file.crc32 is not None and file.crc32 != base.crc32_hex(body):
        return Problem(key, ProblemKind.CHECKSUM_DIFFERS, f"{uri}/{key} is not the file that was written.")
    try:
        batch_records.require_readable(file.path, body, f"{uri}/{key}")
    except errors.FormatVersionError as error:
        return Problem(key, ProblemKind.NEWER, error.message)
    except errors.SnapshotCorruptError as error:
        return Problem(key, ProblemKind.UNREADABLE, error.message)
    return None


def _content_problem(
    store: ObjectStore, folder: str, file: FileEntry, evidence: content.Evidence, bodies: Mapping[str, bytes]
) -> tuple[Problem | None, bool]:
    """Return what is wrong with a file, and whether its content could be compared. Cost: a HEAD if nothing else vouches."""
    uri, key = store.uri, f"{folder}/{file.path}"
    body = bodies.get(file.path)
    if body is None:
        return Problem(key, ProblemKind.MISSING, f"{uri}/{key} does not exist any more."), True
    if packs.of_key(file.path) is not None:
        try:
            # A pack has its own checksums, which cover all of it; its name is used once.
            packfile.require_sound(body, f"{uri}/{key}")
        except errors.FormatVersionError as error:
            return Problem(key, ProblemKind.NEWER, error.message), True
        except errors.SnapshotCorruptError as error:
            return Problem(key, ProblemKind.CHECKSUM_DIFFERS, error.message), True
        return None, True
    knowledge = evidence.compare(file.path, bodies)
    if knowledge is content.Knowledge.UNKNOWN:
        knowledge = content.as_told(store.info(key), body)
    if knowledge is content.Knowledge.DIFFERENT:
        return Problem(key, ProblemKind.CHECKSUM_DIFFERS, f"{uri}/{key} is not the file that was written."), True
    state = sparklog.parse_state_file(posixpath.basename(file.path))
    if state is not None and state.is_snapshot:
        try:
            # A snapshot of Spark's state may name files only where Spark has some.
            sparklog.parse_snapshot_archive(body, f"{uri}/{key}")
        except errors.SnapshotCorruptError as error:
            return Problem(key, ProblemKind.UNREADABLE, error.message), knowledge is content.Knowledge.SAME
    return None, knowledge is content.Knowledge.SAME
