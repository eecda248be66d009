"""Settings that would show a secret or switch encryption off, what a refusal repeats, and numbers in annotations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from statefulspark.contract import engine
from statefulspark_operator.api import conditions, names
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.cluster import pods
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import validate
from statefulspark_operator.lifecycle.situation import Rejection


def a_resource_with(**spec: object) -> Resource:
    given = {"image": "x", "job": {"file": "/f.py"}, "storage": {"uri": "s3://b/p"}, **spec}
    return {"metadata": {"name": "flights", "namespace": "demo"}, "spec": given}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.bucket.x.secret.key",
        "spark.hadoop.fs.s3a.bucket.x.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.ssl.keyStorePassword",
        "spark.authenticate.secret",
        "spark.my.PASSWORD",
    ],
)
def test_a_setting_whose_value_is_secret_is_refused_without_its_value(key: str) -> None:
    rejected = validate.parse(a_resource_with(sparkConf={key: "hunter2"}))

    assert isinstance(rejected, Rejection)
    assert rejected.reason == "SettingRefused"
    assert key in rejected.message
    assert "hunter2" not in rejected.message


@pytest.mark.parametrize("name", ["db_password", "apiToken", "s3.access.key", "accesskey", "SECRET"])
def test_a_parameter_that_names_a_secret_is_refused_with_the_way_out(name: str) -> None:
    rejected = validate.parse(a_resource_with(job={"file": "/f.py", "parameters": {"topic": "words", name: "hunter2"}}))

    assert rejected == Rejection(
        "SettingRefused",
        f"job.parameters: {name} cannot be set: everybody who can read the resource would see its value; give it to the job "
        "by a Secret, with valueFrom in driver.env and executor.env, or as a file.",
    )


@pytest.mark.parametrize("value", ["false", "False", "no", ""])
def test_encryption_is_not_switched_off(value: str) -> None:
    rejected = validate.parse(a_resource_with(sparkConf={"spark.authenticate": value}))

    assert isinstance(rejected, Rejection)
    assert "always encrypt" in rejected.message


@pytest.mark.parametrize("setting", engine.FIELDS, ids=lambda setting: setting.key)
def test_a_setting_that_a_field_overrode_is_refused_with_the_field(setting: engine.RefusedSetting) -> None:
    rejected = validate.parse(a_resource_with(sparkConf={setting.key: "2g"}))

    assert isinstance(rejected, Rejection)
    assert setting.reason in rejected.message


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.authenticate": "true"},
        {"spark.kubernetes.executor.secrets.mine": "/etc/mine"},
        {"spark.kubernetes.executor.secretKeyRef.KEY": "mine:key"},
        {"spark.sql.shuffle.partitions": "8"},
    ],
    ids=str,
)
def test_what_shows_nothing_is_accepted(conf: dict[str, str]) -> None:
    assert engine.find_plain(conf) == ()
    assert not isinstance(validate.parse(a_resource_with(sparkConf=conf)), Rejection)


def test_a_refusal_repeats_only_the_beginning_of_what_is_wrong() -> None:
    rejected = validate.parse(a_resource_with(image={"x": "y" * 100_000}))

    assert isinstance(rejected, Rejection)
    assert len(rejected.message) < 400


def test_a_condition_is_cut() -> None:
    answer = conditions.answer(
        ConditionType.READY, ConditionStatus.FALSE, "X", "y" * 5000, now=datetime(2026, 1, 1, tzinfo=UTC), generation=1
    )

    assert len(answer.message) == 1024


@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", "x"])
def test_a_number_in_an_annotation_that_is_none_counts_as_absent(number: str) -> None:
    labels: Resource = {names.LABEL_ROLE: names.ROLE_DRIVER, names.LABEL_EPOCH: "1"}
    annotations: Resource = {names.ANNOTATION_API_PORT: number, names.ANNOTATION_EXECUTORS: number}
    meta: Resource = {"name": "flights-driver-1", "uid": "u", "labels": labels, "annotations": annotations}

    pod = pods.read_driver_pod({"metadata": meta})

    assert pod is not None
    assert (pod.api_port, pod.asked_executors) == (names.API_PORT, 0)
