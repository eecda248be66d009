"""What an installation gives to all jobs lies beneath their specs, and restarts none of them when it changes."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from jobspecs import a_spec
from jobworld import KEY, JobWorld
from statefulspark_operator import cli
from statefulspark_operator.api.job_defaults import DefaultPod, DefaultS3, JobDefaults
from statefulspark_operator.api.spec import S3, Driver, Executor, StatefulSparkJobSpec
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import defaults, driver, executor
from statefulspark_operator.render.base import Manifest, Subject

REGISTRY: resources.Resource = {"imagePullSecrets": [{"name": "registry"}]}
JOB = Job(name="flights", namespace="demo", uid="u", generation=1)


def given(**fields: object) -> JobDefaults:
    return JobDefaults.model_validate(fields)


def beneath(installation: JobDefaults, spec: StatefulSparkJobSpec) -> StatefulSparkJobSpec:
    return defaults.with_defaults(installation, Subject(JOB, spec)).spec


def running(installation: JobDefaults, **spec: object) -> JobWorld:
    world = JobWorld()
    world.spec.update(spec)  # type: ignore[arg-type]  # JSON
    give(world, installation)
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    return world


def give(world: JobWorld, installation: JobDefaults) -> None:
    """Let the operator of a world have other defaults."""
    world.world = dataclasses.replace(world.world, job_defaults=installation)
    world.wake()


def pod(world: JobWorld) -> Manifest:
    return resources.section(world.cluster.objects[("Pod", KEY.namespace, world.driver.pod)], "spec")


@pytest.mark.parametrize(
    ("installation", "spec", "path", "value"),
    [
        pytest.param({"sparkConf": {"a": "1"}}, {}, ("sparkConf",), {"a": "1"}, id="absent"),
        pytest.param(
            {"sparkConf": {"a": "1", "b": "1"}},
            {"sparkConf": {"b": "2"}},
            ("sparkConf",),
            {"a": "1", "b": "2"},
            id="own",
        ),
        pytest.param(
            {"driver": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}},
            {"driver": {"env": [{"name": "B", "value": "2"}]}},
            ("driver", "env"),
            [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            id="variables by name",
        ),
        pytest.param(
            {"driver": {"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}},
            {"driver": {"resources": {"requests": {"cpu": "3"}}}},
            ("driver", "resources", "requests"),
            {"cpu": "3", "memory": "2Gi"},
            id="each resource",
        ),
        pytest.param(
            {"podTemplate": {"spec": {"tolerations": [{"key": "a"}]}}},
            {"podTemplate": {"spec": {"tolerations": [{"key": "b"}]}}},
            ("podTemplate", "spec", "tolerations"),
            [{"key": "a"}, {"key": "b"}],
            id="tolerations are added",
        ),
        pytest.param(
            {"storage": {"s3": {"endpoint": "http://minio:9000", "credentialsSecretRef": {"name": "team"}}}},
            {"storage": {"uri": "s3://b/p", "s3": {"credentialsSecretRef": {"name": "own"}}}},
            ("storage", "s3"),
            {"endpoint": "http://minio:9000", "addressing": "Path", "credentialsSecretRef": {"name": "own"}},
            id="the server, with credentials of the job",
        ),
    ],
)
def test_a_job_has_what_it_says_and_the_rest_from_the_installation(
    installation: dict[str, object], spec: dict[str, object], path: tuple[str, ...], value: object
) -> None:
    dumped: object = beneath(given(**installation), a_spec(**spec)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    for name in path:
        assert isinstance(dumped, dict)
        dumped = dumped[name]

    assert dumped == value


def test_a_job_without_executors_gets_none_from_the_installation() -> None:
    installation = given(executor={"env": [{"name": "A", "value": "1"}]})

    assert beneath(installation, a_spec()).executor is None
    with_executors = beneath(installation, a_spec(executor={"instances": 2})).executor
    assert with_executors is not None
    assert [variable.name for variable in with_executors.env] == ["A"]


@pytest.mark.parametrize(
    ("part", "of_a_job"),
    [(JobDefaults, StatefulSparkJobSpec), (DefaultPod, Driver), (DefaultPod, Executor), (DefaultS3, S3)],
)
def test_every_default_is_a_field_of_a_job_that_is_absent_unless_the_job_sets_it(part: type, of_a_job: type) -> None:
    nested = {"driver", "executor", "storage"}
    for name, field in part.model_fields.items():  # type: ignore[attr-defined]  # a model
        own = of_a_job.model_fields[name]  # type: ignore[attr-defined]  # a model
        if name not in nested:
            assert own.get_default(call_default_factory=True) in (None, (), {}), name
            assert field.annotation == own.annotation, name


def test_a_change_of_the_defaults_restarts_no_job_and_reaches_its_next_driver() -> None:
    world = running(JobDefaults())
    first = world.driver

    give(world, given(**REGISTRY))
    world.run(60)
    assert world.driver is first
    assert "imagePullSecrets" not in pod(world)

    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    assert pod(world)["imagePullSecrets"] == [{"name": "registry"}]


def test_an_upgrade_starts_with_the_defaults_and_a_revision_is_stored_without_them() -> None:
    world = running(given(**REGISTRY))

    world.change({"image": "i:2"})
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert pod(world)["imagePullSecrets"] == [{"name": "registry"}]
    stored = [value for (kind, _, _), value in world.cluster.objects.items() if kind == "ControllerRevision"]
    assert len(stored) == 2
    assert all(not resources.items(revision, "data", "spec", "imagePullSecrets") for revision in stored)


def test_a_spec_that_does_not_go_together_with_the_defaults_is_rejected_by_the_name_of_the_field() -> None:
    world = JobWorld()
    give(world, given(driver={"resources": {"limits": {"memory": "512Mi"}}}))
    world.run(10)

    assert not world.drivers.running
    stalled = next(one for one in world.status.conditions if one.reason == "SpecInvalid")
    assert stalled.message.startswith("spec.driver.resources limits memory to 512Mi")
    assert "jobs.defaults" in stalled.message


def test_storage_is_opened_with_the_credentials_of_the_installation_for_jobs_and_savepoints() -> None:
    world = JobWorld()
    give(world, given(storage={"s3": {"endpoint": "http://minio:9000", "credentialsSecretRef": {"name": "s3"}}}))

    target = asyncio.run(access.connection(world.world, KEY, a_spec().storage, owner_id=None))

    assert isinstance(target, StorageTarget)
    assert (target.storage.s3.endpoint, target.credentials) == (
        "http://minio:9000",
        {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
    )


@pytest.mark.parametrize("user", [None, 10001])
def test_pods_have_the_user_of_the_installation_or_none(user: int | None) -> None:
    subject = Subject(JOB, a_spec(executor={"instances": 1}), user_id=user)
    pods = driver.pod(subject, epoch=1, revision="r"), executor.whole_pod(subject, revision="r")

    for manifest in pods:
        security = resources.section(manifest, "spec", "securityContext")
        assert security["runAsNonRoot"] is True
        assert {security.get(name) for name in ("runAsUser", "runAsGroup", "fsGroup")} == {user}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"suspend": true}', "suspend"),
        ('{"driver": {"heap": "1Gi"}}', "driver.heap"),
        ('{"sparkConf": {"spark.authenticate": "false"}}', "spark.authenticate"),
        ('{"storage": {"s3": {"endpont": "http://minio:9000"}}}', "storage.s3.endpont"),
        ('{"driver": {"resources": {"limits": {"memory": "64Mi"}}}}', "memory to 64Mi"),
        ("[]", "jobs.defaults"),
    ],
)
def test_defaults_that_no_job_could_have_end_the_command_by_name(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--job-defaults", text]) == 2
    assert said in capsys.readouterr().err


def test_labels_of_the_installation_stay_on_a_pod_whose_job_changes_its_own() -> None:
    common = given(podTemplate={"metadata": {"labels": {"team": "nobody", "site": "a"}}})
    world = running(common, podTemplate={"metadata": {"labels": {"team": "data", "tier": "gold"}}})

    world.change({"podTemplate": {"metadata": {"labels": {"team": None, "tier": "silver"}}}})
    world.run(30)

    labels = resources.section(world.cluster.objects["Pod", KEY.namespace, world.driver.pod], "metadata", "labels")
    assert {name: labels.get(name) for name in ("team", "site", "tier")} == {
        "team": "nobody",
        "site": "a",
        "tier": "silver",
    }
    assert world.status.epoch == 1


def test_other_labels_of_the_installation_reach_the_next_driver_only() -> None:
    world = running(given(podTemplate={"metadata": {"labels": {"site": "a"}}}))

    give(world, given(podTemplate={"metadata": {"labels": {"site": "b"}}}))
    world.run(60)

    pod = world.cluster.objects["Pod", KEY.namespace, world.driver.pod]
    assert (resources.text(pod, "metadata", "labels", "site"), world.status.epoch) == ("a", 1)
