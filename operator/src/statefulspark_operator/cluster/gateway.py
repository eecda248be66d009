"""The gateway port: exactly the Kubernetes calls that the operator needs.

Every method raises, in addition to its own errors:
    TransientError: `ApiServerUnavailable`: no answer, too many requests, or an error of the server.
    StateUnknownError: The API server refuses the request: `RightMissing`, `QuotaExceeded` or another reason of `judgements`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

from statefulspark import errors

from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource


@dataclass(frozen=True, slots=True)
class JobKey:
    """The identity of a job.

    Attributes:
        namespace: Its namespace.
        name: Its name.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event to post about a job or a savepoint.

    Attributes:
        reason: PascalCase.
        message: One sentence.
        is_warning: Whether its type is Warning instead of Normal.
    """

    reason: str
    message: str
    is_warning: bool = False


class Gateway(Protocol):
    """Kubernetes as the operator uses it. Reads are live, never from a cache."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return an object, or None if it is proven absent, as one is whose name no object can have.

        The author of a resource chooses the names of its Secrets and ConfigMaps, and the operator may read those of others.
        """
        ...

    def watch(self, kind: Kind, namespace: str, name: str) -> AsyncGenerator[str, None]:
        """Watch one object, which need not exist, without what it contains, until the API server ends the watch.

        Yields:
            An empty text when the watch is open; then the version of the object as it is, and with each change and its
            deletion.
        """
        ...

    async def is_ending(self, namespace: str) -> bool:
        """Tell whether a namespace is being deleted; false, too, if the operator may not read it."""
        ...

    async def list_pods(self, namespace: str, selector: str) -> tuple[Resource, ...]:
        """Return the pods that match a label selector."""
        ...

    async def list_all(
        self, kind: Kind, namespace: str | None, *, selector: str | None = None
    ) -> tuple[Resource, ...] | None:
        """Return all objects of a kind in a namespace; None if the cluster does not know the kind.

        Args:
            kind: The kind.
            namespace: The namespace.
            selector: Label selector; None for all of them.
        """
        ...

    async def list_uids(self, kind: Kind, namespace: str | None, selector: str = "") -> frozenset[str]:
        """Return the identities of all objects of a kind.

        Args:
            kind: The kind.
            namespace: Their namespace; None for all.
            selector: A label selector.
        """
        ...

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return a Secret's values that are UTF-8 text, decoded, or None if it is proven absent."""
        ...

    async def create(self, manifest: Resource) -> bool:
        """Create an object; False if one with that name exists, which is not changed.

        Raises:
            SpecRejectedError: `ManifestRejected`: the API server refuses the object.
        """
        ...

    async def dry_run(self, manifest: Resource) -> errors.StatefulSparkError | None:
        """Return how the API server would refuse to create an object, also for an unknown field; None if it would not.

        Nothing is created. A server that cannot try it, because one of its webhooks cannot, does not refuse.
        """
        ...

    async def replace(self, manifest: Resource) -> Resource:
        """Replace an object if it still has the version in the manifest, and return it as it is then.

        Raises:
            PreconditionFailedError: `Conflict` or `NotFound`: it has changed, or is gone; nothing was written.
        """
        ...

    async def apply(self, manifest: Resource, *, resource_version: str | None = None) -> str:
        """Apply a manifest by server-side apply with the operator's field manager, and return the object's version.

        Args:
            manifest: The manifest.
            resource_version: The version of the object that is changed, also where others have set its fields; an object
                that is gone is created. None for an object that does not exist, and then nothing that others have set is
                changed.

        Raises:
            PreconditionFailedError: `Conflict`: the object has another version, or others have set its fields.
            SpecRejectedError: `ManifestRejected`: the API server refuses the object.
        """
        ...

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> bool:
        """Delete an object; False if it does not exist.

        Args:
            kind: Its kind.
            namespace: Its namespace.
            name: Its name.
            uid: Delete only this object; another one with the same name is not deleted, and False is returned.
            grace_s: Of a pod: how long its processes may go on; what it says itself when omitted.
        """
        ...

    async def label_pod(
        self,
        namespace: str,
        name: str,
        labels: Mapping[str, str | None],
        *,
        annotations: Mapping[str, str | None] | None = None,
        uid: str,
    ) -> None:
        """Add, change and remove labels and annotations of a pod.

        Args:
            namespace: Its namespace.
            name: Its name.
            labels: The labels, None for one that goes; others are kept.
            annotations: The same of annotations.
            uid: Identity of the pod; another one with the same name is not changed.

        Raises:
            PreconditionFailedError: `Conflict` or `NotFound`: the pod does not exist any more.
        """
        ...

    async def patch_status(
        self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB
    ) -> str:
        """Patch the status of a job or a savepoint if it has not changed since it was read, and return its new version.

        Raises:
            PreconditionFailedError: `Conflict`: it has changed since it was read; nothing was written.
        """
        ...

    async def read_cluster_id(self) -> str | None:
        """Return the uid of the namespace kube-system, which stands for the cluster; None if it may not be read."""
        ...

    async def patch(self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB) -> None:
        """Patch metadata and spec of a job or a savepoint if it has not changed since it was read; nothing is made anew.

        Args:
            key: Its namespace and name.
            patch: A merge patch: a list is replaced.
            resource_version: Its version as it was read.
            kind: Its kind.

        Raises:
            PreconditionFailedError: `Conflict`: it has changed since it was read; nothing was written.
        """
        ...

    async def post_event(self, key: JobKey, uid: str, note: EventNote, *, kind: Kind = resources.JOB) -> None:
        """Post an event about a job or a savepoint."""
        ...
