"""Executors of an epoch that is over go before the next driver comes, wherever the operator dies, and with their job."""

from __future__ import annotations

import json

import pytest
from jobworld import KEY, SPEC, JobWorld, OperatorDiedError
from statefulspark_operator.api import names
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

OLD = ["flights-driver-1-exec-1", "flights-driver-1-exec-2"]


def running() -> JobWorld:
    """Return a job that runs with two executors, made as Spark makes them."""
    world = JobWorld(spec={**SPEC, "executor": {"instances": 2}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    config_map = world.cluster.objects[("ConfigMap", KEY.namespace, "flights-config-1")]
    template: Resource = json.loads(resources.text(config_map, "data", "executor.json"))
    driver = world.cluster.objects[("Pod", KEY.namespace, "flights-driver-1")]
    owner: Resource = {"kind": "Pod", "uid": resources.text(driver, "metadata", "uid")}
    for name in OLD:
        labels = resources.section(template, "metadata", "labels")
        meta: Resource = {"name": name, "namespace": KEY.namespace, "labels": labels, "ownerReferences": [owner]}
        world.cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"phase": "Running"}})
    world.run(1)
    return world


def left(world: JobWorld) -> list[str]:
    listed = (resources.text(pod, "metadata", "name") for pod in world.cluster.pods())
    return sorted(name for name in listed if names.executor_number(name))


def test_the_executors_of_the_running_driver_are_counted() -> None:
    counted = running().status.executors

    assert counted is not None
    assert (counted.driver, counted.desired, counted.running) == ("flights-driver-1", 2, 2)


@pytest.mark.parametrize("deeds", range(8), ids=lambda deeds: f"after {deeds} writes")
def test_executors_of_a_driver_that_failed_go_before_the_next_one_comes(deeds: int) -> None:
    world = running()
    done: list[str] = []

    def die(what: str) -> None:
        done.append(what)
        if len(done) == deeds:
            raise OperatorDiedError

    world.cluster.after_write = die
    world.fail_driver(1)
    for _ in range(60):
        try:
            world.run(1)
        except OperatorDiedError:
            world.pass_time()

    assert left(world) == []
    assert world.status.epoch == 2
    order = [done.index(what) for what in (*(f"delete Pod {name}" for name in OLD), "create Pod flights-driver-2")]
    assert order == sorted(order)
    assert "flights-driver-1" in [resources.text(pod, "metadata", "name") for pod in world.cluster.pods()]


def test_a_deleted_job_leaves_no_executors() -> None:
    world = running()

    world.delete()
    world.run_until(lambda: not world.exists and left(world) == [])
