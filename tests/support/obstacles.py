"""What keeps a job from ever starting: how it is put in the way and taken away, and whether a person has to act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobworld import KEY, JobWorld
from statefulspark import errors
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

SECRET = ("Secret", KEY.namespace, "s3")
CODE: Resource = {"job": {"source": {"configMap": {"name": "code"}}, "file": "flights.py"}}


def take_the_secret(world: JobWorld) -> Callable[[], None]:
    secret = world.cluster.objects.pop(SECRET)
    return lambda: world.cluster.objects.__setitem__(SECRET, secret)


def empty_the_secret(world: JobWorld) -> Callable[[], None]:
    secret = world.cluster.objects[SECRET]
    world.cluster.objects[SECRET] = {**secret, "stringData": {"AWS_ACCESS_KEY_ID": "a"}}
    return lambda: world.cluster.objects.__setitem__(SECRET, secret)


def storage(reason: str, *, may_pass: bool) -> Callable[[JobWorld], Callable[[], None]]:
    def fail(world: JobWorld) -> Callable[[], None]:
        world.storage.unreadable = StorageUnreadable(reason, f"{reason}.", may_pass=may_pass)
        return lambda: setattr(world.storage, "unreadable", None)

    return fail


def forbid_pods(reason: str) -> Callable[[JobWorld], Callable[[], None]]:
    def forbid(world: JobWorld) -> Callable[[], None]:
        refusal = errors.StateUnknownError(reason, f"{reason}.")
        world.cluster.admits = lambda manifest: refusal if manifest["kind"] == "Pod" else None
        return lambda: setattr(world.cluster, "admits", lambda _manifest: None)

    return forbid


def forbid_secrets(world: JobWorld) -> Callable[[], None]:
    async def refuse(_namespace: str, name: str) -> Mapping[str, str] | None:
        raise errors.StateUnknownError("RightMissing", f"The operator cannot get secret {name}.")

    allowed = world.cluster.read_secret
    setattr(world.cluster, "read_secret", refuse)  # noqa: B010 - a method of this one
    return lambda: setattr(world.cluster, "read_secret", allowed)


def fill_the_nodes(world: JobWorld) -> Callable[[], None]:
    world.has_room = lambda _pod: False
    return lambda: setattr(world, "has_room", lambda _pod: True)


def ask_for_too_much(world: JobWorld) -> Callable[[], None]:
    world.change({"driver": {"heap": "3Gi", "resources": {"limits": {"memory": "2Gi"}}}})
    return lambda: world.change({"driver": {"heap": "1Gi"}})


def leave_the_code_out(world: JobWorld) -> Callable[[], None]:
    world.change(CODE)
    meta: Resource = {"name": "code", "namespace": KEY.namespace}
    code: Resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"flights.py": "pass"}}
    return lambda: world.cluster.add(code)


@dataclass(frozen=True)
class Obstacle:
    begin: Callable[[JobWorld], Callable[[], None]]
    """Puts it in the way, and returns what takes it away."""
    reason: str
    needs_a_person: bool


OBSTACLES = {
    "the Secret is missing": Obstacle(take_the_secret, "CredentialsMissing", needs_a_person=True),
    "the Secret has no secret key": Obstacle(empty_the_secret, "CredentialsMissing", needs_a_person=True),
    "the keys are wrong": Obstacle(storage("AccessDenied", may_pass=False), "AccessDenied", needs_a_person=True),
    "the bucket is missing": Obstacle(storage("NoSuchBucket", may_pass=False), "NoSuchBucket", needs_a_person=True),
    "the endpoint does not answer": Obstacle(
        storage("StorageUnreachable", may_pass=True), "StorageUnreadable", needs_a_person=False
    ),
    "the ConfigMap with the code is missing": Obstacle(leave_the_code_out, "CodeMissing", needs_a_person=True),
    "the heap is larger than its limit": Obstacle(ask_for_too_much, "SpecInvalid", needs_a_person=True),
    "a quota is exceeded": Obstacle(forbid_pods("QuotaExceeded"), "QuotaExceeded", needs_a_person=False),
    "a pod alone is larger than the quota": Obstacle(
        forbid_pods("QuotaTooSmall"), "QuotaTooSmall", needs_a_person=True
    ),
    "a quota demands limits": Obstacle(forbid_pods("QuotaDemandsLimits"), "QuotaDemandsLimits", needs_a_person=True),
    "the namespace is being deleted": Obstacle(
        forbid_pods("NamespaceTerminating"), "NamespaceTerminating", needs_a_person=False
    ),
    "Pod Security forbids the pod": Obstacle(
        forbid_pods("PodSecurityViolated"), "PodSecurityViolated", needs_a_person=True
    ),
    "a webhook denies the pod": Obstacle(forbid_pods("AdmissionDenied"), "AdmissionDenied", needs_a_person=True),
    "a LimitRange forbids the pod": Obstacle(
        forbid_pods("LimitRangeExceeded"), "LimitRangeExceeded", needs_a_person=True
    ),
    "the operator may not create pods": Obstacle(forbid_pods("RightMissing"), "RightMissing", needs_a_person=True),
    "the operator may not read the Secret": Obstacle(forbid_secrets, "RightMissing", needs_a_person=True),
    "no node has room": Obstacle(fill_the_nodes, "Unschedulable", needs_a_person=False),
}
