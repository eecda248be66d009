"""The head of a generation: the batches that its queries have committed since the last checkpoint.

A driver that died between a commit and the next checkpoint leaves committed batches behind. If all their files exist, they
become the next checkpoint; if not, the generation cannot be continued, because Spark would fail on them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import (
    batch_records,
    checksums,
    closure,
    epochs,
    listing,
    progress,
    read_cache,
    sparklog,
    verify,
)
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.packs import names as packs
from statefulspark.recovery import damage, gaps, in_place, new_packs
from statefulspark.storage.port import ObjectInfo

_READ_UP_TO_BYTES = 256 * 2**20
"""Up to this total, new state files are compared with their checksum by content, small ones first; the rest by size."""


_IN_MEMORY_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Head:
    """The newest committed batches of a generation.

    Attributes:
        queries: Each query at its newest committed batch; empty if `problem` is set.
        is_newer: True if at least one query committed a batch after the base.
        problem: Why the generation cannot be continued, None if it can.
    """

    queries: tuple[QueryEntry, ...]
    is_newer: bool
    problem: str | None = None


def inspect(
    store: read_cache.ReadCache,
    generation: int,
    base: Sequence[QueryEntry],
    notes: damage.Damage | None = None,
    *,
    since_epoch: int = 0,
    proven_packs: Collection[str] = (),
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> Head:
    """Check the newest committed batch of every query in a generation.

    Cost: a listing of the generation; per query a HEAD and a read; for queries with newer batches their closure, and small
    reads of the checksums of new state files; if there are such queries, what `verify.verify` costs for the others.

    Args:
        store: The job's root.
        generation: The one in use.
        base: Its queries in the latest checkpoint, or at its beginning.
        notes: Notes about state that drivers could not load.
        since_epoch: The epoch that made the generation.
        proven_packs: Keys of packs that need not be read; see `new_packs`.
        begin_step: Begins each step that may take long.

    Returns:
        The head. A damaged log is a problem of the head, and never means that nothing was committed.

    Raises:
        FormatVersionError: A later release wrote one of its files.
    """
    base_by_uid = {query.uid: query for query in base}
    folders = _folders(store, generation)
    try:
        newest = [
            _query(store, generation, uid, base_by_uid, since_epoch=since_epoch, begin_step=begin_step)
            for uid in sorted({*folders, *base_by_uid})
        ]
    except errors.FormatVersionError:
        raise  # The file is undamaged; falling back to older state would lose the work of a later release.
    except errors.SnapshotCorruptError as error:
        return Head((), is_newer=True, problem=error.message)
    newer = any(
        query.batch_id > (base_by_uid[query.uid].batch_id if query.uid in base_by_uid else -1) for query in newest
    )
    problem = _noted_problem(store, newest, notes or damage.Damage(), begin_step=begin_step)
    if newer and problem is None:
        # Nobody verifies the queries that are where the base has them later, since the head becomes the newest state.
        others = [query for query in newest if base_by_uid.get(query.uid) == query]
        if others:
            step = begin_step("Verifying the queries without newer batches")
            report = verify.verify_queries(store, others, on_progress=step)
            problem = None if report.ok else report.sentence
        problem = problem or new_packs.problem(store, newest, proven=proven_packs, begin_step=begin_step)
    return Head((), is_newer=newer, problem=problem) if problem else Head(tuple(newest), is_newer=newer)


def _noted_problem(
    store: read_cache.ReadCache, queries: Sequence[QueryEntry], notes: damage.Damage, *, begin_step: progress.BeginStep
) -> str | None:
    if not notes.is_suspected:
        return None
    checked_notes = notes.separate_outdated(store, queries)
    problem = checked_notes.problem(queries)
    if problem is not None:
        return problem
    report = verify.verify_queries(
        store, queries, deep=True, on_progress=begin_step("Reading all state, since Spark could not load it")
    )
    return None if report.ok else report.sentence


def why_left_savepoint(
    store: read_cache.ReadCache,
    generation: int,
    queries: Sequence[QueryEntry],
    *,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> str | None:
    """Return why a generation is not exactly at one of its savepoints, with no batch planned after it; None if it is.

    Then the savepoint need not be copied back. Cost: a listing of the generation; per query a read, and reads of the log
    entries.

    Args:
        store: The job's root.
        generation: The one in use.
        queries: Queries of the savepoint.
        begin_step: Begins each step that may take long.
    """
    expected = []
    for query in queries:
        # Names of state files and packs are unique, so sizes suffice.
        files = tuple(
            file.model_copy(update={"checksum": None}) if file.path.startswith(("state/", f"{packs.FOLDER}/")) else file
            for file in query.files
        )
        path = layout.query_root(generation, query.uid)
        expected.append(query.model_copy(update={"path": path, "files": files}))
    try:
        why = in_place.why_other_cut(expected, _log_ends(store, generation, expected))
    except errors.SnapshotCorruptError as error:
        return error.message
    if why is not None:
        return why
    report = verify.verify_queries(store, expected, on_progress=begin_step("Verifying the generation in use"))
    return None if report.ok else report.sentence


def has_gone_on(store: read_cache.ReadCache, generation: int, queries: Sequence[QueryEntry]) -> bool:
    """Tell whether a generation has more than one of its savepoints; see `in_place.has_gone_on`.

    A log whose end is damaged tells nothing, and the savepoint is whole. Cost: what `why_left_savepoint` has read.
    """
    try:
        return in_place.has_gone_on(queries, _log_ends(store, generation, queries))
    except errors.SnapshotCorruptError:
        return False


def _log_ends(
    store: read_cache.ReadCache, generation: int, queries: Sequence[QueryEntry]
) -> dict[str, in_place.LogEnd]:
    uids = {query.uid for query in queries} | _folders(store, generation)
    return {uid: _log_end(store, layout.query_root(generation, uid)) for uid in uids}


def _folders(store: read_cache.ReadCache, generation: int) -> set[str]:
    """Return the uids of the queries that have files; the listing is cached with all their files."""
    folder = layout.generation(generation)
    store.list(folder)
    return {name.rstrip("/") for name in store.list_names(folder) if name.endswith("/")}


def _log_end(store: read_cache.ReadCache, path: str) -> in_place.LogEnd:
    names = [sparklog.parse_log_file(name) for name in store.list_names(f"{path}/offsets")]
    planned = max((name.number for name in names if name), default=-1)
    return in_place.LogEnd(planned, closure.newest_committed_batch(store, path))


def _query(
    store: read_cache.ReadCache,
    generation: int,
    uid: str,
    base_by_uid: Mapping[str, QueryEntry],
    *,
    since_epoch: int,
    begin_step: progress.BeginStep,
) -> QueryEntry:
    path = layout.query_root(generation, uid)
    base = base_by_uid.get(uid) or QueryEntry(uid=uid, batch_id=-1, path=path)
    newest = _newest_commit(store, path, base.batch_id)
    if newest < base.batch_id:
        raise errors.SnapshotCorruptError(
            "CommitLogBehind",
            f"The commit log of {store.uri}/{path} ends at batch {newest}, and the latest checkpoint has batch "
            f"{base.batch_id}.",
        )
    planned = _log_end(store, path).planned
    if newest < 0 and gaps.first_batch_gap((planned,), newest) is not None:
        # It has lost everything that it had committed: that is no query which has committed nothing.
        raise errors.SnapshotCorruptError(
            "CommitLogBehind", f"The commit log of {store.uri}/{path} is empty, and batch {planned} was planned."
        )
    _require_readable_plan(store, path, newest)
    log_infos = listing.look_up(store, path, _log_after(store, path, base.batch_id, newest))
    _require_of_one_life(store, path, log_infos, since_epoch)
    if newest == base.batch_id:
        return base
    # Up to its own batch the checkpoint tells each sink's transactions: it names those that a start commits, first.
    listed = listing.below(store, path)
    records = batch_records.between(listed, batch_records.RecordKind.PREPARED, after_batch=-1, to_batch=base.batch_id)
    committed = dict.fromkeys((record.uid for record in records), base.batch_id)
    entry = closure.ClosureBuilder(store, path, base=base).close_over(newest, committed)
    entry = entry.model_copy(update={"prepared": (*base.prepared, *entry.prepared)})
    _require_unchanged(store, entry, base, log_infos)
    _require_sound(store, entry, base, begin_step=begin_step)
    # The functions' state that was too large for the closure to read is read now, since a function receives it at once.
    verified, states = set(base.files), {state.path for state in entry.operator_states}
    for file in entry.files:
        if file.path in states and file not in verified and not checksums.is_small(file.path, file.size_bytes):
            key = f"{entry.path}/{file.path}"
            batch_records.require_readable(file.path, store.read(key), f"{store.uri}/{key}")
    return entry


def _newest_commit(store: read_cache.ReadCache, path: str, base_batch: int) -> int:
    """Return the newest committed batch; the listing may lag, so batches that it does not show are looked up by name."""
    newest = closure.newest_committed_batch(store, path)
    if newest < base_batch and store.info(f"{path}/commits/{base_batch}") is not None:
        newest = base_batch
    following = listing.highest(store, newest, lambda number: f"{path}/commits/{number}")
    if following > newest:
        key = f"{path}/commits/{following}"
        sparklog.parse_commit(following, store.read(key), f"{store.uri}/{key}")
    return following


def _require_readable_plan(store: read_cache.ReadCache, path: str, committed: int) -> None:
    """Check the offsets of a batch that was planned and not committed, and the segments that they name.

    Spark reads them first when it continues.
    """
    names = [sparklog.parse_log_file(name) for name in store.list_names(f"{path}/offsets")]
    for number in sorted(name.number for name in names if name and name.number > committed):
        key = f"{path}/offsets/{number}"
        offsets = sparklog.parse_offsets(store.read(key), f"{store.uri}/{key}")
        for segment in layout.segment_keys(offsets):
            if store.info(f"{path}/{segment}") is None:
                raise errors.SnapshotCorruptError(
                    "SegmentMissing", f"{store.uri}/{path}/{segment}, which {store.uri}/{key} names, does not exist."
                )


def _log_after(store: read_cache.ReadCache, path: str, base_batch: int, newest: int) -> list[str]:
    """Return the entries of Spark's logs after a batch, in the order of their writing; its own commit comes first.

    The listing may not show the newest commit yet.
    """
    planned, committed = (
        {name.number for file in store.list_names(f"{path}/{log}") if (name := sparklog.parse_log_file(file))}
        for log in ("offsets", "commits")
    )
    committed.add(newest)
    numbers = sorted(number for number in planned | committed if number > base_batch)
    entries = [
        f"{log}/{number}"
        for number in numbers
        for log, present in (("offsets", planned), ("commits", committed))
        if number in present
    ]
    return [*([f"commits/{base_batch}"] if base_batch >= 0 else []), *entries] if entries else []


def _require_of_one_life(
    store: read_cache.ReadCache, path: str, log_infos: Mapping[str, ObjectInfo], since_epoch: int
) -> None:
    """Refuse batches of another life of the root: it was copied over an older one, of which later batches were left there.

    Within one life a later entry is of the same or a later epoch. The first entry is in the base, and may be of before the
    generation. Entries that do not tell their driver are believed.
    """
    signed = {key: info.claim for key, info in log_infos.items() if info.claim is not None}
    epoch = max(since_epoch, 1)
    life = epochs.life_since(store, epoch) if signed else None
    if life is None:
        return
    first = next(iter(log_infos))
    for key, claim in signed.items():
        if life.claims.get(claim, 0) >= epoch:
            epoch = life.claims[claim]
        elif key != first:
            raise errors.SnapshotCorruptError(
                "OtherLife",
                f"{store.uri}/{path}/{key} was written by a driver of another life of this root, which was copied over an "
                "older one; copy with the option that deletes what the source does not have (aws s3 sync --delete).",
            )


def _require_unchanged(
    store: read_cache.ReadCache, entry: QueryEntry, base: QueryEntry, log_infos: Mapping[str, ObjectInfo]
) -> None:
    """Compare the small files with the checksums in the checkpoint, and newer ones with what their writers told of them.

    Records are compared with their own checksums already.
    """
    recorded = {file.path: file.crc32 for file in base.files}
    small = [file for file in entry.files if file.crc32 is not None and batch_records.parse_key(file.path) is None]
    newer = [file.path for file in small if file.path not in recorded and file.path not in log_infos]
    sums = {path: info.crc32 for path, info in {**log_infos, **listing.look_up(store, entry.path, newer)}.items()}
    for file in small:
        expected = recorded.get(file.path) or sums.get(file.path)
        if expected not in (None, file.crc32):
            raise errors.SnapshotCorruptError(
                "ChecksumDiffers",
                f"{store.uri}/{posixpath.join(entry.path, file.path)} is not the file that was written.",
            )


def _require_sound(
    store: read_cache.ReadCache, entry: QueryEntry, base: QueryEntry, *, begin_step: progress.BeginStep
) -> None:
    """Compare the files that are in no checkpoint yet with Spark's checksum files."""
    verified = set(base.files)
    fresh = {file.path: file for file in entry.files if file not in verified and not checksums.is_sidecar(file.path)}
    present = {file.path for file in entry.files}
    guarded = [file for file in fresh.values() if checksums.spark_sidecar(file.path) in present]
    if not guarded:
        return
    step = begin_step(f"Reading the state that query {entry.uid!r} has committed since the latest checkpoint")
    count = progress.FileCount([file.size_bytes for file in guarded], step)
    sidecars = store.read_many([f"{entry.path}/{checksums.spark_sidecar(file.path)}" for file in guarded])
    for part in _parts(guarded):
        bodies = store.read_many([f"{entry.path}/{file.path}" for file in part.read])
        for file in (*part.read, *part.sized):
            key = f"{entry.path}/{file.path}"
            sidecar = sidecars[checksums.spark_sidecar(key)]
            is_sound = (
                checksums.matches_spark(bodies[key], sidecar)
                if key in bodies
                else checksums.size_in_spark(sidecar) == file.size_bytes
            )
            if not is_sound:
                raise errors.SnapshotCorruptError(
                    "ChecksumDiffers",
                    f"{store.uri}/{posixpath.join(entry.path, file.path)} is not the file that Spark wrote.",
                )
        count.add(file.size_bytes for file in (*part.read, *part.sized))


@dataclass(frozen=True, slots=True)
class _Part:
    """Files that are in memory together, and files that are compared by size only."""

    read: tuple[FileEntry, ...]
    sized: tuple[FileEntry, ...] = ()


def _parts(files: Sequence[FileEntry]) -> list[_Part]:
    smallest_first = sorted(files, key=lambda file: file.size_bytes)
    total_bytes, part_bytes, part = 0, 0, list[FileEntry]()
    parts: list[_Part] = []
    for number, file in enumerate(smallest_first):
        total_bytes += file.size_bytes
        if total_bytes > _READ_UP_TO_BYTES:
            return [*parts, _Part(tuple(part), tuple(smallest_first[number:]))]
        if part_bytes + file.size_bytes > _IN_MEMORY_BYTES:
            parts.append(_Part(tuple(part)))
            part_bytes, part = 0, []
        part_bytes += file.size_bytes
        part.append(file)
    return [*parts, _Part(tuple(part))]
