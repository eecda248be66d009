"""What the watches showed last of jobs, their pods and savepoint objects, and what the operator's own writes answered.

A copy may be old, an object that is missing here may exist, and one that is here may be gone: a watch that had to be opened
again does not tell what was deleted meanwhile. Who needs certainty asks the gateway, and keeps the answer here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
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
        slimmed["spec"] = {"nodeName": resources.text(resource, "spec", "nodeName")}
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


@dataclass(slots=True)
class Watched:
    """Copies of the watched objects, by kind and namespace, pods by job."""

    _groups: dict[Group, dict[str, Resource]] = field(default_factory=dict)
    _changes: Counter[Group] = field(default_factory=Counter)
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
            group[name] = slim(resource)
            self._changes[_group(resource)] += 1

    def show_gone(self, resource: Resource) -> None:
        """Drop an object that was deleted; what an answer on its way still says of it is not kept."""
        uid = uid_of(resource)
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED_DELETIONS:
            self._gone.popitem(last=False)
        self._own_versions.pop(uid, None)
        name, group = resources.text(resource, "metadata", "name"), self._groups.get(_group(resource), {})
        if name in group and uid_of(group[name]) == uid:
            del group[name]
            self._changes[_group(resource)] += 1

    def changes(self, kind: Kind, namespace: str) -> int:
        """Return a number that grows with every change of the copies of a kind that is not Pod in a namespace."""
        return self._changes[kind.name, namespace, ""]

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
        return self._groups.get((kind.name, namespace, ""), {}).get(name)

    def pods(self, key: JobKey) -> tuple[Resource, ...]:
        """Return the copies of a job's pods."""
        return tuple(self._groups.get((resources.POD.name, key.namespace, key.name), {}).values())

    def all(self, kind: Kind, namespace: str) -> tuple[Resource, ...]:
        """Return the copies of all objects of a kind that is not Pod in a namespace."""
        return tuple(self._groups.get((kind.name, namespace, ""), {}).values())

    def keep_read(self, kind: Kind, namespace: str, name: str, found: Resource | None) -> None:
        """Keep the answer of a live read of one object that is no pod; None drops the copy."""
        if found is not None:
            self.show({**found, "apiVersion": kind.api_version, "kind": kind.name})
            return
        self._groups.get((kind.name, namespace, ""), {}).pop(name, None)

    def keep_pods(self, key: JobKey, listed: Collection[Resource], before: Collection[Resource]) -> None:
        """Keep the answer of a live listing of a job's pods.

        Args:
            key: The job.
            listed: The answer.
            before: The copies before the listing began; those that it does not name are dropped, and newer ones are kept.
        """
        pod = {"apiVersion": resources.POD.api_version, "kind": resources.POD.name}
        self.keep_all([{**pod, **item} for item in listed], before)

    def keep_all(self, listed: Collection[Resource], before: Collection[Resource]) -> None:
        """Keep the answer of a live listing of a kind in a namespace; the arguments are those of `keep_pods`."""
        named = {uid_of(item) for item in listed}
        for copy in before:
            if uid_of(copy) not in named:
                self.show_gone(copy)
        for item in listed:
            self.show(item)


def _group(resource: Resource) -> Group:
    kind, namespace = resources.text(resource, "kind"), resources.text(resource, "metadata", "namespace")
    is_pod = kind == resources.POD.name
    return kind, namespace, resources.text(resource, "metadata", "labels", names.LABEL_JOB) if is_pod else ""


def _is_same(resource: Resource, known: Resource) -> bool:
    return (uid_of(resource), version_of(resource)) == (uid_of(known), version_of(known))


def _is_older(resource: Resource, known: Resource) -> bool:
    """Tell whether an object is older than its copy: versions are numbers that grow (KEP-5504); anything else is news."""
    version, known_version = version_of(resource), version_of(known)
    if not (version.isdecimal() and known_version.isdecimal()):
        return False
    return int(version) < int(known_version)
