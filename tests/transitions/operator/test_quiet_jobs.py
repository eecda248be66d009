"""What a job that runs costs the API server: its progress is written rarely, and its Secret is read once."""

from __future__ import annotations

from jobworld import JobWorld
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.api import StandbyStatus as StandbyWord
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable


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


def test_storage_is_asked_with_what_its_secret_has_now() -> None:
    world = JobWorld()
    world.storage.unreadable = StorageUnreadable("StorageUnreachable", "s3://state did not answer.")
    world.run(30)
    assert reachable(world) == (ConditionStatus.FALSE, "StorageUnreachable")

    world.cluster.remove(("Secret", "demo", "s3"))
    world.run(20)

    assert reachable(world) == (ConditionStatus.FALSE, "CredentialsMissing")


def test_storage_of_a_running_job_is_looked_at_while_a_standby_fails_to_read_it_and_until_it_can_be_read() -> None:
    world = running()
    world.change({"image": "i:2", "upgrade": {"strategy": "Warm"}})
    world.run_until(lambda: bool(world.standbys))
    (standby,) = world.standbys
    standby.refusal = StandbyWord(state=Preparation.WARMING, reason="AccessDenied", message="The keys are wrong.")
    world.run(20)
    assert reachable(world)[0] is ConditionStatus.TRUE

    secret = world.cluster.objects[("Secret", "demo", "s3")]
    world.cluster.remove(("Secret", "demo", "s3"))
    world.run(30)
    assert reachable(world) == (ConditionStatus.FALSE, "CredentialsMissing")

    world.cluster.add(secret)
    standby.refusal = None
    world.run(30)
    assert reachable(world)[0] is ConditionStatus.TRUE


def reachable(world: JobWorld) -> tuple[ConditionStatus, str]:
    answer = world.status.condition(ConditionType.STORAGE_REACHABLE)
    assert answer is not None
    return answer.status, answer.reason


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
