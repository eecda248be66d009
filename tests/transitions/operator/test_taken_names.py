"""Names that the operator would use and somebody else has used: nothing of theirs is changed or deleted."""

from __future__ import annotations

import copy

import pytest
from jobworld import KEY, JobWorld
from statefulspark_operator.api import names, revision
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource

FOREIGN = [
    pytest.param(resources.SERVICE, "flights-driver", id="Service"),
    pytest.param(resources.SERVICE_ACCOUNT, "flights-driver", id="ServiceAccount"),
    pytest.param(resources.ROLE, "flights-driver", id="Role"),
    pytest.param(resources.ROLE_BINDING, "flights-driver", id="RoleBinding"),
    pytest.param(resources.CONFIG_MAP, "flights-config-1", id="ConfigMap"),
]


def with_executors() -> JobWorld:
    world = JobWorld()
    world.change({"executor": {"instances": 2}})
    return world


def foreign(world: JobWorld, kind: Kind, name: str, **metadata: object) -> Resource:
    """Create an object of somebody else, and return it as it is."""
    meta: Resource = {"name": name, "namespace": KEY.namespace, **metadata}  # type: ignore[dict-item]
    world.cluster.add({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": {"theirs": True}})
    return copy.deepcopy(world.cluster.objects[(kind.name, KEY.namespace, name)])


def has_run(world: JobWorld, epoch: int) -> bool:
    return world.status.epoch == epoch and world.status.phase is Phase.RUNNING


@pytest.mark.parametrize(("kind", "name"), FOREIGN)
def test_an_object_of_somebody_else_is_not_changed_and_the_job_says_what_is_in_its_way(kind: Kind, name: str) -> None:
    world = with_executors()
    theirs = foreign(world, kind, name)

    world.run(60)

    assert world.cluster.objects[(kind.name, KEY.namespace, name)] == theirs
    assert f"{kind.name} {name} exists and does not belong to this job" in (world.status.message or "")
    assert world.cluster.pods() == []

    world.cluster.remove((kind.name, KEY.namespace, name))
    world.run_until(lambda: len(world.cluster.pods()) == 1)


@pytest.mark.parametrize(("kind", "name"), FOREIGN)
def test_an_object_of_an_earlier_job_of_that_name_is_waited_for(kind: Kind, name: str) -> None:
    world = with_executors()
    labels: Resource = dict(names.labels(KEY.name))
    theirs = foreign(world, kind, name, labels=labels, ownerReferences=[{"uid": "an earlier job"}])

    world.run(60)

    assert world.cluster.objects[(kind.name, KEY.namespace, name)] == theirs


def test_an_object_that_was_left_without_its_owner_is_taken_over() -> None:
    world = JobWorld()
    foreign(world, resources.SERVICE, "flights-driver", labels=dict(names.labels(KEY.name)))

    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    service = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]
    assert resources.text(service, "spec", "selector", names.LABEL_EPOCH) == "1"


def test_a_config_map_of_somebody_else_is_not_deleted_with_an_old_pod() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    own = ("ConfigMap", KEY.namespace, "flights-config-1")
    world.cluster.remove(own)
    theirs = foreign(world, resources.CONFIG_MAP, "flights-config-1")

    for epoch in range(2, 6):
        world.fail_driver(1)
        world.run_until(lambda epoch=epoch: has_run(world, epoch), within_s=900)

    assert "flights-driver-1" not in [resources.text(pod, "metadata", "name") for pod in world.cluster.pods()]
    assert world.cluster.objects[own] == theirs


def test_what_was_changed_since_it_was_looked_at_is_not_overwritten() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    service = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]

    def interfere(what: str) -> None:
        if what == "apply Service flights-driver":
            world.cluster.before_write = lambda _what: None
            resources.section(service, "metadata")["ownerReferences"] = [{"uid": "theirs"}]  # type: ignore[assignment]
            world.cluster.show(service)

    world.cluster.before_write = interfere
    world.kill_driver()
    world.run(60)

    kept = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]
    assert resources.text(kept, "spec", "selector", names.LABEL_EPOCH) == "1"
    assert "does not belong to this job" in (world.status.message or "")


def test_a_job_that_waits_for_a_name_says_the_same_all_the_time_and_writes_nothing() -> None:
    world = with_executors()
    foreign(world, resources.SERVICE, "flights-driver")
    world.run(120)
    said, written = world.status, len(world.cluster.writes)
    seen = {world.status.message}

    world.cluster.before_write = lambda _what: seen.add(world.status.message)
    world.cluster.after_write = lambda _what: seen.add(world.status.message)
    world.run(300)

    assert seen == {said.message}
    assert [what for what in world.cluster.writes[written:] if "status" in what] == []
    world.cluster.remove(("Service", KEY.namespace, "flights-driver"))
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=300)


def test_what_others_have_changed_since_it_was_written_is_looked_at_and_written_again() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    service = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]
    resources.section(service, "metadata", "labels")["team"] = "flights"
    world.cluster.show(service)
    read = len(world.cluster.reads)

    world.kill_driver()
    world.run_until(lambda: has_run(world, 2))

    kept = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]
    assert resources.text(kept, "spec", "selector", names.LABEL_EPOCH) == "2"
    assert world.cluster.reads[read:].count("get Service flights-driver") == 1


def test_a_service_that_was_deleted_is_created_again_for_the_next_driver() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    world.cluster.remove(("Service", KEY.namespace, "flights-driver"))

    world.kill_driver()
    world.run_until(lambda: has_run(world, 2))

    assert ("Service", KEY.namespace, "flights-driver") in world.cluster.objects


def test_a_job_that_was_made_again_does_not_write_what_the_one_before_it_has_left() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    theirs = copy.deepcopy(world.cluster.objects[("Service", KEY.namespace, "flights-driver")])
    applied = dict(world.world.memories.get(KEY).applied)
    world.delete()
    world.run_until(lambda: not world.exists, within_s=900)
    world.cluster.objects[("Service", KEY.namespace, "flights-driver")] = theirs
    world.apply()
    world.world.memories.get(KEY).applied.update(applied)

    world.run(60)

    assert world.cluster.objects[("Service", KEY.namespace, "flights-driver")] == theirs
    assert "does not belong to this job" in (world.status.message or "")


JOB = (resources.JOB.name, KEY.namespace, KEY.name)
KEPT = [
    pytest.param(resources.SECRET, "flights-token", id="token"),
    pytest.param(resources.SECRET, "flights-network", id="network"),
    pytest.param(resources.CONTROLLER_REVISION, None, id="revision"),
]


@pytest.mark.parametrize(("kind", "name"), KEPT)
def test_what_an_earlier_job_of_that_name_has_left_is_not_used_before_it_is_removed(
    kind: Kind, name: str | None
) -> None:
    """Else the pod waits for a Secret, or the spec of its revision is gone, as soon as the garbage collector comes by."""
    world = with_executors()
    spec = StatefulSparkJobSpec.model_validate(resources.section(world.cluster.objects[JOB], "spec"))
    name = name or names.controller_revision(KEY.name, revision.revision_of(spec))
    owner: Resource = {"kind": "StatefulSparkJob", "name": KEY.name, "uid": "an earlier job"}
    foreign(world, kind, name, labels=dict(names.labels(KEY.name)), ownerReferences=[owner])

    world.run(60)

    assert world.cluster.pods() == []
    assert f"{kind.name} {name} belongs to an earlier job of this name" in (world.status.message or "")

    world.cluster.remove((kind.name, KEY.namespace, name))
    world.run_until(lambda: has_run(world, 1), within_s=300)
    uid = resources.text(world.cluster.objects[JOB], "metadata", "uid")
    assert resources.has_owner(world.cluster.objects[kind.name, KEY.namespace, name], uid)


def test_a_token_that_a_person_has_made_is_used() -> None:
    world = JobWorld()
    theirs = foreign(world, resources.SECRET, "flights-token", ownerReferences=[{"kind": "ExternalSecret", "uid": "x"}])

    world.run_until(lambda: len(world.cluster.pods()) == 1)

    assert world.cluster.objects["Secret", KEY.namespace, "flights-token"] == theirs
