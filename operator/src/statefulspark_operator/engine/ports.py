"""The ports of a reconcile pass to the outside world, and its clock."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.cluster.config_map_watches import ConfigMapWatches, NoWatches
from statefulspark_operator.cluster.driver_api import DriverApi
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.storage_reader import StorageReader
from statefulspark_operator.cluster.watched import Watched
from statefulspark_operator.engine.knownsecrets import KnownSecrets
from statefulspark_operator.engine.memory import Memories
from statefulspark_operator.engine.single_flight import SingleFlight
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.render.network_policy import Peers


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


LISTING_LASTS = timedelta(minutes=5)
"""How long a namespace's copies of savepoint objects are used before they are listed again: a watch does not tell
everything."""


@dataclass(frozen=True, slots=True)
class ParsedSavepoints:
    """The savepoint objects of a namespace, parsed once for all jobs and passes until one of them changes.

    Attributes:
        changes: What `Watched.changes` was.
        by_uid: Version and content of each; None for one that cannot be read.
        everything: All that can be read.
        by_job: The same, by the job that they name.
    """

    changes: int
    by_uid: Mapping[str, tuple[str, SavepointObject | None]]
    everything: tuple[SavepointObject, ...]
    by_job: Mapping[str, Sequence[SavepointObject]]


@dataclass(slots=True)
class Listings:
    """When the savepoint objects of each namespace were listed last, whether the cluster knows them, and their content."""

    parsed: dict[str, ParsedSavepoints] = field(default_factory=dict)
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    turns: dict[tuple[str, str], str] = field(default_factory=dict)
    """By namespace and job, the object for which something was done on storage last."""
    _listed: dict[str, tuple[datetime, bool]] = field(default_factory=dict)

    def forget(self, namespace: str) -> None:
        """Have the objects of a namespace listed again."""
        self._listed.pop(namespace, None)

    def is_current(self, namespace: str, now: datetime) -> bool:
        """Tell whether the objects of a namespace were listed a short time ago."""
        return namespace in self._listed and now - self._listed[namespace][0] < LISTING_LASTS

    def is_known(self, namespace: str) -> bool:
        """Tell whether the cluster knew the kind when the objects of a namespace were listed."""
        return self._listed[namespace][1]

    def keep(self, namespace: str, *, now: datetime, is_known: bool) -> None:
        """Note that the objects of a namespace were listed."""
        self._listed[namespace] = (now, is_known)


@dataclass(slots=True)
class FreedBytes:
    """Sizes of all files that this operator has deleted on storage.

    Attributes:
        pruned: In folders of jobs without a driver.
        purged: With their job, as `deletionPolicy: Delete` says.
        disposed: Of savepoints whose objects were deleted, by a person or by the retention of a schedule.
    """

    pruned: int = 0
    purged: int = 0
    disposed: int = 0


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world as a reconcile pass sees it.

    Attributes:
        gateway: Kubernetes.
        drivers: The drivers' HTTP API.
        storage: Shared storage.
        now: The clock, UTC.
        new_token: Creates a token for a driver's API.
        watched: The watches' copies of jobs, pods and savepoint objects.
        listings: When savepoint objects were listed last.
        memories: What is remembered of each job between two passes.
        secrets: Secrets as they were read last.
        freed: What was deleted on storage so far.
        code_watches: Tells that a ConfigMap with a job's code has changed.
        job_peers: Who may reach a driver beside the job's own pods; None if jobs get no NetworkPolicy.
        pod_templates: What the templates of pods may set.
        require_leadership: Raises `NotLeading` if this operator is not the one that acts at this moment.
    """

    gateway: Gateway
    drivers: DriverApi
    storage: StorageReader
    now: Callable[[], datetime] = utc_now
    new_token: Callable[[], str] = field(default=lambda: randomness.token_urlsafe(32))
    watched: Watched = field(default_factory=Watched)
    listings: Listings = field(default_factory=Listings)
    memories: Memories = field(default_factory=Memories)
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    freed: FreedBytes = field(default_factory=FreedBytes)
    code_watches: ConfigMapWatches = field(default_factory=NoWatches)
    job_peers: Peers | None = None
    pod_templates: PodTemplates = PodTemplates.RESTRICTED
    require_leadership: Callable[[], None] = lambda: None
