"""What `statefulspark doctor` says about a storage folder: the answer of `-o json`.

Made from one look at storage, without changing anything there. Sizes are bytes, times UTC.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from statefulspark.contract.base import UtcDatetime, WireModel


class PlaceKind(StrEnum):
    """What a folder is."""

    ROOT = "root"
    """It holds jobs, as `<namespace>/<job>/`."""
    JOB = "job"
    """One job's state."""
    SNAPSHOT = "snapshot"
    """One checkpoint's or savepoint's folder."""
    EMPTY = "empty"
    """There is nothing."""
    FOREIGN = "foreign"
    """There is something, and none of it is ours."""


class BrokenFile(WireModel):
    """One file that is not what it has to be."""

    path: str
    """Absolute URI."""
    problem: str
    """`Missing`, `SizeDiffers`, `ChecksumDiffers`, `Unreadable`."""
    expected: str
    found: str


class SnapshotHealth(WireModel):
    """One checkpoint or savepoint."""

    label: str
    """For example `checkpoint 42`."""
    location: str
    ok: bool
    completed_at: UtcDatetime | None = None
    trigger: str | None = None
    size_bytes: int | None = None
    files: int | None = None
    broken: tuple[BrokenFile, ...] = ()
    problem: str | None = None
    """Why its manifest cannot be used, if it cannot."""


class GenerationHealth(WireModel):
    """One generation of checkpoint roots."""

    generation: int
    role: str
    """`in use`, `older`, `unfinished`, `abandoned`, or `damaged`."""
    files: int
    size_bytes: int
    made_from: str | None = None
    """Absent for one that began with empty state."""
    problem: str | None = None


class OwnerFacts(WireModel):
    """Who the state belongs to, and who may write it."""

    owner_id: str | None = None
    """Uid of the Kubernetes resource, or `local`."""
    epoch: int = 0
    """The newest start; 0 before the first."""
    holder: str | None = None
    """Who started it."""
    claimed_at: UtcDatetime | None = None


class RestartForecast(WireModel):
    """What a driver that starts now would do."""

    possible: bool
    sentence: str
    """For people: what it starts from and why, or why it cannot."""
    mode: str | None = None
    """`empty`, `continue` or `copy`."""
    restored_from: str | None = None
    generation: int | None = None
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query uid."""
    salvages: bool = False
    """Whether batches were committed after the newest checkpoint, which are completed as a checkpoint first."""
    fallback: str | None = None
    """Why something newer cannot be used."""


class Freeable(WireModel):
    """What pruning would remove, were it run now."""

    checkpoints: tuple[str, ...] = ()
    """Manifests beyond the retained number."""
    snapshots: tuple[str, ...] = ()
    """Snapshots that the job claimed and that are subsumed."""
    files: int = 0
    size_bytes: int = 0
    """Unused for the grace time."""
    waiting_files: int = 0
    waiting_size_bytes: int = 0
    """Unused, and waiting for the grace time to pass."""
    kept: dict[str, int] = Field(default_factory=dict)
    """Number of files kept, by reason."""


class FolderHealth(WireModel):
    """A folder beside the state: rows that a sink has staged, or what a start makes and removes again."""

    path: str
    whose: str
    """For example `sink out of query delays`, or `start of epoch 7`."""
    files: int
    size_bytes: int
    unneeded_files: int = 0
    """Of drivers that are over, and in no prepared transaction of a generation or savepoint."""
    unneeded_size_bytes: int = 0


class JobHealth(WireModel):
    """One job's folder."""

    location: str
    owner: OwnerFacts
    generations: tuple[GenerationHealth, ...] = ()
    checkpoints: tuple[SnapshotHealth, ...] = ()
    """Newest first."""
    savepoints: tuple[SnapshotHealth, ...] = ()
    """Those in the job's own folder, newest first."""
    elsewhere: tuple[SnapshotHealth, ...] = ()
    """Savepoints at other locations, newest first. The job needs none of them: what is wrong with one is a note."""
    beside: tuple[FolderHealth, ...] = ()
    """Staged rows and scratch folders."""
    restart: RestartForecast
    freeable: Freeable = Freeable()
    foreign: tuple[str, ...] = ()
    """What is there and is not ours."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and is no damage."""
    problems: tuple[str, ...] = ()
    """What is broken, a sentence each; empty for a healthy job."""


class Diagnosis(WireModel):
    """Everything about a folder."""

    location: str
    kind: PlaceKind
    healthy: bool
    jobs: tuple[JobHealth, ...] = ()
    snapshot: SnapshotHealth | None = None
    foreign: tuple[str, ...] = ()
    """What lies beside the jobs of a root and is not ours."""
