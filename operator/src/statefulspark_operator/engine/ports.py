"""The ports of a reconcile pass to the outside world, and its clock."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from statefulspark_operator.api.job_defaults import JobDefaults
from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster.cache import Cache
from statefulspark_operator.cluster.driver_api import DriverApi
from statefulspark_operator.cluster.gateway import Gateway, JobKey
from statefulspark_operator.cluster.storage_reader import StorageReader
from statefulspark_operator.engine.memory import FreedBytes, Memories, SavepointLists, SecretCache
from statefulspark_operator.engine.rollouts import Rollouts
from statefulspark_operator.engine.starts import Starts
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render.base import USER_ID, Subject
from statefulspark_operator.render.network_policy import Peers


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world as a reconcile pass sees it.

    Attributes:
        gateway: Kubernetes.
        drivers: The drivers' HTTP API.
        storage: Shared storage.
        now: The clock, UTC.
        new_token: Creates a token for a driver's API.
        cache: Jobs, pods and savepoint objects, as the watches show them.
        listings: The savepoint objects of each namespace.
        memories: What is remembered of each job between two passes.
        secrets: Secrets as they were read last.
        freed: What was deleted on storage so far.
        rollouts: The upgrades that run, and those that wait for their turn.
        starts: The jobs that wait for their turn to start a driver.
        wake: Requests a pass of a job.
        follow_code: Watches the ConfigMap with a job's code (`OpenWatches.follow`); without watches it returns None.
        job_peers: Who may reach a driver beside the job's own pods; None if jobs get no NetworkPolicy.
        pod_templates: What the templates of pods may set.
        job_defaults: What jobs have that do not say otherwise.
        user_id: User and group of jobs' pods; None if images or the platform say it.
        cluster_id: Uid of the namespace kube-system, which stands for the cluster; None if it may not be read.
        require_leadership: Raises `NotLeading` if this operator is not the one that acts at this moment.
    """

    gateway: Gateway
    drivers: DriverApi
    storage: StorageReader
    now: Callable[[], datetime] = utc_now
    new_token: Callable[[], str] = field(default=lambda: randomness.token_urlsafe(32))
    cache: Cache = field(default_factory=Cache)
    listings: SavepointLists = field(default_factory=SavepointLists)
    memories: Memories = field(default_factory=Memories)
    secrets: SecretCache = field(default_factory=SecretCache)
    freed: FreedBytes = field(default_factory=FreedBytes)
    rollouts: Rollouts = field(default_factory=Rollouts)
    starts: Starts = field(default_factory=Starts)
    wake: Callable[[JobKey], None] = lambda _key: None
    follow_code: Callable[[JobKey, str | None], int | None] = lambda _key, _name: None
    job_peers: Peers | None = None
    pod_templates: PodTemplates = PodTemplates.RESTRICTED
    job_defaults: JobDefaults = field(default_factory=JobDefaults)
    user_id: int | None = USER_ID
    cluster_id: str | None = None
    require_leadership: Callable[[], None] = lambda: None

    def subject(self, job: Job, spec: StatefulSparkJobSpec) -> Subject:
        """Return a job with its own spec, without the installation's defaults."""
        return Subject(job, spec, self.cluster_id, self.user_id)
