"""Objects that no pod, no status and no history names any more are removed, and no other is touched."""

from __future__ import annotations

from jobworld import KEY, JobWorld
from statefulspark_operator.api import names
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind
from statefulspark_operator.lifecycle import history


def running() -> JobWorld:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def named(world: JobWorld, kind: Kind) -> set[str]:
    return {name for found, _, name in world.cluster.objects if found == kind.name}


def change(world: JobWorld, number: int) -> None:
    """Change the image, and wait until the new revision is stable."""
    world.cluster.change_spec(KEY, {"image": f"i:{number + 1}"})
    revision = world.status.revision
    world.run_until(lambda: world.status.revision != revision and world.status.phase is Phase.RUNNING)
    world.run(120)


def test_specs_of_revisions_that_the_history_has_forgotten_are_removed() -> None:
    world = running()
    for number in range(1, 9):
        change(world, number)

    world.run(600)

    kept = {names.controller_revision("flights", record.revision) for record in world.status.history}
    assert len(kept) == history.RUNS_KEPT + 1, "the first revision was replaced before it was stable"
    assert named(world, resources.CONTROLLER_REVISION) == kept
    assert "ObjectsPruned" in [event.reason for event in world.cluster.events]


def test_the_configuration_of_a_pod_that_somebody_removed_is_removed() -> None:
    world = running()
    lost = world.status.driver
    assert lost is not None
    world.cluster.drop_pod(KEY.namespace, lost.pod)
    world.run_until(lambda: (world.status.epoch or 0) > lost.epoch and world.status.phase is Phase.RUNNING)

    world.run(600)

    assert names.config("flights", lost.epoch) not in named(world, resources.CONFIG_MAP)
    assert names.config("flights", world.status.epoch or 0) in named(world, resources.CONFIG_MAP)


def test_objects_of_others_with_names_and_labels_of_ours_stay() -> None:
    world = running()
    labels = dict(names.labels("flights"))
    for name, own in (("flights-config-0", {}), ("flights-config-of-the-user", labels), ("flights-code-0", labels)):
        meta: resources.Resource = {"name": name, "namespace": KEY.namespace, "labels": dict(own)}
        world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    world.run(600)

    assert {"flights-config-0", "flights-config-of-the-user", "flights-code-0"} <= named(world, resources.CONFIG_MAP)


def test_a_quiet_job_is_looked_through_once() -> None:
    world = running()
    world.run(600)
    before = world.cluster.reads.count("list ConfigMap")

    world.run(1800)

    assert before == world.cluster.reads.count("list ConfigMap") == 1
