"""What a job that runs costs the API server: its progress is written rarely, and its Secret is read once."""

from __future__ import annotations

from jobworld import JobWorld
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources


def running() -> JobWorld:
    """A job that runs and has completed a checkpoint."""
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def test_progress_is_written_with_a_checkpoint_or_twice_a_minute() -> None:
    world = running()
    before = len(world.cluster.writes)

    world.run(60)

    writes = world.cluster.writes[before:]
    assert set(writes) == {"status flights"}
    assert len(writes) <= 8, "six checkpoints, and progress twice"


def test_a_query_that_ends_is_written_at_once() -> None:
    world = running()
    world.run(1)
    assert [query.active for query in world.status.queries] == [True]
    told = world.driver.status()
    ended = told.model_copy(
        update={"queries": tuple(query.model_copy(update={"active": False}) for query in told.queries)}
    )
    world.driver.status = lambda: ended  # type: ignore[method-assign]

    world.run(6)

    assert [query.active for query in world.status.queries] == [False]


def test_the_token_of_a_job_is_read_once() -> None:
    world = running()
    before = world.cluster.secret_reads

    world.run(60)

    assert world.cluster.secret_reads == before


def test_the_token_is_read_again_after_a_driver_did_not_answer() -> None:
    world = running()
    world.driver.answers = False
    world.run(10)
    silent = world.cluster.secret_reads
    world.driver.answers = True
    world.run(10)
    again = world.cluster.secret_reads

    world.run(30)

    assert silent > 0
    assert world.cluster.secret_reads == again


def test_the_token_of_a_deleted_job_is_forgotten() -> None:
    world = running()
    uid = resources.text(world.cluster.objects[("StatefulSparkJob", "demo", "flights")], "metadata", "uid")
    token = (f"demo/{uid}", "flights-token")
    assert world.world.secrets.find(token, world.time) == {"token": "token"}

    world.delete()
    world.reconcile()

    assert world.world.secrets.find(token, world.time) is None


def test_a_job_that_is_asked_to_stop_names_the_checkpoint_that_it_goes_on_from() -> None:
    world = running()
    world.run(60)
    world.driver.lingers = True
    world.change({"suspend": True})
    world.driver.savepoints_fail = True

    world.run(25)

    latest = world.driver.last_checkpoint
    assert latest is not None
    assert world.status.last_checkpoint is not None
    assert latest.id - world.status.last_checkpoint.id <= 1
