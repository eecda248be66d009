"""The settings of a session: which of them a job may change, and who it is for the object store."""

from __future__ import annotations

import pytest
from statefulspark.contract import config
from statefulspark.engine import settings
from statefulspark.storage import StorageOptions

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
