"""The report of `statefulspark doctor` on a storage folder: the output of `-o json`.

It is made by reading storage once, without a change. Sizes are bytes, times UTC.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from statefulspark.contract.base import UtcDatetime, WireModel


class PlaceKind(StrEnum):
    """The kind of a folder."""

    ROOT = "root"
    """It holds jobs, as `<namespace>/<job>/`."""
    JOB = "job"
    """One job's state."""
    SNAPSHOT = "snapshot"
    """One checkpoint's or savepoint's folder."""
    EMPTY = "empty"
    """There is nothing."""
    FOREIGN = "foreign"
    """It contains only objects of other programs."""


class BrokenFile(WireModel):
    """One file that is missing or damaged."""

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
    uncompared: tuple[str, ...] = ()
    """Absolute URIs of the files that were read and whose content nothing vouches for: only their sizes were compared."""
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
    """The owner of the state, and the driver that may write it."""

    owner_id: str | None = None
    """Uid of the Kubernetes resource, or `local`."""
    epoch: int = 0
    """The newest start; 0 before the first."""
    holder: str | None = None
    """Who started it."""
    claimed_at: UtcDatetime | None = None


class RestartForecast(WireModel):
    """The start that a driver would make now."""

    possible: bool
    sentence: str
    """For people: the snapshot that it starts from and why, or why it cannot start."""
    mode: str | None = None
    """`empty`, `continue` or `copy`."""
    restored_from: str | None = None
    generation: int | None = None
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query uid."""
    salvages: bool = False
    """Whether batches were committed after the newest checkpoint; the start first completes a checkpoint of them."""
    fallback: str | None = None
    """Why a newer snapshot cannot be used."""
    other_spark: str | None = None
    """Which release of Spark wrote that snapshot, if another one is installed where this report is made."""


class Freeable(WireModel):
    """The objects that pruning would remove now."""

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
    """A folder beside the state: staged rows of a sink, or the scratch folder of a start."""

    path: str
    whose: str
    """For example `sink out of query delays`, or `start of epoch 7`."""
    files: int
    size_bytes: int


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
    """Savepoints at other locations, newest first. The job needs none of them, so a problem with one is only a note."""
    beside: tuple[FolderHealth, ...] = ()
    """Staged rows and scratch folders."""
    restart: RestartForecast
    freeable: Freeable = Freeable()
    foreign: tuple[str, ...] = ()
    """Objects that other programs wrote."""
    notes: tuple[str, ...] = ()
    """Remarks that report no damage."""
    problems: tuple[str, ...] = ()
    """One sentence for each problem; empty for a healthy job."""


class Diagnosis(WireModel):
    """The full report on a folder."""

    location: str
    kind: PlaceKind
    healthy: bool
    jobs: tuple[JobHealth, ...] = ()
    snapshot: SnapshotHealth | None = None
    foreign: tuple[str, ...] = ()
    """Objects beside the jobs of a root that other programs wrote."""
