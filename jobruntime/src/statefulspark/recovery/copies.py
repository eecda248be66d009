"""Which files a new generation is made of, and which of them are there already. Pure.

A generation is filled by copying a cut's files to their paths in it. State files have names that are used once, and their
content never changes: so a standby may copy them while the job still runs, and the start copies what is missing (`ahead`).
Logs and metadata have names that say nothing about their content, and are always written by the start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from statefulspark.checkpoint import state_files, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.evolution import rewrite
from statefulspark.packs import names as packs
from statefulspark.storage.port import ObjectInfo

_ETAG_PREFIX = "etag:"


@dataclass(frozen=True, slots=True)
class Move:
    """One query on its way into a new generation.

    Attributes:
        query: The query in the cut.
        rewrite: How its files change.
        path: Its root in the new generation.
    """

    query: QueryEntry
    rewrite: rewrite.Rewrite
    path: str


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file that is copied unchanged.

    Attributes:
        source: Its key in the store of the cut.
        target: Its key in the job's root.
        file: The file as the cut knows it.
    """

    source: str
    target: str
    file: FileEntry

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self.file.size_bytes

    @property
    def is_named_once(self) -> bool:
        """Whether no other content ever has the name of the file."""
        return state_files.is_named_once(self.file.path)

    @property
    def origin(self) -> Origin:
        """What the target is a copy of."""
        return Origin(self.source, self.size_bytes)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a file of a new generation is a copy of.

    Attributes:
        key: Key of the source below the job's root.
        size_bytes: Its size.
    """

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Carried:
    """What a standby has copied ahead into a generation that it has reserved.

    Attributes:
        generation: Its number.
        files: Origin of each file whose copy is complete, by its key.
    """

    generation: int
    files: Mapping[str, Origin]


def moves(
    queries: Iterable[QueryEntry],
    generation: int,
    *,
    rewrites: Mapping[str, rewrite.Rewrite] | None = None,
) -> tuple[Move, ...]:
    """Return how each query goes into a generation.

    Args:
        queries: The queries of the cut.
        generation: Number of the generation.
        rewrites: How the files of a query change, by its uid; other queries are copied unchanged.
    """
    return tuple(
        Move(
            query,
            (rewrites or {}).get(query.uid) or rewrite.Rewrite.identity(query),
            layout.query_root(generation, query.uid),
        )
        for query in queries
    )


def list_copies(source: transfer.SnapshotLocation, moved: Iterable[Move]) -> tuple[FileCopy, ...]:
    """Return every copy that queries need."""
    return tuple(
        FileCopy(source.key(move.query, file.path), f"{move.path}/{new_path}", file)
        for move in moved
        for file, new_path in rewrite.files_to_copy(move.query, move.rewrite)
    )


def missing(
    needed: Iterable[FileCopy], carried: Mapping[str, Origin], present: Mapping[str, ObjectInfo]
) -> tuple[FileCopy, ...]:
    """Return the copies that are still to be made.

    A copy counts only if it was made of the same file, whose name is used once, and if it is there with the right size. So
    a copy that was begun, or made of a file at another place, is made again.

    Args:
        needed: Every copy.
        carried: Origin of what was copied ahead, by its key.
        present: What the new generation has, by key.
    """
    still = []
    for copy in needed:
        info = present.get(copy.target)
        is_copy = copy.is_named_once and carried.get(copy.target) == copy.origin
        if not is_copy or info is None or info.size_bytes != copy.size_bytes:
            still.append(copy)
    return tuple(still)


def due_ahead(
    needed: Iterable[FileCopy], carried: Mapping[str, Origin], *, rewritten: Collection[str] = ()
) -> tuple[FileCopy, ...]:
    """Return the copies to make ahead: of files whose names are used once, and that were not copied before.

    Args:
        needed: Every copy.
        carried: Origin of what was copied before, by its key.
        rewritten: Roots, in the new generation, of queries whose state is rewritten after it was copied.
    """
    roots = tuple(f"{path}/" for path in rewritten)
    return tuple(
        copy
        for copy in needed
        if copy.is_named_once and carried.get(copy.target) != copy.origin and not copy.target.startswith(roots)
    )


def sound(some: Iterable[FileCopy], present: Mapping[str, ObjectInfo]) -> tuple[FileCopy, ...]:
    """Return the copies whose sources storage has as they were when the cut was made.

    The others are left to the start, which verifies the cut before it copies.

    Args:
        some: Copies.
        present: What is there of the sources, by key.
    """
    unchanged = []
    for copy in some:
        info = present.get(copy.source)
        if info is not None and info.size_bytes == copy.size_bytes:
            checksum = copy.file.checksum or ""
            if not checksum.startswith(_ETAG_PREFIX) or checksum == f"{_ETAG_PREFIX}{info.etag}":
                unchanged.append(copy)
    return tuple(unchanged)


def arrived(
    source: transfer.SnapshotLocation, moved: Iterable[Move], carried: Mapping[str, Origin]
) -> tuple[QueryEntry, ...]:
    """Return queries in the new generation, each with its files that were carried.

    Args:
        source: Where the cut is.
        moved: The queries.
        carried: Origin of what was copied, by its key.
    """
    queries = []
    for move in moved:
        files = tuple(
            FileEntry(path=copy.target[len(move.path) + 1 :], size_bytes=copy.size_bytes)
            for copy in list_copies(source, [move])
            if carried.get(copy.target) == copy.origin
        )
        queries.append(move.query.model_copy(update={"path": move.path, "files": files}))
    return tuple(queries)


def is_of_another_future(carried: Iterable[str], queries: Iterable[QueryEntry]) -> bool:
    """Tell whether packs were copied of a batch that a cut does not have: their names would speak of other heads.

    Args:
        carried: Keys of what was copied.
        queries: The queries of the cut.
    """
    batches = {query.uid: query.batch_id for query in queries}
    for key in carried:
        _, _, uid, path = key.split("/", 3)
        pack = packs.of_key(path)
        if pack is not None and pack[1].batch > batches.get(uid, -1):
            return True
    return False


def is_outgrown(needed: Iterable[FileCopy], carried: Mapping[str, Origin]) -> bool:
    """Tell whether it is better to begin in another generation.

    Nothing is deleted of a generation that may come into use. So what a long wait has piled up is left behind once it is
    more than what is needed; and all of it, if a file would be copied to another path, because the job's plan is compared
    with another one.

    Args:
        needed: Every copy that the newest cut needs.
        carried: Origin of what was copied, by its key.
    """
    origins = {copy.target: copy.origin for copy in needed}
    targets = {copy.source: copy.target for copy in needed}
    if any(targets.get(origin.key, target) != target for target, origin in carried.items()):
        return True
    used_bytes = sum(origin.size_bytes for target, origin in carried.items() if origins.get(target) == origin)
    return sum(origin.size_bytes for origin in carried.values()) > 2 * max(used_bytes, _SMALL_BYTES)


_SMALL_BYTES = 2**20
"""So much is not worth another generation."""


def slices(copies: Sequence[FileCopy], most: int) -> Iterator[Sequence[FileCopy]]:
    """Yield copies in their order, a few at a time."""
    for start in range(0, len(copies), most):
        yield copies[start : start + most]
