"""What jobs cost the API server, counted request by request, and what copies that are old do not cost: state.

The table is in docs/adr/0023-passes-from-copies.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from jobworld import JobWorld
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.engine import memory, savepoints
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.steps import CARRIED_OUT

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}


@dataclass(frozen=True)
class Cost:
    """Requests to the API server, and passes."""

    reads: int
    writes: int
    passes: int


def cost_of(world: JobWorld, work: Callable[[], object]) -> Cost:
    cluster = world.cluster
    before = len(cluster.reads), len(cluster.writes) + len(cluster.events), world.passes
    work()
    after = len(cluster.reads), len(cluster.writes) + len(cluster.events), world.passes
    return Cost(*(now - then for now, then in zip(after, before, strict=True)))


def busy() -> JobWorld:
    """A job that commits batches and checkpoints, and has done so for a minute."""
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.run(60)
    return world


def idle() -> JobWorld:
    """A job that runs and has no input: its driver answers the same again and again."""
    world = busy()
    told = world.driver.status()
    world.driver.status = lambda: told  # type: ignore[method-assign]
    world.run(360)  # Its copies have been compared, and its objects looked through, for the first time.
    return world


def suspended() -> JobWorld:
    world = busy()
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)
    world.run(60)
    return world


def stalled() -> JobWorld:
    world = busy()
    world.fail_driver(13, "BadJob", "flights.py raises NameError")
    world.run_until(lambda: world.status.phase is Phase.STALLED)
    world.run(60)
    return world


def hung() -> JobWorld:
    """A job whose driver does not answer."""
    world = busy()
    world.driver.answers = False
    world.run(60)
    return world


def carry_out(world: JobWorld) -> None:
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state in CARRIED_OUT)


@pytest.mark.parametrize(
    ("job", "cost"),
    [
        pytest.param(busy, Cost(reads=0, writes=2, passes=12), id="a busy job: its progress, twice"),
        pytest.param(idle, Cost(reads=0, writes=0, passes=2), id="an idle job: two looks at its driver"),
        pytest.param(suspended, Cost(reads=0, writes=0, passes=0), id="a suspended job: nothing"),
        pytest.param(stalled, Cost(reads=0, writes=0, passes=0), id="a stalled job: nothing"),
        pytest.param(hung, Cost(reads=2, writes=0, passes=12), id="a silent driver: its token, twice"),
    ],
)
def test_what_a_job_costs_in_a_minute(job: Callable[[], JobWorld], cost: Cost) -> None:
    world = job()

    assert cost_of(world, lambda: world.run(60)) == cost


@pytest.mark.parametrize(
    ("mode", "most"),
    [
        pytest.param("Cold", Cost(reads=9, writes=23, passes=13), id="cold"),
        pytest.param("Warm", Cost(reads=15, writes=31, passes=17), id="warm"),
    ],
)
def test_what_an_upgrade_costs(mode: str, most: Cost) -> None:
    world = busy()
    world.change({"upgrade": {"strategy": mode}})
    world.run(10)

    assert cost_of(world, lambda: carry_out(world)) == most


def passes_that_list_pods(world: JobWorld) -> list[int]:
    """Return a list to which each pass is added that lists the job's pods."""
    passes, list_pods = list[int](), world.cluster.list_pods

    async def noted(namespace: str, selector: str) -> tuple[resources.Resource, ...]:
        passes.append(world.passes)
        return await list_pods(namespace, selector)

    world.cluster.list_pods = noted  # type: ignore[method-assign]
    return passes


@pytest.mark.parametrize("mode", ["Cold", "Warm"])
def test_a_driver_is_asked_to_stop_by_a_pass_that_has_looked_at_the_api_server(mode: str) -> None:
    world = busy()
    world.change({"upgrade": {"strategy": mode}})
    world.run(10)
    looked, asked = passes_that_list_pods(world), list[int]()
    world.drivers.before_request = lambda what: asked.append(world.passes) if what.startswith("stop ") else None

    carry_out(world)

    assert asked
    assert set(asked) <= set(looked)


def test_an_end_is_recorded_and_the_next_driver_started_after_one_look_at_the_api_server() -> None:
    world = busy()
    looked, begun = passes_that_list_pods(world), list[str]()
    world.cluster.before_write = lambda what: begun.append(f"{world.passes} {what}")

    carry_out(world)

    created = next(what for what in begun if "create Pod " in what)
    started = int(created.split()[0])
    assert looked.count(started) == 1
    assert begun.count(f"{started} status flights") == 2


def test_a_start_looks_at_the_api_server_if_the_pass_before_it_has_not() -> None:
    world = busy()
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)
    looked, created = passes_that_list_pods(world), list[int]()
    world.cluster.before_write = lambda what: created.append(world.passes) if what.startswith("create Pod ") else None

    world.change({"suspend": False})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert set(created) <= set(looked)


def test_ten_minutes_of_an_idle_job_cost_its_comparisons_with_the_api_server() -> None:
    world = idle()

    cost = cost_of(world, lambda: world.run(600))

    assert cost.writes == 0
    assert cost.reads <= 10, "job, pods, savepoints and token, twice or three times"


def test_the_operators_own_status_patch_wakes_nothing() -> None:
    world = busy()
    written = len(world.cluster.writes)
    world.run_until(lambda: len(world.cluster.writes) > written)
    assert world.cluster.writes[written:] == ["status flights"]
    assert not world.is_woken

    world.cluster.show(world.cluster.objects[(resources.JOB.name, "demo", "flights")])
    assert world.is_woken, "somebody else's does"


def a_savepoint_object(name: str) -> resources.Resource:
    meta: resources.Resource = {"name": name, "namespace": "demo"}
    kind, version = resources.SAVEPOINT.name, resources.SAVEPOINT.api_version
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"jobName": "another"}}


def test_a_savepoint_object_that_cannot_be_read_keeps_no_pass_from_its_work() -> None:
    world = busy()
    world.cluster.add({**a_savepoint_object("unreadable"), "spec": {"of": "a later release"}})

    world.run(30)

    assert asyncio.run(savepoints.list_objects(world.world, "demo")) == ()
    assert world.status.phase is Phase.RUNNING


def test_a_savepoint_object_is_parsed_again_when_it_has_changed_and_no_other_is() -> None:
    world = busy()
    changed, other = (world.cluster.add(a_savepoint_object(name)) for name in ("changed", "other"))

    def read() -> dict[str, SavepointObject]:
        return {
            savepoint.name: savepoint for savepoint in asyncio.run(savepoints.list_objects(world.world, "demo")) or ()
        }

    before = read()
    assert read()["changed"] is before["changed"]
    changed["status"] = {"phase": "Pending", "message": "it waits"}
    world.cluster.show(changed)
    after = read()

    assert after["changed"].status.message == "it waits"
    assert after["other"] is before["other"]
    world.cluster.remove((resources.SAVEPOINT.name, "demo", resources.text(other, "metadata", "name")))
    assert set(read()) == {"changed"}


def test_a_driver_whose_job_was_idle_is_seen_to_work_within_half_a_minute() -> None:
    world = idle()
    del world.driver.status  # type: ignore[method-assign]
    batch = world.status.queries[0].batch

    world.run(int(memory.LONGEST_POLL.total_seconds()) + 1)

    assert world.status.queries[0].batch > batch


def test_a_driver_whose_pod_the_watch_has_not_shown_yet_is_not_started_twice() -> None:
    world = JobWorld()
    world.late_events = []

    world.run(20)
    world.catch_up()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert (world.status.epoch, world.status.restarts.count, world.most_live_pods) == (1, 0, 1)
    assert world.cluster.writes.count("create Pod flights-driver-1") == 1


def test_a_pod_that_only_the_copies_still_have_does_not_keep_the_job_from_its_next_driver() -> None:
    world = busy()
    world.cluster.on_event = lambda _event, _resource: (
        None
    )  # The watch was opened again, and does not tell what is gone.
    world.kill_driver()
    world.cluster.on_event = world._watch

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert world.driver.restored_from is not None


def test_a_deleted_job_is_released_whatever_the_copies_say() -> None:
    world = suspended()
    world.late_events = []
    world.delete()

    world.run_until(lambda: not world.exists, within_s=900)

    assert world.cluster.pods() == []


@pytest.mark.parametrize("change", [{"image": "registry.example/flights:2"}, {"suspend": True}])
def test_a_decision_from_an_old_copy_is_refused_and_made_again(change: resources.Resource) -> None:
    world = busy()
    world.late_events = []
    world.change(change)

    world.run(40)

    if "image" in change:
        assert world.status.epoch == 2
    else:
        assert world.status.phase is Phase.SUSPENDING
    assert world.most_live_pods == 1
