"""What keeps a job from ever starting is an event, once, and `Stalled` where a person has to act; all of it passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from jobworld import KEY, JobWorld
from statefulspark import errors
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase
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


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_keeps_a_job_from_starting_is_an_event_and_stalled_where_a_person_has_to_act(name: str) -> None:
    obstacle, world = OBSTACLES[name], JobWorld()
    remove = obstacle.begin(world)

    world.run(600)

    answers = {answer.type: answer for answer in world.status.conditions}
    stalled = answers[ConditionType.STALLED].status is ConditionStatus.TRUE
    assert (stalled, answers[ConditionType.READY].status) == (obstacle.needs_a_person, ConditionStatus.FALSE)
    assert not (stalled and answers[ConditionType.RECONCILING].status is ConditionStatus.TRUE), (
        "kstatus asks this first"
    )
    assert world.reasons.count(obstacle.reason) == 1
    assert next(event for event in world.cluster.events if event.reason == obstacle.reason).is_warning
    remove()
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=400)
    assert (
        next(one for one in world.status.conditions if one.type is ConditionType.STALLED).status
        is ConditionStatus.FALSE
    )
