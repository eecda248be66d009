"""The settings of a session: which of them a job may change, and who it is for the object store."""

from __future__ import annotations

import re

import pytest
from statefulspark import errors
from statefulspark.contract import config, engine
from statefulspark.engine import gateway, settings
from statefulspark.storage import StorageOptions
from statefulspark.storage.authorities import Authority

STREAM = "spark.hadoop.fs.s3a.input.stream.type"


@pytest.mark.parametrize(
    ("conf", "stream"),
    [
        pytest.param({}, "classic", id="files are read without threads that read ahead"),
        pytest.param({STREAM: "analytics"}, "analytics", id="unless the job says otherwise"),
    ],
)
def test_how_s3_is_read(conf: dict[str, str], stream: str) -> None:
    engine = config.EngineConfig(conf=conf)
    job = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), engine=engine)

    assert settings.spark_conf(job, StorageOptions())[STREAM] == stream


@pytest.mark.parametrize(
    ("conf", "interval"),
    [
        pytest.param({}, "20s", id="a start applies few batches to the newest snapshot of state"),
        pytest.param({settings.MAINTENANCE_INTERVAL: "1m"}, "1m", id="unless the job says otherwise"),
    ],
)
def test_how_often_state_is_uploaded_as_a_whole(conf: dict[str, str], interval: str) -> None:
    engine = config.EngineConfig(conf=conf)
    job = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), engine=engine)

    assert settings.spark_conf(job, StorageOptions())[settings.MAINTENANCE_INTERVAL] == interval


HADOOP = "org.apache.hadoop.fs.s3a"


@pytest.mark.parametrize(
    ("conf", "given", "providers"),
    [
        pytest.param({}, ("key", "secret", None), [f"{HADOOP}.SimpleAWSCredentialsProvider"], id="keys"),
        pytest.param(
            {}, ("key", "secret", "token"), [f"{HADOOP}.TemporaryAWSCredentialsProvider"], id="keys of a session"
        ),
        pytest.param(
            {},
            (None, None, None),
            [
                "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
                "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
                f"{HADOOP}.auth.IAMInstanceCredentialsProvider",
            ],
            id="the role of the service account comes before that of the node",
        ),
        pytest.param({settings.CREDENTIALS: "mine"}, (None, None, None), ["mine"], id="unless the job says otherwise"),
    ],
)
def test_who_the_job_is_for_the_object_store(
    conf: dict[str, str], given: tuple[str | None, str | None, str | None], providers: list[str]
) -> None:
    engine = config.EngineConfig(conf=conf)
    job = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), engine=engine)
    key, secret, token = given
    options = StorageOptions(access_key=key, secret_key=secret, session_token=token)

    assert settings.spark_conf(job, options)[settings.CREDENTIALS].split(",") == providers


def _conf(conf: dict[str, str], **storage: str) -> dict[str, str]:
    job = config.JobConfig(
        name="words", storage=config.StorageConfig(uri="s3://bucket", **storage), engine=config.EngineConfig(conf=conf)
    )
    settings.require_startable(job)
    return settings.spark_conf(job, settings.storage_options(job.storage))


S3A = "spark.hadoop.fs.s3a."


@pytest.mark.parametrize("key", settings.CLASS_PATHS)
def test_jars_of_the_job_come_after_those_of_the_product(key: str) -> None:
    own = gateway.own_class_path()
    assert _conf({})[key] == own
    assert _conf({key: "/opt/mine/*"})[key] == f"{own}:/opt/mine/*"


@pytest.mark.parametrize(
    "key",
    [
        f"{S3A}connection.maximum",
        f"{S3A}attempts.maximum",
        f"{S3A}connection.establish.timeout",
        f"{S3A}endpoint.region",
    ],
)
def test_a_setting_of_s3a_that_no_guarantee_needs_is_the_jobs(key: str) -> None:
    assert _conf({key: "7"})[key] == "7"


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.streaming.fileSource.log.deletion",
        f"{S3A}impl",
        f"{S3A}audit.execution.interceptors",
        f"{S3A}change.detection.mode",
        f"{S3A}path.style.access",
    ],
)
def test_a_setting_that_a_guarantee_needs_is_refused_by_name(key: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=re.escape(key)) as refused:
        _conf({key: "true"})
    assert refused.value.reason == "EngineSettingRefused"


def test_every_setting_is_the_jobs_or_refused_and_none_is_replaced() -> None:
    """Whatever a job sets is in its session as it is, in front of the product's own, or refused by name."""
    for key in _conf({}):
        if not engine.find_refused([key]) and key not in ("spark.app.name", *settings.CLASS_PATHS):
            assert _conf({key: "mine"})[key] == "mine"


def test_a_user_interface_that_a_job_turns_on_stops_no_query() -> None:
    conf = _conf({"spark.ui.enabled": "true"})

    assert (conf["spark.ui.enabled"], conf["spark.ui.killEnabled"]) == ("true", "false")


@pytest.mark.parametrize(
    ("key", "value"), [("spark.network.crypto.enabled", "false"), ("spark.network.crypto.cipher", "AES/CTR/NoPadding")]
)
def test_what_the_platform_sets_for_encryption_a_job_does_not_switch_off(key: str, value: str) -> None:
    job = config.JobConfig(
        name="words",
        storage=config.StorageConfig(uri="s3://bucket"),
        engine=config.EngineConfig(conf={key: value}, platform={key: "of the platform"}),
    )

    assert settings.spark_conf(job, StorageOptions())[key] == "of the platform"


def test_the_file_system_gets_the_authority_of_the_server() -> None:
    job = config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://b/p"))
    named = StorageOptions(authority=Authority("the file", "", "/etc/ca.crt"))

    assert settings.spark_conf(job, named)["spark.hadoop.statefulspark.s3.ca"] == "/etc/ca.crt"
    assert "spark.hadoop.statefulspark.s3.ca" not in settings.spark_conf(job, StorageOptions())


@pytest.mark.parametrize(
    ("conf", "storage"),
    [
        ({f"{S3A}endpoint": "http://other:9000"}, {"s3": {"endpoint": "http://minio:9000"}}),
        ({f"{S3A}connection.ssl.enabled": "true"}, {"s3": {"endpoint": "http://minio:9000"}}),
    ],
    ids=["endpoint", "tls"],
)
def test_what_contradicts_the_storage_is_refused_by_name(conf: dict[str, str], storage: dict[str, str]) -> None:
    with pytest.raises(errors.SpecRejectedError, match=re.escape(next(iter(conf)))) as refused:
        _conf(conf, **storage)
    assert refused.value.reason == "EngineSettingRefused"
