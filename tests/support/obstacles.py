"""What keeps a job from ever starting: how it is put in the way and taken away, and whether a person has to act."""

from __future__ import annotations

from collections.abc import Callable
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


def exceed_a_quota(world: JobWorld) -> Callable[[], None]:
    def forbid(what: str) -> None:
        if what.startswith("create Pod"):
            raise errors.StateUnknownError("QuotaExceeded", "exceeded quota: tight.")

    world.cluster.before_write = forbid
    return lambda: setattr(world.cluster, "before_write", lambda _what: None)


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
    "a quota is exceeded": Obstacle(exceed_a_quota, "QuotaExceeded", needs_a_person=False),
    "no node has room": Obstacle(fill_the_nodes, "Unschedulable", needs_a_person=False),
}
