"""What a change of the spec does to a running job goes by what it means: for this release, and for the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jobworld import JobWorld
from pydantic.fields import FieldInfo
from statefulspark.contract.api import JobState
from statefulspark.contract.config import CheckpointConfig
from statefulspark_operator.api import revision
from statefulspark_operator.api.base import ChangeCost
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource


def running() -> JobWorld:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.run(60)
    return world


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An operator of a later release: Spark settings change without a restart there, and it names revisions otherwise."""
    cost, name = revision.change_cost, revision.revision_of
    (settings,) = (field for attribute, field in StatefulSparkJobSpec.model_fields.items() if attribute == "spark_conf")

    def judge(field: FieldInfo) -> ChangeCost:
        return ChangeCost.RELOAD if field is settings else cost(field)

    revision._restarting.cache_clear()
    monkeypatch.setattr(revision, "change_cost", judge)
    monkeypatch.setattr(revision, "revision_of", lambda spec: f"v2{name(spec)[2:]}")
    yield
    monkeypatch.undo()
    revision._restarting.cache_clear()


def replace_by_next(world: JobWorld, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("next_release")
    world.replace_operator()


def test_an_operator_of_the_next_release_restarts_nothing(request: pytest.FixtureRequest) -> None:
    world = running()
    before = world.status

    replace_by_next(world, request)
    world.run(400)

    after = world.status
    assert (after.epoch, after.revision, after.upgrade) == (before.epoch, before.revision, None)
    assert (after.phase, after.update_revision) == (Phase.RUNNING, before.revision)


def test_what_the_next_release_made_cheap_takes_effect_without_an_upgrade(request: pytest.FixtureRequest) -> None:
    world = running()
    replace_by_next(world, request)

    world.change({"sparkConf": {"spark.sql.shuffle.partitions": "8"}})
    world.run(60)

    assert (world.status.epoch, world.status.upgrade) == (1, None)


def test_the_next_release_upgrades_what_has_changed_and_comes_to_rest(request: pytest.FixtureRequest) -> None:
    world = running()
    replace_by_next(world, request)

    world.change({"image": "registry.example/flights:2"})
    world.run_until(
        lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE, within_s=400
    )
    epoch = world.status.epoch
    world.run(120)

    assert world.status.epoch == epoch
    assert (world.status.update_revision or "").startswith("v2")


def test_a_job_that_was_refused_stays_refused_under_the_next_release(request: pytest.FixtureRequest) -> None:
    world = running()
    world.on_start = lambda driver: driver.end(13, "BadJob", "it is worse") if driver.epoch == 2 else None
    world.change({"image": "registry.example/flights:2", "upgrade": {"mode": "Cold"}})
    world.run_until(
        lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.ROLLED_BACK,
        within_s=400,
    )
    world.on_start = lambda _driver: None
    world.run(60)
    epoch = world.status.epoch

    replace_by_next(world, request)
    world.run(120)

    upgrade = world.status.upgrade
    assert upgrade is not None
    assert (world.status.epoch, upgrade.state) == (epoch, UpgradeState.ROLLED_BACK)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"sparkConf": {}}, id="an empty map"),
        pytest.param({"upgrade": {"rehearsal": "Rows"}}, id="a default"),
        pytest.param({"imagePullSecrets": [{"name": "registry"}]}, id="a secret for the image"),
    ],
)
def test_a_change_without_a_meaning_for_the_driver_restarts_nothing(change: Resource) -> None:
    world = running()

    world.change(change)
    world.run(60)

    assert (world.status.epoch, world.status.upgrade) == (1, None)


def test_a_running_driver_is_told_of_other_checkpoints_and_told_once() -> None:
    world = running()

    world.change({"checkpoint": {"interval": "30s", "retention": {"count": 7}}})
    world.run(60)

    driver = world.driver
    assert (driver.checkpoint_config.interval.total_seconds(), driver.checkpoint_config.retention.count) == (30, 7)
    assert (driver.configurations, world.status.epoch, world.status.upgrade) == (1, 1, None)


def test_a_driver_that_lost_the_change_is_told_again_and_the_next_one_has_it_from_its_start() -> None:
    world = running()
    world.change({"checkpoint": {"interval": "30s"}})
    world.run(10)
    world.driver.checkpoint_config = CheckpointConfig()
    world.run(10)
    assert world.driver.configurations == 2

    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.driver.state is JobState.RUNNING)

    assert (world.driver.checkpoint_config.interval.total_seconds(), world.driver.configurations) == (30, 0)


def test_what_no_driver_accepts_is_refused_before_it_is_sent() -> None:
    world = running()

    world.change({"checkpoint": {"interval": "1ms"}})
    world.run(10)

    assert "spec.checkpoint.interval" in (world.status.message or "")
    assert (world.driver.configurations, world.status.phase) == (0, Phase.RUNNING)


def test_pods_that_the_api_server_would_refuse_never_touch_the_running_driver() -> None:
    world = running()

    world.change({"driver": {"podTemplate": {"spec": {"nodeSelctor": {"pool": "a"}}}}})
    world.run(60)

    assert (world.status.epoch, world.status.upgrade, world.status.phase) == (1, None, Phase.RUNNING)
    assert "nodeSelctor" in (world.status.message or "")

    world.change({"driver": {"podTemplate": {"spec": {"nodeSelctor": None, "nodeSelector": {"pool": "a"}}}}})
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)


def test_metadata_of_pods_takes_effect_without_a_restart() -> None:
    world = running()
    world.change({"podTemplate": {"metadata": {"labels": {"team": "data", "tier": "gold"}}}})
    world.run(10)
    assert labels_of(world, "team", "tier") == {"flights-driver-1": ("data", "gold")}

    world.change({"podTemplate": {"metadata": {"labels": {"team": "ml", "tier": None}}}})
    world.run(60)

    assert labels_of(world, "team", "tier") == {"flights-driver-1": ("ml", "")}
    assert (world.status.epoch, world.status.upgrade, world.status.phase) == (1, None, Phase.RUNNING)


def test_a_driver_that_starts_later_has_the_metadata_from_its_start_and_is_not_touched() -> None:
    world = running()
    world.change({"podTemplate": {"metadata": {"labels": {"team": "data"}}}})
    world.run(10)
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    writes = [line for line in world.cluster.writes if line.startswith("label ")]

    world.run(60)

    assert labels_of(world, "team")["flights-driver-2"] == ("data",)
    assert [line for line in world.cluster.writes if line.startswith("label ")] == writes


def test_a_standby_gets_other_metadata_too() -> None:
    world = running()
    world.change({"driver": {"standby": True}})
    world.run_until(lambda: world.status.standby is not None and len(world.cluster.pods()) == 2)
    world.run(60)

    world.change({"driver": {"podTemplate": {"metadata": {"annotations": {"note": "x"}}}}})
    world.run(30)

    notes = [resources.text(pod, "metadata", "annotations", "note") for pod in world.cluster.pods()]
    assert notes == ["x", "x"]


def test_metadata_that_no_pod_can_have_is_refused_and_the_pods_keep_theirs() -> None:
    world = running()
    world.change({"podTemplate": {"metadata": {"labels": {"team": "data"}}}})
    world.run(10)

    world.change({"podTemplate": {"metadata": {"labels": {"team": "not a label"}}}})
    world.run(30)

    assert "spec.podTemplate.metadata.labels" in (world.status.message or "")
    assert labels_of(world, "team") == {"flights-driver-1": ("data",)}
    assert world.status.phase is Phase.RUNNING


def labels_of(world: JobWorld, *names: str) -> dict[str, tuple[str, ...]]:
    """Return labels of each pod, by its name; an absent one is empty."""
    return {
        resources.text(pod, "metadata", "name"): tuple(
            resources.text(pod, "metadata", "labels", name) for name in names
        )
        for pod in world.cluster.pods()
    }
