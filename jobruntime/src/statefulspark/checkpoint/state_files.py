"""The state files that form the state at one version: the newest snapshot, and the changelogs after it. Pure.

Several attempts may write one version, each with a unique id of its own; the commit log names the committed id. So the
files of a state store are found by following that chain backwards, never by the newest name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import listing, sparklog
from statefulspark.packs import names as packs

_TABLE_SUFFIX, _CHECKSUM_SUFFIX = ".sst", ".crc"


@dataclass(frozen=True, slots=True)
class Chain:
    """The state files of one state store at one version.

    Attributes:
        snapshot: Key of the `.zip` it starts from; None if it starts empty.
        changelogs: Keys of the changelogs after it, newest first.
        base_version: Version of the snapshot; 0 without a snapshot.
    """

    snapshot: str | None
    changelogs: tuple[str, ...]
    base_version: int


@dataclass(frozen=True, slots=True)
class StateFiles:
    """All state files in a checkpoint root, by their identity."""

    snapshots: Mapping[tuple[int, int, int, str], str]
    """(operator, partition, version, unique id) to key."""
    changelogs: Mapping[tuple[int, int, int, str], str]

    @classmethod
    def index(cls, keys: Iterable[str]) -> StateFiles:
        """Index the state files among the keys of a root, which are relative to the root."""
        snapshots: dict[tuple[int, int, int, str], str] = {}
        changelogs: dict[tuple[int, int, int, str], str] = {}
        for key in keys:
            folder = parse_partition_folder(key)
            file = sparklog.parse_state_file(posixpath.basename(key)) if folder else None
            if folder and file:
                target = snapshots if file.is_snapshot else changelogs
                target[(folder.operator_id, folder.partition, file.version, file.unique_id)] = key
        return cls(snapshots, changelogs)

    def possible_keys(self, operator_id: int, partition: int, stem: str) -> tuple[str, ...]:
        """Return every key that a state file can have in a partition, in any of its state stores."""
        folder = f"state/{operator_id}/{partition}"
        all_folders = {posixpath.dirname(key) for key in (*self.snapshots.values(), *self.changelogs.values())}
        folders = [folder, *sorted(name for name in all_folders if name.startswith(f"{folder}/"))]
        return tuple(f"{name}/{stem}.{kind}" for name in folders for kind in ("zip", "changelog"))

    def oldest_useful_version(self, version: int) -> int:
        """Estimate how far back the chains of a version reach: the oldest of every partition's newest snapshot.

        Returns:
            A version of at least 1. It is an estimate, since a snapshot may belong to an attempt that was not committed.
        """
        newest: dict[str, int] = {}
        for key, (_, _, candidate, _) in ((key, ids) for ids, key in self.snapshots.items()):
            folder = posixpath.dirname(key)
            if candidate <= version:
                newest[folder] = max(candidate, newest.get(folder, 1))
        folders = {posixpath.dirname(key) for key in self.changelogs.values()}
        return 1 if folders - newest.keys() else min(newest.values(), default=1)


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of a state file: `state/<operator>/<partition>[/<store>]/`."""

    operator_id: int
    partition: int


def parse_partition_folder(key: str) -> PartitionFolder | None:
    """Parse the folder of a state file from its key; None if it is not in a partition of an operator."""
    parts = key.split("/")
    if len(parts) not in (4, 5) or parts[0] != "state" or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return PartitionFolder(int(parts[1]), int(parts[2]))


def is_named_once(path: str) -> bool:
    """Tell whether a file of a query's root belongs to a state store, or is a pack, and has a name that is never used again.

    The content of such a file never changes, so a copy of it is current for ever.
    """
    return packs.of_key(path) is not None or is_of_state_store(path.removesuffix(_CHECKSUM_SUFFIX))


def is_of_state_store(path: str) -> bool:
    """Tell whether a file of a query's root is what Spark's state stores load: a snapshot, a table or a changelog.

    So are the checksum files of snapshots and changelogs; those of tables are read by `verify` alone.
    """
    name = posixpath.basename(path)
    is_state_file = sparklog.parse_state_file(name.removesuffix(_CHECKSUM_SUFFIX)) is not None
    return path.startswith("state/") and (name.endswith(_TABLE_SUFFIX) or is_state_file)


def missing_commits(files: StateFiles, commits: Mapping[int, sparklog.Commit], batch_id: int) -> int | None:
    """Return the newest batch whose commit is needed for a chain and not read yet; None if there is none."""
    head = commits.get(batch_id)
    if head is None:
        return batch_id
    missing: list[int] = []
    for store in _stores(head):
        operator, partition, _ = store
        for version in range(batch_id + 1, 0, -1):
            if version - 1 not in commits:
                missing.append(version - 1)
                break
            unique_id = _unique_id(commits[version - 1], store)
            if unique_id is None or (operator, partition, version, unique_id) in files.snapshots:
                break
    return max(missing, default=None)


def chains(
    files: StateFiles, commits: Mapping[int, sparklog.Commit], batch_id: int, root: str
) -> tuple[tuple[int, Chain], ...]:
    """Return the chain of every state store at a batch, with its operator id.

    Args:
        files: The existing state files.
        commits: At least those that `missing_commits` asks for.
        batch_id: A committed batch.
        root: URI of the root, for error messages.

    Raises:
        SnapshotCorruptError: `ClosureIncomplete`: a file of the chain does not exist.
    """
    by_files: dict[tuple[int, str | None, tuple[str, ...]], Chain] = {}
    for store in _stores(commits[batch_id]):
        chain = _chain(files, commits, batch_id, store, root)
        by_files[(store[0], chain.snapshot, chain.changelogs)] = chain
    return tuple((operator, chain) for (operator, _, _), chain in by_files.items())


def _stores(commit: sparklog.Commit) -> Iterator[tuple[int, int, int]]:
    """Yield the operator, the partition and the number of each state store."""
    for operator, partitions in (commit.state_ids or {}).items():
        for partition, ids in enumerate(partitions):
            for index in range(len(ids)):
                yield operator, partition, index


def _chain(
    files: StateFiles,
    commits: Mapping[int, sparklog.Commit],
    batch_id: int,
    store: tuple[int, int, int],
    root: str,
) -> Chain:
    operator, partition, _ = store
    changelogs: list[str] = []
    for version in range(batch_id + 1, 0, -1):
        unique_id = _unique_id(commits[version - 1], store)
        folder = f"{root}/state/{operator}/{partition}"
        if unique_id is None:
            raise _incomplete(
                f"commit {version - 1} names no state of operator {operator}, partition {partition}", folder, batch_id
            )
        snapshot = files.snapshots.get((operator, partition, version, unique_id))
        if snapshot is not None:
            return Chain(snapshot, tuple(changelogs), version)
        changelog = files.changelogs.get((operator, partition, version, unique_id))
        if changelog is None:
            stem = f"{version}_{unique_id}"
            raise _incomplete(
                f"neither {stem}.zip nor .changelog exists",
                folder,
                batch_id,
                files.possible_keys(operator, partition, stem),
            )
        changelogs.append(changelog)
    return Chain(None, tuple(changelogs), 0)


def _unique_id(commit: sparklog.Commit, store: tuple[int, int, int]) -> str | None:
    operator, partition, index = store
    partitions = (commit.state_ids or {}).get(operator, ())
    ids = partitions[partition] if partition < len(partitions) else ()
    return ids[index] if index < len(ids) else None


def _incomplete(
    problem: str, folder: str, batch_id: int, alternatives: tuple[str, ...] = ()
) -> errors.SnapshotCorruptError:
    return listing.FilesAbsentError(
        "ClosureIncomplete",
        f"Batch {batch_id} cannot be closed over: in {folder} {problem}. Start from an older snapshot.",
        alternatives,
    )
