"""Cached copies of jobs, their pods and their savepoint objects, from watches and from the answers to the operator's writes.

A copy can be stale: an object that is missing here may exist, and one that is here may be gone, because a watch that was
opened again does not report earlier deletions. A caller that needs certainty asks the gateway, and stores the answer here.

A copy stays JSON text until it is read. As Python objects it takes ten times the memory, and most reads need its version
alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

from pydantic_core import from_json, to_json

from statefulspark_operator.api import names
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Kind, Resource

KINDS = (resources.JOB, resources.POD, resources.SAVEPOINT)
"""The kinds that are watched."""
_REMEMBERED_DELETIONS = 4096
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Group = tuple[str, str, str]
"""Kind, namespace, and for pods the job."""


def slim(resource: Resource) -> Resource:
    """Return an object without what no decision reads and what makes up most of it: thousands of them are kept."""
    metadata = {
        name: value for name, value in resources.section(resource, "metadata").items() if name != "managedFields"
    }
    annotations = resources.section(metadata, "annotations")
    if _LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
    slimmed: Resource = {**resource, "metadata": metadata}
    if resources.text(resource, "kind") == resources.POD.name:
        spec: Resource = {"nodeName": resources.text(resource, "spec", "nodeName")}
        if native := pods.native_sidecars(resource):
            spec["initContainers"] = [{"name": name, "restartPolicy": "Always"} for name in native]
        slimmed["spec"] = spec
    return slimmed


def version_of(resource: Resource) -> str:
    """Return the version of an object."""
    return resources.text(resource, "metadata", "resourceVersion")


def uid_of(resource: Resource) -> str:
    """Return the identity of an object."""
    return resources.text(resource, "metadata", "uid")


def job_of(resource: Resource) -> JobKey | None:
    """Return the job that an object of a watched kind belongs to; None if it names none."""
    namespace = resources.text(resource, "metadata", "namespace")
    match resources.text(resource, "kind"):
        case resources.JOB.name:
            name = resources.text(resource, "metadata", "name")
        case resources.SAVEPOINT.name:
            name = resources.text(resource, "spec", "job")
        case _:
            name = resources.text(resource, "metadata", "labels", names.LABEL_JOB)
    return JobKey(namespace, name) if namespace and name else None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an object.

    Attributes:
        uid: Its identity.
        version: Its version.
        content: What is kept of it, as JSON.
    """

    uid: str
    version: str
    content: bytes

    @classmethod
    def of(cls, resource: Resource) -> Self:
        """Make a copy of an object."""
        return cls(uid_of(resource), version_of(resource), to_json(slim(resource)))

    def read(self) -> Resource:
        """Return what is kept; whoever asks may change it."""
        resource: Resource = from_json(self.content, cache_strings="keys")
        return resource


@dataclass(slots=True)
class Watched:
    """Copies of the watched objects, by kind and namespace, pods by job.

    Whoever reads one gets an object of its own: what `slim` leaves out is missing, and everything else is as it was shown.
    """

    _groups: dict[Group, dict[str, Copy]] = field(default_factory=dict)
    _changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _own_versions: dict[str, str] = field(default_factory=dict)
    _gone: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def show(self, resource: Resource) -> None:
        """Keep an object as a watch has shown it; an older version than the kept one changes nothing."""
        if uid_of(resource) in self._gone:
            return
        group = self._groups.setdefault(_group(resource), {})
        name = resources.text(resource, "metadata", "name")
        kept = group.get(name)
        if kept is None or not (_is_older(resource, kept) or _is_same(resource, kept)):
            group[name] = Copy.of(resource)
            self._changes[_group(resource)[:2]] += 1

    def show_gone(self, resource: Resource) -> None:
        """Drop an object that was deleted; what an answer on its way still says of it is not kept."""
        uid = uid_of(resource)
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED_DELETIONS:
            self._gone.popitem(last=False)
        self._own_versions.pop(uid, None)
        name, belongs_to = resources.text(resource, "metadata", "name"), _group(resource)
        group = self._groups.get(belongs_to, {})
        if name in group and group[name].uid == uid:
            self._drop(belongs_to, name)

    def changes(self, kind: Kind, namespace: str) -> int:
        """Return a number that grows with every change of the copies of a kind that is not Pod in a namespace."""
        return self._changes[kind.name, namespace]

    def keep_written(self, resource: Resource) -> None:
        """Keep an object as the API server answered a write of the operator; other kinds are left out."""
        if resources.text(resource, "kind") not in {kind.name for kind in KINDS} or uid_of(resource) in self._gone:
            return
        self._own_versions[uid_of(resource)] = version_of(resource)
        self.show(resource)

    def is_own(self, resource: Resource) -> bool:
        """Tell whether an event shows what the operator has written itself, and knows already."""
        return self._own_versions.get(uid_of(resource)) == version_of(resource)

    def find(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return the copy of an object that is no pod; None if none was shown."""
        kept = self._groups.get((kind.name, namespace, ""), {}).get(name)
        return kept.read() if kept is not None else None

    def pods(self, key: JobKey) -> tuple[Resource, ...]:
        """Return what the copies of a job's pods say."""
        return tuple(copy.read() for copy in self.all_pods(key))

    def all_pods(self, key: JobKey) -> tuple[Copy, ...]:
        """Return the copies of a job's pods."""
        return tuple(self._groups.get((resources.POD.name, key.namespace, key.name), {}).values())

    def all(self, kind: Kind, namespace: str) -> tuple[Copy, ...]:
        """Return the copies of all objects of a kind that is not Pod in a namespace, to be read by who needs them."""
        return tuple(self._groups.get((kind.name, namespace, ""), {}).values())

    def keep_read(self, kind: Kind, namespace: str, name: str, found: Resource | None) -> None:
        """Keep the answer of a live read of one object that is no pod; None drops the copy."""
        if found is not None:
            self.show({**found, "apiVersion": kind.api_version, "kind": kind.name})
            return
        group = kind.name, namespace, ""
        if name in self._groups.get(group, {}):
            self._drop(group, name)

    def _drop(self, group: Group, name: str) -> None:
        """Drop a copy, and its group with the last one: jobs come and go."""
        del self._groups[group][name]
        if not self._groups[group]:
            del self._groups[group]
        self._changes[group[:2]] += 1

    def keep_all(self, listed: Collection[Resource], before: Collection[Copy]) -> None:
        """Keep the answer of a live listing: of a kind in a namespace, or of a job's pods.

        Args:
            listed: The answer.
            before: The copies before the listing began; those that it does not name are dropped, and newer ones are kept.
        """
        named = {uid_of(item) for item in listed}
        for copy in before:
            if copy.uid not in named:
                self.show_gone(copy.read())
        for item in listed:
            self.show(item)


def _group(resource: Resource) -> Group:
    kind, namespace = resources.text(resource, "kind"), resources.text(resource, "metadata", "namespace")
    is_pod = kind == resources.POD.name
    return kind, namespace, resources.text(resource, "metadata", "labels", names.LABEL_JOB) if is_pod else ""


def _is_same(resource: Resource, kept: Copy) -> bool:
    return (uid_of(resource), version_of(resource)) == (kept.uid, kept.version)


def _is_older(resource: Resource, kept: Copy) -> bool:
    """Tell whether an object is older than its copy: versions are numbers that grow (KEP-5504); anything else is news."""
    version = version_of(resource)
    if not (version.isdecimal() and kept.version.isdecimal()):
        return False
    return int(version) < int(kept.version)
