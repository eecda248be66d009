"""What a pass may do, as data.

Every action is idempotent and carries the identity of the attempt (epoch, request id, pod uid), so that an operator
that died after acting and before remembering may do it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.contract.manifest import SnapshotFormat, Trigger

from statefulspark_operator.api.status import RestoreIntent


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer on the resource."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off; the resource may go."""


@dataclass(frozen=True, slots=True)
class EnsureToken:
    """Make the Secret with the driver's API token, unless it exists; an existing token is kept."""


@dataclass(frozen=True, slots=True)
class EnsureRevision:
    """Keep the spec of a revision, so that it can be run again when a later one is rejected.

    Attributes:
        revision: Names it.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class EnsureAccess:
    """Make the service account that lets the driver start executor pods."""


@dataclass(frozen=True, slots=True)
class EnsureService:
    """Point the job's headless Service at one epoch.

    Attributes:
        epoch: Whose pod executors reach by the Service's name.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class EnsureConfig:
    """Write the configuration that the driver of an epoch reads.

    Attributes:
        epoch: Whose.
        revision: Revision of the spec that it is made from.
        restore: What to start from, None for the latest completed checkpoint.
    """

    epoch: int
    revision: str
    restore: RestoreIntent | None


@dataclass(frozen=True, slots=True)
class CreateDriver:
    """Create the driver pod of an epoch; a pod of that name that exists is left as it is.

    Attributes:
        epoch: The fencing token it is given.
        revision: Revision of the spec that it runs.
    """

    epoch: int
    revision: str


@dataclass(frozen=True, slots=True)
class DeleteDriver:
    """Delete one driver pod; SIGTERM lets it finish its batch and complete a checkpoint.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod; another one of the same name is left alone.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RequestStop:
    """Ask the driver to stop with a savepoint.

    Attributes:
        request_id: Asking again with it never starts a second one.
        epoch: The driver that is meant.
        trigger: Why.
        location: Parent folder of the savepoint, None for the job's own.
    """

    request_id: str
    epoch: int
    trigger: Trigger
    location: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSavepoint:
    """Ask the driver for a savepoint while it goes on.

    Attributes:
        request_id: Asking again with it never starts a second one.
        epoch: The driver that is meant.
        location: Parent folder of the savepoint, None for the job's own.
        written_as: The form of its state.
    """

    request_id: str
    epoch: int
    location: str | None = None
    written_as: SnapshotFormat = SnapshotFormat.NATIVE


@dataclass(frozen=True, slots=True)
class ForgetDriver:
    """Delete the pod of an ended epoch, kept until now for its log, and its configuration.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod.
        epoch: Its epoch.
    """

    name: str
    uid: str
    epoch: int


@dataclass(frozen=True, slots=True)
class PurgeStorage:
    """Delete everything below the job's folder on storage."""


Action = (
    AddFinalizer
    | RemoveFinalizer
    | EnsureToken
    | EnsureRevision
    | EnsureAccess
    | EnsureService
    | EnsureConfig
    | CreateDriver
    | DeleteDriver
    | RequestStop
    | RequestSavepoint
    | ForgetDriver
    | PurgeStorage
)

DESTRUCTIVE = (RemoveFinalizer, DeleteDriver, RequestStop, PurgeStorage)
"""Actions that end or remove something that runs or is kept; a decision has at most one of them."""
