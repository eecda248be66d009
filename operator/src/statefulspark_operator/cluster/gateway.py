"""The gateway port: what the operator needs of Kubernetes, and not one call more.

Every method raises, besides what it names itself:
    TransientError: `ApiServerUnavailable`: no answer, too many requests, or a fault of the server.
    StateUnknownError: `ApiServerRefused`: our permissions do not suffice; the message names what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from statefulspark_operator.cluster.resources import Kind, Resource


@dataclass(frozen=True, slots=True)
class JobKey:
    """Which job.

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
    """An event to post about a job.

    Attributes:
        reason: PascalCase.
        message: One sentence.
        is_warning: Its type is Warning and not Normal.
    """

    reason: str
    message: str
    is_warning: bool = False


class Gateway(Protocol):
    """Kubernetes, as seen by the operator. Reads are live: they never come from a cache."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return an object, or None if it is proven absent."""
        ...

    async def list_pods(self, namespace: str, selector: str) -> tuple[Resource, ...]:
        """Return the pods that match a label selector."""
        ...

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return a Secret's values, decoded, or None if it is proven absent."""
        ...

    async def create(self, manifest: Resource) -> bool:
        """Create an object; False if one of that name exists, which is left as it is.

        Raises:
            SpecRejectedError: `ManifestRejected`: the API server refuses the object.
        """
        ...

    async def apply(self, manifest: Resource) -> None:
        """Make an object be as the manifest says, by server-side apply with our field manager.

        Raises:
            SpecRejectedError: `ManifestRejected`: the API server refuses the object.
        """
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str | None = None) -> bool:
        """Delete an object; False if it is gone already.

        Args:
            kind: Its kind.
            namespace: Its namespace.
            name: Its name.
            uid: Delete only this very object; another one of the same name is left alone and counts as gone.
        """
        ...

    async def patch_status(self, key: JobKey, patch: Resource, *, resource_version: str) -> str:
        """Patch a job's status, if the job is still as it was read, and return its new version.

        Raises:
            PreconditionFailedError: `Conflict`: somebody changed the job meanwhile; nothing was written.
        """
        ...

    async def set_finalizers(self, key: JobKey, finalizers: tuple[str, ...], *, resource_version: str) -> None:
        """Replace a job's finalizers, if the job is still as it was read.

        Raises:
            PreconditionFailedError: `Conflict`: somebody changed the job meanwhile; nothing was written.
        """
        ...

    async def post_event(self, key: JobKey, uid: str, note: EventNote) -> None:
        """Post an event about a job."""
        ...
