"""What of a run's world can be turned back, copied or lost: the bucket of a site, and the target of the sink.

A site is a bucket and what lies before it. All sites reach one target: a database (the rig's ledger), or a folder of Parquet
files that no site's bucket owns. Rows and markers of a target go back together, as those of a real database do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime

from faultrig import faults, truth
from simulation.bucket import Bucket
from statefulspark.sinks import marker

OUTPUT = "out"
"""Folder of the files sink."""
Stored = tuple[bytes, datetime]


class Bodies(MutableMapping[str, Stored]):
    """The objects of a site, with the folder of output that all sites share.

    Attributes:
        own: What is in the site's own bucket.
        shared: What is in the output folder.
    """

    def __init__(self, shared: dict[str, Stored], own: Mapping[str, Stored] | None = None) -> None:
        self.own = dict(own or {})
        self.shared = shared

    def _of(self, key: str) -> dict[str, Stored]:
        return self.shared if key.startswith(f"{OUTPUT}/") else self.own

    def __getitem__(self, key: str) -> Stored:
        return self._of(key)[key]

    def __setitem__(self, key: str, stored: Stored) -> None:
        self._of(key)[key] = stored

    def __delitem__(self, key: str) -> None:
        del self._of(key)[key]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.own, *self.shared))

    def __len__(self) -> int:
        return len(self.own) + len(self.shared)

    def get(self, key: str, default: Stored | None = None) -> Stored | None:  # type: ignore[override]
        """Return what is stored; the base asks by an exception."""
        return self._of(key).get(key, default)


@dataclass
class Site:
    """One place with a bucket.

    Attributes:
        bucket: Its bucket.
        network: What lies before it.
        bodies: What is in it.
        taken_over_at: The record at which it has taken the sink over from another history; before it rows may be of either.
        is_stopped: Whether a person makes sure that no driver starts there any more.
    """

    bucket: Bucket
    network: faults.Network
    bodies: Bodies
    taken_over_at: int = 0
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.bucket._objects.bodies = self.bodies  # type: ignore[assignment]
        self.network.server = self.network.truth = self.bucket


@dataclass(frozen=True, slots=True)
class Content:
    """What a target has: rows and markers of the database, objects of the output folder, and the words given until then."""

    rows: tuple[truth.Row, ...]
    markers: Mapping[str, marker.Marker]
    objects: Mapping[str, Stored]
    words: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """What a backup of everything would have.

    Attributes:
        state: The site's bucket.
        content: The target.
    """

    state: Mapping[str, Stored]
    content: Content
