"""The actions of a reconcile pass, as data.

Every action is idempotent and carries the identity of the attempt (epoch, request id, pod uid), so that an operator that
ended after an action and before it recorded the result may repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.manifest import SnapshotFormat, Trigger

from statefulspark_operator.api.pod_metadata import PodMetadata
from statefulspark_operator.api.status import RestoreIntent


@dataclass(frozen=True, slots=True)
class SetFinalizers:
    """Hold the resource by finalizers of the operator; a deleted resource that nothing holds is gone.

    Attributes:
        names: The finalizers; the resource has no other one of the operator afterwards.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnsureToken:
    """Create the Secret with the driver's API token; an existing one is kept."""


@dataclass(frozen=True, slots=True)
class EnsureRevision:
    """Store the spec of a revision, so that it can run again if a later one is rejected.

    Attributes:
        revision: The revision.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class EnsureAccess:
    """Create the service account with which the driver starts executor pods, and the Secret that it shares with them."""


@dataclass(frozen=True, slots=True)
class EnsureService:
    """Set the epoch that the job's headless Service selects, and who may reach the job's pods, if that is limited.

    Attributes:
        epoch: The epoch whose driver pod executors reach by the Service's name.
        revision: Revision of that driver.
    """

    epoch: int
    revision: str


@dataclass(frozen=True, slots=True)
class EnsureConfig:
    """Write the configuration that the driver of an epoch reads.

    Attributes:
        epoch: The epoch.
        revision: Revision of the spec that it is made from.
        restore: The snapshot to start from; None for the newest committed batch.
    """

    epoch: int
    revision: str
    restore: RestoreIntent | None


@dataclass(frozen=True, slots=True)
class CreateDriver:
    """Create the driver pod of an epoch; an existing pod with its name is not changed.

    Attributes:
        epoch: The fencing token of the pod.
        revision: Revision of the spec that it runs.
    """

    epoch: int
    revision: str


@dataclass(frozen=True, slots=True)
class CreateStandby:
    """Write the configuration of a standby, and create its pod; an existing pod with its name is not changed.

    Attributes:
        pod: Name of the pod.
        revision: Revision of the spec that it loads.
    """

    pod: str
    revision: str


@dataclass(frozen=True, slots=True)
class DeleteStandby:
    """Delete a standby pod and its configuration. Nothing is lost: it has written nothing.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ActivateStandby:
    """Give a standby pod the labels of a driver, and ask its process to claim the epoch.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod; another pod with the same name is not changed.
        epoch: The epoch; it identifies the request, too, so that a repeated one starts nothing twice.
        revision: Revision of the spec that it runs.
        restore: The snapshot to start from; None for the newest committed batch.
    """

    name: str
    uid: str
    epoch: int
    revision: str
    restore: RestoreIntent | None


@dataclass(frozen=True, slots=True)
class DeleteDriver:
    """Delete one driver pod; SIGTERM lets it finish its batch and complete a checkpoint.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod; another pod with the same name is not deleted.
        grace_s: How long it has for that; None if that is what its pod says.
    """

    name: str
    uid: str
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class PodReference:
    """One pod.

    Attributes:
        name: Its name.
        uid: Its identity.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteExecutors:
    """Delete the executors of a driver that is over. Nothing is lost: its epoch is fenced, and it commits nothing more.

    Attributes:
        pods: The executors; other pods with their names are not deleted.
    """

    pods: tuple[PodReference, ...]


@dataclass(frozen=True, slots=True)
class RequestStop:
    """Ask the driver to stop with a savepoint.

    Attributes:
        request_id: Id of the request; a repeated request with it starts nothing twice.
        epoch: Epoch of the driver.
        trigger: Reason for the stop.
        location: Parent folder of the savepoint; None for the job's own.
    """

    request_id: str
    epoch: int
    trigger: Trigger
    location: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSavepoint:
    """Ask the driver for a savepoint while the job keeps running.

    Attributes:
        request_id: Id of the request; a repeated request with it starts nothing twice.
        epoch: Epoch of the driver.
        location: Parent folder of the savepoint; None for the job's own.
        written_as: The form of its state.
        name: Name of the object that asks for it; None if none does.
    """

    request_id: str
    epoch: int
    location: str | None = None
    written_as: SnapshotFormat = SnapshotFormat.NATIVE
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetDriver:
    """Delete the pod of an ended epoch, which was kept for its log, and its configuration.

    Attributes:
        name: Name of the pod.
        uid: Identity of the pod.
        epoch: Its epoch.
    """

    name: str
    uid: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ConfigureDriver:
    """Tell the running driver what `spec.checkpoint` is now.

    Attributes:
        epoch: Epoch of the driver.
        checkpoint: The configuration.
    """

    epoch: int
    checkpoint: CheckpointConfig


@dataclass(frozen=True, slots=True)
class DescribePods:
    """Give running pods the labels and annotations that their templates say now; nothing else of them is changed.

    Attributes:
        pods: The pods; other pods with their names are not changed.
        metadata: What the job's templates give to them.
        are_executors: Whether they are executors, and not a driver or a standby.
    """

    pods: tuple[PodReference, ...]
    metadata: PodMetadata
    are_executors: bool = False


@dataclass(frozen=True, slots=True)
class PurgeStorage:
    """Delete everything below the job's folder on storage."""


Action = (
    SetFinalizers
    | EnsureToken
    | EnsureRevision
    | EnsureAccess
    | EnsureService
    | EnsureConfig
    | CreateDriver
    | CreateStandby
    | DeleteStandby
    | ActivateStandby
    | DeleteDriver
    | DeleteExecutors
    | RequestStop
    | RequestSavepoint
    | ConfigureDriver
    | DescribePods
    | ForgetDriver
    | PurgeStorage
)

STARTING = (
    EnsureToken,
    EnsureRevision,
    EnsureAccess,
    EnsureService,
    EnsureConfig,
    CreateDriver,
    ActivateStandby,
)
"""Actions of which a start consists."""
