"""The closure of a committed batch: exactly the files that Spark needs to continue after it.

For batch N: the query's metadata; offsets N-1 and N; the commits from the oldest state snapshot in use up to N, which tell
which state files belong together; the sources' logs, and the segments that offsets N name; each function's newest record of
operator state, with the record that it is unchanged, and each sink's prepared transactions with their staged rows; each
operator's metadata and schema; per state store the newest snapshot with its SST files and the changelogs after it; the
packs of each operator from the tail of its newest ones on (`packs.window`); and the checksum files of all of these.

Cost: one listing of the query's root (a request per 1,000 files) and reads of small files in parallel, each file once.
Of the state files only the snapshot archives are read, which hold names and settings, so the cost does not grow with the
size of the state.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import checksums, listing, required_records, sparklog, state_files
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, OperatorEntry, OperatorStateEntry, QueryEntry
from statefulspark.packs import names, window
from statefulspark.storage.port import ObjectInfo, ObjectStore


def close_over(store: ObjectStore, query_path: str, batch_id: int) -> QueryEntry:
    """Find every file that a committed batch needs.

    Args:
        store: The job's root.
        query_path: The query's checkpoint root below it, for example `generations/00000003/delays`.
        batch_id: The batch; -1 means that nothing is committed yet, and needs no file.

    Returns:
        The query's part of a manifest.

    Raises:
        SnapshotCorruptError: `BatchNotCommitted`, `ClosureIncomplete` or `SparkLogUnreadable`.
    """
    return ClosureBuilder(store, query_path).close_over(batch_id)


def newest_committed_batch(store: ObjectStore, query_path: str) -> int:
    """Return the newest batch in a query's commit log, -1 if there is none. Cost: one listing, one read.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`: the newest entry is damaged.
    """
    names = [sparklog.parse_log_file(name) for name in store.list_names(f"{query_path}/commits")]
    newest = max((name.number for name in names if name and not name.is_compact), default=-1)
    if newest >= 0:
        key = f"{query_path}/commits/{newest}"
        sparklog.parse_commit(newest, store.read(key), f"{store.uri}/{key}")
    return newest


class ClosureBuilder:
    """Builds the closures of one query's batches; remembers what cannot change, so that each call reads only new files.

    Use one per query and driver, from one thread at a time.
    """

    def __init__(
        self, store: ObjectStore, query_path: str, *, base: QueryEntry | None = None, started_after: int = -1
    ) -> None:
        """Build closures for the query at a root.

        Args:
            store: As for the function `close_over`.
            query_path: As for the function `close_over`.
            base: The snapshot from which the query continues. Its prepared transactions are needed too, and every batch
                after it has records. Its files are looked up by name if the listing lags.
            started_after: The batch after which the driver has started. Not every batch up to it has records of its sinks in
                this generation: a batch that moves state into other partitions has none.
        """
        self._store = store
        self._path = query_path
        self._root = f"{store.uri}/{query_path}"
        self._commits: dict[int, sparklog.Commit] = {}
        self._ssts: dict[str, tuple[sparklog.SstFile, ...]] = {}
        self._operators: dict[str, sparklog.OperatorMetadata] = {}
        self._small = checksums.SmallFiles(store, query_path)
        self._records = required_records.Records(store, query_path, self._small)
        self._base = base
        self._started_after = started_after
        self._last_paths = tuple(file.path for file in base.files) if base is not None else ()

    def close_over(
        self, batch_id: int, committed: Mapping[str, int] | None = None, *, unused: Collection[str] = ()
    ) -> QueryEntry:
        """Find every file that a committed batch needs; see the function of the same name.

        Args:
            batch_id: The batch.
            committed: By sink uid, the last batch whose transaction need not be committed again. For a sink that is not
                named, all transactions on storage are taken.
            unused: Keys of files that are being deleted because nothing needs them. They count as absent: what is read from
                names alone may take a file too many.
        """
        if batch_id < 0:
            return QueryEntry(uid=posixpath.basename(self._path), batch_id=-1, path=self._path)
        listed = _without(listing.below(self._store, self._path), unused)
        while True:
            try:
                entry = self._closed_over(batch_id, listed, committed or {})
            except listing.FilesAbsentError as error:
                names = [name for name in (*error.alternatives, *self._last_paths) if name not in listed]
                hidden = _without(listing.look_up(self._store, self._path, names), unused)
                if not hidden:
                    raise
                listed |= hidden
            else:
                self._last_paths = tuple(file.path for file in entry.files)
                self._small.forget_others(self._last_paths)
                return entry

    def _closed_over(self, batch_id: int, listed: Mapping[str, ObjectInfo], committed: Mapping[str, int]) -> QueryEntry:
        uid = posixpath.basename(self._path)
        listed = self._records.valid(listed, batch_id, committed)
        if f"commits/{batch_id}" not in listed:
            raise listing.FilesAbsentError(
                "BatchNotCommitted",
                f"Batch {batch_id} of {self._root} has no entry in the commit log.",
                (f"commits/{batch_id}",),
            )
        state = state_files.StateFiles.index(listed)
        self._load_commits(state, listed, batch_id)
        chains = state_files.chains(state, self._commits, batch_id, self._root)
        operators = self._load_operators(listed, batch_id)
        entries = tuple(operator.entry for operator in operators)
        offsets_key = f"offsets/{batch_id}"
        if offsets_key not in listed:
            raise self._incomplete(offsets_key, batch_id)
        body = self._small.read(listed, {offsets_key: offsets_key})[offsets_key]
        offsets = sparklog.parse_offsets(body, f"{self._root}/{offsets_key}")
        prepared = self._records.prepared(listed, batch_id, committed)
        recorded_after = {uid: max(batch, self._started_after) for uid, batch in committed.items()}
        # The last batch whose records are not required, for sinks that the caller does not name.
        after_batch = batch_id if self._base is None else self._base.batch_id
        outputs = self._records.outputs(listed, batch_id, recorded_after, after_batch=after_batch)
        states = self._records.states(listed, batch_id, outputs[-1] if outputs else None)
        needed = [
            "metadata",
            *self._log_keys(listed, chains, batch_id),
            *_source_keys(listed, offsets),
            *layout.segment_keys(offsets),
            *states.keys,
            *prepared.keys,
            *(output.name.key for output in outputs),
            *required_records.inherited_paths(self._base),
            *(key for operator in operators for key in operator.keys),
            *self._state_keys(chains, listed, batch_id),
            *self._pack_keys({entry.uid: entry.partitions for entry in entries}, listed, batch_id),
        ]
        self._forget_what_no_chain_needs(chains)
        return QueryEntry(
            uid=uid,
            batch_id=batch_id,
            path=self._path,
            files=self._entries(needed, listed, batch_id),
            operators=entries,
            offsets=offsets,
            operator_states=tuple(OperatorStateEntry(uid=n.uid, path=n.key, batch_id=n.batch) for n in states.names),
            prepared=prepared.entries,
        )

    def _forget_what_no_chain_needs(self, chains: tuple[tuple[int, state_files.Chain], ...]) -> None:
        oldest = min((chain.base_version for _, chain in chains), default=0) - 1
        used = {chain.snapshot for _, chain in chains}
        self._commits = {batch: commit for batch, commit in self._commits.items() if batch >= oldest}
        self._ssts = {key: files for key, files in self._ssts.items() if key in used}

    def _load_commits(self, state: state_files.StateFiles, listed: Mapping[str, ObjectInfo], batch_id: int) -> None:
        """Read the commits that the chains need; the snapshots' names tell how far back, so usually in one request."""
        oldest = state.oldest_useful_version(batch_id + 1) - 1
        while (newest := state_files.missing_commits(state, self._commits, batch_id)) is not None:
            batches = [batch for batch in range(min(oldest, newest), newest + 1) if batch not in self._commits]
            absent = [batch for batch in batches if f"commits/{batch}" not in listed]
            if newest in absent:
                raise listing.FilesAbsentError(
                    "ClosureIncomplete",
                    f"Batch {batch_id} cannot be closed over: {self._root}/commits/{newest} does not exist; it names "
                    "the older state files that the batch needs. Start from an older snapshot.",
                    (f"commits/{newest}",),
                )
            present = [batch for batch in batches if batch not in absent]
            bodies = self._small.read(listed, {f"commits/{batch}": batch for batch in present})
            for batch, body in bodies.items():
                source = f"{self._root}/commits/{batch}"
                commit = sparklog.parse_commit(batch, body, source)
                if commit.state_ids is None:
                    raise errors.SpecRejectedError(
                        "StateFormatUnsupported",
                        f"{source} has no unique ids of state files; the query was not run with "
                        "spark.sql.streaming.stateStore.checkpointFormatVersion=2.",
                    )
                self._commits[batch] = commit

    def _load_operators(self, listed: Mapping[str, ObjectInfo], batch_id: int) -> tuple[_Operator, ...]:
        """Describe each operator, with the partitions of the commit: metadata of version 1 has those of its first batch."""
        ids = self._commits[batch_id].state_ids or {}
        keys: dict[int, str] = {}
        for operator in sorted(ids):  # The newest metadata of version 2 up to the batch, else version 1.
            folder = f"state/{operator}/_metadata"
            names = (key.removeprefix(f"{folder}/v2/") for key in listed if key.startswith(f"{folder}/v2/"))
            files = (file for file in map(sparklog.parse_log_file, names) if file is not None)
            newest = max((file.number for file in files if file.number <= batch_id), default=None)
            if newest is None and f"{folder}/metadata" not in listed:
                raise self._incomplete(folder, batch_id, alternatives=(f"{folder}/v2/0", f"{folder}/metadata"))
            keys[operator] = f"{folder}/metadata" if newest is None else f"{folder}/v2/{newest}"
        bodies = self._small.read(listed, {key: key for key in keys.values() if key not in self._operators})
        for key, body in bodies.items():
            self._operators[key] = sparklog.parse_operator(body, f"{self._root}/{key}")
        operators = []
        for operator, key in keys.items():
            metadata = self._operators[key]
            schemas = [sparklog.relative_state_path(path, f"{self._root}/{key}") for path in metadata.schema_paths] or [
                name for name in listed if name.startswith(f"state/{operator}/") and name.endswith("/_metadata/schema")
            ]
            entry = OperatorEntry(
                uid=metadata.uid,
                operator_id=metadata.operator_id,
                name=metadata.name,
                partitions=len(ids.get(metadata.operator_id, ())),
            )
            operators.append(_Operator(entry, (key, *schemas)))
        return tuple(operators)

    def _log_keys(
        self, listed: Mapping[str, ObjectInfo], chains: tuple[tuple[int, state_files.Chain], ...], batch_id: int
    ) -> list[str]:
        oldest_version = min((chain.base_version for _, chain in chains), default=batch_id + 1)
        oldest_commit = max(0, min(oldest_version - 1, batch_id - 1))
        commits = [f"commits/{batch}" for batch in range(oldest_commit, batch_id)]
        return [
            *(key for key in commits if key in listed),
            f"commits/{batch_id}",
            *([f"offsets/{batch_id - 1}"] if batch_id > 0 else []),
            f"offsets/{batch_id}",
        ]

    def _state_keys(
        self, chains: tuple[tuple[int, state_files.Chain], ...], listed: Mapping[str, ObjectInfo], batch_id: int
    ) -> list[str]:
        snapshots = [chain.snapshot for _, chain in chains if chain.snapshot is not None]
        bodies = self._small.read(listed, {key: key for key in snapshots if key not in self._ssts})
        for key, body in bodies.items():
            self._ssts[key] = sparklog.parse_snapshot_archive(body, f"{self._root}/{key}")
        ssts = {f"{posixpath.dirname(key)}/SSTs/{file.name}": file for key in snapshots for file in self._ssts[key]}
        for key, file in ssts.items():
            if key in listed and listed[key].size_bytes != file.size_bytes:
                problem = f"has {listed[key].size_bytes} bytes instead of {file.size_bytes}"
                raise self._incomplete(key, batch_id, problem)
        return [*snapshots, *ssts, *(key for _, chain in chains for key in chain.changelogs)]

    def _pack_keys(self, partitions: Mapping[str, int], listed: Mapping[str, ObjectInfo], batch_id: int) -> list[str]:
        packs = window.needed_by_operator(listed, partitions, batch_id)
        for uid, needed in packs.items():
            gap = window.first_gap(needed)
            if gap is not None:
                folder = posixpath.dirname(names.key(uid, gap.witness.reference))
                raise self._incomplete(folder, batch_id, f"has no pack of batch {gap.batch}, which a later one names")
        return [names.key(uid, name.reference) for uid, needed in packs.items() for name in needed]

    def _entries(self, needed: Iterable[str], listed: Mapping[str, ObjectInfo], batch_id: int) -> tuple[FileEntry, ...]:
        keys: set[str] = set()
        for key in needed:
            if key not in listed:
                raise self._incomplete(key, batch_id)
            keys.add(key)
            keys.update(sidecar for sidecar in checksums.sidecars(key) if sidecar in listed)
        vanished = self._small.load(listed, sorted(keys))
        if vanished:
            raise self._incomplete(vanished[0], batch_id)
        return tuple(self._small.entry(key, listed[key]) for key in sorted(keys))

    def _incomplete(
        self, key: str, batch_id: int, problem: str = "does not exist", *, alternatives: tuple[str, ...] = ()
    ) -> errors.SnapshotCorruptError:
        return listing.FilesAbsentError(
            "ClosureIncomplete",
            f"Batch {batch_id} cannot be closed over: {self._root}/{key} {problem}. Start from an older snapshot.",
            alternatives or (key,),
        )


def _without(listed: dict[str, ObjectInfo], unused: Collection[str]) -> dict[str, ObjectInfo]:
    return {name: info for name, info in listed.items() if info.key not in unused} if unused else listed


@dataclass(frozen=True, slots=True)
class _Operator:
    entry: OperatorEntry
    keys: tuple[str, ...]


def _source_keys(listed: Mapping[str, ObjectInfo], offsets: tuple[str, ...]) -> list[str]:
    """Find the sources' logs: a plain log completely, a file source's log from its newest compact file on."""
    positions = source_positions(listed, offsets)
    keys: list[str] = []
    for key in listed:
        parts = key.split("/")
        is_entry = len(parts) == 3 and parts[0] == "sources" and sparklog.parse_log_file(parts[2]) is not None
        if is_entry and positions.get(parts[1]) is None:
            keys.append(key)
    for source, position in positions.items():
        # Backwards to the newest compact file, or to the beginning of the log, which has no gaps.
        for number in range(-1 if position is None else position, -1, -1):
            plain, compact = f"sources/{source}/{number}", f"sources/{source}/{number}.compact"
            if plain not in listed and compact not in listed:
                raise listing.FilesAbsentError(
                    "ClosureIncomplete",
                    f"The log of a file source has no entry {plain}. Start from an older snapshot.",
                    (plain, compact),
                )
            keys.append(compact if compact in listed else plain)
            if compact in listed:
                break
    return keys


def source_positions(listed: Mapping[str, ObjectInfo], offsets: tuple[str, ...]) -> dict[str, int | None]:
    """Return up to which entry a batch has read the log of each source, by its folder; None if it is no file source.

    Args:
        listed: The files below the query's root.
        offsets: The offset lines of the batch.
    """
    # A stream that is used twice has two offset lines and one folder below `sources/`.
    numbers = [int(parts[1]) for key in listed if (parts := key.split("/"))[0] == "sources" and parts[1].isdigit()]
    spare = len(offsets) - max(numbers, default=len(offsets)) - 1
    lines: list[str] = []
    for line in offsets:
        if spare > 0 and line in lines:
            spare -= 1
        else:
            lines.append(line)
    return {str(index): sparklog.file_source_position(line) for index, line in enumerate(lines)}
