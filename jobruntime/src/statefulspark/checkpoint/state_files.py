"""Which state files make up the state at one version: the newest snapshot, and the changelogs after it.

A version is written by every attempt that got that far, each under a unique id of its own; the commit log says which
id won. So the files of a state store are found by walking that chain backwards, never by the newest name. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import listing, sparklog


@dataclass(frozen=True, slots=True)
class Chain:
    """The state files of one state store at one version.

    Attributes:
        snapshot: Key of the `.zip` it starts from; None if it starts empty.
        changelogs: Keys of what is applied on top, newest first.
        base_version: Version of the snapshot, 0 without one.
    """

    snapshot: str | None
    changelogs: tuple[str, ...]
    base_version: int


@dataclass(frozen=True, slots=True)
class StateFiles:
    """All state files in a checkpoint root, by what identifies them."""

    snapshots: Mapping[tuple[int, int, int, str], str]
    """(operator, partition, version, unique id) to key."""
    changelogs: Mapping[tuple[int, int, int, str], str]

    @classmethod
    def index(cls, keys: Iterable[str]) -> StateFiles:
        """Sort out the state files among the keys of a root, which are relative to the root."""
        snapshots: dict[tuple[int, int, int, str], str] = {}
        changelogs: dict[tuple[int, int, int, str], str] = {}
        for key in keys:
            place = parse_place(key)
            file = sparklog.parse_state_file(posixpath.basename(key)) if place else None
            if place and file:
                found = snapshots if file.is_snapshot else changelogs
                found[(place.operator_id, place.partition, file.version, file.unique_id)] = key
        return cls(snapshots, changelogs)

    def places(self, operator_id: int, partition: int, stem: str) -> tuple[str, ...]:
        """Return every key that a state file may have in a partition, whichever of its stores it belongs to."""
        folder = f"state/{operator_id}/{partition}"
        known = {posixpath.dirname(key) for key in (*self.snapshots.values(), *self.changelogs.values())}
        folders = [folder, *sorted(one for one in known if one.startswith(f"{folder}/"))]
        return tuple(f"{one}/{stem}.{kind}" for one in folders for kind in ("zip", "changelog"))

    def oldest_useful_version(self, version: int) -> int:
        """Guess how far back the chains of a version reach: the newest snapshot of every partition, the oldest of those.

        Returns:
            A version of at least 1. It is a guess, since a snapshot may belong to an attempt that did not win.
        """
        newest: dict[str, int] = {}
        for key, (_, _, found, _) in ((key, ids) for ids, key in self.snapshots.items()):
            folder = posixpath.dirname(key)
            if found <= version:
                newest[folder] = max(found, newest.get(folder, 1))
        folders = {posixpath.dirname(key) for key in self.changelogs.values()}
        return 1 if folders - newest.keys() else min(newest.values(), default=1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a state file lies: `state/<operator>/<partition>[/<store>]/`."""

    operator_id: int
    partition: int


def parse_place(key: str) -> Place | None:
    """Read the folder of a state file from its key; None if it does not lie in a partition of an operator."""
    parts = key.split("/")
    if len(parts) not in (4, 5) or parts[0] != "state" or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Place(int(parts[1]), int(parts[2]))


def missing_commits(files: StateFiles, commits: Mapping[int, sparklog.Commit], batch_id: int) -> int | None:
    """Tell the newest batch whose commit is needed to finish every chain and is not known yet; None if none is."""
    head = commits.get(batch_id)
    if head is None:
        return batch_id
    wanted = [
        _first_unknown(files, commits, batch_id, (operator, partition, index))
        for operator, partitions in (head.state_ids or {}).items()
        for partition, ids in enumerate(partitions)
        for index in range(len(ids))
    ]
    return max((batch for batch in wanted if batch is not None), default=None)


def chains(
    files: StateFiles, commits: Mapping[int, sparklog.Commit], batch_id: int, root: str
) -> tuple[tuple[int, Chain], ...]:
    """Return the chain of every state store at a batch, with its operator id.

    Args:
        files: What exists.
        commits: At least those for which `missing_commits` asks.
        batch_id: A committed batch.
        root: Names the root in errors.

    Raises:
        SnapshotCorruptError: `ClosureIncomplete`: a file of the chain does not exist.
    """
    found: dict[tuple[int, str | None, tuple[str, ...]], Chain] = {}
    for operator, partitions in (commits[batch_id].state_ids or {}).items():
        for partition, ids in enumerate(partitions):
            for index in range(len(ids)):
                chain = _chain(files, commits, batch_id, (operator, partition, index), root)
                found[(operator, chain.snapshot, chain.changelogs)] = chain
    return tuple((operator, chain) for (operator, _, _), chain in found.items())


def _first_unknown(
    files: StateFiles, commits: Mapping[int, sparklog.Commit], batch_id: int, store: tuple[int, int, int]
) -> int | None:
    operator, partition, _ = store
    for version in range(batch_id + 1, 0, -1):
        if version - 1 not in commits:
            return version - 1
        unique_id = _unique_id(commits[version - 1], store)
        if unique_id is None or (operator, partition, version, unique_id) in files.snapshots:
            return None
    return None


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
        place = f"{root}/state/{operator}/{partition}"
        if unique_id is None:
            raise _incomplete(
                f"commit {version - 1} names no state of operator {operator}, partition {partition}", place, batch_id
            )
        snapshot = files.snapshots.get((operator, partition, version, unique_id))
        if snapshot is not None:
            return Chain(snapshot, tuple(changelogs), version)
        changelog = files.changelogs.get((operator, partition, version, unique_id))
        if changelog is None:
            stem = f"{version}_{unique_id}"
            raise _incomplete(
                f"neither {stem}.zip nor .changelog exists", place, batch_id, files.places(operator, partition, stem)
            )
        changelogs.append(changelog)
    return Chain(None, tuple(changelogs), 0)


def _unique_id(commit: sparklog.Commit, store: tuple[int, int, int]) -> str | None:
    operator, partition, index = store
    partitions = (commit.state_ids or {}).get(operator, ())
    ids = partitions[partition] if partition < len(partitions) else ()
    return ids[index] if index < len(ids) else None


def _incomplete(
    what: str, place: str, batch_id: int, alternatives: tuple[str, ...] = ()
) -> errors.SnapshotCorruptError:
    return listing.FilesAbsentError(
        "ClosureIncomplete",
        f"Batch {batch_id} cannot be closed over: in {place} {what}. Start from an older snapshot.",
        alternatives,
    )
