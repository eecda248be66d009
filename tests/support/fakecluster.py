"""A Kubernetes in memory, behind the operator's gateway port, with the API server's habits that the operator relies on.

Versions grow with every write and a write with an old one is refused; an object with finalizers stays until they are
gone; what an object owns goes with it; a pod that is on a node stays until its kubelet lets it go. The contract suite
holds it to the real API server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import itertools
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kubernetes.client.models import V1PodSpec
from statefulspark import errors
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import EventNote, JobKey
from statefulspark_operator.cluster.resources import Kind, Resource

Place = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass
class FakeGateway:
    """The objects of a cluster."""

    now: Callable[[], datetime]
    objects: dict[Place, Resource] = field(default_factory=dict)
    events: list[EventNote] = field(default_factory=list)
    told_about: list[str] = field(default_factory=list)
    """Kind and name of the object of each event."""
    writes: list[str] = field(default_factory=list)
    before_write: Callable[[str], None] = lambda _what: None
    """Called before each write with what it is; raising there is an operator that dies just before it."""
    after_write: Callable[[str], None] = lambda _what: None
    """Called after each write; raising there is an operator that dies just after it."""

    admits: Callable[[Resource], errors.StatefulSparkError | None] = lambda _manifest: None
    """Says how admission refuses to create an object, also in a dry run."""
    reads: list[str] = field(default_factory=list)
    """What was read of the API server, as `get Pod flights-driver-1` or `list Pod`."""
    written: Callable[[Resource], None] = lambda _resource: None
    """Receives each object as it is after a write of the operator, as the answer of the API server has it."""
    on_event: Callable[[str, Resource], None] = lambda _event, _resource: None
    """Receives every change of an object, as a watch shows it: ADDED, MODIFIED or DELETED."""
    ending: set[str] = field(default_factory=set)
    """Namespaces that are being deleted."""
    known: set[str] = field(default_factory=lambda: {kind.name for kind in resources.KINDS.values()})
    """Kinds whose CRD is installed, as far as they are listed."""

    def __post_init__(self) -> None:
        self._versions = itertools.count(1)
        self._identities = itertools.count(1)
        self._own: set[Place] = set()
        self.watches: list[tuple[Place, asyncio.Queue[str]]] = []

    @property
    def secret_reads(self) -> int:
        """Number of times that a Secret was read."""
        return sum(read.startswith("get Secret ") for read in self.reads)

    @property
    def lists(self) -> int:
        """Number of times that savepoint objects were listed."""
        return self.reads.count(f"list {resources.SAVEPOINT.name}")

    @property
    def requests(self) -> int:
        """Number of requests to the API server so far."""
        return len(self.reads) + len(self.writes) + len(self.events)

    # What the operator may do.

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        self.reads.append(f"get {kind.name} {name}")
        return copy.deepcopy(self.objects.get((kind.name, namespace, name)))

    async def watch(self, kind: Kind, namespace: str, name: str) -> AsyncGenerator[str, None]:
        place, shown = (kind.name, namespace, name), asyncio.Queue[str]()
        if place in self.objects:
            shown.put_nowait(resources.text(self.objects[place], "metadata", "resourceVersion"))
        self.watches.append((place, shown))
        yield ""
        while True:
            yield await shown.get()

    async def is_ending(self, namespace: str) -> bool:
        return namespace in self.ending

    async def list_pods(self, namespace: str, selector: str) -> tuple[Resource, ...]:
        self.reads.append(f"list {resources.POD.name}")
        wanted = read_selector(selector)
        found = [pod for (kind, place, _), pod in self.objects.items() if (kind, place) == ("Pod", namespace)]
        return tuple(copy.deepcopy(pod) for pod in found if _has_labels(pod, wanted))

    async def list_all(
        self, kind: Kind, namespace: str | None, *, selector: str | None = None
    ) -> tuple[Resource, ...] | None:
        self.reads.append(f"list {kind.name}")
        of_kind = ((place, item) for (name, place, _), item in self.objects.items() if name == kind.name)
        found = [item for place, item in of_kind if namespace in (None, place)]
        wanted = read_selector(selector or "")
        named = tuple(copy.deepcopy(one) for one in found if _has_labels(one, wanted))
        return named if kind.name in self.known else None

    async def list_uids(self, kind: Kind, namespace: str | None, selector: str = "") -> frozenset[str]:
        self.reads.append(f"list identities of {kind.name}")
        wanted = read_selector(selector)
        found = (item for (name, place, _), item in self.objects.items() if name == kind.name)
        return frozenset(
            resources.text(item, "metadata", "uid")
            for item in found
            if namespace in (None, resources.text(item, "metadata", "namespace")) and _has_labels(item, wanted)
        )

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        self.reads.append(f"get Secret {name}")
        secret = self.objects.get(("Secret", namespace, name))
        if secret is None:
            return None
        texts = {key: str(value) for key, value in resources.section(secret, "stringData").items()}
        for key, value in resources.section(secret, "data").items():
            with contextlib.suppress(ValueError):
                texts[key] = base64.b64decode(str(value)).decode()
        return texts

    async def create(self, manifest: Resource) -> bool:
        place = _place(manifest)
        with _Write(self, f"create {place[0]} {place[2]}"):
            if place[1] in self.ending:
                raise errors.StateUnknownError("NamespaceTerminating", f"{place[1]} is being terminated.")
            if place in self.objects:
                return False
            refusal = self.admits(manifest)
            if refusal is not None:
                raise refusal
            self.add(manifest, is_own=True)
            return True

    async def dry_run(self, manifest: Resource) -> errors.StatefulSparkError | None:
        known = V1PodSpec.attribute_map.values()
        unknown = [name for name in resources.section(manifest, "spec") if name not in known]
        if unknown:
            return errors.SpecRejectedError("ManifestRejected", f'unknown field "spec.{unknown[0]}"')
        return self.admits(manifest)

    async def replace(self, manifest: Resource) -> Resource:
        place = _place(manifest)
        with _Write(self, f"replace {place[0]} {place[2]}"):
            self._require_version(place, resources.text(manifest, "metadata", "resourceVersion"))
            self.objects[place] = copy.deepcopy(manifest)
            self._touch(place, is_own=True)
            return copy.deepcopy(self.objects[place])

    async def apply(self, manifest: Resource, *, resource_version: str | None = None) -> str:
        place = _place(manifest)
        with _Write(self, f"apply {place[0]} {place[2]}"):
            old = self.objects.get(place)
            if old is not None and resource_version is not None:
                self._require_version(place, resource_version)
            elif old is not None and place not in self._own:
                raise errors.PreconditionFailedError("Conflict", f"Others have set fields of {place}.")
            self._own.add(place)
            if old is None:
                return resources.text(self.add(manifest, is_own=True), "metadata", "resourceVersion")
            kept = resources.section(old, "metadata")
            applied = {**copy.deepcopy(manifest), "metadata": {**kept, **resources.section(manifest, "metadata")}}
            if applied != old:
                self.objects[place] = applied
                self._touch(place, is_own=True)
            return resources.text(self.objects[place], "metadata", "resourceVersion")

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> bool:
        place = (kind.name, namespace, name)
        with _Write(self, f"delete {kind.name} {name}"):
            found = self.objects.get(place)
            if found is None or (uid is not None and resources.text(found, "metadata", "uid") != uid):
                return False
            self.remove(place, grace_s=grace_s)
            return True

    async def label_pod(
        self,
        namespace: str,
        name: str,
        labels: Mapping[str, str | None],
        *,
        annotations: Mapping[str, str | None] | None = None,
        uid: str,
    ) -> None:
        place = (resources.POD.name, namespace, name)
        with _Write(self, f"label {name}"):
            found = self.objects.get(place)
            if found is None:
                raise errors.PreconditionFailedError("NotFound", f"{place} is gone.")
            if resources.text(found, "metadata", "uid") != uid:
                raise errors.PreconditionFailedError("Conflict", f"{place} is another one.")
            meta: Resource = {"labels": dict(labels), "annotations": dict(annotations or {})}
            self.objects[place] = apply_merge_patch(found, {"metadata": meta})
            self._touch(place, is_own=True)

    async def patch_status(
        self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB
    ) -> str:
        place = (kind.name, key.namespace, key.name)
        with _Write(self, f"status {key.name}"):
            self._require_version(place, resource_version)
            found = self.objects[place]
            found["status"] = apply_merge_patch(resources.section(found, "status"), patch)
            return self._touch(place, is_own=True)

    async def read_cluster_id(self) -> str | None:
        return "cluster-1"

    async def patch(self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB) -> None:
        place = (kind.name, key.namespace, key.name)
        with _Write(self, f"patch {key.name}"):
            if place not in self.objects:
                return
            self._require_version(place, resource_version)
            found = self.objects[place]
            for part in ("metadata", "spec"):
                found[part] = apply_merge_patch(resources.section(found, part), resources.section(patch, part))
            metadata = resources.section(found, "metadata")
            metadata["generation"] = resources.number(metadata, "generation") + ("spec" in patch)
            self._touch(place, is_own=True)
            if not metadata.get("finalizers") and "deletionTimestamp" in metadata:
                self._drop(place)

    async def post_event(self, key: JobKey, uid: str, note: EventNote, *, kind: Kind = resources.JOB) -> None:
        del uid
        self.events.append(note)
        self.told_about.append(f"{kind.name} {key.name}")

    # What everybody else does.

    def add(self, manifest: Resource, *, is_own: bool = False) -> Resource:
        """Create an object as the API server does."""
        stored = copy.deepcopy(manifest)
        metadata = resources.section(stored, "metadata")
        metadata["uid"] = str(uuid.UUID(int=next(self._identities)))
        metadata["creationTimestamp"] = _stamp(self.now())
        metadata["generation"] = 1
        place = _place(stored)
        self.objects[place] = stored
        self._touch(place, event="ADDED", is_own=is_own)
        return stored

    def show(self, changed: Resource) -> None:
        """Give an object that was changed in place its next version, and show it to the watches."""
        self._touch(_place(changed))

    def change_spec(self, key: JobKey, change: Resource) -> None:
        """Patch a job's spec, as a user does."""
        place = (resources.JOB.name, key.namespace, key.name)
        job = self.objects[place]
        job["spec"] = apply_merge_patch(resources.section(job, "spec"), change)
        metadata = resources.section(job, "metadata")
        metadata["generation"] = resources.number(metadata, "generation") + 1
        self._touch(place)

    def remove(self, place: Place, *, grace_s: int | None = None) -> None:
        """Delete an object as the API server does: at once, or by marking it."""
        found = self.objects[place]
        metadata = resources.section(found, "metadata")
        on_node = place[0] == "Pod" and resources.text(found, "spec", "nodeName") != ""
        over = resources.text(found, "status", "phase") in ("Succeeded", "Failed")
        if not metadata.get("finalizers") and (not on_node or over):
            self._drop(place)
            return
        if "deletionTimestamp" not in metadata:
            own_s = resources.number(found, "spec", "terminationGracePeriodSeconds") if grace_s is None else grace_s
            metadata["deletionTimestamp"] = _stamp(self.now() + timedelta(seconds=own_s if on_node else 0))
            self._touch(place)

    def drop_pod(self, namespace: str, name: str) -> None:
        """Remove a pod as its kubelet does at the end, or as `kubectl delete --grace-period=0 --force` does."""
        self._drop(("Pod", namespace, name))

    def pods(self) -> list[Resource]:
        """Return all pods, as they are stored."""
        return [found for (kind, _, _), found in self.objects.items() if kind == "Pod"]

    def _drop(self, place: Place) -> None:
        gone = self.objects.pop(place, None)
        if gone is None:
            return
        self._show(place, str(next(self._versions)))
        self.on_event("DELETED", gone)
        uid = resources.text(gone, "metadata", "uid")
        owned = [
            other
            for other, found in self.objects.items()
            if any(owner.get("uid") == uid for owner in resources.items(found, "metadata", "ownerReferences"))
        ]
        for other in owned:
            self.remove(other)

    def _touch(self, place: Place, *, event: str = "MODIFIED", is_own: bool = False) -> str:
        version = str(next(self._versions))
        touched = self.objects[place]
        resources.section(touched, "metadata")["resourceVersion"] = version
        if is_own:
            self.written(copy.deepcopy(touched))
        self._show(place, version)
        self.on_event(event, copy.deepcopy(touched))
        return version

    def _show(self, place: Place, version: str) -> None:
        for watched, shown in self.watches:
            if watched == place:
                shown.put_nowait(version)

    def _require_version(self, place: Place, version: str) -> None:
        found = self.objects.get(place)
        if found is None:
            raise errors.PreconditionFailedError("NotFound", f"{place} is gone.")
        if resources.text(found, "metadata", "resourceVersion") != version:
            raise errors.PreconditionFailedError("Conflict", f"{place} has changed.")


class _Write:
    """Brackets a write with the hooks at which a test lets the operator die."""

    def __init__(self, gateway: FakeGateway, what: str) -> None:
        self._gateway, self._what = gateway, what

    def __enter__(self) -> None:
        self._gateway.before_write(self._what)
        self._gateway.writes.append(self._what)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._gateway.after_write(self._what)


def apply_merge_patch(target: Resource, patch: Resource) -> Resource:
    """Apply a JSON merge patch (RFC 7386)."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = apply_merge_patch(resources.section(merged, name), value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged


def _place(manifest: Resource) -> Place:
    return (
        resources.text(manifest, "kind"),
        resources.text(manifest, "metadata", "namespace"),
        resources.text(manifest, "metadata", "name"),
    )


def read_selector(selector: str) -> Mapping[str, tuple[str, ...]]:
    """Return the values that a label selector of the operator allows, by label: `a=b,c in (d,e)`."""
    wanted: dict[str, tuple[str, ...]] = {}
    for label, value, values in re.findall(r"([^,= ]+)(?:=([^,]+)| in \(([^)]*)\))", selector):
        wanted[label] = (value,) if value else tuple(values.split(","))
    return wanted


def _has_labels(found: Resource, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    labels = resources.section(found, "metadata", "labels")
    return all(labels.get(key) in values for key, values in wanted.items())


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
