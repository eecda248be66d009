"""The informer cache: jobs, their pods and savepoint objects, from watches and from the answers to the operator's writes.

It can be stale: an object that is missing here may exist, and one that is here may be gone, because a watch that was opened
again does not report earlier deletions. It is never older than the operator's own writes. A caller that needs certainty asks
the gateway, and stores the answer here.

An object stays JSON text until it is read. As Python objects it takes ten times the memory, and most reads need its version
alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
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
            name = resources.text(resource, "spec", "jobName")
        case _:
            name = resources.text(resource, "metadata", "labels", names.LABEL_JOB)
    return JobKey(namespace, name) if namespace and name else None


@dataclass(frozen=True, slots=True)
class Entry:
    """A cached object.

    Attributes:
        uid: Its identity.
        version: Its version.
        content: What is kept of it, as JSON.
    """

    uid: str
    version: str
    content: bytes

    @classmethod
    def compress(cls, resource: Resource) -> Self:
        """Make an entry of an object."""
        return cls(uid_of(resource), version_of(resource), to_json(slim(resource)))

    def read(self) -> Resource:
        """Return what is kept; whoever asks may change it."""
        resource: Resource = from_json(self.content, cache_strings="keys")
        return resource


@dataclass(slots=True)
class Cache:
    """The watched objects, by kind and namespace, pods by job.

    A reader gets an object of its own: what `slim` leaves out is missing, and everything else is as it was shown.
    """

    _groups: dict[Group, dict[str, Entry]] = field(default_factory=dict)
    _changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _own_versions: dict[str, str] = field(default_factory=dict)
    _gone: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def update(self, resource: Resource) -> None:
        """Keep an object as a watch has shown it; an older version than the kept one changes nothing."""
        if uid_of(resource) in self._gone:
            return
        group = self._groups.setdefault(_group(resource), {})
        name = resources.text(resource, "metadata", "name")
        kept = group.get(name)
        version = version_of(resource)
        is_same = kept is not None and (kept.uid, kept.version) == (uid_of(resource), version)
        # Versions are numbers that grow (KEP-5504); anything else is news.
        are_numbers = kept is not None and version.isdecimal() and kept.version.isdecimal()
        is_older = kept is not None and are_numbers and int(version) < int(kept.version)
        if not (is_same or is_older):
            group[name] = Entry.compress(resource)
            self._changes[_group(resource)[:2]] += 1

    def remove(self, resource: Resource) -> None:
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
        """Return a number that grows with every change of the entries of a kind that is not Pod in a namespace."""
        return self._changes[kind.name, namespace]

    def update_written(self, resource: Resource) -> None:
        """Keep an object as the API server answered a write of the operator; other kinds are left out."""
        if resources.text(resource, "kind") not in {kind.name for kind in KINDS} or uid_of(resource) in self._gone:
            return
        self._own_versions[uid_of(resource)] = version_of(resource)
        self.update(resource)

    def is_own_write(self, resource: Resource) -> bool:
        """Tell whether an event shows what the operator has written itself, and knows already."""
        return self._own_versions.get(uid_of(resource)) == version_of(resource)

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return a cached object that is no pod; None if there is none."""
        kept = self._groups.get((kind.name, namespace, ""), {}).get(name)
        return kept.read() if kept is not None else None

    def jobs(self) -> frozenset[JobKey]:
        """Return all jobs."""
        return frozenset(
            JobKey(namespace, name)
            for (kind, namespace, _), entries in self._groups.items()
            if kind == resources.JOB.name
            for name in entries
        )

    def pods(self, key: JobKey) -> tuple[Resource, ...]:
        """Return what the entries of a job's pods say."""
        return tuple(entry.read() for entry in self.pod_entries(key))

    def pod_entries(self, key: JobKey) -> tuple[Entry, ...]:
        """Return the entries of a job's pods."""
        return tuple(self._groups.get((resources.POD.name, key.namespace, key.name), {}).values())

    def entries(self, kind: Kind, namespace: str) -> tuple[Entry, ...]:
        """Return the entries of all objects of a kind that is not Pod in a namespace, to be read by who needs them."""
        return tuple(self._groups.get((kind.name, namespace, ""), {}).values())

    def update_read(self, kind: Kind, namespace: str, name: str, answer: Resource | None) -> None:
        """Keep the answer of a live read of one object that is no pod; None drops the entry."""
        if answer is not None:
            self.update({**answer, "apiVersion": kind.api_version, "kind": kind.name})
            return
        group = kind.name, namespace, ""
        if name in self._groups.get(group, {}):
            self._drop(group, name)

    def _drop(self, group: Group, name: str) -> None:
        """Drop an entry, and its group with the last one: jobs come and go."""
        del self._groups[group][name]
        if not self._groups[group]:
            del self._groups[group]
        self._changes[group[:2]] += 1

    def replace(self, listed: Collection[Resource], before: Collection[Entry]) -> None:
        """Keep the answer of a live listing: of a kind in a namespace, or of a job's pods.

        Args:
            listed: The answer.
            before: The entries before the listing began; those that it does not name are dropped, and newer ones are kept.
        """
        named = {uid_of(item) for item in listed}
        for entry in before:
            if entry.uid not in named:
                self.remove(entry.read())
        for item in listed:
            self.update(item)


def _group(resource: Resource) -> Group:
    kind, namespace = resources.text(resource, "kind"), resources.text(resource, "metadata", "namespace")
    is_pod = kind == resources.POD.name
    return kind, namespace, resources.text(resource, "metadata", "labels", names.LABEL_JOB) if is_pod else ""


LONGEST_SYNC_S = 10.0
"""What has not been shown by then was deleted before the watches began, or comes too late to be waited for."""


class InitialSync:
    """Holds wake-ups back until the watches have shown everything that existed when they began (`WaitForCacheSync`).

    Until then a job's pods may be missing in the cache, and its pass would read from the API server what is on its way:
    thousands of requests in the seconds after a start. Nothing but cost depends on it, so it may end early.
    """

    def __init__(self, wake: Callable[[JobKey], None], awaited: Collection[str] = ()) -> None:
        """Wait for objects; for none, if none are awaited.

        Args:
            wake: Requests a pass of a job.
            awaited: Identities of the objects that the watches will show.
        """
        self._wake, self._awaited = wake, set(awaited)
        self._held: dict[JobKey, None] = {}

    def wake(self, key: JobKey) -> None:
        """Wake a job, now or when the cache is complete."""
        if self._awaited:
            self._held[key] = None
        else:
            self._wake(key)

    def arrived(self, uid: str) -> None:
        """Note that an object has arrived."""
        if uid in self._awaited:
            self._awaited.remove(uid)
            if not self._awaited:
                self.end()

    def end(self) -> None:
        """Wait for nothing any more, and wake whoever was held back."""
        self._awaited.clear()
        held, self._held = self._held, {}
        for key in held:
            self._wake(key)
